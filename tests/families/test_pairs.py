"""Operators from pairs of functions: what is learned, its bands and its reach, files, bad input."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import savemat

import sciml_par as sp
from sciml_par.errors import InputError, ResultWarning
from sciml_par.families import Pairs, PairsOperator, from_pairs, learn
from sciml_par.parallel import current_world

X = np.arange(32) / 32
SERIAL = pytest.mark.ranks(most=1, reason="the same on any number of ranks")


def waves(count: int, seed: int, most: int = 3) -> Any:
    """Functions on a circle of some low frequencies: [count, 32]."""
    c = np.random.default_rng(seed).normal(size=(2, count, most))
    angle = 2 * np.pi * np.outer(np.arange(1, most + 1), X)
    return 1.0 + c[0] @ np.cos(angle) + c[1] @ np.sin(angle)


def squared(a: Any) -> Any:
    """A nonlinear operator that is none of single points: a² a quarter further on, and more."""
    return np.roll(a, 8, axis=1) ** 2 + 3.0


def linear(a: Any) -> Any:
    return 2.0 * np.roll(a, 8, axis=1)


def relative(found: Any, true: Any) -> Any:
    rows = [np.reshape(v, (len(v), -1)) for v in (found - true, true)]
    return np.linalg.norm(rows[0], axis=1) / np.linalg.norm(rows[1], axis=1)


@pytest.fixture(scope="module")
def operator() -> PairsOperator:
    a = waves(200, 0)
    return learn(Pairs(a, squared(a)), seconds=4.0, progress=False)


def quiet(operator: PairsOperator, a: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultWarning)
        return operator(a)


@SERIAL
def test_an_operator_answers_within_its_band(operator: PairsOperator) -> None:
    a = waves(300, 1)
    answer = quiet(operator, a)
    true = squared(a)
    assert answer.mean.shape == (300, 32) and answer.band.shape == (300,)
    assert operator.method == "kernel regression" and np.median(relative(answer.mean, true)) < 0.02
    inside = ~answer.outside
    assert inside.mean() > 0.97
    error = np.sqrt(np.mean((answer.mean - true) ** 2, axis=1))[inside]
    held = np.mean(error <= answer.band[inside])
    assert 0.75 <= held < 1.0
    sizes = np.sqrt(np.mean(answer.mean**2, axis=1))
    np.testing.assert_allclose(answer.band[inside], (answer.relative * sizes)[inside])


@SERIAL
def test_one_input_is_answered_as_among_many(operator: PairsOperator) -> None:
    a = waves(3, 0)
    many = quiet(operator, a)
    one = quiet(operator, a[1])
    assert one.mean.shape == (32,) and np.ndim(one.band) == 0 and not one.outside
    np.testing.assert_allclose(one.mean, many.mean[1], rtol=0, atol=1e-10)
    assert one.band == pytest.approx(many.band[1])
    assert "90 % band" in repr(one)


@SERIAL
@pytest.mark.parametrize("factor", [1.0, 20.0])
def test_an_input_outside_of_the_data_has_no_band(operator: PairsOperator, factor: float) -> None:
    """Another frequency, orthogonal to all of the data; and one among these that is too large."""
    frequency = 7 if factor == 1.0 else 2
    a = 1.0 + factor * np.sin(2 * np.pi * frequency * X)
    with pytest.warns(ResultWarning, match="the input is outside of the data"):
        answer = operator(a)
    assert answer.outside and np.isnan(answer.band) and np.isnan(answer.relative)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not operator(np.full(32, 1.0)).outside
    with pytest.warns(ResultWarning, match="1 of 2 inputs are"):
        operator(np.stack([a, np.full(32, 1.0)]))


@SERIAL
def test_an_operator_says_what_it_is(operator: PairsOperator) -> None:
    said = repr(operator)
    for part in ("200 pairs", "by kernel regression", "20 pairs left out", "90 % band"):
        assert part in said
    assert set(operator.left_out) == {"kernel regression", "Fourier neural operator"}
    assert all(errors.shape == (20,) for errors in operator.left_out.values())


@pytest.mark.parametrize("c", [1, 2])
def test_the_fourier_operator_learns_on_all_ranks(c: int, monkeypatch: Any) -> None:
    """The ranks share batches, agree on the weights, and do better than the mean of the outputs."""
    monkeypatch.setattr(from_pairs, "EPOCHS", 8)
    a = waves(100, 2)
    u = np.stack([linear(a), 1.0 - a], axis=-1)[..., :c]
    operator = learn(Pairs(a[..., None], u), seconds=60.0, progress=False)
    trivial = relative(np.broadcast_to(u.mean(axis=0), u.shape), u).mean()
    assert operator.left_out["Fourier neural operator"].mean() < 0.6 * trivial
    answer = quiet(operator, waves(4, 3)[..., None])
    assert answer.mean.shape == (4, 32, c) and answer.band.shape == (4, c)
    everyone = current_world().communicator
    errors = everyone.allgather_object(operator.left_out["Fourier neural operator"])
    assert all(np.array_equal(errors[0], other) for other in errors)


def test_batches_of_ranks_are_those_of_one() -> None:
    order = np.random.default_rng(0).permutation(45)
    for size in (1, 2, 3, 50):
        found = [from_pairs._batches(order, rank, size) for rank in range(size)]
        for number in range(2):
            parts = [rank[number] for rank in found]
            rows = np.concatenate([rows[weights > 0] for rows, weights in parts])
            whole = np.array_split(order, 2)[number]
            assert sorted(rows) == sorted(whole)
            assert sum(weights.sum() for _, weights in parts) == pytest.approx(1.0)
            assert len({len(rows) for rows, _ in parts}) == 1


@SERIAL
def test_functions_of_two_coordinates_and_grids_of_their_own() -> None:
    rng = np.random.default_rng(0)
    c = rng.normal(size=(60, 2))
    x, y = np.meshgrid(X[::2], X[::3], indexing="ij")
    a = np.einsum("sk,kij->sij", c, np.stack([np.sin(2 * np.pi * x), np.cos(2 * np.pi * y)]))
    operator = learn(Pairs(a, 2 * a), seconds=1.0, progress=False)
    assert len(operator.left_out) == 2
    assert relative(quiet(operator, a).mean, 2 * a).max() < 1e-3
    flux = learn(Pairs(a, a.sum(axis=1)), seconds=1.0, progress=False)
    assert list(flux.left_out) == ["kernel regression"]
    np.testing.assert_allclose(quiet(flux, a[0]).mean, a[0].sum(axis=0), rtol=0, atol=0.02)


@SERIAL
def test_a_grid_of_unequal_steps_has_no_fourier_operator() -> None:
    x = np.linspace(0, 1, 32) ** 2
    pairs = Pairs(waves(40, 0), waves(40, 0), x=x)
    assert not pairs.even and Pairs(waves(40, 0), waves(40, 0), x=X).even
    assert list(learn(pairs, seconds=5.0, progress=False).left_out) == ["kernel regression"]


def test_x_tells_the_grid_from_the_components() -> None:
    a = np.random.default_rng(0).normal(size=(40, 6, 5))
    assert Pairs(a, a).input_grid == (6,)
    assert Pairs(a, a, x=[np.arange(6), np.arange(5)]).input_grid == (6, 5)
    wide = np.random.default_rng(0).normal(size=(40, 6, 9))
    assert Pairs(wide, a, x=np.arange(6)).input_grid == (6,)
    assert repr(Pairs(wide, a)) == "Pairs(40: [6, 9] -> [6, 5])"


@SERIAL
@pytest.mark.parametrize("fourier_wins", [False, True])
def test_what_is_saved_answers_alike(
    operator: PairsOperator, tmp_path: Path, fourier_wins: bool
) -> None:
    if fourier_wins:
        operator = PairsOperator(operator._learned, operator._judged, operator.pairs)
        operator.method = "Fourier neural operator"
    operator.save(tmp_path / "op")
    again = PairsOperator.load(tmp_path / "op")
    if fourier_wins:
        again.method = "Fourier neural operator"
    else:
        assert repr(again) == repr(operator)
    a = waves(5, 4)
    first, second = quiet(operator, a), quiet(again, a)
    np.testing.assert_allclose(first.mean, second.mean, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(first.outside, second.outside)
    np.testing.assert_allclose(first.band, second.band)
    with pytest.raises(InputError, match="overwrite=True"):
        operator.save(tmp_path / "op")
    operator.save(tmp_path / "op", overwrite=True)


@SERIAL
def test_files_of_another_kind_are_refused(operator: PairsOperator, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no pairs\.npz"):
        PairsOperator.load(tmp_path)
    np.savez(tmp_path / "operator.npz", about=np.array("{}"))
    with pytest.raises(InputError, match=r"Operator\.load reads"):
        PairsOperator.load(tmp_path)
    for content in (b"text", b""):
        (tmp_path / "pairs.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"not a file that PairsOperator\.save wrote"):
            PairsOperator.load(tmp_path)
    np.savez(tmp_path / "pairs.npz", about=np.array("{}"))
    with pytest.raises(InputError, match=r"not a file that PairsOperator\.save wrote"):
        PairsOperator.load(tmp_path)
    operator.save(tmp_path / "op")
    problem = sp.problems.Problem(
        sp.problems.Interval(0, 1),
        lambda u, x, *, k: sp.problems.laplacian(u, x) - k,
        unknowns={"k": sp.problems.Unknown(1.0, lower=0.0, upper=2.0)},
    )
    with pytest.raises(InputError, match="there is no operator"):
        sp.Operator.load(tmp_path / "op", problem=problem)


@SERIAL
@pytest.mark.parametrize("kind", ["npz", "mat", "mat73", "h5"])
def test_files_are_read(kind: str, tmp_path: Path) -> None:
    a, u = waves(40, 0), waves(40, 1)[:, ::2]
    path = tmp_path / f"data.{kind[:3]}"
    if kind == "npz":
        np.savez(path, a=a, u=u)
    elif kind == "mat":
        savemat(path, {"a": a, "u": u})
    else:
        with h5py.File(path, "w") as file:
            for name, values in (("a", a), ("u", u)):
                file[name] = values.T if kind == "mat73" else values
                if kind == "mat73":
                    file[name].attrs["MATLAB_class"] = np.bytes_("double")
    pairs = Pairs.from_file(path)
    np.testing.assert_array_equal(pairs.inputs, a)
    np.testing.assert_array_equal(pairs.outputs, u)
    assert len(Pairs.from_file(path, inputs="u", outputs="a").inputs[0]) == 16
    with pytest.raises(InputError, match="has no 'v'; it has a, u"):
        Pairs.from_file(path, outputs="v")


@SERIAL
def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        Pairs.from_file(tmp_path / "nothing.mat")
    (tmp_path / "text.npz").write_text("a, u")
    with pytest.raises(InputError, match="cannot read"):
        Pairs.from_file(tmp_path / "text.npz")
    with pytest.raises(InputError, match="expected a path"):
        Pairs.from_file("")


A = np.random.default_rng(0).normal(size=(40, 6))


@SERIAL
@pytest.mark.parametrize(
    ("inputs", "outputs", "x", "said"),
    [
        (A, A[:-1], None, "as many outputs; got 40 inputs and 39"),
        (A[:30], A[:30], None, "at least 40 inputs"),
        (A, np.where(A > 2, np.nan, A), None, "outputs must be finite; . of 240 values"),
        (A, A + 1j, None, "outputs to be real numbers"),
        (A, [["a"] * 6] * 40, None, "outputs to be real numbers"),
        (A[:, 0], A, None, r"inputs of the shape \[S, \*grid\]"),
        (np.zeros((40, 0)), A, None, r"inputs of the shape \[S, \*grid\]"),
        (A, A, np.arange(5), "got arrays of 5 numbers"),
        (A, A, np.arange(6)[::-1], "increasing coordinates"),
        (A, A, 0.1, "got arrays of no numbers"),
        (A, A, [np.arange(6), np.arange(6)], "got arrays of 6, 6 numbers"),
    ],
)
def test_pairs_that_are_none_are_refused(inputs: Any, outputs: Any, x: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Pairs(inputs, outputs, x=x)


@SERIAL
@pytest.mark.parametrize(
    ("a", "said"),
    [
        (np.zeros(31), r"shape \[32\], or many, \[Q, 32\]; got \[31\]"),
        (np.zeros((2, 3, 32)), r"got \[2, 3, 32\]"),
        (np.zeros((0, 32)), r"got \[0, 32\]"),
        (np.full(32, np.inf), "the input must be finite"),
        ("a wave", "real numbers"),
    ],
)
def test_an_input_that_is_none_is_refused(operator: PairsOperator, a: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        operator(a)


@pytest.mark.parametrize(
    ("options", "said"), [({"seconds": 0.0}, "seconds must be"), ({"seed": -1}, "seed must be")]
)
def test_options_that_are_none_are_refused(options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        learn(Pairs(A, A), progress=False, **options)


@pytest.mark.ranks(least=2, reason="of one rank there is no other")
def test_ranks_with_other_pairs_are_refused() -> None:
    factor = 1.0 + current_world().communicator.rank
    with pytest.raises(InputError, match="the same pairs on every rank"):
        learn(Pairs(A, factor * A), progress=False)


@SERIAL
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_outputs_that_are_zero_have_finite_errors() -> None:
    operator = learn(Pairs(A, np.zeros_like(A), x=np.arange(6.0) ** 2), progress=False)
    answer = operator(A[0])
    assert np.abs(answer.mean).max() < 1e-12 and np.isfinite(answer.relative)
