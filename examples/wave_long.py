"""u_tt = u_xx on [0, 1] × [0, 40], u = 0 at both ends, at rest at first: 20 periods.

    u = sin πx cos πt + ½ sin 3πx cos 3πt

`problem(end=100)` is longer. One network does not resolve so many periods; windows of random
features in 2 × 80 parts of space and time do.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.problems import Box, Dirichlet, Initial, Problem, derivative
from sciml_par.training import LeastSquares, Points


def solution(x):
    place, time = np.pi * x[:, :1], np.pi * x[:, 1:]
    return tf.sin(place) * tf.cos(time) + tf.sin(3 * place) * tf.cos(3 * time) / 2


def equation(u, x):
    return derivative(u, x, "t", "t") - derivative(u, x, "x", "x")


def problem(*, end=40.0):
    return Problem(
        Box([0, 0], [1, end], names=("x", "t")),
        equation,
        conditions=[Dirichlet(0.0, on=("x=lower", "x=upper")), Initial(solution, velocity=0.0)],
        exact=solution,
        name="wave",
    )


TRAINING = dict(
    points=Points(50_000, boundary=10_000),
    network=Windows(partial(RandomFeatures, features=150, scale=8.0), parts=(2, 80)),
    optimizer=LeastSquares(),
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/wave-long", overwrite=True)
