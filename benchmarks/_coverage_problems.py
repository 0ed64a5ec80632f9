"""The inverse problems of `coverage.py`, for the package and with their exact solutions.

A solution maps coefficients [B, p] and points [k, d] to [B, k, m], exactly or very accurately.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from numpy.polynomial import chebyshev, legendre

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
)  # fmt: skip

FloatArray = npt.NDArray[np.float64]


def diffusion(c: FloatArray, x: FloatArray) -> FloatArray:
    """u = e^{−Dπ²t} sin πx with c = (D,)."""
    decay = np.exp(-(np.pi**2) * c[:, :1] * x[None, :, 1])
    return (decay * np.sin(np.pi * x[None, :, 0]))[..., None]


LAST_TIME, TIME_STEPS = 10.0, 2000


def lotka_volterra(c: FloatArray, x: FloatArray) -> FloatArray:
    """x′ = α x − β x y, y′ = δ x y − γ y with c = (α, β, δ, γ, x(0), y(0)), by Runge–Kutta.

    The error of 2,000 steps of fourth order is below 1e-9. The times must be some of the steps'.
    """
    numbers = np.round(x[:, 0] / LAST_TIME * TIME_STEPS).astype(int)
    if np.abs(numbers * LAST_TIME / TIME_STEPS - x[:, 0]).max() > 1e-9:
        raise ValueError("expected times that are multiples of the step")

    def velocity(state: FloatArray) -> FloatArray:
        x, y = state
        meetings = x * y
        return np.stack([c[:, 0] * x - c[:, 1] * meetings, c[:, 2] * meetings - c[:, 3] * y])

    h, state = LAST_TIME / TIME_STEPS, np.stack([c[:, 4], c[:, 5]])
    found = {0: state}
    for number in range(1, TIME_STEPS + 1):
        k1 = velocity(state)
        k2 = velocity(state + h / 2 * k1)
        k3 = velocity(state + h / 2 * k2)
        k4 = velocity(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found[number] = state
    return np.stack([found[number].T for number in numbers], axis=1)


SOURCE = 10.0


def conductivity(c: FloatArray, x: FloatArray) -> FloatArray:
    """k = a + b sin 2πx + d cos 2πx with c = (a, b, d): [B, p], [k, 1] -> [B, k]."""
    angle = 2 * np.pi * x[None, :, 0]
    return c[:, :1] + c[:, 1:2] * np.sin(angle) + c[:, 2:3] * np.cos(angle)


def conduction(c: FloatArray, x: FloatArray) -> FloatArray:
    """−(k u′)′ = f on (0, 1), u(0) = u(1) = 0: u = ∫ (C − f s)/k ds, by Gauss–Legendre."""
    nodes, weights = legendre.leggauss(32)

    def integrals(end: FloatArray) -> tuple[FloatArray, FloatArray]:
        s = end[:, None] * (nodes + 1) / 2
        k = conductivity(c, s.reshape(-1, 1)).reshape(len(c), *s.shape)
        of = weights * end[:, None] / 2
        return np.sum(of / k, axis=2), np.sum(of * SOURCE * s / k, axis=2)

    (resistance, load), (whole, all_load) = integrals(x[:, 0]), integrals(np.ones(1))
    positive = c[:, :1] > np.hypot(c[:, 1:2], c[:, 2:3])
    load = np.where(positive, load, np.inf)  # no solution where k is zero somewhere
    return (all_load / whole * resistance - load)[..., None]


VISCOSITY = 0.1
FORCE = 2 * np.pi**2 * VISCOSITY
"""Amplitude of the force that drives the flow; it makes the flow's amplitude 1."""


def flow(c: FloatArray, x: FloatArray) -> FloatArray:
    """u = A sin πx cos πy, v = −A cos πx sin πy with A = F/(2π²ν) and c = (ν,).

    A steady solution of the Navier–Stokes equations in the unit square with walls without friction,
    driven by the force F (sin πx cos πy, −cos πx sin πy), with p = A² (cos 2πx + cos 2πy)/4.
    """
    return (FORCE / (2 * np.pi**2 * c[:, :1]))[..., None] * force(x) / FORCE


def force(x: Any) -> Any:
    """Return F (sin πx cos πy, −cos πx sin πy): [k, 2] -> [k, 2]."""
    (sx, sy), (cx, cy) = np.sin(np.pi * x[:, :2]).T, np.cos(np.pi * x[:, :2]).T
    return FORCE * np.stack([sx * cy, -cx * sy], axis=1)


