"""Programs that once got a wrong number without a word."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table, on_root, on_two
from setups import UNIT, X, bent, loaded, rod, solve

from sciml_par.networks import MLP
from sciml_par.problems import (
    Dirichlet,
    Initial,
    Interval,
    Observations,
    Problem,
    Time,
    Unknown,
    derivative,
    laplacian,
)
from sciml_par.training import RAD, Adam, Checkpoint, Ensemble, Points, TargetLoss, WallTime

pytestmark = pytest.mark.long
table = Table()


# An equation that is not the one before


class Load:
    """A number, and ways to read it."""

    k = 1.0

    def __init__(self) -> None:
        self.own, self.levels = 1.0, [1.0]
        Load.k = 1.0

    @staticmethod
    def fixed() -> float:
        return Load.k

    @classmethod
    def of_class(cls) -> float:
        return cls.k

    def of_object(self) -> float:
        return self.own

    def __call__(self) -> float:
        return self.levels[-1]


ENTRIES: dict[str, float] = {}
ELEMENTS = np.ones(3)
PLACES: dict[str, tuple[Any, Any]] = {
    "an entry of a dictionary": (lambda: ENTRIES["k"], lambda load, k: ENTRIES.update(k=k)),
    "an element of an array": (lambda: ELEMENTS[1], lambda load, k: ELEMENTS.fill(k)),
    "a class attribute": (lambda: Load.k, lambda load, k: setattr(Load, "k", k)),
    "what a static method reads": (Load.fixed, lambda load, k: setattr(Load, "k", k)),
    "what a class method reads": (Load.of_class, lambda load, k: setattr(Load, "k", k)),
    "an attribute": (Load.of_object, lambda load, k: setattr(load, "own", k)),
    "a list in an object": (Load.__call__, lambda load, k: load.levels.append(k)),
}
"""How a residual reads its load, and how a program changes it."""


def _under_load(place: str) -> tuple[Problem, Any]:
    """Return the rod under a load of 1, and what changes the load."""
    (read, write), load = PLACES[place], Load()
    write(load, 1.0)
    bound = functools.partial(read, load) if read in (Load.of_object, Load.__call__) else read
    return loaded(bound), functools.partial(write, load)


def _trained_again(place: str) -> list[Any]:
    problem, change = _under_load(place)
    first = solve(problem).predict(X).mean
    change(8.0)
    return [(first, bent(1.0)), (solve(problem).predict(X).mean, bent(8.0))]


def _resumed(place: str, folder: Path) -> Any:
    problem, change = _under_load(place)
    options: Any = {"optimizer": Adam(1e-2), "checkpoint": Checkpoint(folder / "run")}
    solve(problem, **options, steps=10)
    change(8.0)
    return solve(problem, **options, steps=20, resume="auto")


for place in PLACES:
    table.add(
        Row(f"trained again with {place}", functools.partial(_trained_again, place), gives=1e-4),
        Row(
            f"resumed with {place}",
            lambda folder, place=place: _resumed(place, folder),
            says="checkpoint|resume",
        ),
    )


@table.gives(1e-4)
def trained_again_with_another_value_beside_an_unknown() -> Any:
    class B:
        v = 1.0

    problem = Problem(
        UNIT,
        lambda u, x, *, D: derivative(u, x, 0) - D,
        conditions=[
            Dirichlet(lambda x, *, D: B.v * D + 0 * x, on="right"),
            Observations([[0.0], [0.5]], [[0.0], [0.5]]),
        ],
        unknowns={"D": Unknown(0.5)},
    )
    first = solve(problem).members[0].best_loss
    B.v = 2.0  # contradicts the observations, so that the loss cannot vanish
    return float(first < 1e-8 and solve(problem).members[0].best_loss > 1e-3), 1.0


# Members and files


@table.gives(1e-4, on_two)
def members_whose_fields_are_close() -> Any:
    def problem(factor: float) -> Problem:
        ansatz = lambda N, x: factor * (1 + 0.0 * N(x) + x * (1 - x))
        return Problem(UNIT, lambda u, x: laplacian(u, x) + 2 * factor, ansatz=ansatz)

    pairs = []
    for factors in ((1e-5, 2e-5), (1.0, 1.0 + 1e-9)):
        problems = [problem(factor) for factor in factors]
        mode = Ensemble(members=2, problems=problems)
        result = solve(problems[0], mode=mode, optimizer=Adam(1e-3), steps=2)
        found = on_root(lambda r=result: r.predict([[0.0]]).members[:, 0, 0])
        if found is not None:
            pairs += [
                (found[0] / factors[0] - 1, 0.0),
                (found[1] / factors[0] - 1, 1.0 * (factors[0] < 1)),
            ]
            pairs.append((found[1] - found[0] > 0, True))
    return [(np.float64(a), np.float64(b)) for a, b in pairs]


@table.gives(0.0, or_says="seed")
def a_seed_that_is_bound() -> Any:
    network = functools.partial(MLP, width=8, depth=1, seed=1)
    first = solve(rod(), network=network, seed=5, steps=2)
    second = solve(rod(), network=network, seed=6, steps=2)
    return first.predict(X).mean, second.predict(X).mean


@table.says("dtype|float64|precision")
def a_precision_that_is_bound() -> Any:
    network = functools.partial(MLP, width=8, depth=1, dtype="float64")
    return solve(rod(), network=network, precision="float32", steps=2)


# Points


@table.gives(1e-3, on_two, or_says="couple|depends on the other points|IntegralCondition")
def a_mean_over_the_points_in_a_residual() -> Any:
    # u′ = 2 ∫u by the mean over midpoints, u(0) = 1: u = 1 + 2 c x with c = 1 + c
    at = ((np.arange(60) + 0.5) / 60)[:, None]
    problem = Problem(
        UNIT,
        lambda u, x: derivative(u, x, 0) - tf.reduce_mean(u(x)) + 0 * x,
        conditions=[Dirichlet(1.0, on="left")],
    )
    return solve(problem, points=at).predict(X).mean, 1 + 2 * X


def _slope_from(begin: float, **options: Any) -> Any:
    slope = lambda u, x: derivative(u, x, 0) - 1
    problem = Problem(Interval(begin, begin + 1), slope, conditions=[Dirichlet(0.0, on="left")])
    return solve(problem, **options)


@table.says("along 't'.*a point moves|along 't'.*become")
def scattered_points_far_from_the_origin() -> Any:
    domain = Interval(0, 1) * Time(1e6, 1e6 + 1)
    problem = Problem(domain, lambda u, x: derivative(u, x, "t"), conditions=[Initial(0.0)])
    solve(problem, precision="float32", points=Points(1000, method="sobol"), steps=1)


@table.says("2 points become 1")
def observations_closer_than_single_precision() -> Any:
    seen = Observations([[0.5], [0.5 + 1e-9]], [[1.0], [2.0]])
    problem = Problem(UNIT, laplacian, conditions=[Dirichlet(0.0), seen])
    solve(problem, precision="float32", steps=1)


@table.says("Result.predict: .* 2 points become 1")
def a_difference_quotient_in_single_precision() -> Any:
    result = solve(rod(), precision="float32", steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result.predict(np.linspace(0, 1, 1001))
    result.predict([[0.5], [0.5 + 1e-9]])


# Residuals and conditions


@table.gives(1e-4)
def functions_that_return_a_number() -> Any:
    def with_ends(left: Any, right: Any) -> Problem:
        ends = [Dirichlet(left, on="left"), Dirichlet(right, on="right")]
        return Problem(UNIT, laplacian, conditions=ends)

    ends = [Dirichlet(lambda x: 0, on="left"), Dirichlet(lambda x, *, D: D, on="right")]
    seen = Observations([[0.5]], [[1.0]])
    unknown = Problem(UNIT, laplacian, conditions=[*ends, seen], unknowns={"D": Unknown(0.5)})
    pairs = with_ends(lambda x: 0, lambda x: 1.0), with_ends(0, lambda x: np.float32(1))
    return [
        *((solve(problem).predict(X).mean, X) for problem in pairs),
        (solve(unknown).predict(X).mean, 2 * X),
    ]


@table.says("if it is for one component, name it, as component=0")
def one_column_for_two_outputs() -> Any:
    conditions = [Dirichlet(lambda x: 0 * x[:, :1])]
    return solve(Problem(UNIT, lambda u, x: laplacian(u, x), conditions=conditions, outputs=2))


@table.gives(5e-2, on_two)
def a_fit_of_data_by_batches() -> Any:
    at = np.linspace(0, 1, 20)[:, None]
    problem = Problem(UNIT, [], conditions=[Observations(at, np.sin(at))])
    batches = Points(batch_size={"observations": 7})
    result = solve(problem, points=batches, optimizer=Adam(1e-2), steps=1000)
    return [
        (result.predict(X).mean, np.sin(X)),
        (float(np.isnan(result.members[0].validation_loss)), 1.0),  # no points but its own
    ]


@table.says("has no equation, so adapt has no points")
def points_by_the_residual_of_no_equation() -> Any:
    problem = Problem(UNIT, [], conditions=[Observations(X, X)])
    return solve(problem, points=Points(adapt=RAD(10)), optimizer=Adam(), steps=2)


@table.gives(0.0)
def more_steps_than_a_wall_time_allows() -> Any:
    problem, forever = rod(), {"optimizer": Adam(1e-3), "steps": 2_000_000_000}
    solve(problem, **forever, stop=TargetLoss(1e9))  # compiles
    result = solve(problem, **forever, stop=WallTime(seconds=2))
    return float(len(result.history[0].steps) > 50), 1.0


table.add(
    Row(
        "single precision far from the origin",
        lambda: _slope_from(1e8, precision="float32", optimizer=Adam(1e-2), steps=1000),
        says="become 1.*precision='float64'",
    ),
    Row(
        "single precision a million from the origin",
        lambda: _slope_from(1e6, precision="float32", points=40),
        says="40 points become 17",
    ),
    Row(
        "points not far apart for single precision",
        lambda: _slope_from(1e4, precision="float32", points=40, steps=3),
        says="a point moves by up to",
    ),
    Row(
        "double precision far from the origin",
        lambda: [(_slope_from(begin).predict(begin + X).mean, X) for begin in (1e6, 1e8)],
        gives=1e-4,
    ),
    Row(
        "a mean over the points as a boundary value",
        lambda: solve(Problem(UNIT, laplacian, conditions=[Dirichlet(lambda x: np.mean(x))])),
        says="must have the shape",
    ),
    Row(
        "a problem of nothing", lambda: Problem(UNIT, []), says="at least one residual or condition"
    ),
    Row(
        "one point in an interval",
        lambda: solve(rod(), points=Points(1, boundary=1), optimizer=Adam(), steps=2),
        says="number of points on a grid of .* integer of at least 2, got 1",
    ),
)

test_programs = table.as_test()
