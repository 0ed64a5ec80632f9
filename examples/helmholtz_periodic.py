"""Δu + u = f in [−1, 1]², periodic in x and y; u = sin πx sin 4πy.

The first layer of the network makes it periodic (`PeriodicEmbedding`), so that the conditions of
the problem hold from the first step. The equation is that of Wang, Teng and Perdikaris (2021),
SIAM J. Sci. Comput. 43, A3055, eq. (36).
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP, PeriodicEmbedding
from sciml_par.problems import Box, Periodic, Problem, Residual, laplacian
from sciml_par.training import Points

SQUARE = Box([-1, -1], [1, 1])


def solution(x):
    return tf.sin(np.pi * x[:, :1]) * tf.sin(4 * np.pi * x[:, 1:])


def problem():
    return Problem(
        SQUARE,
        Residual(
            lambda u, x, f: laplacian(u, x) + u(x) - f,
            data=lambda x: (1 - 17 * np.pi**2) * solution(x),
        ),
        conditions=[Periodic("x"), Periodic("y")],
        exact=solution,
        name="Helmholtz, periodic",
    )


TRAINING = dict(
    points=Points((30, 48), boundary=80),
    network=partial(MLP, width=20, depth=2, embedding=PeriodicEmbedding(("x", "y"), domain=SQUARE)),
    optimizer="lm",
    steps=100,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/helmholtz-periodic", overwrite=True)
