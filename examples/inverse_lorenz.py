"""x′ = σ (y − x), y′ = x (ρ − z) − y, z′ = x y − β z, observed at 31 times: σ, ρ, β are sought.

Lu, Meng, Mao and Karniadakis (2021, SIAM Review 63, 208–228, section 4.4) find the same
coefficients from 25 observations. `problem(noise=0.05)` gives the observations errors, normally
distributed with a deviation of 5 % of the root mean square of each component.
"""

from functools import cache, partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Observations, Problem, Unknown, derivative
from scipy.integrate import solve_ivp

TRUE, GUESS = {"sigma": 10.0, "rho": 15.0, "beta": 8 / 3}, {"sigma": 5.0, "rho": 5.0, "beta": 1.0}


def velocity(x, y, z, *, sigma, rho, beta):
    return [sigma * (y - x), x * (rho - z) - y, x * y - beta * z]


def equation(w, t, *, sigma, rho, beta):
    right = velocity(*tf.split(w(t), 3, axis=1), sigma=sigma, rho=rho, beta=beta)
    return (derivative(w, t, "t") - tf.concat(right, axis=1)) / 10


@cache
def trajectory():
    same = {"rtol": 1e-12, "atol": 1e-12, "max_step": 3 / 400, "dense_output": True}
    f = partial(velocity, **TRUE)
    return solve_ivp(lambda t, w: f(*w), (0, 3), (-8, 7, 27), method="DOP853", **same).sol


def problem(*, noise=0.0, seed=0):
    times = np.linspace(0, 3, 31)
    u = trajectory()(times).T
    deviation = noise * np.sqrt(np.mean(u**2, axis=0)) * np.ones_like(u)
    u = u + deviation * np.random.default_rng([seed, 1]).normal(size=u.shape)
    return Problem(
        Interval(0, 3, name="t"),
        equation,
        conditions=[Observations(times[:, None], u, noise=deviation if noise else None)],
        ansatz=lambda network, t: np.array([[0.0, 0.0, 10.0]]) + 10 * network(t),
        outputs=("x", "y", "z"),
        unknowns={c: Unknown(GUESS[c], lower=0, true=TRUE[c]) for c in TRUE},
        exact=lambda t: trajectory()(t[:, 0]).T,
        name="inverse Lorenz",
    )


NETWORK = partial(MLP, width=24, depth=2)
TRAINING = dict(points=300, network=NETWORK, optimizer="lm", steps=200, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/inverse-lorenz", overwrite=True)
