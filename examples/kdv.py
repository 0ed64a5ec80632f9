"""u_t + u u_x + 0.022² u_xxx = 0 on [−1, 1] × [0, 1], periodic, u = cos πx at first.

Zabusky and Kruskal (1965, Phys. Rev. Lett. 15, 240–243) found solitons in it. The initial values
are built in, u = cos πx + t N, and N is periodic by its first layer. The error is that against a
Fourier series.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP, PeriodicEmbedding
from sciml_par.problems import Box, Periodic, Problem, derivative
from sciml_par.training import Points

from references.evolution import korteweg_de_vries as reference

DISPERSION = 0.022**2
DOMAIN = Box([-1, 0], [1, 1], names=("x", "t"))


def equation(u, x):
    steepening = u(x) * derivative(u, x, "x")
    return derivative(u, x, "t") + steepening + DISPERSION * derivative(u, x, "x", "x", "x")


def solution(x):
    return reference(1.0, DISPERSION)(x)


def problem():
    return Problem(
        DOMAIN,
        equation,
        conditions=[Periodic("x", order=(0, 1, 2))],
        ansatz=lambda network, x: tf.cos(np.pi * x[:, :1]) + x[:, 1:] * network(x),
        exact=solution,
        name="Korteweg–de Vries",
    )


TRAINING = dict(
    points=Points(5000, boundary=100),
    network=partial(MLP, width=20, depth=3, embedding=PeriodicEmbedding("x", domain=DOMAIN)),
    optimizer="lm",
    steps=250,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/kdv", overwrite=True)
