"""Δu = 0 in an L, u = r^(2/3) sin 2φ/3 given on its boundary: a corner.

The L is [−1, 1]² without (0, 1] × [−1, 0), and φ goes from 0 on its side y = 0 to 3π/2 on its side
x = 0. At the corner, where these sides meet, the gradient of u is not bounded. Most points of the
training are near it. (`sp.solve(problem(), tolerance=1e-4)` has this function among its own.)
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Polygon, Problem, laplacian
from sciml_par.training import Points

SHAPE = Polygon([[0, 0], [0, -1], [-1, -1], [-1, 1], [1, 1], [1, 0]])


def solution(x):
    """r^(2/3) cos 2ψ/3, where ψ = φ − 3π/4, the angle from the diagonal, has no jump in the L."""
    across, along = x[:, :1] + x[:, 1:], x[:, 1:] - x[:, :1]
    r2 = tf.reduce_sum(x**2, axis=1, keepdims=True)
    return r2 ** (1 / 3) * tf.cos(2 / 3 * tf.atan2(-across, along))


def near_the_corner(count):
    """Multiply points of the L by their largest coordinate, max |x_i|: [n, 2]."""
    x = SHAPE.sample(count, seed=0, method="sobol")
    return x * np.abs(x).max(axis=1, keepdims=True)


def problem():
    return Problem(
        SHAPE, laplacian, conditions=[Dirichlet(solution)], exact=solution, name="L-shape"
    )


TRAINING = dict(
    points=Points(near_the_corner(2000), boundary=400),
    network=partial(MLP, width=20, depth=2),
    optimizer="lm",
    steps=300,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/l-shape", overwrite=True)
