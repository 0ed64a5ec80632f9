"""∇·σ = 0 in a bar in space, bent by moments at its ends, σ n given there and on its sides.

    u = κ x z,     v = −ν κ y z,     w = −κ (x² + ν (z² − y²)) / 2

in the bar [0, 2] × [−½, ½]² has the stress σ_xx = E κ z alone (Timoshenko and Goodier 1951, Theory
of Elasticity, section 102). The displacement is given at x = 0, and the traction at x = 2.
"""

from functools import partial

import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Elastic, Problem, Traction
from sciml_par.training import Points

YOUNG, POISSON, CURVATURE = 1.0, 0.3, 0.5
MATERIAL = Elastic(young=YOUNG, poisson=POISSON)
SIDES = ("y=lower", "y=upper", "z=lower", "z=upper")


def solution(x):
    x, y, z = tf.split(x, 3, axis=1)
    down = -(x**2 + POISSON * (z**2 - y**2)) / 2
    return CURVATURE * tf.concat([x * z, -POISSON * y * z, down], axis=1)


def load(x):
    return YOUNG * CURVATURE * x[:, 2:] * [1, 0, 0]


def problem():
    return Problem(
        Box([0, -0.5, -0.5], [2, 0.5, 0.5]),
        MATERIAL.force,
        conditions=[
            Dirichlet(solution, on="x=lower"),
            Traction(MATERIAL, load, on="x=upper", name="load"),
            Traction(MATERIAL, on=SIDES, name="free sides"),
        ],
        outputs=("u", "v", "w"),
        exact=solution,
        name="bending of a bar",
    )


TRAINING = dict(
    points=Points(1000, boundary=600),
    network=partial(MLP, width=20, depth=2),
    optimizer="lm",
    steps=150,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/bar-bending", overwrite=True)
