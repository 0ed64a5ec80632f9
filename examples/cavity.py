"""Navier–Stokes, steady, Re = 100, in the unit square under a moving lid.

The lid y = 1 has the velocity 16 x² (1 − x)². With u = 1, velocity and pressure would have no
limits in its corners (Shen 1991, J. Comput. Phys. 95, 228–245). All conditions are built in, as is
p = 0 at (½, 0). The error is that against a spectral method.
"""

from functools import partial

import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Problem, advection, divergence, gradient, laplacian
from sciml_par.training import Points

from references.cavity import solution as reference

REYNOLDS = 100.0


def equation(w, x):
    v, p = w["u", "v"], w["p"]
    momentum = advection(v, v, x) + gradient(p, x) - laplacian(v, x) / REYNOLDS
    return tf.concat([momentum, divergence(v, x)], axis=1)


def solution(x):
    return reference(REYNOLDS)(x)


def ansatz(network, xy):
    x, y, (a, b, c, d) = xy[:, :1], xy[:, 1:], tf.split(network(xy), 4, axis=1)
    inside = 16 * x * (1 - x) * y * (1 - y)
    lid = 16 * (x * (1 - x) * y) ** 2
    return tf.concat([lid + inside * a, inside * b, (x - 0.5) * c + y * d], axis=1)


def problem():
    return Problem(
        Box([0, 0], [1, 1]),
        equation,
        ansatz=ansatz,
        network_outputs=4,
        outputs=("u", "v", "p"),
        exact=solution,
        name="cavity, Re = 100",
    )


NETWORK, POINTS = partial(MLP, width=20, depth=3), Points((36, 36))
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=200, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/cavity", overwrite=True)
