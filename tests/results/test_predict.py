"""Predictions at any points: mean, deviation and members, in batches."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from made_by_hand import (
    diverged,
    ended,
    ensemble,
    make_member,
    never_finite,
    of_this_process,
    tiny,
    trained,
)

from sciml_par.errors import InputError, OutputError
from sciml_par.results import PredictionElsewhere
from sciml_par.results.predict import interval_of

pytestmark = pytest.mark.ranks(most=1, reason="local: no rank waits for another")
X = np.linspace(-1, 1, 150)[:, None]


def values(*numbers: int, x: Any = X, dtype: str = "float32") -> np.ndarray:
    """What the networks of the members give, [M, n, 1]."""
    return np.stack([tiny(n, dtype=dtype)(np.asarray(x, dtype)).numpy() for n in numbers])


def test_mean_deviation_and_members() -> None:
    found = of_this_process(*map(trained, range(3))).predict(X)
    expected = values(0, 1, 2).astype(np.float64)
    np.testing.assert_allclose(found.members, expected, atol=1e-6)
    np.testing.assert_allclose(found.mean, expected.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.deviation, expected.std(axis=0, ddof=1), atol=1e-6)
    assert found.mean.shape == found.deviation.shape == (150, 1)
    assert {a.dtype for a in (found.mean, found.deviation, found.members)} == {np.dtype("float32")}
    assert "members [3, 150, 1]" in repr(found)


def test_one_member_has_no_deviation() -> None:
    found = of_this_process(trained(5)).predict(X)
    np.testing.assert_allclose(found.mean, values(5)[0], atol=1e-6)
    assert np.isnan(found.deviation).all() and found.deviation.shape == (150, 1)


def test_an_interval_holds_a_further_member() -> None:
    """By Student's t for a few members; by quantiles for many, which need not be normal."""
    few = of_this_process(*map(trained, range(5))).predict(X, interval=0.9)
    half = 2.131847 * np.sqrt(1 + 1 / 5) * few.deviation
    np.testing.assert_allclose(few.upper - few.mean, half, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(few.mean - few.lower, half, rtol=1e-4, atol=1e-6)
    rng = np.random.default_rng(4)
    for members, most in ((8, 0.015), (100, 0.015)):
        drawn = rng.normal(size=(members + 1, 20_000))
        lower, upper = interval_of(drawn[1:], 0.9)
        assert abs(np.mean((lower < drawn[0]) & (drawn[0] < upper)) - 0.9) < most
    assert of_this_process(trained(5)).predict(X).lower is None


def test_an_interval_needs_members_and_a_probability() -> None:
    with pytest.raises(InputError, match="Observations"):
        of_this_process(trained(5)).predict(X, interval=0.95)
    with pytest.raises(InputError, match="a probability between 0 and 1, as 0.95; got 95"):
        of_this_process(*map(trained, range(3))).predict(X, interval=95)


@pytest.mark.parametrize("batch_size", [1, 7, 149, 150, 1000])
def test_batches_change_nothing(batch_size: int) -> None:
    result = of_this_process(trained(0, dtype="float64"))
    found = result.predict(X, batch_size=batch_size)
    np.testing.assert_allclose(found.mean, values(0, dtype="float64")[0], atol=1e-13)
    assert found.mean.dtype == np.float64


def test_points_may_be_given_in_several_ways() -> None:
    result = of_this_process(trained(0), trained(1))
    expected = result.predict(X).mean
    others = (X[:, 0], X.tolist(), tuple(X[:, 0].tolist()), X.astype("float32"), tf.constant(X))
    for x in others:
        np.testing.assert_array_equal(result.predict(x).mean, expected)
    assert result.predict(np.empty((0, 1))).members.shape == (2, 0, 1)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros((3, 2)), r"\[3, 2\]"),
        ([["a"]], "a list that NumPy does not read as real numbers"),
        ([[0.0], [0.0, 1.0]], "a list that NumPy does not read as real numbers"),
        ([[1j]], "a list that NumPy does not read as real numbers"),
        (X + 0j, "a ndarray that NumPy does not read as real numbers"),
        (np.zeros((2, 2, 1)), r"\[2, 2, 1\]"),
        (None, "a NoneType that NumPy does not read as real numbers"),
    ],
)
def test_other_points_are_refused(x: Any, said: str) -> None:
    with pytest.raises(InputError, match=rf"expected points x of the shape \[n, 1\].*got {said}"):
        of_this_process(trained(0)).predict(x)


def test_a_prediction_is_an_array_to_numpy_and_knows_its_error() -> None:
    found = of_this_process(trained(0), trained(1)).predict(X)
    np.testing.assert_array_equal(found - found.mean, np.zeros((150, 1)))
    exact = np.where(X < 0, found.mean * 1.5, found.mean / 1.25)
    error, part = found.relative_l2_error, X[:, 0] >= 0
    assert error(exact, where=part) == pytest.approx(0.25)
    assert error(exact[:, 0], where=lambda x: x < 0) == pytest.approx(1 / 3)
    exact[part] = np.nan
    assert error(lambda x: exact) == pytest.approx(1 / 3)
    for wrong, said in (
        ({"exact": np.zeros(7)}, r"exact must have the shape \[150, 1\] at 150 points"),
        ({"exact": "u"}, "exact must be real numbers"),
        ({"exact": exact, "where": np.ones(150)}, r"where to be booleans \[150\].*float64"),
    ):
        with pytest.raises(InputError, match=f"EnsemblePrediction.relative_l2_error: .*{said}"):
            error(**wrong)


