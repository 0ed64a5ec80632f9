"""The problems of accuracy.py: equations, points, networks, initial weights, and what to reach.

The points of a problem are the same for all optimizers and seeds; seeds differ in the initial
weights. Errors are measured at other points, against exact solutions. Conditions that are terms of
the loss have the weight 100, but for the lecture's problem, which is taken as it is. The networks
for the periodic problems have an embedding, and the initial values are in the ansatz, so that the
equation is the whole loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from _examples import problem_named

from sciml_par._tensorflow import tf
from sciml_par.networks import MLP, PeriodicEmbedding
from sciml_par.problems import Box, Observations, Problem
from sciml_par.problems.catalogue.in_time import points_near_the_front
from sciml_par.training import Points

FloatArray = npt.NDArray[np.float64]

OBSERVATIONS = 20

LAYERS = {-1.0: 0.02, -0.5: 0.03, 0.0: 0.05, 0.5: 0.03, 1.0: 0.02}
"""Where the solution of the Allen–Cahn equation becomes steep or bends, and on which length."""


def periodic(name: str) -> Problem:
    """Return a problem of examples/ without its conditions, which the network's embedding meets."""
    whole = problem_named(name)
    return Problem(
        whole.domain, whole.residuals, ansatz=whole.ansatz, exact=whole.exact, name=whole.name
    )


def points_near_the_layers(count: int, *, share: float = 0.6) -> FloatArray:
    """Return points [n, 2] of [−1, 1] × [0, 1], a share of them dense near the `LAYERS` c_k.

    Sobol' points of the unit square, of which the first coordinate is mapped by the inverse of

        F(x) = (1 − share) (x + 1)/2 + (share/K) Σ_k (a_k(x) − a_k(−1)) / (a_k(1) − a_k(−1)),

    a_k(x) = atan((x − c_k)/s_k).

    Parameters
    ----------
    count : n.
    share : dimensionless.
    """
    unit = Box([0, 0], [1, 1]).sample(count, seed=0, method="sobol")
    x = np.linspace(-1, 1, 200_001)
    share_below = (1 - share) * (x + 1) / 2
    for centre, scale in LAYERS.items():
        angle = np.arctan((x - centre) / scale)
        share_below += share / len(LAYERS) * (angle - angle[0]) / (angle[-1] - angle[0])
    return np.stack([np.interp(unit[:, 0], share_below, x), unit[:, 1]], axis=1)


def inverse_diffusion() -> Problem:
    """Return that of the catalogue with the other conditions built in, and 20 exact values."""
    whole = problem_named("inverse-diffusion")
    measured = whole.domain.sample(OBSERVATIONS, seed=1, method="sobol")

    def from_the_start(network: Any, x: Any) -> Any:
        place, time = x[:, :1], x[:, 1:]
        return tf.sin(np.pi * place) + time * place * (1 - place) * network(x)

    return Problem(
        whole.domain,
        whole.residuals,
        conditions=[Observations(measured, whole.exact(measured))],
        ansatz=from_the_start,
        unknowns=whole.unknowns,
        exact=whole.exact,
        name=whole.name,
    )


CONDITION_WEIGHT = 100.0


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
    target, stretch : errors that are to be reached.
    seconds : in which the target is to be reached; a training ends then.
    periods : of the axes in which the network is periodic by an embedding, by their numbers.
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
    periods: Mapping[int, float] | None = None


def network(case: Case, problem: Problem, seed: int, *, dtype: str = "float64") -> MLP:
    model = MLP(
        problem.domain.dimension,
        problem.network_outputs,
        width=case.width,
        depth=case.depth,
        embedding=None if case.periods is None else PeriodicEmbedding(case.periods),
        dtype=dtype,
    )
    box = (tuple(problem.domain.lower), tuple(problem.domain.upper))
    if model.embedding is not None:
        # The weights begin behind the embedding, in the box in which its output lies.
        box = model.embedding.box_of(box)
    widths = [len(box[0]), *[case.width] * case.depth, problem.network_outputs]
    model.set_weights(initial_weights(widths, Box(*box), case.steepness, seed))
    return model


