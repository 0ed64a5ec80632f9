"""Points of all kinds of conditions: what one rank has, any number of ranks have together."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import Engine, RankFeed, make_feed
from feeds import assert_ranks_have_together_what_one_has, at, batch_at

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Field,
    Initial,
    IntegralCondition,
    Interface,
    Neumann,
    Observations,
    Periodic,
    Problem,
    Robin,
    Time,
    laplacian,
)
from sciml_par.training import Points
from sciml_par.training.loss.known import Jacobian

local = pytest.mark.ranks(most=1, reason="makes the feeds of several ranks itself")

ROD = Box([0, 0], [1, 2], names=("x", "t"))
RNG = np.random.default_rng(3)
MEASURED = ROD.sample(7, seed=2)
INSIDE = Condition(lambda u, x: u(x), on="interior", where=lambda x: x[:, 0] > 0.5, name="inside")
CONDITIONS = [
    Dirichlet(lambda x: np.cos(x[:, 0]), on="x=lower", component="u"),
    Initial(lambda x: np.sin(x[:, 0]), velocity=0.5, component="v", points=13),
    Periodic("x", component="v"),
    Interface("u", "v", at=("x", 0.4), k_left=2.0),
    Observations(MEASURED, RNG.normal(size=(7, 2)), noise=0.5, weight=2.0),
    IntegralCondition(lambda u, x: u(x)[:, :1], lambda t: t, at=("t", [0, 0.5, 1]), points=5),
    INSIDE,
    Dirichlet(0.0, points=MEASURED[:3], name="pins"),
    Neumann(0.1, where=lambda x: (x[:, 1] > 1) & (x[:, 0] == 1), component=0, points=9),
]
PROBLEM = Problem(
    ROD,
    lambda u, x: laplacian(u, x, over=(0, 1))[:, :1] - u(x)[:, 1:] ** 2,
    conditions=CONDITIONS,
    outputs=("u", "v"),
)
NAMES = [term.name for term in PROBLEM.terms]
WANTED = {
    "grid": Points(40),
    "random": Points(40, method="sobol"),
    "drawn anew": Points(40, boundary=30, method="uniform", resample_every=3),
    "numbers by name": Points(
        40, method={"boundary": "lhs"}, conditions={"dirichlet": 17, "inside": 11}
    ),
    "batches": Points(
        40, method="halton", resample_every=4, batch_size={"interior": 8, "neumann": 2}
    ),
    "batches of integrals": Points(40, batch_size={"integral": 2, "observations": 3}),
}


def feed(points: Any, rank: int = 0, size: int = 1, *, problem: Problem = PROBLEM) -> RankFeed:
    return make_feed(problem, points, rank=rank, size=size, seed=5, dtype="float64")


def of_term(made: RankFeed, name: str, step: int = 0) -> tuple[np.ndarray, ...]:
    rows = batch_at(made, step)[NAMES.index(name)]
    return tuple(np.asarray(array) for array in rows.arrays)


@local
@pytest.mark.parametrize("name", WANTED)
def test_the_ranks_have_together_what_one_rank_has(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sciml_par.training.points.sources.pool._MOST_STEPS", 5)
    monkeypatch.setattr("sciml_par.training.points.sources.pool._MOST_BATCHES", 5)
    assert_ranks_have_together_what_one_has(partial(feed, WANTED[name]), (0, 4))


@local
def test_how_many_points() -> None:
    def totals(name: str) -> dict[str, int]:
        return dict(zip(NAMES, feed(WANTED[name]).totals, strict=True))

    random = totals("random")
    assert [random[n] for n in ("initial", "neumann", "observations", "integral", "pins")] == [
        13,
        9,
        7,
        3,
        3,
    ]
    grid = totals("grid")
    assert (grid["initial"], grid["neumann"]) == (13, 9) and grid["interface"] == 6
    named = totals("numbers by name")
    assert (named["dirichlet"], named["inside"]) == (17, pytest.approx(11, abs=4))
    assert len(at(feed(WANTED["batches of integrals"]), 0)[NAMES.index("integral")]) == 2


@local
@pytest.mark.parametrize("name", ["random", "drawn anew", "batches"])
def test_values_belong_to_the_points_and_points_to_the_condition(name: str) -> None:
    for step in (0, 7):
        made = feed(WANTED[name], 1, 2)
        x, normals, values = of_term(made, "dirichlet", step)
        assert np.all(x[:, 0] == 0) and np.all(normals == [-1, 0])
        np.testing.assert_allclose(values, np.cos(x[:, :1]))
        x, _, values, velocity = of_term(made, "initial", step)
        assert np.all(x[:, 1] == 0)
        np.testing.assert_allclose(values, np.sin(x[:, :1]))
        assert np.all(velocity == 0.5)
        x, y = of_term(made, "periodic", step)
        assert np.all(x[:, 0] == 0) and np.all(y[:, 0] == 1)
        np.testing.assert_array_equal(x[:, 1], y[:, 1])
        assert np.all(of_term(made, "interface", step)[0][:, 0] == 0.4)
        assert np.all(of_term(made, "inside", step)[0][:, 0] > 0.5)
        x, *_ = of_term(made, "neumann", step)
        assert np.all((x[:, 1] > 1) & (x[:, 0] == 1))


@local
def test_points_are_drawn_anew_where_they_are_random() -> None:
    made = feed(WANTED["drawn anew"])
    first, same, other = (at(made, step) for step in (0, 2, 3))
    for i, name in enumerate(NAMES):
        np.testing.assert_array_equal(first[i], same[i])
        fixed = name in ("observations", "integral", "pins")
        assert np.array_equal(first[i], other[i]) == fixed, name


@local
def test_a_compiled_computation_serves_conditions_that_differ_in_values_only() -> None:
    def key(condition: Condition) -> Any:
        problem = Problem(ROD, lambda u, x: u(x), conditions=[condition], outputs=2)
        u = Field(lambda x: tf.concat([x, x], axis=1)[:, :2])
        arrays = problem.terms[1].points(9)
        traced = problem.terms[1].check(
            u, *(tf.TensorSpec([3, *a.shape[1:]], tf.float64) for a in arrays)
        )
        return traced.digest().key

    assert key(Dirichlet(np.sin, points=3)) == key(Dirichlet(np.cos, on="x=lower", weight=2.0))
    assert key(Dirichlet(1.0)) == key(Dirichlet(2.0)) != key(Dirichlet(2.0, component=0))
    assert key(Dirichlet((1.0, 2.0))) == key(Dirichlet((2.0, 3.0))) == key(Dirichlet(np.sin))
    robin = partial(Robin, on="x=lower")
    assert key(robin(1.0, 2.0, 3.0)) == key(robin(1.0, 2.0, 4.0)) != key(robin(2.0, 2.0, 3.0))
    assert key(Initial(1.0)) != key(Initial(1.0, velocity=0.0)) == key(Initial(2.0, velocity=1.0))
    joined = partial(Interface, 0, 1, at=("x", 0.4))
    assert key(joined()) == key(joined(jump=1.0, flux_jump=2.0)) != key(joined(k_left=2.0))
    assert key(Periodic("x")) == key(Periodic(0)) != key(Periodic(1))
    one, two = (Observations(MEASURED, np.full((7, 2), value)) for value in (0.0, 1.0))
    assert key(one) == key(two) is not None
    assert key(INSIDE) == key(Condition(INSIDE.function, on="x=lower")) is not None

    class Own(Dirichlet):
        def __init__(self, factor: float) -> None:
            super().__init__()
            object.__setattr__(self, "factor", factor)

        def residual(self, u: Any, *arrays: Any) -> Any:
            return self.factor * super().residual(u, *arrays)

    assert key(Own(1.0)) == key(Own(1.0)) != key(Own(2.0))


@local
@pytest.mark.parametrize(
    ("points", "message"),
    [
        (Points(40, conditions={"observations": 5}), "'observations', which has its own"),
        (Points(40, conditions={"integral": MEASURED}), "'integral', which has its own"),
        (Points(40, conditions={"pins": 5}), "'pins', which has its own"),
        (Points(40, conditions={"pin": 5}), "the condition 'pin', and the loss has"),
    ],
)
def test_what_is_refused(points: Points, message: str) -> None:
    with pytest.raises(InputError, match=message):
        feed(points)


def network(outputs: int = 2) -> MLP:
    return MLP(2, outputs, width=5, depth=1, seed=7, dtype="float64")


def test_loss_gradient_and_jacobian_are_those_of_one_rank() -> None:
    world = sp.current_world()
    serial = Engine(PROBLEM, world.alone, network(), points=Points(23, method="sobol"))
    expected, expected_gradient = serial.value_and_gradient()
    if sp.size() > 1:
        shared = Engine(PROBLEM, world.communicator, network(), points=Points(23, method="sobol"))
        loss, gradient = shared.value_and_gradient()
        assert loss == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-12)
    batch = serial.feed.whole(0)
    serial.objective.prepare(Jacobian, serial.parameters, batch)
    found = serial.residuals_and_jacobian(serial.parameters, batch)
    r, jacobian = (np.concatenate(each, axis=-1)[0] for each in found)
    np.testing.assert_allclose(r @ r, expected, rtol=1e-12)
    np.testing.assert_allclose(2 * jacobian @ r, expected_gradient, rtol=1e-8, atol=1e-12)


@local
def test_the_units_of_the_time_do_not_change_where_the_points_are() -> None:
    """In seconds or in days: as many on each axis, and as many at the beginning."""
    layouts = []
    for duration in (1.0, 100.0, 1e-4):
        problem = Problem(
            Box([0, 0], [1, 1]) * Time(0, duration),
            lambda u, x: u(x),
            conditions=[Initial(0.0), Dirichlet(0.0, where=lambda x: x[:, 0] < 0.02)],
        )
        for scattered in (False, True):
            made = make_feed(
                problem, 4000, rank=0, size=1, seed=0, dtype="float64", scattered=scattered
            )
            x = made.interior / [1, 1, duration]
            layouts.append((scattered, np.round(np.sort(x, axis=0), 9).tolist(), made.totals))
            assert min(len(np.unique(np.round(c, 9))) for c in x.T) >= 15
            assert made.totals[1] >= 240 and made.totals[2] >= 63
    assert layouts[0::2] == [layouts[0]] * 3 and layouts[1::2] == [layouts[1]] * 3
