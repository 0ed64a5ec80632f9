"""u_t = 0.1 u_xx on [0, 1] × [0, 100], u = cos 2πt/5 at x = 0: 20 periods of a thermal wave.

    u = e^{−qx} cos(ωt − qx),     q = √(ω/2κ)

does not fade in time, such as the temperature of the ground below a surface with seasons (Carslaw
and Jaeger 1959, Conduction of heat in solids, section 2.6). It is given at x = 1 and at t = 0 too.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.problems import Box, Dirichlet, Initial, Problem, derivative
from sciml_par.training import LeastSquares, Points

DIFFUSIVITY, FREQUENCY = 0.1, 2 * np.pi / 5
DECAY = np.sqrt(FREQUENCY / (2 * DIFFUSIVITY))


def solution(x):
    depth = DECAY * x[:, :1]
    return tf.exp(-depth) * tf.cos(FREQUENCY * x[:, 1:] - depth)


def equation(u, x):
    return derivative(u, x, "t") - DIFFUSIVITY * derivative(u, x, "x", "x")


def problem():
    return Problem(
        Box([0, 0], [1, 100], names=("x", "t")),
        equation,
        conditions=[Dirichlet(solution, on=("x=lower", "x=upper")), Initial(solution)],
        exact=solution,
        name="thermal wave",
    )


TRAINING = dict(
    points=Points(20_000, boundary=8_000),
    network=Windows(partial(RandomFeatures, features=80, scale=6.0), parts=(1, 50)),
    optimizer=LeastSquares(),
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/heat-long", overwrite=True)
