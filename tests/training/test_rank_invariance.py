"""P ranks compute what one rank computes on the union of their points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Interval, Neumann, Problem, laplacian
from sciml_par.problems import poisson as poisson_on
from sciml_par.training.loop import Loop
from sciml_par.training.objective import Objective
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.rank_points import Points, RankPoints, count_points, points_of_rank


def poisson() -> Problem:
    """Not on [-1, 1]: there, by symmetry, some gradients are zero, and Adam makes whole steps of
    their rounding errors, so that no two programs agree."""
    return poisson_on(domain=Interval(0, 1))


def plate() -> Problem:
    """Two dimensions, two kinds of conditions, a residual that is not linear."""
    return Problem(
        Box([0, 0], [1, 2]),
        lambda u, x: laplacian(u, x) - u(x) ** 3 + x[:, 0:1] * x[:, 1:2],
        conditions=[
            Dirichlet(0.3, where=lambda x: x[:, 0] == 0.0, weight=3.0),
            Neumann(0.1, where=lambda x: x[:, 1] == 2.0),
        ],
        name="plate",
    )


CASES = [
    pytest.param(poisson(), 51, id="sub-domains"),
    pytest.param(poisson(), Interval(0, 1).sample(23, seed=1), id="uneven"),
    pytest.param(poisson(), Interval(0, 1).sample(2, seed=1), id="empty from rank 2 on"),
    pytest.param(poisson(), Interval(0, 1).sample(1, seed=1), id="one point in all"),
    pytest.param(plate(), Box([0, 0], [1, 2]).sample(31, seed=2), id="plate"),
]
COMPILED_CASES = CASES[3:]  # the last two: ranks without a point, and all kinds of terms


def serial_points(problem: Problem, points: Points, *, size: int) -> RankPoints:
    """All points of all ranks, as one rank has them."""
    if not isinstance(points, np.ndarray):
        parts = problem.domain.split(size)
        points = np.concatenate([part.grid(points) for part in parts])
    return points_of_rank(problem, points, boundary_points=13, rank=0, size=1)


def objectives(problem: Problem, points: Points, model: Any) -> tuple[Objective, Objective]:
    """The loss shared by all ranks, and the serial one that every rank has for itself."""
    world = sp.current_world()
    everyone = world.communicator
    mine = points_of_rank(
        problem, points, boundary_points=13, rank=everyone.rank, size=everyone.size
    )
    serial = serial_points(problem, points, size=everyone.size)
    totals = count_points(mine, everyone)
    assert totals == serial.counts
    return (
        Objective(model, mine, totals=totals, communicator=everyone, dtype="float64"),
        Objective(model, serial, totals=serial.counts, communicator=world.alone, dtype="float64"),
    )


def network(problem: Problem) -> MLP:
    return MLP(problem.domain.dimension, problem.outputs, width=6, depth=1, seed=7, dtype="float64")


def relative(a: Any, b: Any) -> float:
    return float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(np.asarray(b)))


@pytest.mark.parametrize(("problem", "points"), CASES)
def test_loss_and_gradient_are_those_of_one_rank(problem: Problem, points: Points) -> None:
    model = network(problem)
    shared, serial = objectives(problem, points, model)
    flat = shared.flatten([tf.convert_to_tensor(v) for v in model.trainable_variables])
    serial_loss, serial_gradient = serial.value_and_gradient(flat)
    assert np.linalg.norm(serial_gradient) > 1e-3
    loss, gradient = shared.value_and_gradient(flat)
    assert relative(loss, serial_loss) < 1e-12
    assert relative(gradient, serial_gradient) < 1e-12


@pytest.mark.parametrize(("problem", "points"), COMPILED_CASES)
def test_weights_after_50_compiled_steps_are_those_of_one_rank(
    problem: Problem, points: Points
) -> None:
    """And on all ranks they are the same to the last bit."""
    model = network(problem)
    start = [v.numpy() for v in model.trainable_variables]
    world = sp.current_world()
    ends = []
    for objective, group in zip(
        objectives(problem, points, model), (world.communicator, world.alone), strict=True
    ):
        loop = Loop(objective, Adam(), log_every=10, communicator=group)
        ends.append(loop.advance(loop.start(start, "float64"), 50).state.parameters.numpy())
    begin = np.concatenate([v.ravel() for v in start])
    assert relative(ends[1], begin) > 1e-2, "nothing was trained"
    assert relative(ends[0], ends[1]) < 1e-9
    assert len(set(world.communicator.allgather_object(ends[0].tobytes()))) == 1


def test_empty_shards_occur() -> None:
    """The cases above are worth something only if some rank really has nothing."""
    world = sp.current_world().communicator
    mine = points_of_rank(
        poisson(),
        Interval(0, 1).sample(1, seed=1),
        boundary_points=None,
        rank=world.rank,
        size=world.size,
    )
    counts = world.allgather_object(mine.counts)
    assert (world.size == 1) == all(n > 0 for n, _ in counts)
