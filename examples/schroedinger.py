"""i h_t + ½ h_xx + |h|² h = 0 on [−5, 5] × [0, π/2], h = 2 sech x at first.

Two solitons that pulsate together (Satsuma and Yajima 1974, Prog. Theor. Phys. Suppl. 55, 284–306):

    h = u + iv = 4 e^{it/2} (cosh 3x + 3 e^{4it} cosh x) / (cosh 4x + 4 cosh 2x + 3 cos 4t)

The initial values are built in, and the values at both ends are those of this solution.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, derivative
from sciml_par.training import Points


def solution(x):
    x, t = x[:, :1], x[:, 1:]
    size = 4 / (tf.cosh(4 * x) + 4 * tf.cosh(2 * x) + 3 * tf.cos(4 * t))
    one, three = size * tf.cosh(3 * x), 3 * size * tf.cosh(x)
    u = one * tf.cos(t / 2) + three * tf.cos(4.5 * t)
    v = one * tf.sin(t / 2) + three * tf.sin(4.5 * t)
    return tf.concat([u, v], axis=1)


def equation(h, x):
    u, v = h["u"](x), h["v"](x)
    i_h_t = derivative(h, x, "t")[:, ::-1] * [-1, 1]
    return i_h_t + derivative(h, x, "x", "x") / 2 + (u**2 + v**2) * h(x)


def problem():
    return Problem(
        Box([-5, 0], [5, np.pi / 2], names=("x", "t")),
        equation,
        conditions=[Dirichlet(solution, on=("x=lower", "x=upper"))],
        ansatz=lambda network, x: 2 / tf.cosh(x[:, :1]) * [1, 0] + x[:, 1:] * network(x),
        outputs=("u", "v"),
        exact=solution,
        name="Schrödinger",
    )


NETWORK, POINTS = partial(MLP, width=20, depth=3), Points(2400, boundary=300)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=150, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/schroedinger", overwrite=True)
