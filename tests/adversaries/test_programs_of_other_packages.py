"""Programs as users of other packages write them: space and time, units, members, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from outcomes import Row, Table, on_root, on_two
from scipy.integrate import solve_ivp
from setups import UNIT, X, rod
from setups import wider as solve

from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Initial,
    Interval,
    Neumann,
    Observations,
    Problem,
    Time,
    Unknown,
    derivative,
    gradient,
    laplacian,
)
from sciml_par.training import Adam, Checkpoint, Ensemble, Points

pytestmark = pytest.mark.long
table = Table()
PLACES = np.array([[0.5, 0.3], [0.25, 0.8], [0.7, 1.0]])
SQUARE = Box([0, 0], [1, 1])
ROD_IN_TIME = UNIT * Time(0, 1)
WARM = Initial(lambda x: np.sin(np.pi * x[:, :1]))


# Space and time


@table.says('over="space"')
def heat_by_the_laplacian() -> Any:
    heat = lambda u, x: derivative(u, x, "t") - 0.1 * laplacian(u, x)
    ends = Dirichlet(0.0, on=["left", "right"])
    return solve(Problem(ROD_IN_TIME, heat, conditions=[ends, WARM])).predict(PLACES).mean


@table.says("the faces 'initial' and 'final', where the normal derivative is ∂u/∂t")
def insulation_without_the_names_of_faces() -> Any:
    heat = lambda u, x: derivative(u, x, "t") - 0.1 * derivative(u, x, "x", "x")
    return solve(Problem(ROD_IN_TIME, heat, conditions=[Neumann(0.0), WARM])).predict(PLACES).mean


@table.gives(1e-3)
def advection_from_its_end_backwards() -> Any:
    problem = Problem(
        ROD_IN_TIME,
        lambda u, x: derivative(u, x, "t") + derivative(u, x, "x"),
        conditions=[Dirichlet(lambda x: np.sin(x[:, :1] - x[:, 1:]), on=["final", "right"])],
    )
    return solve(problem, points=200).predict(PLACES).mean, np.sin(PLACES[:, :1] - PLACES[:, 1:])


@table.gives(1e-4)
def stiff_relaxation_to_a_cosine() -> Any:
    problem = Problem(
        Time(0, 2),
        lambda u, t: derivative(u, t, 0) / 50 + u(t) - tf.cos(t),
        conditions=[Initial(0.0)],
    )
    t = np.linspace(0, 2, 9)
    rate = lambda t, y: -50 * (y - np.cos(t))
    truth = solve_ivp(rate, (0, 2), [0.0], t_eval=t, rtol=1e-9, atol=1e-11, method="Radau")
    return solve(problem, points=200, steps=300).predict(t).mean[:, 0], truth.y[0]


# Conditions, coefficients, complex numbers


@table.gives(1e-4, on_two)
def an_absorbing_end_in_complex_numbers() -> Any:
    k = 4.0

    def radiation(u: Any, x: Any, n: Any) -> Any:  # u′ = i k u
        slope, (re, im) = derivative(u, x, 0) * n, tf.split(u(x), 2, axis=1)
        return slope + k * tf.concat([im, -re], axis=1)

    problem = Problem(
        UNIT,
        lambda u, x: laplacian(u, x) + k**2 * u(x),
        conditions=[
            Dirichlet((1.0, 0.0), on="left", weight=100.0),
            Condition(radiation, on="right", weight=10.0),
        ],
        outputs=("re", "im"),
    )
    wave = np.concatenate([np.cos(k * X), np.sin(k * X)], axis=1)
    return solve(problem, points=60, steps=120).predict(X).mean, wave


@table.gives(1e-4, on_two)
def a_value_at_a_corner_fixes_the_constant() -> Any:
    def slope(u: Any, x: Any, n: Any) -> Any:
        return tf.reduce_sum((gradient(u, x) - x[:, ::-1]) * n, axis=1, keepdims=True)

    conditions = [Condition(slope, name="slope"), Dirichlet(1.0, points=[[1, 1]])]
    problem = Problem(SQUARE, laplacian, conditions=conditions)
    found = solve(problem, points=200, steps=80).predict(PLACES).mean
    return found, PLACES[:, :1] * PLACES[:, 1:]


@table.gives(1e-3)
def a_notch_with_its_sides_by_name() -> Any:
    exact = lambda x: x[:, :1] ** 2 - x[:, 1:] ** 2
    slope = Neumann(lambda x: 2 * x[:, :1], on=["x=upper 1", "x=lower 2"])
    sides = Dirichlet(exact, on=["left", "bottom", "top", "y=lower 2"])
    notch = Box([0, 0], [2, 2]) - Box([1, 1], [2, 2])
    problem = Problem(notch, laplacian, conditions=[sides, slope], input_scaling=True)
    found = solve(problem, points=Points(150, boundary=100), steps=100).predict(PLACES).mean
    return found, exact(PLACES)


@table.gives(2e-2)
def a_permeability_of_a_millionth_by_adam() -> Any:
    at = np.linspace(0.1, 0.9, 9)[:, None]
    seen = Observations(at, at * (1 - at), weight=100.0)
    problem = rod(
        lambda u, x, *, k: 1e6 * k * laplacian(u, x) + 4,
        conditions=[Dirichlet(0.0, weight=100.0), seen],
        unknowns={"k": Unknown(1e-6, lower=1e-7, upper=1e-5)},
    )
    single = {"optimizer": Adam(5e-3), "precision": "float32", "points": 40}
    return solve(problem, steps=8000, **single).unknowns["k"].mean, np.float64(2e-6)


@table.gives(1e-4)
def observations_weighed_by_their_errors() -> Any:
    errors = np.array([1.0, 0.5])
    seen = Observations([[0.5], [0.5]], [[0.0], [1.0]], noise=errors)
    problem = rod(lambda u, x: derivative(u, x, 0), conditions=[seen])
    return solve(problem, points=30).predict([[0.5]]).mean, np.array([[0.8]])


@table.gives(1e-4)
def a_solution_of_a_millionth_in_si_units() -> Any:
    problem = rod(lambda u, x: 1e11 * laplacian(u, x) + 2e5)
    return solve(problem).predict(X).mean, 1e-6 * X * (1 - X)


@table.says("no solution has all conditions|or there is none")
def insulation_all_around_a_source() -> Any:
    conditions = [Neumann(0.0, weight=100.0)]
    return solve(rod(conditions=conditions), optimizer=Adam(1e-2), steps=300)


# Predictions, members, files


@table.gives(1e-12, on_two)
def an_evaluation_domain_that_is_smaller() -> Any:
    kinked = lambda x: x * (1 - x) + (x > 0.5)  # right where it is evaluated
    result = solve(rod(exact=kinked), evaluation_domain=Interval(0.1, 0.4))
    seen = result.members[0].prediction
    ends = np.array([seen.x.min(), seen.x.max()])
    return [(ends, np.array([0.1, 0.4])), (float(seen.relative_l2_error < 1e-3), 1.0)]


@table.gives(1e-12, on_two)
def seven_members_and_two_of_them_alone() -> Any:
    seven = solve(rod(), steps=5, mode=Ensemble(members=7))
    seeds = [member.seed for member in seven.members[5:]]
    alone = [solve(rod(), steps=5, mode=Ensemble(members=1, seeds=[seed])) for seed in seeds]
    return on_root(
        lambda: (
            seven.predict(X).members[5:],
            np.concatenate([each.predict(X).members for each in alone]),
        )
    )


@table.gives(1e-10, on_two)
def resumed_with_the_last_weights(folder: Path) -> Any:
    kept = {"optimizer": Adam(1e-2), "keep": "last"}
    whole = solve(rod(), steps=60, **kept)
    solve(rod(), steps=30, checkpoint=Checkpoint(folder), **kept)
    rest = solve(rod(), steps=60, checkpoint=Checkpoint(folder), resume=True, **kept)
    pairs = [(rest, whole), (rest.using("best"), whole.using("best"))]
    return [(one.predict(X).mean, other.predict(X).mean) for one, other in pairs]


table.add(
    Row(
        "an output transform as in deepxde",
        lambda: solve(rod(conditions=[], ansatz=lambda x, y: x * (1 - x) * y)),
        says=r"a Field is a function of points, not values: write u\(x\)",
    ),
    Row(
        "a prediction far outside of the domain",
        lambda: solve(rod(), steps=2).predict([[0.5], [7.0]]).mean,
        says="1 of 2 points lie outside of the domain that the training was on",
    ),
    Row(
        "an evaluation domain of another dimension",
        lambda: solve(rod(), steps=2, evaluation_domain=SQUARE),
        says="expected evaluation_domain to be a domain of 1 coordinates",
    ),
    Row(
        "a callback of two arguments",
        lambda: solve(rod(), steps=2, callbacks=[lambda epoch, logs: None]),
        says=r"functions f\(progress\).* of \(epoch, logs\)",
    ),
)

test_programs = table.as_test()
