"""The bending of a beam and the deformation of an elastic plate."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet, Neumann
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.operators import biharmonic, hessian, laplacian
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.residual import Residual


def beam(*, load: float = 384.0) -> Problem:
    """u⁗ = q on [0, 1], u = u′ = 0 at both ends; u = q x² (1 − x)² / 24, a polynomial.

    Parameters
    ----------
    load : float
        q, the load per length over the bending stiffness; with 384 the greatest deflection is 1.
    """

    def solution(x: Any) -> Any:
        return load / 24 * (x * (1 - x)) ** 2

    def equation(u: Any, x: Any) -> Any:
        return (biharmonic(u, x) - load) / load

    return Problem(
        Interval(0, 1),
        equation,
        conditions=[Dirichlet(0.0), Neumann(0.0)],
        exact=solution,
        name="Euler beam",
    )


def elasticity(*, lame: float = 1.0, shear: float = 0.5) -> Problem:
    """μ Δw + (λ + μ) ∇(∇·w) + f = 0 in the unit square, plane strain; displacements u and v.

        u = sin πx cos πy / 2,  v = cos πx sin 2πy / 4

    are given on the boundary, with f chosen so that they are the exact solution.

    Parameters
    ----------
    lame, shear : float
        λ and μ, of Lamé, in units of stress.
    """

    def solution(x: Any) -> Any:
        a, b = np.pi * x[:, :1], np.pi * x[:, 1:]
        return columns(sin(a) * cos(b) / 2, cos(a) * sin(2 * b) / 4)

    def force(x: Any) -> Any:
        a, b = np.pi * x[:, :1], np.pi * x[:, 1:]
        curl_free = lame + shear
        # Δu = −2π² u, Δv = −5π² v, and the second derivatives of ∇·w
        xx = -sin(a) * cos(b) / 2
        xy_of_v = -sin(a) * cos(2 * b) / 2
        xy_of_u = -cos(a) * sin(b) / 2
        yy = -cos(a) * sin(2 * b)
        u, v = solution(x)[:, :1], solution(x)[:, 1:]
        along_x = 2 * shear * u - curl_free * (xx + xy_of_v)
        along_y = 5 * shear * v - curl_free * (xy_of_u + yy)
        return np.pi**2 * columns(along_x, along_y)

    def equation(w: Any, x: Any, f: Any) -> Any:
        second = hessian(w, x)
        along_x = second[:, 0, 0, 0] + second[:, 1, 0, 1]
        along_y = second[:, 0, 0, 1] + second[:, 1, 1, 1]
        gradient = tf.stack([along_x, along_y], axis=1)
        return shear * laplacian(w, x) + (lame + shear) * gradient + f

    return Problem(
        Box([0, 0], [1, 1]),
        Residual(equation, data=force),
        conditions=[Dirichlet(solution)],
        outputs=("u", "v"),
        exact=solution,
        name="elasticity",
    )


ENTRIES = (
    CatalogueEntry(
        "beam",
        "u⁗ = q on [0, 1], clamped at both ends: u = u′ = 0",
        beam,
        Suggestion(120, width=16, depth=1, steps=100),
    ),
    CatalogueEntry(
        "elasticity",
        "μ Δw + (λ + μ) ∇∇·w + f = 0 in the unit square, the displacement w given around",
        elasticity,
        Suggestion((25, 25), boundary=120, width=40, depth=1, steps=200),
    ),
)
