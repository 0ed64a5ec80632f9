"""The bending of a beam and the deformation of an elastic plate."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._checks import check_number, check_positive
from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, row_sum, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet, Neumann
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.operators import biharmonic, hessian, jacobian, laplacian
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

    return Problem(
        Box([0, 0], [1, 1]),
        Residual(lambda w, x, f: _navier(w, x, lame, shear) + f, data=force),
        conditions=[Dirichlet(solution)],
        outputs=("u", "v"),
        exact=solution,
        name="elasticity",
    )


def _navier(w: Any, x: Any, lame: float, shear: float) -> Any:
    """μ Δw + (λ + μ) ∇(∇·w): [n, 2]."""
    second = hessian(w, x)
    along_x = second[:, 0, 0, 0] + second[:, 1, 0, 1]
    along_y = second[:, 0, 0, 1] + second[:, 1, 1, 1]
    gradient = tf.stack([along_x, along_y], axis=1)
    return shear * laplacian(w, x) + (lame + shear) * gradient


def plate_with_hole(
    *, radius: float = 0.25, tension: float = 1.0, lame: float = 1.0, shear: float = 0.5
) -> Problem:
    """A quarter of a plate with a round hole under tension along x, plane strain; u and v.

    μ Δw + (λ + μ) ∇(∇·w) = 0 in the unit square without the disc |x| < a. The hole is free of
    forces, n·σ = 0, and the plate symmetric: u = 0 and v_x = 0 at x = 0, v = 0 and u_y = 0 at
    y = 0. On the sides x = 1 and y = 1, n·σ is that of Kirsch's solution in the whole plane, with
    the tension S far away (Kirsch 1898, Z. Ver. Dtsch. Ing. 42, 797–807):

        u = aS/8μ [(κ + 1) r/a cos φ + 2 ((1 + κ) cos φ + cos 3φ) a/r − 2 cos 3φ a³/r³]
        v = aS/8μ [(κ − 3) r/a sin φ + 2 ((1 − κ) sin φ + sin 3φ) a/r − 2 sin 3φ a³/r³]

    with κ = (λ + 3μ)/(λ + μ). At the hole the stress along its edge is S (1 − 2 cos 2φ): 3 S at
    (0, a) and −S at (a, 0). `hoop_stress` computes it from displacements.

    Parameters
    ----------
    radius : float
        a, between 0 and 1, a length.
    tension : float
        S, a stress other than 0.
    lame, shear : float
        λ and μ, of Lamé, positive, in units of stress.

    Raises
    ------
    InputError
        The radius is not between 0 and 1, a coefficient of Lamé is not positive, or the tension is
        zero.
    """
    check_number("plate_with_hole", "radius", radius, "between 0 and 1", lambda a: 0 < a < 1)
    check_number("plate_with_hole", "tension", tension, "other than 0", lambda s: s != 0)
    check_positive("plate_with_hole", lame=lame, shear=shear)
    kolosov = (lame + 3 * shear) / (lame + shear)

    def solution(x: Any) -> Any:
        r = row_sum(x**2) ** 0.5
        near, c, s = radius / r, x[:, :1] / r, x[:, 1:] / r
        c3, s3 = 4 * c**3 - 3 * c, 3 * s - 4 * s**3
        u = (kolosov + 1) * c / near + 2 * near * ((1 + kolosov) * c + (1 - near**2) * c3)
        v = (kolosov - 3) * s / near + 2 * near * ((1 - kolosov) * s + (1 - near**2) * s3)
        return radius * tension / (8 * shear) * columns(u, v)

    def exact_stress(x: Any) -> Any:
        """σ_xx, σ_yy and σ_xy of Kirsch: [n, 3]."""
        r = row_sum(x**2) ** 0.5
        near, c, s = (radius / r) ** 2, x[:, :1] / r, x[:, 1:] / r
        c2, s2 = c**2 - s**2, 2 * c * s
        c4, s4 = c2**2 - s2**2, 2 * c2 * s2
        far = 1.5 * near**2
        xx = 1 - near * (1.5 * c2 + c4) + far * c4
        yy = -near * (0.5 * c2 - c4) - far * c4
        xy = -near * (0.5 * s2 + s4) + far * s4
        return tension * columns(xx, yy, xy)

    def traction(w: Any, x: Any, normals: Any) -> Any:
        return tf.linalg.matvec(stress(w, x, lame=lame, shear=shear), normals)

    def load(w: Any, x: Any, normals: Any) -> Any:
        xx, yy, xy = tf.split(exact_stress(x), 3, axis=1)
        along_x = xx * normals[:, :1] + xy * normals[:, 1:]
        along_y = xy * normals[:, :1] + yy * normals[:, 1:]
        return traction(w, x, normals) - columns(along_x, along_y)

    return Problem(
        Box([0, 0], [1, 1]) - Ball([0, 0], radius),
        lambda w, x: _navier(w, x, lame, shear),
        conditions=[
            Condition(load, on=("x=upper", "y=upper"), name="load"),
            Condition(traction, on="surface", name="hole"),
            Dirichlet(0.0, component="u", on="x=lower", name="u at x=0"),
            Neumann(0.0, component="v", on="x=lower", name="v_x at x=0"),
            Dirichlet(0.0, component="v", on="y=lower", name="v at y=0"),
            Neumann(0.0, component="u", on="y=lower", name="u_y at y=0"),
        ],
        outputs=("u", "v"),
        exact=solution,
        name="plate with a hole",
    )


def stress(w: Any, x: Any, *, lame: float = 1.0, shear: float = 0.5) -> Any:
    """Compute σ = λ (∇·w) I + μ (∇w + ∇wᵀ) of displacements w, plane strain: [n, 2, 2] (local)."""
    slopes = jacobian(w, x)
    divergence = tf.linalg.trace(slopes)[:, None, None]
    return lame * divergence * tf.eye(2, dtype=x.dtype) + shear * (
        slopes + tf.linalg.matrix_transpose(slopes)
    )


def hoop_stress(w: Any, x: Any, *, lame: float = 1.0, shear: float = 0.5) -> Any:
    """Compute σ_φφ, the normal stress along circles around the origin: [n, 1] (local).

    Parameters
    ----------
    w : Field or callable
        Displacements, such as ``problem.field(network)``.
    x : tensor [n, 2]
        Such as points of the hole; not the origin.
    lame, shear : float
        λ and μ, of Lamé, in units of stress.
    """
    tangent = columns(-x[:, 1:], x[:, :1]) / row_sum(x**2) ** 0.5
    force = tf.linalg.matvec(stress(w, x, lame=lame, shear=shear), tangent)
    return row_sum(force * tangent)


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
    CatalogueEntry(
        "plate-hole",
        "μ Δw + (λ + μ) ∇∇·w = 0 in a quarter of a plate with a hole, under tension",
        plate_with_hole,
        Suggestion(1500, boundary=400, method="sobol", width=20, depth=2, steps=200),
    ),
)
