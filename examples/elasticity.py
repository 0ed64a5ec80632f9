"""μ Δw + (λ + μ) ∇∇·w + f = 0 in the unit square, the displacement w given around.

    u = sin πx cos πy / 2,     v = cos πx sin 2πy / 4

in plane strain, with the force f for which these displacements are the solution.
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Elastic, Problem, Residual
from sciml_par.training import Points

LAME, SHEAR = 1.0, 0.5
MATERIAL = Elastic(lame=LAME, shear=SHEAR)


def solution(x):
    a, b = np.pi * x[:, :1], np.pi * x[:, 1:]
    u, v = tf.sin(a) * tf.cos(b) / 2, tf.cos(a) * tf.sin(2 * b) / 4
    return tf.concat([u, v], axis=1)


def force(x):
    """−μ Δw − (λ + μ) ∇(∇·w), with ∇·w = π/2 cos πx (cos πy + cos 2πy)."""
    a, b = np.pi * x[:, :1], np.pi * x[:, 1:]
    slope_x = -tf.sin(a) * (tf.cos(b) + tf.cos(2 * b)) / 2
    slope_y = -tf.cos(a) * (tf.sin(b) + 2 * tf.sin(2 * b)) / 2
    of_divergence = tf.concat([slope_x, slope_y], axis=1)
    return np.pi**2 * (SHEAR * solution(x) * [2, 5] - (LAME + SHEAR) * of_divergence)


def problem():
    return Problem(
        Box([0, 0], [1, 1]),
        Residual(lambda w, x, f: MATERIAL.force(w, x) + f, data=force),
        conditions=[Dirichlet(solution)],
        outputs=("u", "v"),
        exact=solution,
        name="elasticity",
    )


TRAINING = dict(
    points=Points((25, 25), boundary=120),
    network=partial(MLP, width=40, depth=1),
    optimizer="lm",
    steps=200,
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/elasticity", overwrite=True)
