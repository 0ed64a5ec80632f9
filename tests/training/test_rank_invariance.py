"""P ranks compute what one rank computes on the union of their points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine import Engine
from feeds import counts_of

import sciml_par.parallel as sp
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Interval, Neumann, Problem, laplacian
from sciml_par.problems import poisson as poisson_on
from sciml_par.training import Points


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
    pytest.param(poisson(), 51, id="grid"),
    pytest.param(poisson(), Interval(0, 1).sample(23, seed=1), id="uneven"),
    pytest.param(poisson(), Interval(0, 1).sample(2, seed=1), id="empty from rank 2 on"),
    pytest.param(poisson(), Interval(0, 1).sample(1, seed=1), id="one point in all"),
    pytest.param(plate(), Points(Box([0, 0], [1, 2]).sample(31, seed=2), 13), id="plate"),
    pytest.param(plate(), Points(64, method="sobol", batch_size=10), id="batches"),
]


def engines(problem: Problem, points: Any, model: Any, **options: Any) -> tuple[Engine, Engine]:
    """The loss shared by all ranks, and the serial one that every rank has for itself."""
    world = sp.current_world()
    shared = Engine(problem, world.communicator, model, points=points, **options)
    serial = Engine(problem, world.alone, model, points=points, **options)
    assert shared.feed.totals == serial.feed.totals == counts_of(serial.feed)
    return shared, serial


def network(problem: Problem) -> MLP:
    return MLP(problem.domain.dimension, problem.outputs, width=6, depth=1, seed=7, dtype="float64")


def relative(a: Any, b: Any) -> float:
    return float(np.linalg.norm(np.asarray(a) - np.asarray(b)) / np.linalg.norm(np.asarray(b)))


@pytest.mark.parametrize(("problem", "points"), CASES)
def test_loss_and_gradient_are_those_of_one_rank(problem: Problem, points: Any) -> None:
    shared, serial = engines(problem, points, network(problem))
    serial_loss, serial_gradient = serial.value_and_gradient()
    assert np.linalg.norm(serial_gradient) > 1e-3
    loss, gradient = shared.value_and_gradient()
    assert relative(loss, serial_loss) < 1e-12
    assert relative(gradient, serial_gradient) < 1e-12


def test_empty_shards_occur() -> None:
    """The cases above are worth something only if some rank really has nothing."""
    world = sp.current_world().communicator
    problem = poisson()
    mine = Engine(problem, world, network(problem), points=Interval(0, 1).sample(1, seed=1))
    counts = world.allgather_object(counts_of(mine.feed))
    assert (world.size == 1) == all(n > 0 for n, _ in counts)
