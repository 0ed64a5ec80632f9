"""Families of problems: `learn` once, then queries that were not used, against spectral references.

    python benchmarks/families.py [NAME ...] [--tolerance 1e-5] [--queries 100]

A line for each family: seconds of the processor for `learn`, and for `solve` of a query at the same
tolerance; after how many queries the family pays; true relative errors of regression
(level 0) and of the reduced basis (level 1), median and largest; milliseconds of a query with its
error, alone and among all at once; for how many the error is said to be known; and estimated over
true error, 5 % to 95 % of these, and the least. References are Chebyshev collocation, of evolutions
with SciPy's Radau at 1e-10. Writes benchmarks/results/families.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from _runner import RESULTS, measure, parse
from scipy.integrate import solve_ivp

import sciml_par as sp
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Problem,
    Smooth,
    Time,
    Unknown,
    UnknownFunction,
    derivative,
    gradient,
    laplacian,
)

SQUARE, N = Box([0, 0], [1, 1]), 40


class Family(NamedTuple):
    """A problem with inputs, and its solution for given inputs on the nodes of a grid."""

    problem: Problem
    reference: Callable[..., Any]  # (**inputs) -> u: [n]
    grid: Any  # [n, d]
    weights: Any  # of its points in L2, [n]


def chebyshev(n: int) -> tuple[Any, Any]:
    """Return nodes on [0, 1] and the matrix of the derivative there (Trefethen 2000)."""
    k = np.arange(n + 1)
    x = np.cos(np.pi * k / n)
    c = np.where((k == 0) | (k == n), 2.0, 1.0) * (-1.0) ** k
    d = np.outer(c, 1 / c) / (x[:, None] - x + np.eye(n + 1))
    d -= np.diag(d.sum(axis=1))
    return (1 - x) / 2, -2 * d


def weights_of(x: Any) -> Any:
    """Return weights of nodes of a line, from the middles between them."""
    middles = np.concatenate([[x.min()], np.sort((x[1:] + x[:-1]) / 2), [x.max()]])
    return np.diff(middles)[np.argsort(np.argsort(x))]


def on_square(coefficients: Callable[..., Any]) -> tuple[Callable[..., Any], Any, Any]:
    """Return a solver of −D Δu + b·∇u + c u = f with u = 0 on the boundary, grid and weights."""
    x, d = chebyshev(N)
    one, inside = np.eye(N + 1), np.zeros((N + 1, N + 1), bool)
    inside[1:-1, 1:-1] = True
    inner = inside.ravel()
    dx, dy = np.kron(d, one)[:, inner], np.kron(one, d)[:, inner]
    dxx, dyy = np.kron(d @ d, one)[:, inner], np.kron(one, d @ d)[:, inner]
    dx, dy, dxx, dyy = (m[inner] for m in (dx, dy, dxx, dyy))
    grid = np.stack([g.ravel() for g in np.meshgrid(x, x, indexing="ij")], axis=1)

    def solve(**inputs: Any) -> Any:
        diffusion, bx, by, c, f = coefficients(grid[inner], **inputs)
        column = [np.broadcast_to(v, inner.sum())[:, None] for v in (bx, by)]
        a = -diffusion * (dxx + dyy) + column[0] * dx + column[1] * dy + c * np.eye(inner.sum())
        u = np.zeros(len(grid))
        u[inner] = np.linalg.solve(a, f)
        return u

    return solve, grid, np.kron(weights_of(x), weights_of(x))


def bump(x: Any, a: Any, b: Any, m: Any) -> Any:
    """A source of width 0.1 at (a, b); m is NumPy or TensorFlow."""
    return m.exp(-((x[:, :1] - a) ** 2 + (x[:, 1:2] - b) ** 2) / 0.02)


def helmholtz() -> Family:
    """Δu + k² u = g(x − s): k from 1 to 9 passes five resonances."""

    def equation(u: Any, x: Any, *, k: Any, a: Any, b: Any) -> Any:
        return laplacian(u, x) + k**2 * u(x) - bump(x, a, b, tf)

    unknowns = {"k": Unknown(5.0, lower=1, upper=9), **source()}
    found = on_square(lambda x, k, a, b: (1.0, 0.0, 0.0, -(k**2), -bump(x, a, b, np)[:, 0]))
    problem = Problem(SQUARE, equation, conditions=[Dirichlet(0.0)], unknowns=unknowns)
    return Family(problem, *found)


def source() -> dict[str, Unknown]:
    """Where a source is."""
    return {name: Unknown(0.5, lower=0.3, upper=0.7) for name in "ab"}


def transport() -> Family:
    """−D Δu + (cos w, sin w)·∇u = g(x − s)."""

    def equation(u: Any, x: Any, *, D: Any, w: Any, a: Any, b: Any) -> Any:  # noqa: N803
        along = tf.cos(w) * derivative(u, x, "x") + tf.sin(w) * derivative(u, x, "y")
        return (along - bump(x, a, b, tf)) / D - laplacian(u, x)

    unknowns = {
        "D": Unknown(0.3, lower=0.1, upper=1.0),
        "w": Unknown(3.0, lower=0.0, upper=2 * np.pi),
        **source(),
    }
    found = on_square(
        lambda x, D, w, a, b: (D, np.cos(w), np.sin(w), 0.0, bump(x, a, b, np)[:, 0])  # noqa: N803
    )
    problem = Problem(SQUARE, equation, conditions=[Dirichlet(0.0)], unknowns=unknowns)
    return Family(problem, *found)


def cooling() -> Family:
    """u_t = D u_xx − k (u² + u), u(0) = sin πx: numbers in a nonlinear evolution."""
    x, d = chebyshev(32)
    times = np.linspace(0, 1, 21)
    grid = np.stack([g.ravel() for g in np.meshgrid(x, times, indexing="ij")], axis=1)
    second = (d @ d)[1:-1, 1:-1]

    def equation(u: Any, x: Any, *, D: Any, k: Any) -> Any:  # noqa: N803
        rate = k * (u(x) ** 2 + u(x))
        return derivative(u, x, "t") - D * derivative(u, x, "x", "x") + rate

    def solve(D: float, k: float) -> Any:  # noqa: N803
        def rates(_: float, u: Any) -> Any:
            return D * second @ u - k * (u**2 + u)

        u = np.zeros((len(x), len(times)))
        start = np.sin(np.pi * x[1:-1])
        of = rates, (0, 1), start, "Radau", times
        u[1:-1] = solve_ivp(*of, rtol=1e-10, atol=1e-13).y
        return u.ravel()

    problem = Problem(
        Interval(0, 1) * Time(0, 1),
        equation,
        conditions=[
            Initial(lambda x: np.sin(np.pi * x[:, :1])),
            Dirichlet(0.0, on=["left", "right"]),
        ],
        unknowns={"D": Unknown(0.1, lower=0.05, upper=0.5), "k": Unknown(1.0, lower=0, upper=3)},
    )
    return Family(problem, solve, grid, np.kron(weights_of(x), weights_of(times)))


def loaded() -> Family:
    """u″ = c u³ − f(x) on a line: a function and a number."""
    x, d = chebyshev(300)
    second = (d @ d)[1:-1, 1:-1]

    def equation(u: Any, x: Any, *, c: Any, f: Any) -> Any:
        return laplacian(u, x) - c * u(x) ** 3 + f(x)

    def solve(c: float, f: Any) -> Any:
        u, values = np.zeros(len(x)), np.asarray(f(tf.constant(x[:, None])))[1:-1, 0]
        for _ in range(30):
            r = second @ u[1:-1] - c * u[1:-1] ** 3 + values
            step = np.linalg.solve(second - np.diag(3 * c * u[1:-1] ** 2), r)
            u[1:-1] -= step
            if np.abs(step).max() < 1e-14:
                break
        return u

    problem = Problem(
        Interval(0, 1),
        equation,
        conditions=[Dirichlet(0.0)],
        unknowns={
            "c": Unknown(1.0, lower=0.1, upper=10.0),
            "f": UnknownFunction(0.0, prior=Smooth(length=0.3, amplitude=5.0)),
        },
    )
    return Family(problem, solve, x[:, None], weights_of(x))


def reaction() -> Family:
    """u_t = 0.01 u_xx + 0.01 u² + f(x) from 0, of which corners say 0 and f: u is rough there."""
    x, d = chebyshev(64)
    times = np.linspace(0, 1, 51)
    grid = np.stack([g.ravel() for g in np.meshgrid(x, times, indexing="ij")], axis=1)
    second = (d @ d)[1:-1, 1:-1]

    def equation(u: Any, x: Any, *, f: Any) -> Any:
        diffusion = 0.01 * derivative(u, x, "x", "x")
        return derivative(u, x, "t") - diffusion - 0.01 * u(x) ** 2 - f(x)

    def solve(f: Any) -> Any:
        values = np.asarray(f(tf.constant(x[1:-1, None])))[:, 0]

        def rates(_: float, u: Any) -> Any:
            return 0.01 * second @ u + 0.01 * u**2 + values

        def jacobian(_: float, u: Any) -> Any:
            return 0.01 * second + np.diag(0.02 * u)

        u = np.zeros((len(x), len(times)))
        of = rates, (0, 1), u[1:-1, 0], "Radau", times
        u[1:-1] = solve_ivp(*of, jac=jacobian, rtol=1e-9, atol=1e-11).y
        return u.ravel()

    problem = Problem(
        Interval(0, 1) * Time(0, 1),
        equation,
        conditions=[Initial(0.0), Dirichlet(0.0, on=["left", "right"])],
        unknowns={"f": UnknownFunction(0.0, of="x", prior=Smooth(length=0.2, amplitude=1.0))},
    )
    return Family(problem, solve, grid, np.kron(weights_of(x), weights_of(times)))


def darcy() -> Family:
    """−div(a ∇u) = 1 with log a drawn, of deviation 1: a differs by a factor of 25 in a field."""

    def equation(u: Any, x: Any, *, a: Any) -> Any:
        return laplacian(u, x) + (tf.reduce_sum(gradient(a, x) * gradient(u, x), 1, True) + 1) / a(
            x
        )

    def coefficients(x: Any, a: Any) -> tuple[Any, ...]:
        points = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(points)
            values = a(points)
        slopes = np.asarray(tape.gradient(values, points) / values)
        return 1.0, -slopes[:, 0], -slopes[:, 1], 0.0, 1 / np.asarray(values)[:, 0]

    prior = Smooth(length=0.3, amplitude=1.0, log=True)
    problem = Problem(
        SQUARE,
        equation,
        conditions=[Dirichlet(0.0)],
        unknowns={"a": UnknownFunction(1.0, lower=0.0, prior=prior)},
    )
    return Family(problem, *on_square(coefficients))


FAMILIES = {f.__name__: f for f in (helmholtz, transport, cooling, loaded, reaction, darcy)}


def measured(name: str, tolerance: float, queries: int) -> dict[str, Any]:
    """Learn a family and answer queries that it has not seen."""
    problem, reference, grid, weights = FAMILIES[name]()
    began = time.process_time()
    operator = sp.learn(problem, tolerance=tolerance, progress=False)
    offline = time.process_time() - began
    many = operator.draw(queries, seed=99)
    one = [{name: values[k] for name, values in many.items()} for k in range(queries)]
    exact = np.stack([reference(**each) for each in one])
    root = np.sqrt(weights)
    sizes = np.linalg.norm(root * exact, axis=1)
    operator(**many), operator(**one[0])
    began = time.process_time()
    answers = operator(**many)
    together = (time.process_time() - began) / queries
    began = time.process_time()
    for each in one:
        operator(**each)
    alone = (time.process_time() - began) / queries
    u = answers.predict(grid)[..., 0]
    true = np.linalg.norm(root * (u - exact), axis=1) / sizes
    regression = operator.regress(grid, **many)[..., 0]
    level0 = np.linalg.norm(root * (regression - exact), axis=1) / sizes
    ratio = (answers.relative / true)[np.isfinite(answers.relative)]
    tried = {
        t: [operator(tolerance=t, seconds=10.0, **each) for each in one[:5]]
        for t in (1e-3, 1e-5, 1e-7)
    }
    false = 0
    for t, found in tried.items():
        for k, answer in enumerate(found):
            error = np.linalg.norm(root * (answer(grid)[:, 0] - exact[k])) / sizes[k]
            false += answer.error.relative <= t and error > 3 * t
    began = time.process_time()
    for each in one[:3]:
        sp.solve(problem.with_values(each), tolerance=tolerance, seconds=30.0, progress=False)
    solved = (time.process_time() - began) / 3
    return {
        "offline": offline,
        "solve": solved,
        "pays": offline / max(solved - together, 1e-9),
        "level0": np.median(level0),
        "level1": np.median(true),
        "worst": true.max(),
        "alone": 1e3 * alone,
        "together": 1e3 * together,
        "known": len(ratio) / queries,
        "low": np.percentile(ratio, 5) if len(ratio) else np.nan,
        "high": np.percentile(ratio, 95) if len(ratio) else np.nan,
        "least": ratio.min() if len(ratio) else np.nan,
        "false": int(false),
    }


COLUMNS = {
    "family": "name:<12",
    "learn": "offline:7.1f",
    "solve": "solve:7.2f",
    "pays": "pays:6.0f",
    "level 0": "level0:9.1e",
    "level 1": "level1:9.1e",
    "largest": "worst:9.1e",
    "ms": "alone:6.2f",
    "of many": "together:8.2f",
    "known": "known:6.0%",
    "5 %": "low:6.2f",
    "95 %": "high:6.2f",
    "least": "least:6.2f",
    "false": "false:6.0f",
}


def main() -> None:
    options = parse(__doc__, names=FAMILIES, tolerance=1e-5, queries=100)
    sp.init()
    cases = [{"name": name, "tolerance": options.tolerance} for name in options.names]
    measure(
        cases, COLUMNS, partial(measured, queries=options.queries), file=RESULTS / "families.json"
    )


if __name__ == "__main__":
    main()
