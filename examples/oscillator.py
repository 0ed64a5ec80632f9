"""u″ + 4 u′ + 80² u = 0 on [0, 1], u = 1 and u′ = 0 at first: 12.7 periods, damped.

    u = e^{−δt} (cos ωt + δ/ω sin ωt),     δ = 2,     ω = √(80² − δ²)

Moseley, Markham and Nissen-Meyer (2023, Adv. Comput. Math. 49, 62) solve this example with
overlapping windows, in the programs of their article. The equation is divided by 80².
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.problems import Initial, Problem, Time, derivative
from sciml_par.training import LeastSquares

DECAY, NATURAL = 2.0, 80.0
FREQUENCY = np.sqrt(NATURAL**2 - DECAY**2)


def solution(t):
    swing = tf.cos(FREQUENCY * t) + DECAY / FREQUENCY * tf.sin(FREQUENCY * t)
    return tf.exp(-DECAY * t) * swing


def equation(u, t):
    return (derivative(u, t, "t", "t") + 2 * DECAY * derivative(u, t, "t")) / NATURAL**2 + u(t)


def problem():
    return Problem(
        Time(0, 1),
        equation,
        conditions=[Initial(1.0, velocity=0.0)],
        exact=solution,
        name="oscillator",
    )


TRAINING = dict(
    points=3_200,
    network=Windows(partial(RandomFeatures, features=20, scale=6.0), parts=40),
    optimizer=LeastSquares(),
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/oscillator", overwrite=True)
