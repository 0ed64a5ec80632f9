"""Δu + 50² u = 0 in the unit square, u given on its boundary: two plane waves.

    u = Σ_j cos k(x cos α_j + y sin α_j),     k = 50

has 8 wavelengths along each side. The equation is divided by k². It determines u unless k² is one
of the eigenvalues (m² + n²) π², and errors grow near them; 50² is 253.3 π², between 250 π² and
257 π².
"""

from functools import partial

import numpy as np
import sciml_par as sp
import tensorflow as tf
from sciml_par.networks import RandomFeatures, Windows
from sciml_par.problems import Box, Dirichlet, Problem, laplacian
from sciml_par.training import LeastSquares, Points

ANGLES = (0.5, 2.0)


def problem(*, k=50.0):
    def solution(x):
        return sum(tf.cos(k * (np.cos(a) * x[:, :1] + np.sin(a) * x[:, 1:])) for a in ANGLES)

    return Problem(
        Box([0, 0], [1, 1]),
        lambda u, x: laplacian(u, x) / k**2 + u(x),
        conditions=[Dirichlet(solution)],
        exact=solution,
        name=f"plane waves, k = {k:g}",
    )


TRAINING = dict(
    points=Points(30_000, boundary=700),
    network=Windows(partial(RandomFeatures, features=150, scale=10.0), parts=(8, 8)),
    optimizer=LeastSquares(),
    precision="float64",
)

if __name__ == "__main__":
    sp.init()
    result = sp.train(problem(), **TRAINING)
    result.print()
    result.save("runs/helmholtz-waves", overwrite=True)
