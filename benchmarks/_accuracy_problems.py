"""The problems of accuracy.py: equations, points, networks, initial weights, and what to reach.

The points of a problem are the same for all optimizers and seeds; seeds differ in the initial
weights. Errors are measured at other points, against exact solutions. Conditions that are terms of
the loss have the weight 100, but for the lecture's problem, which is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Dirichlet,
    Problem,
    Residual,
    derivative,
    jacobian,
    laplacian,
    poisson,
)
from sciml_par.training import Points

FloatArray = npt.NDArray[np.float64]

CONDITION_WEIGHT = 100.0
VISCOSITY = 0.01 / np.pi
REYNOLDS = 20.0


@dataclass(frozen=True)
class Case:
    """A problem, and what it is solved with.

    Attributes
    ----------
    title : for the table and the figure.
    make : makes the problem.
    points : makes its points.
    test : makes the points x: [n, d] at which the error is measured.
    width, depth : of the network's hidden layers.
    steepness : s, the largest norm of the weights of a neuron of the first layer; see
        `initial_weights`.
    target, stretch : relative L2 errors that are to be reached.
    seconds : in which the target is to be reached; a training ends then.
    """

    title: str
    make: Callable[[], Problem]
    points: Callable[[], Points]
    test: Callable[[], FloatArray]
    width: int
    depth: int
    steepness: float
    target: float
    stretch: float
    seconds: float

    def widths(self, problem: Problem) -> list[int]:
        """Of the layers, from d to m."""
        hidden = [self.width] * self.depth
        return [problem.domain.dimension, *hidden, problem.network_outputs]


def network(case: Case, problem: Problem, seed: int, *, dtype: str = "float64") -> MLP:
    """The network of a case with the initial weights of a seed."""
    widths = case.widths(problem)
    model = MLP(widths[0], widths[-1], width=case.width, depth=case.depth, dtype=dtype)
    model.set_weights(initial_weights(widths, problem.domain, case.steepness, seed))
    return model


def initial_weights(
    widths: list[int], domain: Box, steepness: float, seed: int
) -> list[npt.NDArray[np.float64]]:
    """W1: [d, w1], b1: [w1], W2, …, with the centres of the first layer's tanh in the domain.

    A neuron of the first layer is tanh(w·(x − x₀)), x₀ uniform in the domain, w in a random
    direction with a norm uniform in [0.3 s, s]. Later kernels are drawn by Glorot's normal rule,
    hidden biases are uniform in ±0.5, the last is zero.
    """
    random = np.random.default_rng(seed)
    found: list[FloatArray] = []
    for layer, (inputs, outputs) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
        weight = random.normal(size=(inputs, outputs))
        if layer == 0:
            norms = steepness * random.uniform(0.3, 1.0, outputs)
            weight *= norms / np.linalg.norm(weight, axis=0)
            centres = random.uniform(domain.lower, domain.upper, (outputs, inputs))
            bias = -np.sum(centres * weight.T, axis=1)
        else:
            weight *= np.sqrt(2 / (inputs + outputs))
            last = layer == len(widths) - 2
            bias = np.zeros(outputs) if last else random.uniform(-0.5, 0.5, outputs)
        found += [weight, bias]
    return found


def midpoints(domain: Box, *counts: int) -> FloatArray:
    """The midpoints of equal cells, [n, d]."""
    axes = [
        low + extent * (np.arange(count) + 0.5) / count
        for low, extent, count in zip(domain.lower, domain.extent, counts, strict=True)
    ]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


# −Δu = 2π² sin πx sin πy in the unit square, u = 0 on its boundary

UNIT_SQUARE = Box([0, 0], [1, 1])


def sines(x: FloatArray) -> FloatArray:
    """sin πx sin πy: [n, 1]."""
    return np.prod(np.sin(np.pi * x), axis=1, keepdims=True)


def poisson_equation(u: Any, x: Any, f: Any) -> Any:
    """−Δu − f."""
    return -laplacian(u, x) - f


def poisson_2d(*, built_in: bool) -> Problem:
    """With the boundary values as a term of the loss, or built into the field."""
    equation = Residual(poisson_equation, data=lambda x: 2 * np.pi**2 * sines(x))
    if built_in:
        return Problem(UNIT_SQUARE, equation, ansatz=zero_on_the_edges, exact=sines, name="Poisson")
    edges = Dirichlet(0.0, weight=CONDITION_WEIGHT)
    return Problem(UNIT_SQUARE, equation, conditions=[edges], exact=sines, name="Poisson")


def zero_on_the_edges(network: Any, x: Any) -> Any:
    """x (1 − x) y (1 − y) N."""
    return tf.reduce_prod(x * (1 - x), axis=1, keepdims=True) * network(x)


# −Δu = π² Σ cos πx_i in the unit cube of five dimensions

UNIT_CUBE = Box([0] * 5, [1] * 5)


def cosines(x: FloatArray) -> FloatArray:
    """Σ_i cos πx_i: [n, 1]."""
    return np.sum(np.cos(np.pi * x), axis=1, keepdims=True)


def poisson_5d() -> Problem:
    """With the values of the solution on the boundary."""
    faces = Dirichlet(
        lambda x: tf.reduce_sum(tf.cos(np.pi * x), axis=1, keepdims=True), weight=CONDITION_WEIGHT
    )
    equation = Residual(poisson_equation, data=lambda x: np.pi**2 * cosines(x))
    return Problem(UNIT_CUBE, equation, conditions=[faces], exact=cosines, name="Poisson")


# u_t + u u_x = ν u_xx on [−1, 1] × [0, 1], u = −sin πx at t = 0, u = 0 at both ends

SPACE_TIME = Box([-1, 0], [1, 1], names=("x", "t"))


def burgers_equation(u: Any, x: Any) -> Any:
    """u_t + u u_x − ν u_xx."""
    steepening = u(x) * derivative(u, x, 0)
    return derivative(u, x, 1) + steepening - VISCOSITY * derivative(u, x, 0, 0)


def burgers(*, built_in: bool) -> Problem:
    """With initial and boundary values as terms of the loss, or built into the field."""
    if built_in:
        return Problem(
            SPACE_TIME, burgers_equation, ansatz=from_the_start, exact=cole_hopf, name="Burgers"
        )
    ends = Dirichlet(0.0, where=lambda x: np.abs(x[:, 0]) == 1, weight=CONDITION_WEIGHT)
    start = Dirichlet(
        lambda x: -tf.sin(np.pi * x[:, :1]),
        where=lambda x: x[:, 1] == 0,
        weight=CONDITION_WEIGHT,
    )
    return Problem(
        SPACE_TIME, burgers_equation, conditions=[ends, start], exact=cole_hopf, name="Burgers"
    )


def from_the_start(network: Any, x: Any) -> Any:
    """−sin πx + t (1 − x²) N."""
    place, time = x[:, :1], x[:, 1:]
    return -tf.sin(np.pi * place) + time * (1 - place**2) * network(x)


def cole_hopf(x: FloatArray, *, nodes: int = 200) -> FloatArray:
    """The solution of Burgers' equation by the transform of Cole and Hopf: [n, 2] -> [n, 1].

        u = −∫ sin(π(x−η)) f(x−η) exp(−η²/4νt) dη / ∫ f(x−η) exp(−η²/4νt) dη,

    f(y) = exp(−cos(πy)/(2πν)), both integrals by the Gauss–Hermite rule (Basdevant et al. 1986,
    Comput. Fluids 14, 23–41). With 120 and with 200 nodes it is the same to 2e-15.
    """
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[:, :1] - np.sqrt(4 * VISCOSITY * x[:, 1:]) * z
    exponents = -np.cos(np.pi * y) / (2 * np.pi * VISCOSITY)
    # The largest exponent is about 50, and cancels.
    masses = weights * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    mean = np.sum(np.sin(np.pi * y) * masses, axis=1) / np.sum(masses, axis=1)
    return -mean[:, None]


def points_near_the_front(count: int, *, share: float = 0.5, scale: float = 0.05) -> FloatArray:
    """Points in space and time of which a share is dense near x = 0, where a front forms: [n, 2].

    Sobol' points of the unit square, of which the first coordinate is mapped by the inverse of

        F(x) = (1 − c) (x + 1)/2 + c (atan(x/s) + T)/(2T),      T = atan(1/s).
    """
    unit = Box([0, 0], [1, 1]).sample(count, seed=0, method="sobol")
    x = np.sinh(np.linspace(-10, 10, 100_001)) / np.sinh(10)
    reach = np.arctan(1 / scale)
    share_below = (1 - share) * (x + 1) / 2 + share * (np.arctan(x / scale) + reach) / (2 * reach)
    return np.stack([np.interp(unit[:, 0], share_below, x), unit[:, 1]], axis=1)


# Steady flow behind a grid (Kovasznay 1948): u·∇u = −∇p + Δu/Re, ∇·u = 0

FLOW = Box([-0.5, -0.5], [1, 1.5])
DECAY = REYNOLDS / 2 - np.sqrt(REYNOLDS**2 / 4 + 4 * np.pi**2)


@dataclass(frozen=True)
class Given(Dirichlet):
    """Some components of the exact solution are given on the boundary."""

    kind: ClassVar[str] = "given"
    components: tuple[int, ...] = ()

    def residual(self, u: Any, x: Any, normals: Any) -> Any:
        """Left side minus right side: [k, number of components]."""

        def chosen(points: Any) -> Any:
            return tf.gather(u(points), self.components, axis=1)

        return super().residual(chosen, x, normals)


def kovasznay() -> Problem:
    """With the velocity on the whole boundary, and the pressure at the outflow."""
    velocity = Given(lambda x: kovasznay_flow(x)[:, :2], components=(0, 1), weight=CONDITION_WEIGHT)
    pressure = Given(
        lambda x: kovasznay_flow(x)[:, 2:],
        components=(2,),
        where=lambda x: x[:, 0] == FLOW.upper[0],
        weight=CONDITION_WEIGHT,
    )
    return Problem(
        FLOW,
        navier_stokes,
        conditions=[velocity, pressure],
        outputs=("u", "v", "p"),
        exact=lambda x: kovasznay_flow(tf.constant(x)).numpy(),
        name="Kovasznay",
    )


def navier_stokes(w: Any, x: Any) -> Any:
    """u·∇u + ∇p − Δu/Re in two components, and ∇·u: [n, 3]."""
    slopes, diffusion = jacobian(w, x), laplacian(w, x)[:, :2] / REYNOLDS
    advection = tf.reduce_sum(slopes[:, :2] * w(x)[:, None, :2], axis=2)
    divergence = slopes[:, 0, :1] + slopes[:, 1, 1:]
    return tf.concat([advection + slopes[:, 2] - diffusion, divergence], axis=1)


def kovasznay_flow(x: Any) -> Any:
    """u, v and p: [n, 3]."""
    decay, wave = tf.exp(DECAY * x[:, :1]), 2 * np.pi * x[:, 1:]
    u = 1 - decay * tf.cos(wave)
    v = DECAY / (2 * np.pi) * decay * tf.sin(wave)
    return tf.concat([u, v, (1 - decay**2) / 2], axis=1)


CASES = {
    "poisson-1d": Case(
        "Poisson 1-D, k = 2, 1-16-16-1",
        make=poisson,
        points=lambda: Points(128),
        test=lambda: midpoints(Box([-1], [1]), 1000),
        width=16,
        depth=2,
        steepness=4.0,
        target=1e-9,
        stretch=5e-11,
        seconds=10.0,
    ),
    "poisson-2d": Case(
        "Poisson 2-D, 2-64-1",
        make=partial(poisson_2d, built_in=False),
        points=lambda: Points((30, 30), boundary=120),
        test=lambda: midpoints(UNIT_SQUARE, 101, 101),
        width=64,
        depth=1,
        steepness=3.0,
        target=3e-8,
        stretch=3e-9,
        seconds=15.0,
    ),
    "poisson-2d-built-in": Case(
        "Poisson 2-D, boundary built in, 2-64-1",
        make=partial(poisson_2d, built_in=True),
        points=lambda: Points((30, 30)),
        test=lambda: midpoints(UNIT_SQUARE, 101, 101),
        width=64,
        depth=1,
        steepness=3.0,
        target=1e-9,
        stretch=1e-11,
        seconds=15.0,
    ),
    "poisson-5d": Case(
        "Poisson 5-D, 5-64-1",
        make=poisson_5d,
        points=lambda: Points(3000, boundary=500, method="sobol", seed=0),
        test=lambda: UNIT_CUBE.sample(4000, seed=99, method="uniform"),
        width=64,
        depth=1,
        steepness=2.0,
        target=5e-8,
        stretch=1e-8,
        seconds=60.0,
    ),
    "burgers": Case(
        "Burgers 0.01/π, 4×20",
        make=partial(burgers, built_in=False),
        points=lambda: Points(points_near_the_front(3000), boundary=400, initial=200),
        test=lambda: midpoints(SPACE_TIME, 256, 100),
        width=20,
        depth=4,
        steepness=3.0,
        target=1e-6,
        stretch=1e-8,
        seconds=150.0,
    ),
    "burgers-built-in": Case(
        "Burgers 0.01/π, conditions built in, 4×20",
        make=partial(burgers, built_in=True),
        points=lambda: Points(points_near_the_front(3000)),
        test=lambda: midpoints(SPACE_TIME, 256, 100),
        width=20,
        depth=4,
        steepness=3.0,
        target=1e-6,
        stretch=1e-8,
        seconds=150.0,
    ),
    "kovasznay": Case(
        "Kovasznay, Re 20, 2-24-24-3",
        make=kovasznay,
        points=lambda: Points(1200, boundary=300, method={"interior": "sobol"}, seed=0),
        test=lambda: midpoints(FLOW, 101, 101),
        width=24,
        depth=2,
        steepness=2.0,
        target=1e-7,
        stretch=1e-9,
        seconds=120.0,
    ),
}
