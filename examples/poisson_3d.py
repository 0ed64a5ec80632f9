"""−Δu = f in the unit cube, u given on its boundary; u = Σ cos πx_i + a peak of width 0.15.

The peak is exp(−|x − c|²/2s²) around c = (0.6, 0.6, 0.6), with s = 0.15.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, Residual, laplacian
from sciml_par.training import Points

CENTRE, WIDTH = 0.6, 0.15


def parts(x):
    """Return the waves, the peak, and |x − c|²/s²."""
    waves = tf.reduce_sum(tf.cos(np.pi * x), axis=1, keepdims=True)
    apart = tf.reduce_sum(((x - CENTRE) / WIDTH) ** 2, axis=1, keepdims=True)
    return waves, tf.exp(-apart / 2), apart


def solution(x):
    waves, peak, _ = parts(x)
    return waves + peak


def source(x):
    waves, peak, apart = parts(x)
    return np.pi**2 * waves + (3 - apart) / WIDTH**2 * peak


def problem():
    return Problem(
        Box([0, 0, 0], [1, 1, 1]),
        Residual(lambda u, x, f: -laplacian(u, x) - f, data=source),
        conditions=[Dirichlet(solution)],
        exact=solution,
        name="Poisson, 3-D, with a peak",
    )


TRAINING = dict(
    points=Points(3000, boundary=1200),
    network=partial(MLP, width=30, depth=2),
    optimizer="lm",
    steps=150,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/poisson-3d", overwrite=True)
