"""Results read from their files, whole or with a sentence that says what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from made_by_hand import (
    contribution,
    field_of_model,
    never_finite,
    of_this_process,
    one_model,
    tiny,
    trained,
    wave,
)

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Interval, Problem, laplacian, poisson
from sciml_par.results import ErrorEstimate, Member, Result
from sciml_par.results.stored.figures import drawn_prediction
from sciml_par.results.stored.files import digest_of
from sciml_par.results.stored.keras_models import flat_weights
from sciml_par.results.trained_field import form_of

pytestmark = pytest.mark.ranks(most=1, reason="local: reads files without ranks")
X = np.linspace(-1, 1, 20)[:, None]
PREDICTED = ("x", "u", "u_exact", "inside", "coordinates", "fields")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written().save(tmp_path_factory.mktemp("results") / "run", plots=False)


def written() -> Result:
    """A result in which members differ in all that files hold."""
    nothing = {
        name: getattr(never_finite(2), name)
        for name in ("ended", "steps", "loss", "best_loss", "losses", "loss_steps", "term_losses")
    }
    own = wave(3, Box([-1.0], [0.0]), points=8)
    parts = [contribution(rank, part) for rank, part in enumerate(Box([-1], [1]).split(2))]
    members = (
        trained(0, contributions=tuple(parts), times_brought_together=2, largest_drift=1e-6),
        trained(1, width=6, terms=("loss", "initial"), problem="heat"),
        trained(2, **nothing),
        trained(3, on_own_domain=own, best_step=11, best_loss=0.01, kept="last"),
    )
    return Result("ensemble", members, [], arguments={"steps": 25, "seed": 7})


def same(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray):
        return bool(one == other)
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def test_what_was_saved_is_what_is_loaded(folder: Path) -> None:
    result, found = written(), Result.load(folder)
    assert (found.mode, found.ranks, found.arguments) == ("ensemble", 2, {"steps": 25, "seed": 7})
    assert found.communicator is None and len(found.members) == 4
    for saved, loaded in zip(result.members, found.members, strict=True):
        weights = saved.weights.best
        for name in Member.__dataclass_fields__:
            one, other = getattr(saved, name), getattr(loaded, name)
            if name == "field":
                assert same(one.at(weights, X), other.at(weights, X))
            elif name in ("prediction", "on_own_domain"):
                assert all(same(getattr(one, k), getattr(other, k)) for k in PREDICTED)
            elif name == "weights":
                assert same(one.best, other.best) and same(one.last, other.last)
                assert one.best.dtype == other.best.dtype
            elif name == "contributions":
                for mine, theirs in zip(one, other, strict=True):
                    assert (mine.rank, mine.points) == (theirs.rank, theirs.points)
                    assert mine.seconds_train == theirs.seconds_train
                    for each in ("sample", "lower", "upper"):
                        assert same(getattr(mine, each), getattr(theirs, each))
            elif isinstance(one, np.ndarray):
                assert same(one, other) and one.dtype == other.dtype
            else:
                assert one == other or (np.isnan(one) and np.isnan(other))
        assert (loaded.on_own_domain is loaded.prediction) == (saved.number != 3)
    assert found.history[1].terms.keys() == {"loss", "initial"}
    assert repr(found) == repr(result)
    assert found.remarks == result.remarks


@pytest.mark.filterwarnings("ignore:Result.predict. member 2 did not finish")
def test_a_loaded_result_predicts_and_its_networks_do(folder: Path) -> None:
    result, found = written(), Result.load(folder)
    expected, given = result.predict(X), found.predict(X)
    np.testing.assert_allclose(given.members, expected.members, atol=1e-6)
    np.testing.assert_array_equal(given.mean, expected.mean)
    assert len(found.networks) == 4
    for network, values in zip(found.networks, expected.members, strict=True):
        np.testing.assert_allclose(network(X), values, atol=1e-6)
    last = found.using("last")
    np.testing.assert_allclose(last.predict(X).members[0], tiny(100)(X), atol=1e-6)


def test_the_network_file_is_one_of_keras_with_the_kept_weights(folder: Path) -> None:
    assert [path.name for path in sorted(folder.glob("*.keras"))] == [
        "network-0.keras",
        "network-1.keras",
    ]
    model = keras.models.load_model(folder / "network-0.keras")
    np.testing.assert_allclose(model(X), tiny(0)(X), atol=1e-6)


def test_weights_of_a_strategy_stay_with_the_members_that_had_one(tmp_path: Path) -> None:
    weights = np.array([[1.0, 2.0], [1.5, 3.0], [2.0, 4.0], [2.5, 5.0]])
    result = of_this_process(trained(0, term_weights=weights), trained(1))
    weighed, other = Result.load(result.save(tmp_path / "run", plots=False)).members
    np.testing.assert_array_equal(weighed.term_weights, weights)
    assert other.term_weights.shape == (4, 0) and other.history.weights == {}


def test_saved_again_it_is_the_same(folder: Path, tmp_path: Path) -> None:
    again = Result.load(folder).save(tmp_path / "again", plots=False)
    names = {path.name for path in folder.iterdir()}
    assert {path.name for path in again.iterdir()} == names
    first, second = (json.loads((f / "results.json").read_text()) for f in (folder, again))
    for changing in ("date", "sha256"):
        first.pop(changing), second.pop(changing)
    assert first == second
    assert (folder / "history.csv").read_bytes() == (again / "history.csv").read_bytes()


def test_files_of_an_earlier_version_are_read_and_written_again_as_they_are(tmp_path: Path) -> None:
    """Unknowns, a function, data with errors, an error by window, weights, points that grew."""
    earlier = Path(__file__).parent / "format_3"
    again = Result.load(earlier).save(tmp_path / "again", plots=False)
    first, second = (json.loads((f / "results.json").read_text()) for f in (earlier, again))
    for member in first["members"]:
        member["field"]["ranges"] = None  # which this version did not have
    assert json.dumps(first["members"]) == json.dumps(second["members"])
    assert (earlier / "history.csv").read_bytes() == (again / "history.csv").read_bytes()
    for name in ("predictions.npz", "weights.npz", "functions.npz"):
        with np.load(earlier / name) as one, np.load(again / name) as other:
            assert one.files == other.files
            for each in one.files:
                assert same(one[each], other[each]) and one[each].dtype == other[each].dtype, each


def test_entries_that_older_files_lack_have_their_defaults(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(Path(__file__).parent / "format_3", tmp_path / "copy"))
    members = json.loads((copy / "results.json").read_text())["members"]
    for entry in ("misfits", "growths", "sizes", "validation_loss"):
        members = [{"new": 3} | {n: v for n, v in m.items() if n != entry} for m in members]
    change(copy, members=members)
    for member in Result.load(copy).members:
        assert member.growths == () and member.sizes == {}
        assert np.isnan(member.validation_loss)


def test_loading_needs_neither_ranks_nor_tensorflow(folder: Path) -> None:
    program = (
        f"import sys; from sciml_par.results import Result; r = Result.load({str(folder)!r}); "
        "r.print(); assert 'tensorflow' not in sys.modules and 'mpi4py.MPI' not in sys.modules; "
        "from sciml_par.parallel import is_initialized; assert not is_initialized()"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "heat" in done.stdout


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def change(folder: Path, **entries: Any) -> None:
    path = folder / "results.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps({**summary, **entries}))


@pytest.mark.parametrize(
    "name", ["predictions.npz", "weights.npz", "history.csv", "network-0.keras"]
)
@pytest.mark.parametrize("how", ["truncated", "missing"])
def test_a_file_that_is_not_whole_is_named(copy: Path, name: str, how: str) -> None:
    path = copy / name
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-50])
    match = f"{name} is (missing|not the file that results.json lists: it is truncated)"
    with pytest.raises(InputError, match=match):
        Result.load(copy)


def test_what_is_no_result_is_refused(copy: Path, tmp_path: Path) -> None:
    summary = copy / "results.json"
    whole = summary.read_text()
    for content, match in (
        (whole[:100], "results.json cannot be read .*It is truncated, or not a file of"),
        ("[1, 2]", "expected .*results.json to have 'members', as Result.save writes it; got none"),
        ('{"accuracy": 1}', "got 'accuracy'. Name the folder of a training"),
        ('{"versions": {}, "runs": []}', "got 'versions', 'runs'.*, json.load reads"),
        (whole.replace('"format": 3', '"format": 4'), "format 3; got 4. Load it with .*sciml-par"),
        (whole.replace('"format": 3,', ""), "expected .* to have format 3; got None"),
        (whole.replace('"stacked_with"', '"other"'), "not as Result.save writes them .*KeyError"),
        (
            whole.replace('"rank_trained"', "1").replace('"members": [', '"members": 3, "x": ['),
            "not as Result",
        ),
    ):
        summary.write_text(content)
        with pytest.raises(InputError, match=match):
            Result.load(copy)
    summary.unlink()
    for folder in (copy, tmp_path / "nowhere", copy / "history.csv"):
        with pytest.raises(InputError, match=f"no file {folder}/results.json .*is written last"):
            Result.load(folder)


class Unsavable(MLP):
    """A network that Keras cannot make from its configuration."""

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("no configuration")


def test_a_network_that_keras_cannot_save_is_said_and_may_be_given(tmp_path: Path) -> None:
    model = Unsavable(1, 1, width=4, depth=1, seed=3)
    field = field_of_model(model)
    folder = of_this_process(trained(0, field=field), trained(1, field=field)).save(
        tmp_path, plots=False
    )
    (network,) = json.loads((folder / "results.json").read_text())["networks"]
    assert network["file"] is None and "no configuration" in network["reason"]
    assert sorted(path.suffix for path in folder.iterdir()) == [".csv", ".json", ".npz", ".npz"]
    np.testing.assert_array_equal(flat_weights(model), flat_weights(tiny(3)))
    found = Result.load(folder)
    assert len(found.history) == 2
    with pytest.raises(InputError, match="network of member 0 is not here, since Keras could not"):
        found.predict(X)
    for given in (partial(MLP, width=4, depth=1), tiny(9)):
        predicted = Result.load(folder, network=given).predict(X)
        np.testing.assert_allclose(predicted.members[1], tiny(1)(X), atol=1e-6)
    with pytest.raises(
        InputError, match="expected a network with 13 weights of float32, as member"
    ):
        Result.load(folder, network=partial(MLP, width=5, depth=1)).predict(X)
    with pytest.raises(InputError, match="expected problem to be a Problem"):
        Result.load(folder, problem="poisson")


def test_a_field_that_the_problem_transforms_needs_the_problem(tmp_path: Path) -> None:
    problem = Problem(Interval(-1, 1), laplacian, ansatz=lambda u, x: x * u(x))
    other = Problem(Interval(-1, 1), laplacian, ansatz=lambda u, x: 1.001 * x * u(x))
    member = trained(0)
    small = _with(
        member.prediction, 1e-5 * member.prediction.x
    )  # too small for its numbers to tell
    changed = trained(
        0,
        prediction=small,
        on_own_domain=small,
        form=form_of(problem, "float32"),
        field=field_of_model(tiny(0), problem),
    )
    folder = of_this_process(changed).save(tmp_path / "a", plots=False)
    with pytest.raises(InputError, match="member 0 was trained with an ansatz.*Give the problem"):
        Result.load(folder).predict(X)
    for given in (poisson(k=1), other):
        with pytest.raises(InputError, match="its ansatz or its input scaling is another one"):
            Result.load(folder, problem=given)
    with pytest.raises(InputError, match="one for each of the 1 members in their order; got 2"):
        Result.load(folder, problem=[problem, problem])
    same = Problem(Interval(-1, 1), laplacian, ansatz=lambda u, x: x * u(x))
    for given in (problem, [same]):
        found = Result.load(folder, problem=given).predict(X)
        np.testing.assert_allclose(found.mean, X * tiny(0)(X).numpy(), atol=1e-6)
    np.testing.assert_allclose(Result.load(folder).networks[0](X), tiny(0)(X), atol=1e-6)


def test_a_field_of_scaled_inputs_needs_no_problem(tmp_path: Path) -> None:
    problem = Problem(Interval(100, 300), laplacian, input_scaling=True)
    member = trained(0, form=form_of(problem, "float32"), field=field_of_model(tiny(0), problem))
    folder = of_this_process(member).save(tmp_path / "a", plots=False)
    expected = tiny(0)(X)
    for given in (None, problem):
        found = Result.load(folder, problem=given).predict(200 + 100 * X)
        np.testing.assert_allclose(found.mean, expected, atol=1e-5)
    elsewhere = Problem(Interval(100, 301), laplacian, input_scaling=True)
    with pytest.raises(InputError, match="its ansatz or its input scaling is another one"):
        Result.load(folder, problem=elsewhere)


def _with(prediction: Any, factor: Any) -> Any:
    return type(prediction)(
        prediction.label, prediction.x, prediction.u * factor, prediction.u_exact
    )


def estimated(number: int, *, values: bool = True, **changes: Any) -> Member:
    member = trained(number, **changes)
    u = member.on_own_domain.u
    e = 1e-3 * (1 + number) * np.linspace(-1, 1, u.size).reshape(u.shape)
    return replace(
        member, error=ErrorEstimate(1e-3, np.array([1e-3]), 40.0, values=e if values else e[:0])
    )


@pytest.fixture
def with_estimates(tmp_path: Path) -> tuple[Result, Path]:
    own = wave(1, Box([-1.0], [0.0]), points=8)
    not_known = trained(3, error=ErrorEstimate.not_known(1, "a corner"))
    members = estimated(0), estimated(1, on_own_domain=own), estimated(2, values=False), not_known
    result = Result("ensemble", (*members, trained(4)), [])
    return result, result.save(tmp_path / "estimated", plots=False)


def test_the_values_of_an_estimate_are_loaded(with_estimates: tuple[Result, Path]) -> None:
    result, folder = with_estimates
    loaded = Result.load(folder)
    for saved, found in zip(result.members, loaded.members, strict=True):
        if saved.error is None:
            assert found.error is None
        elif saved.number < 2:
            np.testing.assert_array_equal(found.error.values, saved.error.values)
            x = found.on_own_domain.x
            np.testing.assert_array_equal(found.error.field(x[::-1]), found.error.values[::-1])
        else:
            assert found.error.values.size == 0
        drawn = [drawn_prediction(m, "a", sound=True).estimated_error for m in (saved, found)]
        np.testing.assert_array_equal(*drawn)
        assert (drawn[0] is not None) == (saved.number == 0)
    again = Result.load(loaded.save(folder.parent / "again", plots=False))
    np.testing.assert_array_equal(again.members[1].error.values, result.members[1].error.values)


def test_a_loaded_estimate_is_known_at_the_evaluation_points(
    with_estimates: tuple[Result, Path],
) -> None:
    loaded = Result.load(with_estimates[1])
    one = Result("data", loaded.members[:1], [])
    error, x = one.error, one.members[0].prediction.x
    wanted = np.concatenate([x[2:4], [[0.1234], [np.nan], [np.inf]]])
    found = one.predict(wanted).error
    np.testing.assert_array_equal(found[:2], np.abs(error.values[2:4]))
    assert np.isnan(found[2:]).all()
    with pytest.raises(InputError, match="3 of these 5 points are others"):
        error.field(wanted)
    with pytest.raises(InputError, match="shape \\[n, 1\\]; got \\[1, 2\\]"):
        error.field([[0.1, 0.2]])
    with pytest.raises(InputError, match="size of the estimated error, but no values"):
        loaded.members[2].error.field(x)


def test_files_without_the_values_of_estimates_are_read(
    with_estimates: tuple[Result, Path],
) -> None:
    folder = with_estimates[1]
    path = folder / "predictions.npz"
    with np.load(path) as file:
        arrays = {name: array for name, array in file.items() if name != "error_own"}
    np.savez(path, **arrays)
    hashes = json.loads((folder / "results.json").read_text())["sha256"]
    change(folder, sha256={**hashes, path.name: digest_of(path)})
    error = Result.load(folder).members[0].error
    assert error.known and error.values.size == 0
    with pytest.raises(InputError, match="no values"):
        error.field(X)


def test_a_network_file_that_keras_cannot_read_here_is_said(copy: Path) -> None:
    path = copy / "network-0.keras"
    path.write_text("not of Keras")
    summary = json.loads((copy / "results.json").read_text())
    change(copy, sha256={**summary["sha256"], path.name: digest_of(path)})
    found = Result.load(copy)
    with pytest.raises(
        InputError, match="cannot load .*network-0.keras .*Result.load.folder, network="
    ):
        found.predict(X)


def test_one_model_of_several_ranks(tmp_path: Path) -> None:
    result = one_model(3)
    saved = Result(result.mode, result.members, []).save(tmp_path / "one", plots=False)
    found = Result.load(saved)
    assert (found.mode, found.ranks) == ("data", 3)
    assert found.members[0].points == 27
