"""Trainings by Levenberg–Marquardt: ranks, members, phases, stops, checkpoints, remarks."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from trainings import bits, prepared, quick, shared, stop_at, tiny, warned

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP, RandomFeatures
from sciml_par.problems import (
    Box,
    Initial,
    Interval,
    Neumann,
    Problem,
    Time,
    derivative,
    laplacian,
    poisson,
    problem_by_name,
)
from sciml_par.training import (
    Adam,
    Checkpoint,
    Ensemble,
    LeastSquares,
    LevenbergMarquardt,
    NoProgress,
    Points,
    Result,
    TargetLoss,
)
from sciml_par.training.preparation import sizes

pytestmark = [
    pytest.mark.filterwarnings("ignore:train. :RuntimeWarning"),
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")
POINTS = np.linspace(0, 1, 37)[:, None]  # not divided evenly by any number of ranks here
small = partial(
    quick, points=POINTS, precision="float64", optimizer=LevenbergMarquardt(), log_every=3
)


def problem(k: int = 1) -> Problem:
    """Not on [-1, 1], where it is symmetric."""
    return poisson(k=k, domain=Interval(0, 1))


PHASES = [(Adam(1e-2), 20), (LevenbergMarquardt(), 20)]
phased = partial(small, optimizer=None, phases=PHASES)


@cache
def uninterrupted() -> Result:
    return phased(problem())


@two
def test_resumed_is_as_if_uninterrupted(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path), every=5)
    first = phased(problem(), checkpoint=checkpoint, callbacks=stop_at(31))
    assert first.members[0].ended == "the test"
    resumed = phased(problem(), checkpoint=checkpoint, resume=True)
    assert bits(resumed) == bits(uninterrupted())


@two
def test_the_least_squares_go_below_adam_and_never_up() -> None:
    member = uninterrupted().members[0]
    after = member.losses[member.loss_steps > 20]
    assert (np.diff(after) <= 0).all()
    assert after[-1] < 0.2 * member.losses[member.loss_steps <= 20].min()


STARTED = LevenbergMarquardt(start="least-squares")


def test_a_start_solves_for_the_output_layer_and_goes_on() -> None:
    started = small(problem(), optimizer=STARTED, steps=6, log_every=1)
    centres = partial(tiny, initial_weights="centres")
    layer = small(problem(), network=centres, optimizer=LeastSquares(), steps=1, log_every=1)
    usual = uninterrupted().members[0].losses[0]
    found, expected = started.members[0], layer.members[0].loss
    assert found.losses[0] == pytest.approx(usual, rel=1e-12)
    assert found.losses[1] == pytest.approx(expected, rel=1e-9)
    assert expected < 0.9 * usual
    assert found.steps == 6
    assert (np.diff(found.losses) < 0).all()


def ends_with(activation: str | None) -> Any:
    def make(d: int, m: int) -> Any:
        layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(m, activation)]
        return keras.Sequential([keras.Input((d,)), *layers])

    return make


@pytest.mark.filterwarnings("ignore:.*copies of one model")
@pytest.mark.ranks(least=2, most=2, reason="one rank would be compared with itself")
def test_members_on_all_ranks_start_as_alone_on_one_rank() -> None:
    started = partial(small, problem(), optimizer=STARTED, steps=4, log_every=1)
    together = Ensemble(members=2, ranks_per_member=sp.size(), seeds=[3, 4])
    for member, seed in zip(started(mode=together).members, (3, 4), strict=True):
        alone = started(mode=Ensemble(ranks_per_member=1, seeds=[seed] * sp.size()))
        np.testing.assert_allclose(member.losses, alone.members[0].losses, rtol=1e-8)


@pytest.mark.long
def test_a_start_solves_for_unknowns_and_the_last_layer_of_a_keras_model() -> None:
    inverse = problem_by_name("inverse-diffusion")
    found = small(inverse, network=ends_with(None), points=40, optimizer=STARTED, steps=3)
    assert found.members[0].loss < found.members[0].losses[0]


def test_a_start_needs_a_linear_layer_and_the_same_start_on_resuming(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start='least-squares'.*linear in its last weights"):
        small(problem(), network=ends_with("tanh"), optimizer=STARTED, steps=3)
    saved = partial(small, problem(), checkpoint=Checkpoint(tmp_path, every=2))
    saved(optimizer=STARTED, steps=4)
    with pytest.raises(InputError, match="phases"):
        saved(optimizer=LevenbergMarquardt(), steps=8, resume=True)
    resumed = saved(optimizer=STARTED, steps=8, resume=True)
    assert bits(resumed) == bits(small(problem(), optimizer=STARTED, steps=8))


def test_stops() -> None:
    start = uninterrupted().members[0].losses[0]
    target = phased(problem(), stop=TargetLoss(0.5 * start)).members[0]
    assert (target.ended, target.loss <= 0.5 * start) == ("target loss", True)
    idle = phased(problem(), stop=NoProgress(2, least_progress=0.9)).members[0]
    assert idle.ended == "no progress"
    assert idle.steps < 40


def test_a_phase_that_is_stuck_gives_way_to_the_next() -> None:
    """The least squares of u are zero at once; Adam's phase begins where they have ended."""
    at_zero = Problem(Interval(0, 1), lambda u, x: u(x))
    member = small(
        at_zero, optimizer=None, phases=[(LevenbergMarquardt(), 900), (Adam(1e-6), 10)]
    ).members[0]
    assert member.ended == "all steps"
    assert member.steps < 910
    alone = small(at_zero, steps=900).members[0]
    assert alone.ended == "no further decrease"
    assert alone.steps == member.steps - 10
    assert alone.best_loss < 1e-25


