"""The problems of `baselines.py`, with the points at which all methods are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from _examples import equation_named, problem_named

from sciml_par.problems import (
    Box,
    Initial,
    Interval,
    Observations,
    Periodic,
    Problem,
    Residual,
    Smooth,
    Time,
    UnknownFunction,
    derivative,
    divergence,
    gradient,
    jacobian,
    laplacian,
)

FloatArray = npt.NDArray[np.float64]
Field = Callable[[FloatArray], FloatArray]

POINTS = 2000
SEEDS = 0, 1, 2
"""Of the noise of inverse problems."""

REYNOLDS = 100.0
DIFFUSIVITY = 0.1
CONDUCTIVITY_NOISE = 0.03
PRIOR_LENGTH, PRIOR_AMPLITUDE = 0.2, 0.5


@dataclass(frozen=True)
class Case:
    """A problem with its true solution.

    Attributes
    ----------
    title : the equation, for the printed tables.
    make : returns the problem for the package; that of an inverse problem takes `seed=`.
    tolerances : those of `solve`.
    components : number of components of the solution that are compared, from the first.
    unknown : name of the unknown of an inverse problem.
    true : its true value, or the true function.
    """

    name: str
    title: str
    make: Callable[..., Problem]
    tolerances: tuple[float, ...] = ()
    components: int = 1
    unknown: str = ""
    true: Any = None

    @property
    def inverse(self) -> bool:
        return bool(self.unknown)

    def points(self) -> FloatArray:
        return np.asarray(self.make().domain.sample(POINTS, seed=12345, method="sobol"))

    def error(self, found: Field | float) -> float:
        if not callable(found):
            return abs(found / self.true - 1)
        x = self.points()
        true = np.asarray((self.true or self.make().exact)(x))[:, : self.components]
        return float(np.linalg.norm(found(x) - true) / np.linalg.norm(true))


def taylor_green(x: FloatArray) -> FloatArray:
    """Return u, v and p of the Taylor–Green vortex with wavelength 1: [n, 3]."""
    a, b = 2 * np.pi * x[:, :1], 2 * np.pi * x[:, 1:2]
    fading = np.exp(-8 * np.pi**2 / REYNOLDS * x[:, 2:])
    u, v = -np.cos(a) * np.sin(b) * fading, np.sin(a) * np.cos(b) * fading
    p = -(np.cos(2 * a) + np.cos(2 * b)) / 4 * fading**2
    return np.concatenate([u, v, p], axis=1)


def vortex() -> Problem:
    """u_t + u·∇u + ∇p = Δu/Re, ∇·u = 0, periodic in the unit square, for t in [0, 1]."""
    import tensorflow as tf

    def equation(w: Any, x: Any) -> Any:
        slopes, diffusion = jacobian(w, x), laplacian(w, x, over="space")[:, :2] / REYNOLDS
        advection = tf.reduce_sum(slopes[:, :2, :2] * w(x)[:, None, :2], axis=2)
        change = derivative(w, x, "t")[:, :2]
        divergence_of_w = slopes[:, 0, :1] + slopes[:, 1, 1:2]
        return tf.concat([change + advection + slopes[:, 2, :2] - diffusion, divergence_of_w], 1)

    return Problem(
        Box([0, 0], [1, 1]) * Time(0, 1),
        equation,
        conditions=[
            Periodic("x"),
            Periodic("y"),
            Initial(lambda x: taylor_green(x)[:, :2], component=("u", "v")),
        ],
        outputs=("u", "v", "p"),
        exact=taylor_green,
        name="Taylor–Green",
    )


def conductivity(x: Any) -> Any:
    """k(x) = 1 + ½ sin 2πx."""
    return 1 + 0.5 * np.sin(2 * np.pi * x)


def heat_source(x: FloatArray) -> FloatArray:
    """Compute f = −(k u′)′ for u = sin πx."""
    slope = np.pi * np.cos(2 * np.pi * x) * np.cos(np.pi * x)
    return np.asarray(np.pi**2 * conductivity(x) * np.sin(np.pi * x) - np.pi * slope)


def observed_temperature(seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return 21 places and the temperatures there, with errors."""
    places = np.linspace(0, 1, 21)[:, None]
    errors = np.random.default_rng(seed).normal(size=places.shape)
    return places, np.sin(np.pi * places) + CONDUCTIVITY_NOISE * errors


def conduction(*, seed: int = 0) -> Problem:
    """−(k u′)′ = f on [0, 1] with unknown k(x), from 21 observations with errors of 0.03."""
    from sciml_par.networks import MLP

    def equation(u: Any, x: Any, f: Any, *, k: Any) -> Any:
        return divergence(lambda z: k(z) * gradient(u, z), x) + f

    network = partial(MLP, width=20, depth=2)
    prior = Smooth(length=PRIOR_LENGTH, amplitude=PRIOR_AMPLITUDE)
    k = UnknownFunction(1.0, lower=0, network=network, prior=prior, true=conductivity)
    return Problem(
        Interval(0, 1),
        Residual(equation, data=heat_source),
        conditions=[Observations(*observed_temperature(seed), noise=CONDUCTIVITY_NOISE)],
        unknowns={"k": k},
        exact=lambda x: np.sin(np.pi * x),
        name="conduction",
    )


def diffusion(*, seed: int = 0) -> Problem:
    """The catalogue's inverse diffusion, with 5 % noise and known initial values."""
    return problem_named("inverse-diffusion", noise=0.05, initial=True, seed=seed)


def _known(name: str, *tolerances: float, components: int = 1) -> Case:
    make = partial(problem_named, name)
    return Case(name, equation_named(name), make, tolerances, components)


CASES = {
    case.name: case
    for case in (
        _known("poisson-2d", 1e-3, 1e-6, 1e-9),
        _known("l-shape", 1e-2, 1e-4),
        _known("plate-hole", 1e-3, 1e-6, components=2),
        _known("heat", 1e-3, 1e-6, 1e-9),
        _known("burgers", 1e-2, 1e-4),
        Case("taylor-green", "Navier–Stokes, a vortex, Re = 100", vortex, (1e-3,), 2),
        _known("poisson-5d", 1e-2, 1e-4),
        _known("poisson-10d", 1e-2),
        Case(
            "inverse-diffusion",
            "u_t = D u_xx, D from 20 values with 5 % noise",
            diffusion,
            unknown="D",
            true=DIFFUSIVITY,
        ),
        Case(
            "conductivity",
            "−(k u′)′ = f, k(x) from 21 values with noise 0.03",
            conduction,
            unknown="k",
            true=conductivity,
        ),
    )
}
