"""u_t + 2 u_x = 0 on [0, 1] × [0, 1], periodic in x, u = sin 2πx at first.

u = sin 2π(x − 2t)
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Initial, Periodic, Problem, derivative
from sciml_par.training import Points

SPEED = 2.0


def solution(x):
    return tf.sin(2 * np.pi * (x[:, :1] - SPEED * x[:, 1:]))


def equation(u, x):
    return derivative(u, x, "t") + SPEED * derivative(u, x, "x")


def problem():
    return Problem(
        Box([0, 0], [1, 1], names=("x", "t")),
        equation,
        conditions=[Initial(solution), Periodic("x", order=0)],
        exact=solution,
        name="advection",
    )


TRAINING = dict(
    points=Points((30, 40), boundary=200),
    network=partial(MLP, width=40, depth=1),
    optimizer="lm",
    steps=200,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/advection", overwrite=True)
