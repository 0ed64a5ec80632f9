"""∇·σ + f = 0 in the unit cube, σ n given on a face and displacements on the others.

The displacements are a + b, where a = ∇(sin kx sin ky sin kz)/k and b = (sin kz, sin kx, sin ky),
which has no divergence. Their force is f = 3k² (λ + 2μ) a + k² μ b. The face x = 1 is pulled by the
traction σ n of this solution.
"""

from functools import partial

import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Elastic, Problem, Residual, Traction
from sciml_par.training import Points

K, MATERIAL = 3.0, Elastic(young=1.0, poisson=0.3)
LAME, SHEAR = MATERIAL.lame, MATERIAL.shear
REST = ("x=lower", "y=lower", "y=upper", "z=lower", "z=upper")


def parts(x):
    (sx, sy, sz), (cx, cy, cz) = (tf.split(f(K * x), 3, axis=1) for f in (tf.sin, tf.cos))
    a = tf.concat([cx * sy * sz, sx * cy * sz, sx * sy * cz], axis=1)
    return a, tf.concat([sz, sx, sy], axis=1)


def solution(x):
    return sum(parts(x))


def force(x):
    a, b = parts(x)
    return K**2 * (3 * (LAME + 2 * SHEAR) * a + SHEAR * b)


def load(x):
    """σ n on the face x = 1: σ_xx, σ_xy and σ_xz."""
    return MATERIAL.stress(solution, tf.convert_to_tensor(x))[:, 0]


def problem():
    return Problem(
        Box([0, 0, 0], [1, 1, 1]),
        Residual(lambda w, x, f: MATERIAL.force(w, x) + f, data=force),
        conditions=[Traction(MATERIAL, load, on="x=upper"), Dirichlet(solution, on=REST)],
        outputs=("u", "v", "w"),
        exact=solution,
        name="elasticity, 3-D",
    )


NETWORK, POINTS = partial(MLP, width=40, depth=1), Points(1000, boundary=600)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=200, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/elasticity-3d", overwrite=True)
