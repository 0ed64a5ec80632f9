"""u_tt = u_xx on [0, 1] × [0, 2], u = 0 at both ends, at rest at first.

    u = sin πx cos πt + ½ sin 3πx cos 3πt

is a string that vibrates for one period.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Initial, Problem, derivative
from sciml_par.training import Points


def solution(x):
    place, time = np.pi * x[:, :1], np.pi * x[:, 1:]
    return tf.sin(place) * tf.cos(time) + tf.sin(3 * place) * tf.cos(3 * time) / 2


def equation(u, x):
    return derivative(u, x, "t", "t") - derivative(u, x, "x", "x")


def problem():
    return Problem(
        Box([0, 0], [1, 2], names=("x", "t")),
        equation,
        conditions=[Dirichlet(0.0, on=("x=lower", "x=upper")), Initial(solution, velocity=0.0)],
        exact=solution,
        name="wave",
    )


TRAINING = dict(
    points=Points((26, 52), boundary=240),
    network=partial(MLP, width=20, depth=2),
    optimizer="lm",
    steps=150,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/standing-wave", overwrite=True)
