"""Every optimizer on every kind of problem, on any number of ranks: one line each in the tables."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from engine import Engine
from test_rank_invariance import plate, poisson, relative

import sciml_par.parallel as sp
from sciml_par.networks import MLP
from sciml_par.problems import Box, Interval, Observations, Problem, Unknown, jacobian
from sciml_par.training import (
    LBFGS,
    SGD,
    SPRING,
    Adam,
    AdamW,
    LeastSquares,
    LevenbergMarquardt,
    Points,
    RMSprop,
    SSBroyden,
)
from sciml_par.training.optimizers.phases import as_optimizer

pytestmark = pytest.mark.beside
OPTIMIZERS: dict[str, Any] = {
    "Adam": Adam(1e-2),
    "AdamW": AdamW(1e-2),
    "SGD": SGD(1e-4, momentum=0.5),
    "RMSprop": RMSprop(1e-2),
    "Keras": keras.optimizers.Nadam(1e-2, clipnorm=10.0),
    "LBFGS": LBFGS(),
    "SSBroyden": SSBroyden(),
    "block cholesky": LevenbergMarquardt(solver="block cholesky"),
    "LevenbergMarquardt": LevenbergMarquardt(),
    "qr": LevenbergMarquardt(solver="qr"),
    "matrix free": LevenbergMarquardt(solver="matrix free"),
    "SPRING": SPRING(),
    "LeastSquares": LeastSquares(),
}


def inverse() -> Problem:
    """Two outputs, an unknown coefficient, and observations of one output."""
    x = np.linspace(0, 1, 7)[:, None]

    def oscillator(u: Any, x: Any, *, k: Any) -> Any:
        position, speed = u(x)[:, 0:1], u(x)[:, 1:2]
        slopes = jacobian(u, x)[:, :, 0]
        return tf.concat([slopes[:, 0:1] - speed, slopes[:, 1:2] + k * position], axis=1)

    return Problem(
        Interval(0, 1),
        oscillator,
        outputs=2,
        conditions=[Observations(x, np.sin(2 * x), component=0)],
        unknowns={"k": Unknown(1.5)},
        name="oscillator",
    )


PROBLEMS: dict[str, tuple[Problem, Any]] = {
    "one point in all": (poisson(), Interval(0, 1).sample(1, seed=1)),
    "plate": (plate(), Points(Box([0, 0], [1, 2]).sample(31, seed=2), 13)),
    "inverse": (inverse(), 23),
    "batches": (plate(), Points(64, method="sobol", batch_size=10)),
}
STEPS = 6


ON_RANKS = {
    "Adam": "batches",
    "Keras": "one point in all",
    "LBFGS": "plate",
    "SSBroyden": "inverse",
    "block cholesky": "batches",
    "LevenbergMarquardt": "plate",
    "qr": "inverse",
    "matrix free": "one point in all",
    "SPRING": "batches",
    "LeastSquares": "inverse",
}
"""In every run; the steps of other optimizers are those of the gradient that all ranks have."""
ON_TWO = ("Adam", "Keras", "SSBroyden", "LeastSquares")
TWO = pytest.mark.ranks(most=2, reason="with the sums of others, which three ranks show")
THREE = pytest.mark.ranks(least=3, reason="three ranks show what two do, and uneven parts as well")
STACKED = {
    "Keras": "batches",
    "LBFGS": "one point in all",
    "qr": "one point in all",
    "matrix free": "one point in all",
    "SPRING": "plate",
}
"""In every run; the members of others are compared without a training as well."""


def grid(usual: dict[str, str]) -> list[Any]:
    def marks(name: str, case: str) -> Any:
        if usual.get(name) != case:
            return pytest.mark.all
        return [] if usual is STACKED else TWO if name in ON_TWO else THREE

    return [pytest.param(n, case, marks=marks(n, case)) for n in OPTIMIZERS for case in PROBLEMS]


def engine(name: str, case: str, group: Any, **options: Any) -> Engine:
    problem, points = PROBLEMS[case]
    d, m = problem.domain.dimension, problem.outputs
    model = MLP(d, m, width=6, depth=1, seed=7, dtype="float64")
    optimizer = as_optimizer(OPTIMIZERS[name])
    return Engine(problem, group, model, points=points, optimizer=optimizer, log_every=1, **options)


@pytest.mark.ranks(least=2, reason="one rank would be compared with itself")
@pytest.mark.parametrize(("name", "case"), grid(ON_RANKS))
def test_ranks_make_the_steps_of_one(name: str, case: str) -> None:
    """The loss falls, and ranks with uneven or no points move to the bit alike."""
    world = sp.current_world()
    shared = engine(name, case, world.communicator)
    chunk = shared.advance(shared.start(), STEPS)
    theta = chunk.state.parameters.numpy()
    assert len(set(world.communicator.allgather_object(theta.tobytes()))) == 1
    assert np.abs(theta - shared.parameters).max() > 1e-5
    if case != "batches":
        losses = chunk.records[:, 0, : len(shared.problem.terms)].sum(axis=1)
        assert losses[-1] < losses[0]
    if world.communicator.rank == 0:  # the others would compile the same
        one = engine(name, case, world.alone)
        alone = one.advance(one.start(), STEPS).state.parameters.numpy()
        assert relative(theta, alone) < 1e-7


@pytest.mark.ranks(most=1, reason="members of several ranks are the same program")
@pytest.mark.parametrize(("name", "case"), grid(STACKED))
def test_members_make_the_steps_of_one_alone(name: str, case: str) -> None:
    one, two = (engine(name, case, sp.current_world().alone, members=m) for m in (1, 2))
    theta = two.advance(two.start(), STEPS).state.parameters.numpy()
    for j in range(2):
        one.parameters = two.parameters[j : j + 1]
        alone = one.advance(one.start(), STEPS).state.parameters.numpy()
        assert relative(theta[j : j + 1], alone) < 1e-7
    assert relative(theta[0], theta[1]) > 1e-4
