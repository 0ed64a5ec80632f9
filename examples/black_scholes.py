"""V_t + ½ σ² S² V_SS + r S V_S − r V = 0, V given near expiry: a call option.

    V = S Φ(d₁) − e^{−rτ} Φ(d₂),     τ = 1 − t,     d₁,₂ = [log S + (r ± σ²/2) τ] / (σ√τ)

is its price for a share price S, with the strike 1 and the expiry t = 1 (Black and Scholes 1973,
J. Political Economy 81, 637–654). It is given for the lowest and the highest S, and at t = 0.9,
since it has a kink at expiry.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, derivative
from sciml_par.training import Points

RATE, SIGMA = 0.05, 0.4


def normal_distribution(x):
    return (1 + tf.math.erf(x / np.sqrt(2))) / 2


def solution(x):
    price, left = x[:, :1], 1 - x[:, 1:]
    upper = (tf.math.log(price) + (RATE + SIGMA**2 / 2) * left) / (SIGMA * left**0.5)
    certain = tf.exp(-RATE * left) * normal_distribution(upper - SIGMA * left**0.5)
    return price * normal_distribution(upper) - certain


def equation(v, x):
    s = x[:, :1]
    diffusion = (SIGMA * s) ** 2 / 2 * derivative(v, x, "S", "S")
    return derivative(v, x, "t") + diffusion + RATE * (s * derivative(v, x, "S") - v(x))


def problem():
    return Problem(
        Box([0.2, 0], [2, 0.9], names=("S", "t")),
        equation,
        conditions=[Dirichlet(solution, on=("S=lower", "S=upper", "t=upper"))],
        outputs="V",
        exact=solution,
        name="Black–Scholes",
    )


NETWORK, POINTS = partial(MLP, width=16, depth=2), Points((32, 24), boundary=160)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=150, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/black-scholes", overwrite=True)
