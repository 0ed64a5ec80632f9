"""Points are added where a training over-fits those that it has, and it continues."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from trainings import bits, everywhere, shared, stop_at, warned

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Observations,
    PointCloud,
    Problem,
    Residual,
)
from sciml_par.training import (
    LBFGS,
    RAD,
    Adam,
    Checkpoint,
    Ensemble,
    LevenbergMarquardt,
    NoProgress,
    Points,
    Result,
    SelfAdaptive,
    train,
)
from sciml_par.training.points.growing import grown

pytestmark = [
    pytest.mark.filterwarnings("ignore:train. :RuntimeWarning"),
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
UNIT = Interval(0, 1)


def waves(x: Any) -> Any:
    return tf.sin(12 * x)


PROBLEM = Problem(UNIT, lambda u, x: u(x) - waves(x), exact=waves)
few = partial(
    train,
    PROBLEM,
    network=partial(MLP, width=6, depth=1),
    points=5,
    optimizer=LevenbergMarquardt(),
    steps=80,
    precision="float64",
    evaluation_points=51,
    progress=False,
)


def error_of(result: Result) -> float:
    return result.members[0].on_own_domain.relative_l2_error


def growths_of(result: Result) -> list[tuple[int, ...]]:
    return [growth[:3] for growth in result.members[0].growths]


@two
def test_points_are_added_on_the_way() -> None:
    with warned("at the training points") as told:
        alone = few(grow=False)
    assert alone.members[0].ended == "no further decrease"
    assert alone.members[0].steps < 80 and error_of(alone) > 0.3
    assert len(told) == (sp.rank() == 0)
    with warned("at the training points") as told:
        result = few()
    assert not told
    (member,) = result.members
    assert (member.points, member.steps, member.ended) == (20, 80, "all steps")
    first, second = member.growths
    assert first[:3] == (10, 5, 10) and second[1:3] == (10, 20)
    assert all(growth.validation_loss > 10 * growth.loss for growth in member.growths)
    assert everywhere((member.growths, member.loss)) == [(member.growths, member.loss)] * sp.size()
    # What one rank finds.
    assert first.validation_loss == pytest.approx(0.397, rel=1e-2)
    assert error_of(result) == pytest.approx(2.2e-3, rel=0.1)
    # The records are those of all steps, and "best" is of the last points alone.
    assert member.loss_steps.tolist() == list(range(81))
    last = second.step + 1
    assert member.best_step > last
    assert member.best_loss == pytest.approx(min(member.losses[last:]))


@pytest.mark.parametrize("stop", [None, NoProgress(5, least_progress=0.5)])
def test_a_training_that_would_have_ended_early_goes_on(stop: Any) -> None:
    """An optimizer that is stuck, and stops, which are met again by losses at the new points."""
    alone, result = (few(stop=stop, steps=400, grow=grow) for grow in (False, None))
    first, *_ = result.members[0].growths
    assert first.step == alone.members[0].steps < 50  # an eighth of the steps
    assert result.members[0].steps > first.step
    assert error_of(result) < 0.1 * error_of(alone)


def test_best_weights_of_few_points_are_not_kept() -> None:
    """Before the growth the loss is far below what it is at more points ever after."""
    network = partial(MLP, width=10, depth=1)
    result = few(network=network, optimizer=Adam(1e-2), steps=4000)
    (member,) = result.members
    assert len(member.growths) == 1
    (growth,) = member.growths
    assert growth.loss < member.best_loss < growth.validation_loss
    assert member.best_step > growth.step
    assert error_of(result) < 0.2


@pytest.mark.long
def test_weights_that_are_worse_than_the_initial_ones_are_given_up() -> None:
    """Between five points the field of L-BFGS is far off, and no step leads back from there."""
    result = few(optimizer=LBFGS(), steps=400)
    first = result.members[0].growths[0]
    assert first.validation_loss > result.members[0].losses[0]
    assert result.members[0].losses[first.step] < first.validation_loss
    assert error_of(result) < 0.2


@two
def test_it_is_said_once_by_rank_0(capsys: pytest.CaptureFixture[str]) -> None:
    result = few(progress=True)
    said = "points: 5 → 10 after step 10, since the loss was "
    assert capsys.readouterr().out.count(said) == (sp.rank() == 0)
    assert sum(said in remark for remark in result.remarks) == 1
    result.print()
    assert capsys.readouterr().out.count(said) == (sp.rank() == 0)


ARRAY = np.linspace(0, 1, 5)[:, None]
CLOUD = Problem(PointCloud(ARRAY, boundary=[[0.0], [1.0]]), PROBLEM.residuals[0])
DATA = Problem(UNIT, [], conditions=[Observations(ARRAY, ARRAY)])
FIXED: dict[str, tuple[dict[str, Any], str]] = {
    "array": ({"points": ARRAY}, "given as an array"),
    "adapted": ({"points": Points(5, adapt=RAD(20))}, "adapt="),
    "draws": ({"points": Points(5, method="sobol", resample_every=20)}, "resample_every="),
    "batches": ({"points": Points(6, batch_size=4)}, "batch_size="),
    "per rank": ({"points": None, "points_per_rank": 5}, "points_per_rank="),
    "ensemble": ({"mode": Ensemble(members_per_rank=2)}, "ensemble"),
    "short": ({"steps": 59}, "60 steps"),
    "many": ({"points": 20_000}, "20,000 at most"),
    "weights of points": (
        {"weights": SelfAdaptive(), "optimizer": Adam()},
        "each point has a weight",
    ),
}


@pytest.mark.parametrize("name", FIXED)
def test_where_points_cannot_grow_it_is_refused_if_asked_for(name: str) -> None:
    options, why = FIXED[name]
    with pytest.raises(InputError, match=why):
        few(grow=True, **options)


@pytest.mark.parametrize(
    ("problem", "why"), [(CLOUD, "no points can be drawn"), (DATA, "no equation")]
)
def test_a_problem_without_other_points_cannot_grow(problem: Problem, why: str) -> None:
    with pytest.raises(InputError, match=why):
        train(problem, points=None, grow=True, steps=60, progress=False)


@pytest.mark.parametrize("name", ["array", "ensemble", "short"])
def test_else_the_points_stay(name: str) -> None:
    options, _ = FIXED[name]
    assert all(not member.growths for member in few(**options).members)


def test_enough_points_stay() -> None:
    assert not few(points=64).members[0].growths


@pytest.mark.parametrize("grow", [1, "yes"])
def test_grow_is_true_or_false(grow: Any) -> None:
    with pytest.raises(InputError, match="grow to be True, False or None"):
        few(grow=grow)


@pytest.mark.ranks(least=2, most=2, reason="ranks that differ")
def test_ranks_grow_alike() -> None:
    with pytest.raises(InputError, match="the ranks differ in grow"):
        few(grow=sp.rank() == 0)


def test_values_for_the_training_points_alone_stay() -> None:
    y = waves(UNIT.grid(5))
    problem = Problem(UNIT, lambda u, x: u(x) - y)
    options = few.keywords | {"grow": True, "optimizer": Adam(), "steps": 60}
    assert not train(problem, **options).members[0].growths


@two
def test_resumed_between_two_growths_it_is_as_if_uninterrupted(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path), every=5)
    first = few(checkpoint=checkpoint, callbacks=stop_at(15))
    assert first.members[0].ended == "the test"
    resumed = few(checkpoint=checkpoint, resume=True)
    assert bits(resumed) == bits(few())
    assert growths_of(resumed) == growths_of(few())


def test_a_training_that_ended_over_fitted_may_grow_when_resumed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path))
    few(checkpoint=checkpoint, grow=False)
    assert error_of(few(checkpoint=checkpoint, resume=True)) < 1e-2


def test_phases_continue() -> None:
    phases = [(Adam(1e-2), 20), (LevenbergMarquardt(), 60)]
    result = few(optimizer=None, steps=None, phases=phases)
    assert result.members[0].growths and error_of(result) < 1e-2


def test_all_numbers_grow_and_arrays_stay() -> None:
    """By N^((d−1)/d) on surfaces; a grid that was asked for stays one."""
    values = [Dirichlet(0.0, on="left", points=10), Dirichlet(0.0, on="right"), Initial(0.0)]
    box = Box([0, 0], [1, 1], names=("x", "t"))
    problem = Problem(box, Residual(lambda u, x: u(x)), conditions=values)
    start = np.array([[0.5, 0.0]])
    names = [term.name for term in problem.terms[1:3]]
    given = Points(100, boundary=40, initial=start, conditions={names[1]: 7})
    found = grown(given, problem, 1)
    assert (found.interior, found.boundary) == (400, 80)
    assert found.conditions == {names[0]: 20, names[1]: 14}
    assert found.initial is given.initial
    assert grown(None, problem, 2).interior == 1024
    assert grown(9_000, problem, 3).interior == 20_000
    assert grown((10, 20), problem, 1).interior == 800
    assert grown(Points((10, 20), method="grid"), problem, 1).interior == (20, 40)
    assert grown(10, PROBLEM, 3).interior == 80
