"""∇p = μ Δu, ∇·u = 0 in a round pipe, driven by the pressure at both ends: Poiseuille.

    u = v = 0,     w = Δp (R² − x² − y²)/(4μL),     p = Δp (1 − z/L)

is the flow of Hagen and Poiseuille. Given are u = 0 at the wall, and at both ends the pressure and
u = v = 0.
"""

from functools import partial

import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Ball, Dirichlet, Extruded, Problem, divergence, gradient, laplacian
from sciml_par.training import Points

RADIUS, LENGTH, VISCOSITY, DROP = 1.0, 2.0, 1.0, 8.0
ENDS = ("z=lower", "z=upper")


def pressure(x):
    return DROP * (1 - x[:, 2:] / LENGTH)


def solution(x):
    r2 = tf.reduce_sum(x[:, :2] ** 2, axis=1, keepdims=True)
    w = DROP / (4 * VISCOSITY * LENGTH) * (RADIUS**2 - r2)
    return tf.concat([w * [0, 0, 1], pressure(x)], axis=1)


def equation(u, x):
    velocity, p = u["u", "v", "w"], u["p"]
    momentum = gradient(p, x) - VISCOSITY * laplacian(velocity, x)
    return tf.concat([momentum, divergence(velocity, x)], axis=1)


def problem():
    wall = Dirichlet(0.0, component=("u", "v", "w"), on="surface", name="wall")
    across = Dirichlet(0.0, component=("u", "v"), on=ENDS, name="across")
    return Problem(
        Extruded(Ball([0, 0], RADIUS), 0, LENGTH),
        equation,
        conditions=[wall, across, Dirichlet(pressure, component="p", on=ENDS, name="pressure")],
        outputs=("u", "v", "w", "p"),
        exact=solution,
        name="Stokes in a pipe",
    )


NETWORK, POINTS = partial(MLP, width=30, depth=1), Points(600, boundary=600)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=150, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/pipe", overwrite=True)
