"""x′ = 10 (y − x), y′ = x (28 − z) − y, z′ = x y − 8z/3 on [0, 1], from (−8, 7, 27).

The initial values are built in: w = w₀ + 10 t N(t). The residual is multiplied by e^{−4t}, since an
early error grows later: the system is chaotic (Lorenz 1963, J. Atmos. Sci. 20, 130–141). The error
is that against a Runge–Kutta method of order 8.
"""

from functools import cache, partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Problem, derivative
from scipy.integrate import solve_ivp

START, END = (-8.0, 7.0, 27.0), 1.0


def velocity(x, y, z):
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


def equation(w, t):
    right = tf.concat(velocity(*tf.split(w(t), 3, axis=1)), axis=1)
    return tf.exp(-4 * t) * (derivative(w, t, "t") - right) / 10


@cache
def trajectory():
    same = {"rtol": 1e-12, "atol": 1e-12, "max_step": END / 400, "dense_output": True}
    return solve_ivp(lambda t, w: velocity(*w), (0, END), START, method="DOP853", **same).sol


def problem():
    return Problem(
        Interval(0, END, name="t"),
        equation,
        ansatz=lambda network, t: np.array([START]) + 10 * t * network(t),
        outputs=("x", "y", "z"),
        exact=lambda t: trajectory()(t[:, 0]).T,
        name="Lorenz",
    )


TRAINING = dict(
    points=200,
    network=partial(MLP, width=32, depth=2),
    optimizer="lm",
    steps=150,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/lorenz", overwrite=True)
