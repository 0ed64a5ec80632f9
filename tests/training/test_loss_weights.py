"""Strategies for the weights of a loss compute what their papers say, on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import plain_weights as plain
import pytest
import tensorflow as tf
from engine import At, Chunk, Engine, Rows, StackedFeed, StackedObjective

import sciml_par.parallel as sp
from sciml_par.networks import MLP
from sciml_par.training import LBFGS, SGD, LevenbergMarquardt, ResidualBasedAttention, SelfAdaptive
from sciml_par.training.loss.known import Gradient
from sciml_par.training.weights.loss_weights import LossWeights, Weighting

pytestmark = pytest.mark.ranks(
    most=3, reason="of three, too, some have no point of a condition, and shares are uneven"
)

RATE, STEPS = 0.02, 12
NAMES = list(plain.PLAIN)


def engine(strategy: Any, **options: Any) -> Engine:
    model = MLP(1, 1, width=plain.WIDTH, depth=1, seed=4, dtype="float64")
    group = sp.current_world().communicator
    options.setdefault("optimizer", SGD(RATE))
    return Engine(plain.problem(), group, model, points=plain.TIMES, strategy=strategy, **options)


def weighting_of(engine: Engine, objective: StackedObjective | None = None) -> Weighting:
    """The one in the engine's loop, or one like it for another objective."""
    return Weighting(engine.strategy, [engine.problem], objective or engine.objective, engine.feed)


def same_on_all_ranks(*values: Any) -> bool:
    mine = b"".join(np.asarray(value).tobytes() for value in values)
    return len(set(sp.current_world().communicator.allgather_object(mine))) == 1


def means(factors: list[Any]) -> np.ndarray:
    return np.array([np.mean(factor) for factor in factors])


@pytest.mark.parametrize("name", NAMES)
def test_multipliers_and_parameters_are_those_of_numpy(name: str) -> None:
    """On several ranks some have no point of a condition, on four of the points there are seven."""
    model = engine(plain.PLAIN[name][0])
    weighting = weighting_of(model)
    theta, batch = model.parameters, model.feed.whole(0)
    expected, factors = plain.trained(name, theta.numpy()[0], steps=STEPS, rate=RATE)
    state = weighting.of_rank(weighting.start(1, theta.dtype))
    for number in range(STEPS):
        weighed = weighting.weigh(theta, state, batch, tf.constant(number))
        np.testing.assert_allclose(weighed.shown[0], means(factors[number]), rtol=1e-10)
        np.testing.assert_allclose(weighed.terms[0], plain.losses(theta.numpy()[0]), rtol=1e-10)
        gradient = weighting.objective.evaluate(Gradient, theta, weighed.batch).gradient
        theta, state = theta - RATE * gradient, weighed.state
    np.testing.assert_allclose(theta[0], expected, rtol=0, atol=1e-10)
    assert np.ptp([means(each) for each in factors], axis=0).max() > 1e-2, "nothing changed"
    assert same_on_all_ranks(theta)


def chunks(model: Engine, *counts: int) -> tuple[list[Chunk], Any]:
    state, step, found = model.start(), 0, []
    for count in counts:
        found.append(model.advance(state, count, step=step))
        # As from a checkpoint: a state is what its arrays are.
        arrays = [leaf.numpy() for leaf in tf.nest.flatten(found[-1].state)]
        state = tf.nest.pack_sequence_as(state, [tf.constant(each) for each in arrays])
        step += count
    return found, state


