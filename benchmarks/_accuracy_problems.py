"""The problems of accuracy.py: points, networks, initial weights, and what to reach.

The points of a problem are the same for all optimizers and seeds; seeds differ in the initial
weights. Errors are measured at other points, against exact solutions. Conditions that are terms of
the loss have the weight 100, but for the lecture's problem, which is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from _accuracy_equations import (
    inverse_diffusion,
    periodic_allen_cahn,
    periodic_helmholtz,
    periodic_korteweg_de_vries,
    points_near_the_layers,
)
from _examples import problem_named

from sciml_par.networks import MLP, PeriodicEmbedding
from sciml_par.problems import Box, Problem
from sciml_par.problems.catalogue.in_time import points_near_the_front
from sciml_par.training import Points

FloatArray = npt.NDArray[np.float64]

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
    harmonics : how many waves of each the embedding has.
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
    harmonics: int = 1

    def embedding(self) -> PeriodicEmbedding | None:
        """Return the first layer of a periodic network."""
        if self.periods is None:
            return None
        return PeriodicEmbedding(self.periods, harmonics=self.harmonics)


def network(case: Case, problem: Problem, seed: int, *, dtype: str = "float64") -> MLP:
    """Return the network of a case with the initial weights of a seed."""
    model = MLP(
        problem.domain.dimension,
        problem.network_outputs,
        width=case.width,
        depth=case.depth,
        embedding=case.embedding(),
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
    """Return a problem with the weight of its conditions."""
    return make(*of, **parameters).with_condition_weight(CONDITION_WEIGHT)


CASES = {
    "poisson-1d": Case(
        "Poisson 1-D, k = 2, 1-16-16-1",
        make=partial(problem_named, "poisson-1d"),
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
        make=partial(weighted, problem_named, "poisson-2d"),
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
        make=partial(problem_named, "poisson-2d", built_in=True),
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
        make=partial(weighted, problem_named, "poisson-5d"),
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
        make=partial(weighted, problem_named, "burgers", built_in=False),
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
        make=partial(problem_named, "burgers"),
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
        make=partial(weighted, problem_named, "kovasznay"),
        points=lambda: Points(1200, boundary=300, method={"interior": "sobol"}, seed=0),
        test=lambda: midpoints(FLOW, 101, 101),
        width=24,
        depth=2,
        steepness=2.0,
        target=1e-7,
        stretch=1e-9,
        seconds=120.0,
    ),
    "helmholtz": Case(
        "Helmholtz, sin πx sin 4πy, periodic, 3×20",
        make=periodic_helmholtz,
        points=lambda: Points(midpoints(PERIODIC_SQUARE, 52, 52)),
        test=lambda: midpoints(PERIODIC_SQUARE, 101, 103),
        width=20,
        depth=3,
        steepness=1.5,
        target=5e-8,
        stretch=2e-9,
        seconds=90.0,
        periods={0: 2.0, 1: 2.0},
    ),
    "allen-cahn": Case(
        "Allen–Cahn, 1e-4, periodic, 4×20",
        make=periodic_allen_cahn,
        points=lambda: Points(points_near_the_layers(3500)),
        test=lambda: midpoints(SPACE_TIME, 512, 100),
        width=20,
        depth=4,
        steepness=2.0,
        target=1e-4,
        stretch=2e-6,
        seconds=600.0,
        periods={0: 2.0},
    ),
    "korteweg-de-vries": Case(
        "Korteweg–de Vries, 0.022², periodic, 3×24",
        make=periodic_korteweg_de_vries,
        points=lambda: Points(9000, method="sobol", seed=0),
        test=lambda: midpoints(SPACE_TIME, 512, 100),
        width=24,
        depth=3,
        steepness=2.0,
        target=1e-4,
        stretch=2e-6,
        seconds=600.0,
        periods={0: 2.0},
    ),
    "inverse-diffusion": Case(
        "diffusivity from 20 values, 2×12",
        make=partial(weighted, inverse_diffusion),
        points=lambda: Points(600, method="sobol", seed=0),
        test=lambda: midpoints(UNIT_SQUARE, 101, 101),
        width=12,
        depth=2,
        steepness=2.0,
        target=1e-8,
        stretch=1e-10,
        seconds=60.0,
    ),
}
