"""u_t = 0.005 u_xx + 3 u (1 − u) on [0, 1] × [0, 2]: a travelling front.

    u = [1 + exp(√(ρ/6D) (x − x₀) − 5ρt/6)]^{−2},     x₀ = 0.2

travels at the speed 5 √(ρD/6) (Ablowitz and Zeppetella 1979, Bull. Math. Biol. 41, 835–840). It is
given at t = 0 and at both ends.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Initial, Problem, derivative
from sciml_par.training import Points

D, RHO = 0.005, 3.0


def solution(x):
    phase = np.sqrt(RHO / (6 * D)) * (x[:, :1] - 0.2) - 5 * RHO / 6 * x[:, 1:]
    return (1 + tf.exp(phase)) ** -2


def equation(u, x):
    reaction = RHO * u(x) * (1 - u(x))
    return derivative(u, x, "t") - D * derivative(u, x, "x", "x") - reaction


def problem():
    return Problem(
        Box([0, 0], [1, 2], names=("x", "t")),
        equation,
        conditions=[Dirichlet(solution, on=("x=lower", "x=upper")), Initial(solution)],
        exact=solution,
        name="reaction–diffusion",
    )


TRAINING = dict(
    points=Points((32, 40), boundary=240),
    network=partial(MLP, width=20, depth=2),
    optimizer="lm",
    steps=200,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/reaction-diffusion", overwrite=True)
