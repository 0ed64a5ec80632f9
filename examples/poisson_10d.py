"""−Δu = f in the unit cube of 10 dimensions, u given on its boundary; u = Σ cos πx_i.

In so many dimensions points are scattered by default. On a grid of some 50 points a face, with two
or three along each axis, no point would be near an edge.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, Residual, laplacian
from sciml_par.training import Points


def solution(x):
    return tf.reduce_sum(tf.cos(np.pi * x), axis=1, keepdims=True)


def equation(u, x, f):
    return -laplacian(u, x) - f


def problem(*, dimension=10):
    return Problem(
        Box([0] * dimension, [1] * dimension),
        Residual(equation, data=lambda x: np.pi**2 * solution(x)),
        conditions=[Dirichlet(solution)],
        exact=solution,
        name=f"Poisson, {dimension}-D",
    )


TRAINING = dict(
    points=Points(6000, boundary=2000),
    network=partial(MLP, width=128, depth=1),
    optimizer="lm",
    steps=200,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/poisson-10d", overwrite=True)
