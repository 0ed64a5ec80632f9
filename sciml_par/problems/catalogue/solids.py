"""The bending of a beam and the deformation of elastic bodies."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._checks import check_number, check_positive
from sciml_par._tensorflow import tf
from sciml_par.problems.catalogue.entry import CatalogueEntry, Suggestion
from sciml_par.problems.catalogue.functions import columns, cos, row_sum, sin
from sciml_par.problems.conditions.boundary_values import Dirichlet, Neumann, Traction
from sciml_par.problems.domains.ball import Ball
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.operators.elastic import Elastic
from sciml_par.problems.operators.operators import biharmonic
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

    material = Elastic(lame=lame, shear=shear)

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
        Residual(lambda w, x, f: material.force(w, x) + f, data=force),
        conditions=[Dirichlet(solution)],
        outputs=("u", "v"),
        exact=solution,
        name="elasticity",
    )


def elasticity_box(*, young: float = 1.0, poisson: float = 0.3, wave: float = 3.0) -> Problem:
    """∇·σ + f = 0 in the unit cube; displacements u, v and w = a + b with

        a = (cos kx sin ky sin kz, sin kx cos ky sin kz, sin kx sin ky cos kz),
        b = (sin kz, sin kx, sin ky)

    The first is a gradient and the second has no divergence, so that f = 3k² (λ + 2μ) a + k² μ b.
    The face x = 1 is pulled by the traction σ n of this solution, and the displacements are given
    on the others.

    Parameters
    ----------
    young, poisson : float
        E, in units of stress, and ν, dimensionless.
    wave : float
        k, an inverse length, other than 0.
    """
    check_number("elasticity_box", "wave", wave, "other than 0", lambda k: k != 0)
    material = Elastic(young=young, poisson=poisson)
    lame, shear, k = material.lame, material.shear, wave

    def waves(x: Any) -> Any:
        """Sine and cosine of kx, ky and kz: three of [n, 1] each."""
        return ([of(k * x[:, i : i + 1]) for i in range(3)] for of in (sin, cos))

    def parts(x: Any) -> tuple[Any, Any]:
        (sx, sy, sz), (cx, cy, cz) = waves(x)
        return columns(cx * sy * sz, sx * cy * sz, sx * sy * cz), columns(sz, sx, sy)

    def solution(x: Any) -> Any:
        return sum(parts(x))

    def force(x: Any) -> Any:
        gradient, turning = parts(x)
        return k**2 * (3 * (lame + 2 * shear) * gradient + shear * turning)

    def load(x: Any) -> Any:
        """σ_xx, σ_xy and σ_xz: [n, 3]."""
        (sx, sy, sz), (cx, cy, cz) = waves(x)
        along = -(3 * lame + 2 * shear) * sx * sy * sz
        return k * columns(along, shear * cx * (2 * cy * sz + 1), shear * (2 * cx * sy + 1) * cz)

    return Problem(
        Box([0, 0, 0], [1, 1, 1]),
        Residual(lambda w, x, f: material.force(w, x) + f, data=force),
        conditions=[
            Traction(material, load, on="x=upper"),
            Dirichlet(solution, on=("x=lower", "y=lower", "y=upper", "z=lower", "z=upper")),
        ],
        outputs=("u", "v", "w"),
        exact=solution,
        name="elasticity, 3-D",
    )


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
    material = Elastic(lame=lame, shear=shear)
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

    def load(w: Any, x: Any, normals: Any) -> Any:
        xx, yy, xy = tf.split(exact_stress(x), 3, axis=1)
        along_x = xx * normals[:, :1] + xy * normals[:, 1:]
        return columns(along_x, xy * normals[:, :1] + yy * normals[:, 1:])

    return Problem(
        Box([0, 0], [1, 1]) - Ball([0, 0], radius),
        material.force,
        conditions=[
            Traction(material, load, on=("x=upper", "y=upper"), name="load"),
            Traction(material, on="surface", name="hole"),
            Dirichlet(0.0, component="u", on="x=lower", name="u at x=0"),
            Neumann(0.0, component="v", on="x=lower", name="v_x at x=0"),
            Dirichlet(0.0, component="v", on="y=lower", name="v at y=0"),
            Neumann(0.0, component="u", on="y=lower", name="u_y at y=0"),
        ],
        outputs=("u", "v"),
        exact=solution,
        name="plate with a hole",
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
    force = Elastic(lame=lame, shear=shear).traction(w, x, tangent)
    return row_sum(force * tangent)


def bar_bending(*, young: float = 1.0, poisson: float = 0.3, curvature: float = 0.5) -> Problem:
    """A bar [0, 2] × [−½, ½]² that moments at its ends bend; displacements u, v and w.

        u = κ x z,  v = −ν κ y z,  w = −κ (x² + ν (z² − y²)) / 2

    with the stress σ_xx = E κ z alone, a solution of ∇·σ = 0 without forces on the sides
    (Timoshenko and Goodier 1951, Theory of Elasticity, section 102). The displacement is given at
    x = 0, and at x = 2 the traction E κ z along x.

    Parameters
    ----------
    young, poisson : float
        E, in units of stress, and ν, dimensionless.
    curvature : float
        κ of the axis, the reciprocal of a length, not 0.
    """
    material = Elastic(young=young, poisson=poisson)
    check_number("bar_bending", "curvature", curvature, "other than 0", lambda k: k != 0)

    def solution(x: Any) -> Any:
        a, y, z = x[:, :1], x[:, 1:2], x[:, 2:]
        down = -curvature / 2 * (a**2 + poisson * (z**2 - y**2))
        return columns(curvature * a * z, -poisson * curvature * y * z, down)

    def load(x: Any) -> Any:
        along_x = young * curvature * x[:, 2:]
        return columns(along_x, 0 * along_x, 0 * along_x)

    return Problem(
        Box([0, -0.5, -0.5], [2, 0.5, 0.5]),
        material.force,
        conditions=[
            Dirichlet(solution, on="x=lower"),
            Traction(material, load, on="x=upper", name="load"),
            Traction(material, on=("y=lower", "y=upper", "z=lower", "z=upper"), name="free sides"),
        ],
        outputs=("u", "v", "w"),
        exact=solution,
        name="bending of a bar",
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
    CatalogueEntry(
        "elasticity-3d",
        "∇·σ + f = 0 in the unit cube, σ n given on a face and displacements on the others",
        elasticity_box,
        Suggestion(1000, boundary=600, method="sobol", width=40, depth=1, steps=200),
    ),
    CatalogueEntry(
        "plate-hole",
        "μ Δw + (λ + μ) ∇∇·w = 0 in a quarter of a plate with a hole, under tension",
        plate_with_hole,
        Suggestion(1500, boundary=400, method="sobol", width=20, depth=2, steps=200),
    ),
    CatalogueEntry(
        "bar-bending",
        "∇·σ = 0 in a bar in space, bent by moments at its ends, σ n given there and on its sides",
        bar_bending,
        Suggestion(1000, boundary=600, method="sobol", width=20, depth=2, steps=150),
    ),
)
