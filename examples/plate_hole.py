"""μ Δw + (λ + μ) ∇∇·w = 0 in a quarter of a plate with a hole, under tension.

The hole r = a is free of forces; at x = 1 and y = 1 the traction is that of an infinite plate in
plane strain (Kirsch 1898, Z. Ver. Dtsch. Ing. 42, 797–807), with κ = (λ + 3μ)/(λ + μ):

    u = aS/8μ [(κ + 1) r/a cos φ + 2 ((1 + κ) cos φ + cos 3φ) a/r − 2 cos 3φ a³/r³]
    v = aS/8μ [(κ − 3) r/a sin φ + 2 ((1 − κ) sin φ + sin 3φ) a/r − 2 sin 3φ a³/r³]
"""

from functools import partial

import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Ball, Box, Dirichlet, Elastic, Neumann, Problem, Traction
from sciml_par.training import Points

A, S, LAME, SHEAR, LOADED = 0.25, 1.0, 1.0, 0.5, ("x=upper", "y=upper")
MATERIAL, KAPPA = Elastic(lame=LAME, shear=SHEAR), (LAME + 3 * SHEAR) / (LAME + SHEAR)


def solution(x):
    r, phi = tf.norm(x, axis=1, keepdims=True) / A, tf.atan2(x[:, 1:], x[:, :1])
    c, s, c3, s3 = tf.cos(phi), tf.sin(phi), tf.cos(3 * phi), tf.sin(3 * phi)
    u = (KAPPA + 1) * r * c + 2 * ((1 + KAPPA) * c + c3) / r - 2 * c3 / r**3
    v = (KAPPA - 3) * r * s + 2 * ((1 - KAPPA) * s + s3) / r - 2 * s3 / r**3
    return A * S / (8 * SHEAR) * tf.concat([u, v], axis=1)


def hoop_stress(w, x):
    """σ_φφ, at the hole S (1 − 2 cos 2φ); `result.evaluate(hoop_stress, x)` computes it."""
    tangent = tf.concat([-x[:, 1:], x[:, :1]], axis=1) / tf.norm(x, axis=1, keepdims=True)
    return tf.reduce_sum(MATERIAL.traction(w, x, tangent) * tangent, axis=1, keepdims=True)


def problem():
    sides = (("u", "v", "x=lower"), ("v", "u", "y=lower"))  # of symmetry
    return Problem(
        Box([0, 0], [1, 1]) - Ball([0, 0], A),
        MATERIAL.force,
        conditions=[
            Traction(MATERIAL, lambda w, x, n: MATERIAL.traction(solution, x, n), on=LOADED),
            Traction(MATERIAL, on="surface", name="hole"),
            *(Dirichlet(0.0, component=across, on=side) for across, _, side in sides),
            *(Neumann(0.0, component=along, on=side) for _, along, side in sides),
        ],
        outputs=("u", "v"),
        exact=solution,
        name="plate with a hole",
    )


NETWORK, POINTS = partial(MLP, width=20, depth=2), Points(1500, boundary=400)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=200, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/plate-hole", overwrite=True)