def initial_weights(
    widths: list[int], domain: Box, steepness: float, seed: int
) -> list[npt.NDArray[np.float64]]:
    """Return W1: [d, w1], b1: [w1], W2, …; the first layer's tanh has its centres in the domain.

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
    """Return the midpoints of equal cells, [n, d]."""
    axes = [
        low + extent * (np.arange(count) + 0.5) / count
        for low, extent, count in zip(domain.lower, domain.extent, counts, strict=True)
    ]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


UNIT_SQUARE, UNIT_CUBE = Box([0, 0], [1, 1]), Box([0] * 5, [1] * 5)
PERIODIC_SQUARE = Box([-1, -1], [1, 1])
SPACE_TIME, FLOW = problem_named("burgers").domain, Box([-0.5, -0.5], [1, 1.5])


def weighted(make: Callable[..., Problem], *of: str, **parameters: bool) -> Problem:
    return make(*of, **parameters).with_condition_weight(CONDITION_WEIGHT)


SQUARE = partial(midpoints, UNIT_SQUARE, 101, 101)
IN_TIME = partial(midpoints, SPACE_TIME, 512, 100)
FRONT = partial(midpoints, SPACE_TIME, 256, 100)
CASES = {
    row[0]: Case(*row[1:])
    for row in (
        ("poisson-1d", "Poisson 1-D, k = 2, 1-16-16-1", partial(problem_named, "poisson-1d"),
         lambda: Points(128), partial(midpoints, Box([-1], [1]), 1000),
         16, 2, 4.0, 1e-9, 5e-11, 10.0),
        ("poisson-2d", "Poisson 2-D, 2-64-1", partial(weighted, problem_named, "poisson-2d"),
         lambda: Points((30, 30), boundary=120), SQUARE, 64, 1, 3.0, 3e-8, 3e-9, 15.0),
        ("poisson-2d-built-in", "Poisson 2-D, boundary built in, 2-64-1",
         partial(problem_named, "poisson-2d", built_in=True), lambda: Points((30, 30)), SQUARE,
         64, 1, 3.0, 1e-9, 1e-11, 15.0),
        ("poisson-5d", "Poisson 5-D, 5-64-1", partial(weighted, problem_named, "poisson-5d"),
         lambda: Points(3000, boundary=500, method="sobol", seed=0),
         lambda: UNIT_CUBE.sample(4000, seed=99, method="uniform"),
         64, 1, 2.0, 5e-8, 1e-8, 60.0),
        ("burgers", "Burgers 0.01/π, 4×20",
         partial(weighted, problem_named, "burgers", built_in=False),
         lambda: Points(points_near_the_front(3000), boundary=400, initial=200), FRONT,
         20, 4, 3.0, 1e-6, 1e-8, 150.0),
        ("burgers-built-in", "Burgers 0.01/π, conditions built in, 4×20",
         partial(problem_named, "burgers"), lambda: Points(points_near_the_front(3000)), FRONT,
         20, 4, 3.0, 1e-6, 1e-8, 150.0),
        ("kovasznay", "Kovasznay, Re 20, 2-24-24-3", partial(weighted, problem_named, "kovasznay"),
         lambda: Points(1200, boundary=300, method={"interior": "sobol"}, seed=0),
         partial(midpoints, FLOW, 101, 101), 24, 2, 2.0, 1e-7, 1e-9, 120.0),
        ("helmholtz", "Helmholtz, sin πx sin 4πy, periodic, 3×20",
         partial(periodic, "helmholtz-periodic"),
         lambda: Points(midpoints(PERIODIC_SQUARE, 52, 52)),
         partial(midpoints, PERIODIC_SQUARE, 101, 103), 20, 3, 1.5, 5e-8, 2e-9, 90.0,
         {0: 2.0, 1: 2.0}),
        ("allen-cahn", "Allen–Cahn, 1e-4, periodic, 4×20", partial(periodic, "allen-cahn"),
         lambda: Points(points_near_the_layers(3500)), IN_TIME, 20, 4, 2.0, 1e-4, 2e-6, 600.0,
         {0: 2.0}),
        ("korteweg-de-vries", "Korteweg–de Vries, 0.022², periodic, 3×24",
         partial(periodic, "kdv"), lambda: Points(9000, method="sobol", seed=0), IN_TIME,
         24, 3, 2.0, 1e-4, 2e-6, 600.0, {0: 2.0}),
        ("inverse-diffusion", "diffusivity from 20 values, 2×12",
         partial(weighted, inverse_diffusion), lambda: Points(600, method="sobol", seed=0), SQUARE,
         12, 2, 2.0, 1e-8, 1e-10, 60.0),
    )
}  # fmt: skip
"""By name: the attributes of `Case` in their order."""
