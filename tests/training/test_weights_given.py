"""What `train` makes of its argument `weights`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import plain_weights as plain
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Interval, Problem, Residual, laplacian
from sciml_par.training import (
    Adam,
    Causal,
    Checkpoint,
    GradientAnnealing,
    GradientNorm,
    Points,
    Result,
    SelfAdaptive,
    train,
)

pytestmark = pytest.mark.ranks(most=1, reason="what is refused and handed on is the same on more")

small = partial(
    train,
    network=partial(MLP, width=3, depth=1),
    points=plain.TIMES,
    evaluation_points=5,
    progress=False,
    log_every=1,
)
PLATE = Problem(Box([0, 0], [1, 1]), laplacian, conditions=[Dirichlet(1.0)])
LINE = Interval(0, 2)
NO_CONDITIONS = Problem(Box([0, 0], [1, 1]), laplacian)

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a class": (
        PLATE,
        GradientNorm,
        r"is the class GradientNorm; give .* weights=GradientNorm\(\)",
    ),
    "a list": (
        PLATE,
        [1.0, 20.0],
        r"by the names .* weights=\{'residual': 1.0, 'dirichlet': 20.0\}",
    ),
    "a text": (PLATE, "ntk", r"expected weights to be numbers .*NTKWeights\(\).*got 'ntk'"),
    "a number": (PLATE, 10.0, r"\{'residual': 1.0, 'dirichlet': 1.0\}, or GradientAnnealing"),
    "no such term": (PLATE, {"bc": 1.0}, r"no term 'bc'; its terms are 'residual', 'dirichlet'"),
    "negative": (PLATE, {"dirichlet": -1.0}, r"term 'dirichlet'.* must not be negative, got -1.0"),
    "no number": (PLATE, {"dirichlet": "big"}, r"term 'dirichlet'.*'big'"),
    "not finite": (PLATE, {"dirichlet": np.inf}, r"term 'dirichlet'.*inf"),
    "no time": (PLATE, Causal(), r"no coordinate 't'; its coordinates are 'x', 'y'.*='y'\)"),
    "no conditions": (NO_CONDITIONS, GradientAnnealing(), r"has no conditions.*GradientNorm\(\)"),
    "no such name": (PLATE, SelfAdaptive(terms=["bc"]), r"SelfAdaptive: .*no term 'bc'"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_used_is_refused_before_any_training(case: str) -> None:
    problem, weights, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        small(problem, points=9, weights=weights, steps=1)


def test_weights_of_points_need_the_same_points_at_all_steps() -> None:
    batches = Points(64, batch_size=16)
    with pytest.raises(
        InputError, match="SelfAdaptive carries a weight for each point.*GradientNorm"
    ):
        small(PLATE, points=batches, weights=SelfAdaptive(), steps=1)


def test_the_name_in_deepxde_is_told_what_it_is_called_here() -> None:
    with pytest.raises(InputError, match=r"no argument 'loss_weights'; use weights=\{"):
        small(PLATE, loss_weights=[1, 100], steps=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": ()},
        {"epsilon": "fast"},
        {"tolerance": 1.0},
        {"slices": 1},
        {"every": 0},
    ],
    ids=str,
)
def test_numbers_of_a_strategy_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Causal: "):
        Causal(**wrong)


def test_a_name_in_place_of_names_is_refused() -> None:
    with pytest.raises(InputError, match=r"SelfAdaptive: expected terms .* 'residual'"):
        SelfAdaptive(terms="residual")


def test_numbers_by_name_take_the_place_of_those_of_the_problem() -> None:
    """And of what an optimizer of least squares takes for conditions without a weight."""
    problem = plain.problem()
    weights = {"dirichlet": 9.0}
    own = problem.with_term_weights(weights)
    assert [t.weight for t in own.terms] == [1.0, 9.0, 0.5]
    assert [t.weight for t in problem.terms] == [1.0, 3.0, 0.5]
    assert [t.weight for t in own.with_condition_weight(100).terms] == [1.0, 9.0, 0.5]
    free = PLATE.with_term_weights({"dirichlet": 5})
    assert free.with_condition_weight(100).terms[1].weight == 5.0
    losses = small(problem, weights=weights, steps=1, precision="float64").members[0].term_losses[0]
    before = small(problem, steps=1, precision="float64").members[0].term_losses[0]
    np.testing.assert_allclose(losses, before * [1, 3, 1], rtol=1e-12)


@pytest.mark.ranks(most=2, reason="each rank has the weights of its points")
def test_strategies_go_on_through_phases_and_checkpoints_and_into_files(tmp_path: Path) -> None:
    folder = Path(sp.current_world().communicator.broadcast_object(str(tmp_path)))
    run = partial(
        small, plain.problem(), weights=SelfAdaptive(rate=0.01, every=3), precision="float64"
    )
    phases = [(Adam(1e-2), 11), (Adam(1e-3), 7)]  # which are one program
    whole = run(phases=phases).members[0]
    checkpoint = Checkpoint(folder / "checkpoint")
    run(phases=[phases[0], (Adam(1e-3), 2)], checkpoint=checkpoint)
    result = run(phases=phases, checkpoint=checkpoint, resume=True)
    resumed = result.members[0]
    assert whole.steps == resumed.steps == 18
    for name in ("losses", "term_losses", "term_weights"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(resumed, name))
    # Every third step changes them, and a phase does not begin anew.
    weights = whole.history.weights["residual"]
    assert list(np.flatnonzero(np.diff(weights)) + 1) == [3, 6, 9, 12, 15]
    assert (np.diff(weights) >= 0).all()
    assert whole.losses[-1] < whole.losses[0]
    result.save(folder / "run")
    sp.current_world().communicator.barrier()
    assert (folder / "run" / "weights.png").is_file()
    loaded = Result.load(folder / "run").members[0]
    assert loaded.history.weights.keys() == whole.history.weights.keys()
    np.testing.assert_array_equal(loaded.term_weights, resumed.term_weights)
    np.testing.assert_array_equal(loaded.term_losses, resumed.term_losses)


def test_a_weight_for_each_column_is_that_of_an_equation() -> None:
    first, second = (lambda u, x: laplacian(u[0], x)), (lambda u, x: laplacian(u[1], x) - u[0](x))
    several = [Residual(first, weight=2), Residual(second, weight=30)]
    joined = Residual(lambda u, x: tf.concat([first(u, x), second(u, x)], 1), weight=(2, 30))
    found = []
    for residual in (several, joined):
        problem = Problem(LINE, residual, outputs=2, conditions=[Dirichlet(1.0)])
        result = small(problem, optimizer=Adam(1e-2), steps=9, precision="float64")
        found.append(result.members[0])
    np.testing.assert_allclose(found[0].losses, found[1].losses, rtol=1e-10)
    np.testing.assert_allclose(
        found[0].term_losses[:, :2].sum(axis=1), found[1].term_losses[:, 0], rtol=1e-10
    )


def test_weights_of_columns_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"weight has 2 numbers.*\[n, 2\], got \[\d+, 1\]"):
        small(Problem(LINE, Residual(laplacian, weight=(1, 2))), steps=1)
    with pytest.raises(InputError, match="Residual: weight must not be negative, got -1"):
        Residual(laplacian, weight=(1, -1))
    with pytest.raises(InputError, match=r"Residual\(…, weight=\(1.0, 10.0\)\) has one for each"):
        small(PLATE, weights={"residual": [1, 2]})
    with pytest.raises(InputError, match=r"Dirichlet\(…, component=0, weight=10.0\)"):
        Dirichlet(0.0, weight=[1, 2])
