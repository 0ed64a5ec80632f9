"""Navier–Stokes, steady, Re = 20, behind a grid; velocity given on the boundary.

    u = 1 − e^{λx} cos 2πy,     v = λ/2π e^{λx} sin 2πy,     p = ½ (1 − e^{2λx})

with λ = Re/2 − √(Re²/4 + 4π²) solves u·∇u + ∇p = Δu/Re, ∇·u = 0 (Kovasznay 1948, Proc. Camb. Phil.
Soc. 44, 58–62). The pressure is given at x = 1.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, advection, divergence, gradient, laplacian
from sciml_par.training import Points

REYNOLDS = 20.0
DECAY = REYNOLDS / 2 - np.sqrt(REYNOLDS**2 / 4 + 4 * np.pi**2)


def solution(x):
    fading, angle = tf.exp(DECAY * x[:, :1]), 2 * np.pi * x[:, 1:]
    u, v = 1 - fading * tf.cos(angle), DECAY / (2 * np.pi) * fading * tf.sin(angle)
    return tf.concat([u, v, (1 - fading**2) / 2], axis=1)


def equation(w, x):
    v, p = w["u", "v"], w["p"]
    momentum = advection(v, v, x) + gradient(p, x) - laplacian(v, x) / REYNOLDS
    return tf.concat([momentum, divergence(v, x)], axis=1)


def problem():
    return Problem(
        Box([-0.5, -0.5], [1, 1.5]),
        equation,
        conditions=[
            Dirichlet(lambda x: solution(x)[:, :2], component=("u", "v")),
            Dirichlet(lambda x: solution(x)[:, 2:], component="p", on="x=upper"),
        ],
        outputs=("u", "v", "p"),
        exact=solution,
        name="Kovasznay",
    )


NETWORK, POINTS = partial(MLP, width=24, depth=2), Points(1200, boundary=300)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=150, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/kovasznay", overwrite=True)