REACTION, DIFFUSIVITY, HALF_LENGTH = 0.7, 0.01, 0.7


def wave(x: FloatArray) -> FloatArray:
    """sin³ 6x, the solution at the true coefficients: [k, 1] -> [k, 1]."""
    return np.sin(6 * x[:, :1]) ** 3


def forcing(x: Any) -> Any:
    """Return 0.01 u″ + k tanh u of this solution: [k, 1] -> [k, 1]."""
    sine, cosine = np.sin(6 * x[:, :1]), np.cos(6 * x[:, :1])
    second = 36 * (6 * sine * cosine**2 - 3 * sine**3)
    return DIFFUSIVITY * second + REACTION * np.tanh(sine**3)


def reaction(c: FloatArray, x: FloatArray) -> FloatArray:
    """0.01 u″ + k tanh u = f with c = (k, u(−0.7), u(0.7)), by collocation and Newton's method.

    Infinite for coefficients without a solution.
    """
    n = 56
    nodes = chebyshev.chebpts2(n)
    values = chebyshev.chebvander(nodes, n - 1)
    second = np.stack(
        [chebyshev.chebval(nodes, chebyshev.chebder(e, 2)) for e in np.eye(n)], axis=1
    )
    to_series = np.linalg.inv(values)
    operator = DIFFUSIVITY / HALF_LENGTH**2 * second @ to_series
    operator[[0, -1]] = np.eye(n)[[0, -1]]
    inside = np.r_[0, np.ones(n - 2), 0]
    right = np.tile(forcing(HALF_LENGTH * nodes[:, None])[:, 0], (len(c), 1))
    right[:, [0, -1]] = c[:, 1:3]
    u = np.tile(wave(HALF_LENGTH * nodes[:, None])[:, 0], (len(c), 1))
    for _ in range(30):
        k = c[:, :1] * inside
        residual = u @ operator.T + k * np.tanh(u) - right
        matrices = operator + np.eye(n) * (k * (1 - np.tanh(u) ** 2))[:, None, :]
        change = np.linalg.solve(matrices, residual[..., None])[..., 0]
        u = u - change
        found = np.abs(change).max(axis=1) < 1e-11
        if found.all():
            break
    at = chebyshev.chebvander(x[:, 0] / HALF_LENGTH, n - 1) @ to_series
    return np.where(found[:, None], u @ at.T, np.inf)[..., None]


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
    points : in the interior.
    of_unknowns : how they differ from positive ones with their true value as scale.
    observed_as, more : arguments of `Observations`, and of the problem.
    steps, more_steps : of the first training, and of those that start from it.
    """

    unknowns: dict[str, float]
    solution: Callable[[FloatArray, FloatArray], FloatArray]
    places: FloatArray
    bands: FloatArray
    points: int
    domain: Any
    equation: Residual
    conditions: tuple[Any, ...] = ()
    others: dict[str, float] = field(default_factory=dict)
    of_unknowns: dict[str, Any] = field(default_factory=lambda: {"lower": 0})
    observed_as: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    width: int = 10
    steps: int = 200
    more_steps: int = 20

    @property
    def network(self) -> Any:
        return partial(MLP, width=self.width, depth=2)

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

    def problem(self, values: FloatArray, noise: float, start: dict[str, float]) -> Problem:
        # A fixed scale keeps problems with other start values one computation.
        unknowns = {
            name: Unknown(start[name], **{"scale": true, "true": true, **self.of_unknowns})
            for name, true in self.unknowns.items()
        }
        seen = Observations(self.places, values, noise=noise, **self.observed_as)
        conditions = [*self.conditions, seen]
        return Problem(
            self.domain, self.equation, conditions=conditions, unknowns=unknowns, **self.more
        )


def diffuse(u: Any, x: Any, *, D: Any) -> Any:
    return derivative(u, x, "t") - D * derivative(u, x, "x", "x")


def grow(w: Any, t: Any, *, alpha: Any, beta: Any, delta: Any, gamma: Any) -> Any:
    x, y = tf.split(w(t), 2, axis=1)
    growth = tf.concat([alpha * x - beta * x * y, delta * x * y - gamma * y], axis=1)
    return derivative(w, t, 0) - growth


def conduct(u: Any, x: Any, *, a: Any, b: Any, d: Any) -> Any:
    def flux(z: Any) -> Any:
        k = a + b * tf.sin(2 * np.pi * z) + d * tf.cos(2 * np.pi * z)
        return k * gradient(u, z)

    return divergence(flux, x) + SOURCE


def flows(w: Any, x: Any, force: Any, *, nu: Any) -> Any:
    slopes, diffusion = jacobian(w, x), nu * laplacian(w, x)[:, :2]
    advection = tf.reduce_sum(slopes[:, :2] * w(x)[:, None, :2], axis=2)
    mass = slopes[:, 0, :1] + slopes[:, 1, 1:]
    return tf.concat([advection + slopes[:, 2] - diffusion - force, mass], axis=1)


def react(u: Any, x: Any, f: Any, *, k: Any) -> Any:
    return DIFFUSIVITY * derivative(u, x, 0, 0) + k * tf.tanh(u(x)) - f


ENDS = np.array([[-HALF_LENGTH], [HALF_LENGTH]])
SLIDING = (("u", "left right", "bottom top"), ("v", "bottom top", "left right"))
"""Of the flow: the component across walls, those walls, and the ones that it passes along."""

CASES = {
    "diffusion": Case(
        {"D": 0.1},
        diffusion,
        places=np.random.default_rng(0).uniform(size=(50, 2)),
        bands=np.array([[0.5, 0.25], [0.5, 0.5], [0.5, 1.0], [0.2, 0.8], [0.8, 0.3]]),
        points=300,
        domain=Interval(0, 1) * Time(0, 1),
        equation=Residual(diffuse),
        conditions=(
            Dirichlet(0.0, on=["left", "right"]),
            Initial(lambda x: np.sin(np.pi * x[:, :1])),
        ),
    ),
    "lotka-volterra": Case(
        {"alpha": 2 / 3, "beta": 4 / 3, "delta": 1.0, "gamma": 1.0},
        lotka_volterra,
        places=np.linspace(0, LAST_TIME, 26)[:, None],
        bands=np.array([[0.0], [2.5], [5.0], [7.5], [10.0]]),
        points=200,
        domain=Interval(0, LAST_TIME, name="t"),
        equation=Residual(grow),
        others={"x(0)": 1.2, "y(0)": 0.8},
        more={"outputs": ("x", "y"), "input_scaling": True},
        width=14,
    ),
    "conduction": Case(
        {"a": 1.0, "b": 0.5, "d": 0.2},
        conduction,
        places=np.linspace(0.01, 0.99, 99)[:, None],
        bands=np.array([[0.1], [0.3], [0.5], [0.7], [0.9]]),
        points=120,
        domain=Interval(0, 1),
        equation=Residual(conduct),
        conditions=(Dirichlet(0.0),),
        of_unknowns={"scale": 0.5},
        more_steps=60,
    ),
    "viscosity": Case(
        {"nu": VISCOSITY},
        flow,
        places=np.random.default_rng(0).uniform(size=(100, 2)),
        bands=np.array([[0.4, 0.1], [0.3, 0.2], [0.8, 0.4], [0.1, 0.6], [0.6, 0.9]]),
        points=300,
        domain=Box([0, 0], [1, 1]),
        equation=Residual(flows, data=force),
        conditions=(
            *(Dirichlet(0.0, component=c, on=walls.split()) for c, walls, _ in SLIDING),
            *(Neumann(0.0, component=c, on=walls.split()) for c, _, walls in SLIDING[::-1]),
            # The pressure is determined up to a constant.
            Dirichlet(0.0, component="p", points=[[0.0, 0.5]], name="pressure"),
        ),
        observed_as={"component": ("u", "v")},
        more={"outputs": ("u", "v", "p")},
        width=16,
    ),
    "reaction": Case(
        {"k": REACTION},
        reaction,
        places=np.linspace(-HALF_LENGTH, HALF_LENGTH, 8)[:, None],
        bands=np.array([[-0.6], [-0.25], [0.0], [0.3], [0.65]]),
        points=120,
        domain=Interval(-HALF_LENGTH, HALF_LENGTH),
        equation=Residual(react, data=forcing),
        others=dict(zip(("u(-0.7)", "u(0.7)"), wave(ENDS)[:, 0], strict=True)),
        width=14,
    ),
}
