"""u_t = 10⁻⁴ u_xx + 5 (u − u³) on [−1, 1] × [0, 1], periodic, u = x² cos πx at first.

After Raissi, Perdikaris and Karniadakis (2019, J. Comput. Phys. 378, 686–707). The periodic
continuation of the initial values has a kink at x = ±1, which the diffusion D rounds off:

    u = x² cos πx + 4 w(1 − |x|, t) + t N,     w(y, t) = √(Dt/π) exp(−y²/4Dt) − y/2 erfc(y/√(4Dt))
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP, PeriodicEmbedding
from sciml_par.problems import Box, Periodic, Problem, derivative
from sciml_par.training import Points

from references.evolution import allen_cahn as reference

D, GROWTH = 1e-4, 5.0
DOMAIN = Box([-1, 0], [1, 1], names=("x", "t"))


def equation(u, x):
    diffusion, reaction = D * derivative(u, x, "x", "x"), GROWTH * (u(x) - u(x) ** 3)
    return derivative(u, x, "t") - diffusion - reaction


def solution(x):
    return reference(D, GROWTH)(x)


def ansatz(network, x):
    place, time = x[:, :1], x[:, 1:]
    scale = tf.maximum(tf.sqrt(4 * D * time), 1e-18)  # without a division by zero at t = 0
    near = (1 - tf.abs(place)) / scale
    rounded = tf.exp(-(near**2)) / np.sqrt(np.pi) - near * tf.math.erfc(near)
    return place**2 * tf.cos(np.pi * place) + 2 * scale * rounded + time * network(x)


def problem():
    return Problem(
        DOMAIN,
        equation,
        conditions=[Periodic("x", order=0)],
        ansatz=ansatz,
        exact=solution,
        name="Allen–Cahn",
    )


EMBEDDING = PeriodicEmbedding("x", domain=DOMAIN)
NETWORK, POINTS = partial(MLP, width=20, depth=3, embedding=EMBEDDING), Points(4000, boundary=100)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=150, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/allen-cahn", overwrite=True)
