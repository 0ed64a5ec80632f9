"""u⁗ = q on [0, 1], clamped at both ends: u = u′ = 0.

    u = q x² (1 − x)² / 24

q is the load per length over the bending stiffness, for which the greatest deflection is 1.
"""

from functools import partial

import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Interval, Neumann, Problem, biharmonic

LOAD = 384.0


def equation(u, x):
    return biharmonic(u, x) / LOAD - 1


def solution(x):
    return LOAD / 24 * (x * (1 - x)) ** 2


def problem():
    return Problem(
        Interval(0, 1),
        equation,
        conditions=[Dirichlet(0.0), Neumann(0.0)],
        exact=solution,
        name="Euler beam",
    )


TRAINING = dict(
    points=120,
    network=partial(MLP, width=16, depth=1),
    optimizer="lm",
    steps=100,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/beam", overwrite=True)
