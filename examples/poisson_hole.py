"""−Δu = f in [−1, 1]² with a round hole, u = 0 on both boundaries.

    u = (x² + y² − a²) cos(πx/2) cos(πy/2),     a = 0.5

is zero on the square and on the circle; f is chosen so that it is the solution.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Ball, Box, Dirichlet, Problem, Residual, laplacian
from sciml_par.training import Points

RADIUS, HALF = 0.5, np.pi / 2


def solution(x):
    r2 = tf.reduce_sum(x**2, axis=1, keepdims=True)
    return (r2 - RADIUS**2) * tf.cos(HALF * x[:, :1]) * tf.cos(HALF * x[:, 1:])


def source(x):
    """−Δ(g c) = −(c Δg + 2 ∇g·∇c + g Δc), with g = |x|² − a² and c = cos(πx/2) cos(πy/2)."""
    a, b = HALF * x[:, :1], HALF * x[:, 1:]
    c = tf.cos(a) * tf.cos(b)
    along = 2 * HALF * (x[:, :1] * tf.sin(a) * tf.cos(b) + x[:, 1:] * tf.cos(a) * tf.sin(b))
    return -(4 * c - 2 * along - 2 * HALF**2 * solution(x))


def problem():
    return Problem(
        Box([-1, -1], [1, 1]) - Ball([0, 0], RADIUS),
        Residual(lambda u, x, f: -laplacian(u, x) - f, data=source),
        conditions=[Dirichlet(0.0)],
        exact=solution,
        name="Poisson with a hole",
    )


TRAINING = dict(
    points=Points(1000, boundary=240),
    network=partial(MLP, width=20, depth=2),
    optimizer="lm",
    steps=200,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/poisson-hole", overwrite=True)