@pytest.mark.parametrize("size", [0, -1, 2.5, "many", True])
def test_a_batch_has_at_least_one_point(size: Any) -> None:
    with pytest.raises(InputError, match="batch_size must be an integer of at least 1, got"):
        of_this_process(trained(0)).predict(X, batch_size=size)


def test_members_of_several_architectures_are_one_ensemble() -> None:
    members = trained(0), trained(1, width=6), trained(2), trained(3, dtype="float64")
    found = of_this_process(*members).predict(X)
    wide = tiny(1, width=6)(X.astype("float32")).numpy()
    one, two, three = values(0)[0], values(2)[0], values(3, dtype="float64")[0]
    for row, expected in zip(found.members, (one, wide, two, three), strict=True):
        np.testing.assert_allclose(row, expected, atol=1e-6)
    assert found.mean.dtype == np.float64


def test_members_that_did_not_finish_are_left_out_and_this_is_said() -> None:
    changes = {name: getattr(ended(1), name) for name in ("ended", "steps", "loss", "best_loss")}
    members = trained(0), trained(1, **changes), trained(2), trained(3, loss=diverged(3).loss)
    with pytest.warns(RuntimeWarning, match="members 1 and 3 did not finish, and are not in mean"):
        found = of_this_process(*members).predict(X)
    assert found.left_out == (1, 3) and "members 1 and 3 left out" in repr(found)
    np.testing.assert_allclose(found.mean, values(0, 2).mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.members, values(0, 1, 2, 3), atol=1e-6)
    nothing = {name: getattr(never_finite(1), name) for name in ("ended", "loss", "best_loss")}
    alone = of_this_process(trained(1, **nothing)).predict(X)
    assert alone.left_out == () and np.isfinite(alone.mean).all()


def test_the_kept_weights_predict() -> None:
    best = of_this_process(trained(0), trained(1))
    last = best.using("last")
    np.testing.assert_allclose(last.predict(X).members, values(100, 101), atol=1e-6)
    np.testing.assert_allclose(best.predict(X).members, values(0, 1), atol=1e-6)
    for number, member in enumerate(last.members):
        assert member.kept == "last" and member.kept_loss == member.loss
        x = member.prediction.x
        np.testing.assert_allclose(member.prediction.u, values(100 + number, x=x)[0], atol=1e-6)
        assert (
            member.prediction.relative_l2_error != best.members[number].prediction.relative_l2_error
        )
        np.testing.assert_allclose(last.networks[number](X), values(100 + number)[0], atol=1e-6)
    np.testing.assert_allclose(last.using("best").predict(X).mean, best.predict(X).mean)
    with pytest.raises(InputError, match="expected 'best' or 'last'; got 'first'"):
        best.using("first")


def test_what_is_not_here_is_asked_for_in_vain_with_a_sentence() -> None:
    elsewhere = make_member(1, rank=3, weights=None, prediction=PredictionElsewhere(True, 0.1))
    with pytest.raises(InputError, match="weights of member 1 are on rank 0 and on rank 3"):
        of_this_process(trained(0), elsewhere).predict(X)
    with pytest.raises(InputError, match="network of member 1 is not here"):
        of_this_process(trained(0), trained(1, field=None)).predict(X)


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        (lambda r: r.save(None), "Result.save: expected a path, as 'runs/heat'; got None"),
        (lambda r: r.load(5), "Result.load: expected a path, as 'runs/heat'; got 5"),
        (lambda r: r.write(5), "Result.write: expected a path, as 'runs/heat'; got 5"),
        (lambda r: r.plot(5), "Result.plot: expected a path, as 'runs/heat'; got 5"),
        (lambda r: r.plot("u.pong"), "one of the endings .*png.*; got 'u.pong'"),
        (lambda r: r.plot(title="u", name="u.png"), "there is no argument 'name'"),
        (lambda r: r.error(), "a value, not a function; write result.error.relative"),
        (lambda r: r.evaluate(X, lambda u, x: u(x)), r"a function f\(u, x\).*got ndarray"),
        (lambda r: r.save(), r"it is called as Result.save\(directory"),
    ],
)
def test_a_slip_gets_a_sentence(slip: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        slip(of_this_process(trained(0)))
    with pytest.raises(AttributeError, match=r"the values are result.predict\(x\).mean"):
        of_this_process(trained(0)).predict(X).numpy()


def test_a_figure_goes_to_the_path_that_is_given(tmp_path: Any) -> None:
    result = of_this_process(trained(0))
    for name, begins in (("u.png", b"\x89PNG"), ("u.pdf", b"%PDF")):
        result.plot(tmp_path / name, title="u")
        assert (tmp_path / name).read_bytes().startswith(begins)
    with pytest.raises(OutputError, match="cannot write the file"):
        result.plot(str(tmp_path / "nowhere" / "u.png"))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_belongs_to_ranks_is_saved_and_not_pickled(copied: Callable[[Any], Any]) -> None:
    with pytest.raises(InputError, match=r"cannot be pickled or copied. result.save\(folder\)"):
        copied(ensemble())
    alone = of_this_process(trained(0))
    np.testing.assert_array_equal(copy.deepcopy(alone).predict(X).mean, alone.predict(X).mean)