def test_compiled_steps_are_those_of_numpy_however_they_are_cut_into_chunks() -> None:
    name = "attention"
    model = engine(plain.PLAIN[name][0], log_every=1)
    expected, factors = plain.trained(name, model.parameters.numpy()[0], steps=STEPS, rate=RATE)
    (whole,), end = chunks(model, STEPS)
    parts, again = chunks(model, 5, 1, 6)
    np.testing.assert_allclose(end.parameters[0], expected, rtol=0, atol=1e-10)
    for one, other in zip(tf.nest.flatten(end), tf.nest.flatten(again), strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()
    np.testing.assert_array_equal(whole.weights, np.concatenate([each.weights for each in parts]))
    np.testing.assert_allclose(
        whole.weights[:, 0], [means(each) for each in factors], rtol=1e-10, atol=0
    )
    # What is judged is the loss without the multipliers, that of the initial weights first.
    theta = model.parameters.numpy()[0]
    np.testing.assert_allclose(whole.records[0, 0], plain.losses(theta), rtol=1e-10)
    np.testing.assert_allclose(
        end.best_loss, whole.records[:, 0].sum(axis=1).min(keepdims=True), rtol=1e-12
    )
    # All ranks have the weights of all points, in one order, so that rank 0 can write them.
    assert [each.shape for each in end.weights["a"]] == [(1, 7), (1, 1), (1, 1)]
    np.testing.assert_allclose(np.square(end.weights["a"][0][0]), factors[-1][0], rtol=1e-10)
    assert same_on_all_ranks(*tf.nest.flatten(end))


@pytest.mark.ranks(most=1, reason="members of a rank are vectorized there alike on any number")
@pytest.mark.parametrize(
    "name",
    [
        "norm",
        pytest.param("attention", marks=pytest.mark.long),
        pytest.param("ntk", marks=pytest.mark.all),
        pytest.param("causal", marks=pytest.mark.all),
    ],
)
def test_stacked_members_have_weights_of_their_own(name: str) -> None:
    model = engine(plain.PLAIN[name][0])
    stacked = StackedFeed([model.feed, model.feed])
    assert stacked.stacked == model.feed.stacked
    both = model.objective_of(2)
    two = Weighting(model.strategy, [model.problem, model.problem], both, stacked)
    one = weighting_of(model)
    thetas = tf.concat([model.parameters, 1.5 * model.parameters], axis=0)
    batch = model.feed.whole(0)
    step = partial_weigh(two, thetas, batch)
    singles = [partial_weigh(one, thetas[j : j + 1], batch) for j in range(2)]
    np.testing.assert_allclose(step.shown, tf.concat([s.shown for s in singles], 0), rtol=1e-10)
    assert np.abs(step.shown[0] - step.shown[1]).max() > 1e-6
    gradient = two.objective.evaluate(Gradient, thetas, step.batch).gradient
    for j, single in enumerate(singles):
        own = one.objective.evaluate(Gradient, thetas[j : j + 1], single.batch).gradient
        np.testing.assert_allclose(gradient[j], own[0], rtol=1e-9, atol=1e-12)


def partial_weigh(weighting: Weighting, theta: Any, batch: Any) -> Any:
    """The loss of the step number 12, whose weights are those after one change."""
    state = weighting.of_rank(weighting.start(theta.shape[0], theta.dtype))
    return weighting.weigh(theta, state, batch, tf.constant(12))


class Constant(LossWeights):
    """λ = 1, 7 and 2, of terms or of points."""

    every = 1

    def __init__(self, *, of_points: bool) -> None:
        self.by_points = of_points

    def start(self, terms: Any, members: int, dtype: Any) -> dict[str, Any]:
        return {"factors": tf.constant([[1.0, 7.0, 2.0]] * members, dtype)}

    def update(self, state: Any, loss: Any, number: Any) -> Any:
        return state

    def multipliers(self, state: Any, loss: Any) -> list[Any]:
        factors = super().multipliers(state, loss)
        if not self.by_points:
            return factors
        return [f[:, None] + tf.zeros_like(s) for f, s in zip(factors, loss.squares(), strict=True)]


@pytest.mark.parametrize(
    ("optimizer", "of_points"),
    [
        pytest.param(LevenbergMarquardt(), True, id="points"),
        pytest.param(LBFGS(), True, marks=pytest.mark.long, id="points, with a memory"),
        pytest.param(LevenbergMarquardt(), False, marks=pytest.mark.all, id="terms"),
    ],
)
def test_an_optimizer_minimizes_the_weighted_loss(optimizer: Any, of_points: bool) -> None:
    """It makes the steps of a problem in which the terms have these weights themselves."""
    weighed, own = engine(Constant(of_points=of_points)), engine(None)
    own.problem = own.problem.with_term_weights(
        {"residual": 1.0, "dirichlet": 7 * plain.WEIGHTS[1], "neumann": 2 * plain.WEIGHTS[2]}
    )
    own.__post_init__()
    weighting, theta = weighting_of(weighed), weighed.parameters
    state = weighting.start(1, theta.dtype)
    step = weighting.weigh(theta, state, weighed.feed.whole(0), tf.constant(0))
    assert step.changed
    ends = []
    for objective, batch, same in (
        (weighting.objective, step.batch, False),
        (own.objective, own.feed.whole(0), True),
    ):
        now, memory = theta, optimizer.init(objective, theta)
        for number in (1, 2):
            at = At(tf.constant(number), tf.ones([1, 1], theta.dtype), same_points=same)
            now, memory, terms = optimizer.step(objective, now, memory, batch, at)
        ends.append((now, terms))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-8)
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-9)
    assert np.abs(ends[0][0] - theta).max() > 1e-3


def test_terms_of_zero_keep_their_multipliers() -> None:
    """A term that is satisfied everywhere has no scale, and no rank divides by its zero."""
    model = engine(None)
    batch = tuple(
        Rows(rows.weights * float(t != 1), rows.arrays)
        for t, rows in enumerate(model.feed.whole(0))
    )
    for name in ("annealing", "norm", "ntk"):
        model.strategy = plain.PLAIN[name][0]
        weighting = weighting_of(model)
        state = weighting.start(1, tf.float64)
        shown = weighting.weigh(model.parameters, state, batch, tf.constant(0)).shown.numpy()[0]
        assert np.isfinite(shown).all()
        changed = model.strategy.memory * 1.0 + (1 - model.strategy.memory) * 1.0
        assert shown[1] == changed == 1.0


def test_only_terms_that_are_named_have_weights_of_points() -> None:
    model = engine(None)
    for strategy in (
        SelfAdaptive(rate=1.0, initial=2.0, terms=("dirichlet",)),
        ResidualBasedAttention(rate=0.5, initial=2.0, terms=["dirichlet"]),
    ):
        model.strategy = strategy
        weighting = weighting_of(model)
        state = weighting.of_rank(weighting.start(1, tf.float64))
        step = weighting.weigh(model.parameters, state, model.feed.whole(0), tf.constant(0))
        shown = step.shown.numpy()[0]
        # What is shown is a mean over the points of all ranks, whose sum may round.
        assert shown[[0, 2]] == pytest.approx(1.0, rel=1e-14) and shown[1] > 3.6
