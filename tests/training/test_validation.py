"""The loss at points that were not trained on: what it is, compared with what, where not known."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from trainings import quick, shared, warned

import sciml_par.parallel as sp
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Neumann,
    Observations,
    PointCloud,
    Problem,
    Residual,
    poisson,
)
from sciml_par.programs import run
from sciml_par.training import RAD, Adam, Ensemble, LevenbergMarquardt, Points, Result

pytestmark = [
    pytest.mark.filterwarnings("ignore:train. :RuntimeWarning"),
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
UNIT = Interval(0, 1)
POINTS = np.linspace(0, 1, 37)[:, None]  # not divided evenly by any number of ranks here
MEMBERS = 9  # more than are computed without a trace
short = partial(quick, points=64, precision="float64", steps=3)


def sine() -> Problem:
    return Problem(UNIT, lambda u, x: u(x) - tf.sin(3 * x))


@pytest.mark.parametrize("optimizer", [Adam(), LevenbergMarquardt()])
def test_every_optimizer_has_that_of_the_problem(optimizer: Any) -> None:
    """Of a residual that does not see the network it is 3 ∫ (1 + x)² dx = 7."""
    known = Problem(UNIT, Residual(lambda u, x: 0 * u(x) + 1 + x, weight=3.0))
    member = short(known, optimizer=optimizer, steps=1).members[0]
    assert member.validation_loss == pytest.approx(7, rel=2e-3)
    assert member.validation_loss != member.loss
    assert member.over_fitted is False


@two
def test_it_is_compared_with_that_of_zero_and_conditions_with_the_size_of_u() -> None:
    """The mean of sin² 3x, and those of the conditions, by their definition."""
    conditions = [Dirichlet(1e-3, weight=5.0), Neumann(0.0, weight=3.0, on="left")]
    result = short(Problem(UNIT, sine().residuals[0], conditions=conditions))
    (member,) = result.members
    assert member.zero_loss == pytest.approx(0.5 - np.sin(6) / 12 + 5e-6, rel=1e-3)
    if sp.rank() == 0:
        x = (np.arange(2000)[:, None] + 0.5) / 2000
        u, ends = (result.predict(at).mean for at in (x, [[0.0], [1.0]]))
        slopes = np.gradient(u[:, 0], x[:, 0])
        wanted = {
            "dirichlet": np.sqrt(np.mean((ends - 1e-3) ** 2) / np.mean(u**2)),
            "neumann": abs(slopes[0]) / np.sqrt(np.mean(slopes**2) + np.mean(u**2)),
        }
        assert member.misfits == pytest.approx(wanted, rel=1e-2)
    assert sp.current_world().communicator.allgather_object(member.misfits)[0] == member.misfits


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(Points(64, method="sobol", batch_size=16), marks=two),
        Points(64, adapt=RAD(2)),
        POINTS,
    ],
    ids=["minibatches", "adapted", "given"],
)
def test_all_points_have_others(points: Any) -> None:
    result = short(sine(), points=points)
    assert_mean_squares(result)


@two
def test_each_member_has_its_own() -> None:
    result = short(sine(), mode=Ensemble(members_per_rank=MEMBERS))
    assert_mean_squares(result)
    losses = [member.validation_loss for member in result.members]
    assert len(set(losses)) == len(losses)


def assert_mean_squares(result: Result) -> None:
    """The mean of (u − sin 3x)² over [0, 1], on rank 0, and the same number on all ranks."""
    found = [member.validation_loss for member in result.members]
    assert sp.current_world().communicator.allgather_object(found) == [found] * sp.size()
    if sp.rank() == 0:
        x = (np.arange(2000)[:, None] + 0.5) / 2000
        wanted = np.mean((result.predict(x).members - np.sin(3 * x)) ** 2, axis=(1, 2))
        np.testing.assert_allclose(found, wanted, rtol=0.05)


def held(points: int) -> Problem:
    """A residual with values for its training points alone."""
    y = np.sin(UNIT.grid(points))
    return Problem(UNIT, lambda u, x: u(x) - tf.constant(y))


@pytest.mark.parametrize("points", [37, 256, POINTS], ids=["some", "as many as others", "given"])
def test_values_for_the_training_points_alone_leave_it_unknown(points: Any) -> None:
    count = points if isinstance(points, int) else len(points)
    assert_unknown(short(held(count), points=points, optimizer=Adam()))


def test_a_cloud_and_data_alone_leave_it_unknown() -> None:
    cloud = PointCloud(POINTS, boundary=[[0.0], [1.0]])
    assert_unknown(short(Problem(cloud, lambda u, x: u(x) - 1, conditions=[Dirichlet(1.0)])))
    data = Observations(POINTS, np.sin(POINTS))
    assert_unknown(short(Problem(UNIT, [], conditions=[data]), points=None))


def assert_unknown(result: Result) -> None:
    (member,) = result.members
    assert np.isnan(member.validation_loss)
    assert member.over_fitted is None
    assert result.remarks == []


over_fitting = partial(
    short, poisson(k=1, domain=UNIT), points=POINTS[::9], optimizer=LevenbergMarquardt(), steps=60
)


def few(**options: Any) -> tuple[Result, list[str]]:
    """A training that over-fits, and its warnings on this rank."""
    with warned("others") as told:
        result = over_fitting(**options)
    return result, told


@two
def test_train_warns_of_over_fitting_once_on_rank_0() -> None:
    result, told = few(progress=True)
    assert len(told) == (sp.rank() == 0)
    (member,) = result.members
    assert member.over_fitted and member.validation_loss > 1e3 * member.kept_loss
    loss, other = f"{member.kept_loss:.2e}", f"{member.validation_loss:.2e}"
    times = f"{member.validation_loss / member.kept_loss:.0e} times"
    said = f"the loss is {loss} at the training points and {other} at others (validation_loss, "
    (remark,) = result.remarks
    assert f"{said}{times})" in remark
    assert all(f"train: {remark}" == each for each in told)


def test_a_program_that_prints_the_table_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(lambda: over_fitting().print())
    said = capsys.readouterr().out + " ".join(str(each.message) for each in caught)
    assert said.count("at the training points and") == (sp.rank() == 0)


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    result, _ = few()
    folder = shared(tmp_path)
    result.save(folder / "run", plots=False)
    last = result.using("last")
    last.save(folder / "last", plots=False)
    sp.barrier()
    member = Result.load(folder / "run").members[0]
    trained = result.members[0]
    names = ("validation_loss", "zero_loss", "misfits")
    assert [getattr(member, n) for n in names] == [getattr(trained, n) for n in names]
    assert member.over_fitted is True and member.misfits
    assert last.members[0].over_fitted is None and not last.members[0].misfits
    assert '"validation_loss": null' in (folder / "last" / "results.json").read_text()
    assert Result.load(folder / "last").members[0].over_fitted is None
