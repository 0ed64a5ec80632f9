"""The inverse problems of `coverage.py`, for the package and with their exact solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import _coverage_exact as exact
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Dirichlet,
    Initial,
    Interval,
    Neumann,
    Observations,
    Problem,
    Residual,
    Time,
    Unknown,
    derivative,
    divergence,
    gradient,
    jacobian,
    laplacian,
)

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """An inverse problem whose solution is known for all coefficients.

    Attributes
    ----------
    unknowns : the names of the numbers that are sought, and their true values.
    others : names and true values of numbers that the observations determine as well, such as
        initial values, which the problem does not name.
    solution : coefficients [B, p] of both kinds and points [k, d] -> [B, k, m].
    places : where it is observed, [n, d].
    bands : where bands are judged, [k, d].
    problem : (observed values [n, m], σ, start values) -> the problem.
    network : makes the network.
    steps, more_steps : of the first training, and of those that start from it.
    points : in the interior.
    """

    name: str
    unknowns: dict[str, float]
    solution: Callable[[FloatArray, FloatArray], FloatArray]
    places: FloatArray
    bands: FloatArray
    problem: Callable[[FloatArray, float, dict[str, float]], Problem]
    points: int
    others: dict[str, float] = field(default_factory=dict)
    network: Any = partial(MLP, width=10, depth=2)
    steps: int = 200
    more_steps: int = 20

    @property
    def true(self) -> FloatArray:
        """All coefficients, [p]."""
        return np.array([*self.unknowns.values(), *self.others.values()])

    @property
    def observed(self) -> FloatArray:
        """Values without errors, [n, m]."""
        return self.solution(self.true[None], self.places)[0]

    def deviation(self, share: float) -> float:
        """Return σ for noise that is a share of the root mean square of the observed values."""
        return share * float(np.sqrt(np.mean(self.observed**2)))


def _unknowns(start: dict[str, float], true: dict[str, float]) -> dict[str, Unknown]:
    """Return positive unknowns; a fixed scale keeps those with other starts one computation."""
    return {
        name: Unknown(start[name], lower=0, scale=value, true=value) for name, value in true.items()
    }


def _diffusion() -> Case:
    true = {"D": 0.1}
    places = np.random.default_rng(0).uniform(size=(50, 2))
    equation = Residual(lambda u, x, *, D: derivative(u, x, "t") - D * derivative(u, x, "x", "x"))
    conditions = [
        Dirichlet(0.0, on=["left", "right"]),
        Initial(lambda x: np.sin(np.pi * x[:, :1])),
    ]

    def problem(values: FloatArray, noise: float, start: dict[str, float]) -> Problem:
        return Problem(
            Interval(0, 1) * Time(0, 1),
            equation,
            conditions=[*conditions, Observations(places, values, noise=noise)],
            unknowns=_unknowns(start, true),
            name="diffusion",
        )

    bands = np.array([[0.5, 0.25], [0.5, 0.5], [0.5, 1.0], [0.2, 0.8], [0.8, 0.3]])
    return Case("diffusion", true, exact.diffusion, places, bands, problem, points=300)


def _lotka_volterra() -> Case:
    true = {"alpha": 2 / 3, "beta": 4 / 3, "delta": 1.0, "gamma": 1.0}
    places = np.linspace(0, exact.LAST_TIME, 26)[:, None]

    def velocity(w: Any, t: Any, *, alpha: Any, beta: Any, delta: Any, gamma: Any) -> Any:
        x, y = tf.split(w(t), 2, axis=1)
        growth = tf.concat([alpha * x - beta * x * y, delta * x * y - gamma * y], axis=1)
        return derivative(w, t, 0) - growth

    equation = Residual(velocity)

    def problem(values: FloatArray, noise: float, start: dict[str, float]) -> Problem:
        return Problem(
            Interval(0, exact.LAST_TIME, name="t"),
            equation,
            conditions=[Observations(places, values, noise=noise)],
            unknowns=_unknowns(start, true),
            outputs=("x", "y"),
            input_scaling=True,
            name="Lotka–Volterra",
        )

    bands = np.array([[0.0], [2.5], [5.0], [7.5], [10.0]])
    return Case(
        "lotka-volterra",
        true,
        exact.lotka_volterra,
        places,
        bands,
        problem,
        points=200,
        others={"x(0)": 1.2, "y(0)": 0.8},
        network=partial(MLP, width=14, depth=2),
    )


def _conduction() -> Case:
    true = {"a": 1.0, "b": 0.5, "d": 0.2}
    places = np.linspace(0.01, 0.99, 99)[:, None]

    def balance(u: Any, x: Any, *, a: Any, b: Any, d: Any) -> Any:
        def flux(z: Any) -> Any:
            k = a + b * tf.sin(2 * np.pi * z) + d * tf.cos(2 * np.pi * z)
            return k * gradient(u, z)

        return divergence(flux, x) + exact.SOURCE

    equation, ends = Residual(balance), Dirichlet(0.0)

    def problem(values: FloatArray, noise: float, start: dict[str, float]) -> Problem:
        unknowns = {n: Unknown(start[n], scale=0.5, true=value) for n, value in true.items()}
        return Problem(
            Interval(0, 1),
            equation,
            conditions=[ends, Observations(places, values, noise=noise)],
            unknowns=unknowns,
            name="conduction",
        )

    bands = np.array([[0.1], [0.3], [0.5], [0.7], [0.9]])
    return Case(
        "conduction", true, exact.conduction, places, bands, problem, points=120, more_steps=60
    )


def _viscosity() -> Case:
    true = {"nu": exact.VISCOSITY}
    places = np.random.default_rng(0).uniform(size=(100, 2))

    def momentum(w: Any, x: Any, force: Any, *, nu: Any) -> Any:
        slopes, diffusion = jacobian(w, x), nu * laplacian(w, x)[:, :2]
        advection = tf.reduce_sum(slopes[:, :2] * w(x)[:, None, :2], axis=2)
        mass = slopes[:, 0, :1] + slopes[:, 1, 1:]
        return tf.concat([advection + slopes[:, 2] - diffusion - force, mass], axis=1)

    equation = Residual(momentum, data=exact.force)
    conditions = [
        Dirichlet(0.0, component="u", on=["left", "right"]),
        Dirichlet(0.0, component="v", on=["bottom", "top"]),
        Neumann(0.0, component="v", on=["left", "right"]),
        Neumann(0.0, component="u", on=["bottom", "top"]),
        # The pressure is determined up to a constant.
        Dirichlet(0.0, component="p", points=[[0.0, 0.5]], name="pressure"),
    ]

    def problem(values: FloatArray, noise: float, start: dict[str, float]) -> Problem:
        measured = Observations(places, values, component=("u", "v"), noise=noise)
        return Problem(
            Box([0, 0], [1, 1]),
            equation,
            conditions=[*conditions, measured],
            unknowns=_unknowns(start, true),
            outputs=("u", "v", "p"),
            name="viscosity",
        )

    bands = np.array([[0.4, 0.1], [0.3, 0.2], [0.8, 0.4], [0.1, 0.6], [0.6, 0.9]])
    return Case(
        "viscosity",
        true,
        exact.flow,
        places,
        bands,
        problem,
        points=300,
        network=partial(MLP, width=16, depth=2),
    )


def _reaction() -> Case:
    true = {"k": exact.REACTION}
    end = exact.HALF_LENGTH
    places = np.linspace(-end, end, 8)[:, None]

    def balance(u: Any, x: Any, f: Any, *, k: Any) -> Any:
        return exact.DIFFUSIVITY * derivative(u, x, 0, 0) + k * tf.tanh(u(x)) - f

    equation = Residual(balance, data=exact.forcing)

    def problem(values: FloatArray, noise: float, start: dict[str, float]) -> Problem:
        return Problem(
            Interval(-end, end),
            equation,
            conditions=[Observations(places, values, noise=noise)],
            unknowns=_unknowns(start, true),
            name="reaction",
        )

    bands = np.array([[-0.6], [-0.25], [0.0], [0.3], [0.65]])
    ends = {"u(-0.7)": exact.wave(places)[0, 0], "u(0.7)": exact.wave(places)[-1, 0]}
    return Case(
        "reaction",
        true,
        exact.reaction,
        places,
        bands,
        problem,
        points=120,
        others=ends,
        network=partial(MLP, width=14, depth=2),
    )


CASES: dict[str, Callable[[], Case]] = {
    "diffusion": _diffusion,
    "lotka-volterra": _lotka_volterra,
    "conduction": _conduction,
    "viscosity": _viscosity,
    "reaction": _reaction,
}