ready = partial(prepared, problem(), points=POINTS, optimizer=LevenbergMarquardt())


def test_precision_and_batches_are_told() -> None:
    def said(**options: Any) -> str:
        return " ".join(ready(**options)[1])

    few = said(points=POINTS[::4], precision="float32")
    assert few.count("single precision LevenbergMarquardt") == 1
    batches = said(points=Points(36, batch_size=12))
    assert batches.count("leave batch_size out") == 1
    for other in (said(points=POINTS[::4]), said(optimizer=Adam(), precision="float32")):
        assert not other


@pytest.mark.parametrize(
    ("options", "kind", "reason"),
    [
        ({}, "LevenbergMarquardt", "13 parameters, 39 residuals, float64"),
        ({"precision": "float32"}, "Adam", "precision='float64' allows"),
        ({"points": Points(36, batch_size=12)}, "Adam", "minibatches"),
        ({"network": partial(MLP, width=60, depth=2)}, "Adam, then LBFGS", "than 2,000 parameters"),
        (
            {"points": 120_000, "network": partial(MLP, width=150, depth=1)},
            "Adam, then SSB",
            "slow",
        ),
        ({"mode": Ensemble(members_per_rank=2)}, "LevenbergMarquardt", "13 parameters"),
        ({"mode": Ensemble(members=1, learning_rates=[1e-3])}, "Adam", "learning rates"),
    ],
)
def test_auto_chooses_by_the_size(options: dict[str, Any], kind: str, reason: str) -> None:
    found, _ = ready(**{"optimizer": "auto"} | options)
    assert type(found.phases[0].optimizer).__name__ == kind.partition(",")[0]
    assert f"optimizer: {kind}" in found.notes[0]
    assert reason in found.notes[0]


def test_auto_says_what_it_has_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    result = small(problem(), optimizer="auto", steps=2, progress=True, precision="float32")
    assert result.members[0].steps == 2
    assert capsys.readouterr().out.count("optimizer: Adam, for 13") == 1


def test_auto_beside_phases_is_refused() -> None:
    with pytest.raises(InputError, match="not both"):
        small(problem(), optimizer="auto", phases=PHASES)
    with pytest.raises(InputError, match="expected an optimizer"):
        small(problem(), optimizer=None, phases=[("auto", 3)])


@two
def test_what_does_not_fit_is_refused_on_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "free_memory", lambda: 1000)
    with pytest.raises(InputError, match="solver='qr' needs about .* and .* are free"):
        small(problem(), optimizer=LevenbergMarquardt(solver="qr"), steps=3)


@pytest.mark.long
def test_insulated_sides_over_time_leave_the_exact_solution() -> None:
    ell = Box([0, 0], [1, 2]) | Box([1, 0], [2, 1])
    heating = Problem(
        ell * Time(0, 1),
        lambda T, x: derivative(T, x, "t") - laplacian(T, x, over="space") - 1,
        conditions=[Neumann(0.0, on=["left", "right", "bottom", "top"]), Initial(0.0)],
        exact=lambda x: x[:, 2:],
    )
    result = small(
        heating,
        network=partial(RandomFeatures, features=60, scale=1.0),
        optimizer=LeastSquares(),
        steps=1,
        points=Points(600, method="grid"),  # some of its lines run along the inward edge
    )
    assert result.members[0].on_own_domain.relative_l2_error < 1e-3


@pytest.mark.filterwarnings("ignore:.*is not known:RuntimeWarning")
def test_a_linear_fit_that_leaves_much_of_the_right_side_says_so(tmp_path: Path) -> None:
    fit = partial(
        small, problem(k=3), optimizer=LeastSquares(), steps=1, points=200, estimate=False
    )
    coarse = partial(RandomFeatures, features=6, scale=2.0, seed=1)
    with warned("of the right side is left") as said:
        result = fit(network=coarse)
    assert len(said) == 1
    member = result.members[0]
    assert 0.02 < member.share_left < 0.7 and member.on_own_domain.relative_l2_error > 0.01
    result.save(tmp_path, overwrite=True, plots=False)
    assert Result.load(tmp_path, problem=problem(k=3)).members[0].found_little
    with warned("of the right side is left") as said:
        fine = fit(network=partial(RandomFeatures, features=80, scale=8.0))
    assert not said and fine.members[0].share_left < 0.01
