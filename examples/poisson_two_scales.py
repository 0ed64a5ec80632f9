"""−Δu = f in the unit square, u = 0 on its boundary; u = sin πx sin πy + sin 8πx sin 8πy.

The solution has two scales, and `problem(k=32)` has a finer one. Windows divide the square into
4 × 4 parts with random features each, whose output weights least squares solves for.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.problems import Box, Dirichlet, Problem, Residual, laplacian
from sciml_par.training import LeastSquares, Points


def waves(k, x):
    """sin kπx sin kπy, for which −Δ multiplies by 2(kπ)²."""
    return tf.sin(k * np.pi * x[:, :1]) * tf.sin(k * np.pi * x[:, 1:])


def equation(u, x, f):
    return -laplacian(u, x) - f


def problem(*, k=8):
    return Problem(
        Box([0, 0], [1, 1]),
        Residual(equation, data=lambda x: 2 * np.pi**2 * (waves(1, x) + k**2 * waves(k, x))),
        conditions=[Dirichlet(0.0)],
        exact=lambda x: waves(1, x) + waves(k, x),
        name=f"Poisson, two scales, k = {k}",
    )


TRAINING = dict(
    points=Points(12_000, boundary=440),
    network=Windows(partial(RandomFeatures, features=200, scale=12.0), parts=(4, 4)),
    optimizer=LeastSquares(),
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/poisson-two-scales", overwrite=True)
