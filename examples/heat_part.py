"""−c ΔT = q in a body of triangles, as of an STL: T given at its foot, the flux on the rest.

    T = cos kx cos ky e^{−kz},     q = c k² T

is exact in a body of any shape. By default trimesh makes a sleeve with a flange, with the triangles
that a file would have; `problem(file="part.stl")` takes another body, with a size of about 1/k.
"""

from functools import partial

import sciml_par as sp
import tensorflow as tf
import trimesh
from sciml_par.networks import MLP
from sciml_par.problems import Condition, Dirichlet, Mesh, Problem, Residual, gradient, laplacian
from sciml_par.training import Points

CONDUCTIVITY, K = 1.0, 2.0
PROFILE = [(0.4, 0), (1, 0), (1, 0.25), (0.6, 0.25), (0.6, 1), (0.4, 1), (0.4, 0)]  # radius, height


def solution(x):
    return tf.cos(K * x[:, :1]) * tf.cos(K * x[:, 1:2]) * tf.exp(-K * x[:, 2:])


def equation(u, x, q):
    return -CONDUCTIVITY * laplacian(u, x) - q


def flux(u, x, normals):
    """c n·∇(u − T)."""
    slopes = gradient(u, x) - gradient(solution, x)
    return CONDUCTIVITY * tf.reduce_sum(slopes * normals, axis=1, keepdims=True)


def problem(*, file=None):
    body = Mesh(trimesh.creation.revolve(PROFILE, sections=48) if file is None else file)
    foot = float(body.lower[2] + 0.1 * body.extent[2])  # its upper end
    return Problem(
        body,
        Residual(equation, data=lambda x: CONDUCTIVITY * K**2 * solution(x)),
        conditions=[
            Dirichlet(solution, where=lambda x: x[:, 2] < foot, name="foot"),
            Condition(flux, where=lambda x: x[:, 2] >= foot, name="flux"),
        ],
        outputs=("T",),
        exact=solution,
        name="heat in a part",
    )


NETWORK, POINTS = partial(MLP, width=20, depth=2), Points(1000, boundary=800)
TRAINING = dict(points=POINTS, network=NETWORK, optimizer="lm", steps=120, precision="float64")

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/heat-part", overwrite=True)
