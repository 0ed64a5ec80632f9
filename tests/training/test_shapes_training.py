"""Trainings on other shapes than boxes, on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import Engine, make_feed

import sciml_par as sp
import sciml_par.parallel as parallel
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Domain,
    Neumann,
    PointCloud,
    Problem,
    Time,
    laplacian,
)
from sciml_par.results import Result
from sciml_par.training import Adam, Points

DISC = Ball([1, 2], 0.5)
PLATE = Box([0, 0], [1, 1]) - Ball([0.5, 0.5], 0.2)
CLOUD = PointCloud(DISC.sample(60, seed=1), boundary=DISC.boundary(20)[0])


def poisson(domain: Domain, *others: Any) -> Problem:
    """∇²u = 0 in x and y; of the plate's hole, n·∇u is given."""
    outer = [name for name in domain.faces if "=" in name]
    where = (lambda x: domain.on_faces(x, outer)) if outer else None
    return Problem(
        domain,
        lambda u, x: laplacian(u, x, over=(0, 1)),
        conditions=[Dirichlet(lambda x: x[:, :1] * x[:, 1:2], where=where), *others],
        exact=lambda x: x[:, :1] * x[:, 1:2],
        input_scaling=True,
        name="poisson",
    )


def flow_into_the_hole() -> Neumann:
    """The derivative of x y along the outward normal, which points to the centre."""

    def slope(x: Any) -> Any:
        normal = (0.5 - x) / 0.2
        return normal[:, :1] * x[:, 1:] + normal[:, 1:] * x[:, :1]

    return Neumann(slope, where=lambda x: PLATE.on_faces(x, ["surface"]))


CASES = [
    pytest.param(poisson(PLATE, flow_into_the_hole()), Points(60), None, id="plate with a hole"),
    pytest.param(poisson(PLATE, flow_into_the_hole()), Points(boundary=30), 20, id="per rank"),
    pytest.param(poisson(DISC * Time(0, 1)), Points(40, 30, 10), None, id="disc over time"),
    pytest.param(poisson(CLOUD), Points(40, method="uniform"), None, id="cloud"),
]


@pytest.mark.parametrize(("problem", "points", "per_rank"), CASES)
def test_ranks_together_have_the_loss_of_one(problem: Problem, points: Any, per_rank: Any) -> None:
    world = parallel.current_world()
    model = MLP(problem.domain.dimension, 1, width=5, depth=1, seed=7, dtype="float64")
    options: Any = {"points": points, "points_per_rank": per_rank}
    shared = Engine(problem, world.communicator, model, **options)
    loss, gradient = shared.value_and_gradient()
    assert loss > 1e-3 and np.linalg.norm(gradient) > 1e-3
    own = shared.feed.arrays[0][0]
    assert problem.domain.contains(own).all()
    if per_rank is None:
        serial = Engine(problem, world.alone, model, **options)
    else:
        # What the ranks have is what one has that is given all of it.
        every = np.concatenate(world.communicator.allgather_object(own))
        serial = Engine(problem, world.alone, model, points=Points(every, boundary=30))
    assert shared.feed.totals == serial.feed.totals
    alone, expected = serial.value_and_gradient()
    assert loss == pytest.approx(alone, rel=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.ranks(most=1, reason="the losses on more are compared above")
def test_a_training_on_a_plate_with_a_hole(tmp_path: Path) -> None:
    """It predicts and draws inside the plate alone, and its files are read again."""
    problem = poisson(PLATE, flow_into_the_hole())
    result = sp.train(
        problem,
        network=MLP(2, 1, width=6, depth=1, seed=1, dtype="float64"),
        points=Points(100, method="halton"),
        steps=300,
        optimizer=Adam(1e-2),
        precision="float64",
        evaluation_points=300,
        progress=False,
    )
    member = result.members[0]
    assert member.points == 100 and member.loss < 0.1 * member.losses[0]
    result.save(tmp_path / "run")
    prediction = Result.load(tmp_path / "run").members[0].prediction
    x, inside = prediction.x, prediction.inside
    np.testing.assert_array_equal(inside, PLATE.contains(x))
    assert 200 < inside.sum() < 400 and not inside.all()
    assert np.isnan(prediction.u_exact[~inside]).all()
    assert prediction.relative_l2_error == member.prediction.relative_l2_error < 0.3


@pytest.mark.ranks(most=1, reason="nothing is exchanged")
@pytest.mark.parametrize(
    ("problem", "points", "message"),
    [
        (poisson(DISC), Points(9, boundary=[[1.0, 2.0]]), "not lie on the boundary of Ball"),
        (poisson(DISC), Points(9, initial=5), "no initial face"),
        (poisson(DISC), Points(9, initial=[[1.0, 1.5]]), "domain with a time"),
        (poisson(CLOUD, Neumann()), Points(9), "no normal is known at"),
    ],
)
def test_points_that_do_not_fit_the_shape(problem: Problem, points: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_feed(problem, points, rank=0, size=1, seed=0, dtype="float64")


@pytest.mark.ranks(most=1, reason="nothing is exchanged")
def test_points_of_a_shape_are_as_dense_on_its_boundary_as_inside() -> None:
    arrays = make_feed(poisson(DISC), 400, rank=0, size=1, seed=0, dtype="float64").arrays
    spacing = np.sqrt(DISC.volume / len(arrays[0][0]))
    assert DISC.surface / len(arrays[1][0]) == pytest.approx(spacing, rel=0.1)
    given = DISC.boundary(12)[0].astype(np.float32)
    feed = make_feed(
        poisson(DISC), Points(40, boundary=given), rank=0, size=1, seed=0, dtype="float64"
    )
    x, normals = feed.arrays[1][:2]  # and the values of the condition there
    np.testing.assert_allclose((x - [1, 2]) / 0.5, normals, atol=1e-12)
    assert tf.constant(x).shape == (12, 2)
