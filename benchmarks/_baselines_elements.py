"""Finite elements by scikit-fem (Gustafsson and McBain 2020, doi:10.21105/joss.02369), steady."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import skfem as fem
from _baselines_problems import Field, FloatArray
from _examples import problem_named
from scipy.sparse.linalg import splu
from skfem import adaptive_theta, condense, solve
from skfem.helpers import dot, grad
from skfem.models.elasticity import linear_elasticity
from skfem.models.poisson import laplace

TRIANGLES = {1: fem.ElementTriP1, 2: fem.ElementTriP2, 3: fem.ElementTriP3}

LAME, SHEAR, RADIUS = 1.0, 0.5, 0.25


def direct(matrix: Any, right: FloatArray) -> FloatArray:
    """Solve a symmetric system by SuperLU in the mode for such, faster than its default."""
    factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
    return factors.solve(right)


def field_of(basis: fem.Basis, values: FloatArray, components: int = 1) -> Field:
    """Return the solution as a function of points: [n, d] -> [n, components]."""
    return lambda x: np.reshape(basis.probes(x.T) @ values, (components, -1)).T


def poisson_square(degree: int, cells: int) -> Field:
    """Solve −Δu = f on a uniform mesh of 2 `cells`² triangles."""
    side = np.linspace(0, 1, cells + 1)
    basis = fem.Basis(
        fem.MeshTri.init_tensor(side, side), TRIANGLES[degree](), intorder=2 * degree + 2
    )

    @fem.LinearForm
    def load(v: Any, w: Any) -> Any:
        return 2 * np.pi**2 * np.sin(np.pi * w.x[0]) * np.sin(np.pi * w.x[1]) * v

    system = condense(laplace.assemble(basis), load.assemble(basis), D=basis.get_dofs())
    return field_of(basis, solve(*system, solver=direct))


def l_shape(degree: int, cells: int) -> Field:
    """Solve Δu = 0 in the L on a uniform mesh, `cells` along a side of length 1."""
    return field_of(*_in_the_l(_mesh_of_the_l(cells), degree))


def l_shape_adaptive(degree: int, unknowns: int) -> Field:
    """Solve it on a mesh refined by the jumps of the normal derivative, up to `unknowns`."""
    basis, u = _in_the_l(_mesh_of_the_l(2), degree)
    while unknowns > basis.N:
        marked = adaptive_theta(_jumps(basis, u), theta=0.5)
        basis, u = _in_the_l(basis.mesh.refined(marked), degree)
    return field_of(basis, u)


def _mesh_of_the_l(cells: int) -> Any:
    side = np.linspace(-1, 1, 2 * cells + 1)
    mesh = fem.MeshTri.init_tensor(side, side)
    x, y = mesh.p[:, mesh.t].mean(axis=1)
    return mesh.remove_elements(np.flatnonzero((x > 0) & (y < 0)))


def _in_the_l(mesh: Any, degree: int) -> tuple[fem.Basis, FloatArray]:
    basis = fem.Basis(mesh, TRIANGLES[degree]())
    u, boundary = np.zeros(basis.N), basis.get_dofs().all()
    u[boundary] = problem_named("l-shape").exact(basis.doflocs[:, boundary].T)[:, 0]
    return basis, solve(*condense(laplace.assemble(basis), x=u, D=boundary), solver=direct)


def _jumps(basis: fem.Basis, u: FloatArray) -> FloatArray:
    """Compute h ∫ [∂u/∂n]² over the sides of each triangle."""
    sides = [fem.InteriorFacetBasis(basis.mesh, basis.elem, side=i) for i in (0, 1)]
    values = {f"u{i}": side.interpolate(u) for i, side in enumerate(sides)}

    @fem.Functional
    def jump(w: Any) -> Any:
        return w.h * dot(grad(w.u0) - grad(w.u1), w.n) ** 2

    of_sides = np.zeros(basis.mesh.facets.shape[1])
    of_sides[sides[0].find] = jump.elemental(sides[0], **values)
    return np.asarray(np.sum(0.5 * of_sides[basis.mesh.t2f], axis=0))


def plate(degree: int, cells: int) -> Field:
    """Solve for the plate with a hole on a mesh that follows the hole, denser near it."""
    kind, scalar = ((fem.MeshQuad, fem.ElementQuad1), (fem.MeshQuad2, fem.ElementQuad2))[degree - 1]
    mesh, straight = _plate_meshes(cells, kind)
    element = fem.ElementVector(scalar())
    basis = fem.Basis(mesh, element, intorder=2 * degree + 2)

    @fem.LinearForm
    def load(v: Any, w: Any) -> Any:
        return dot(np.einsum("ij...,j...->i...", kirsch(*w.x), w.n), v)

    outer = mesh.facets_satisfying(lambda x: np.abs(x.max(axis=0) - 1) < 1e-9)
    forces = load.assemble(fem.FacetBasis(mesh, element, facets=outer))
    held = [basis.get_dofs(lambda x, i=i: np.abs(x[i]) < 1e-9).all(f"u^{i + 1}") for i in range(2)]
    stiffness = linear_elasticity(LAME, SHEAR).assemble(basis)
    found = solve(*condense(stiffness, forces, D=np.concatenate(held)), solver=direct)
    # scikit-fem has no finder for curved cells: the cell of a point is that of its polar image.
    finder = straight.element_finder()
    object.__setattr__(mesh, "element_finder", lambda mapping: lambda *x: finder(*_straight(*x)))
    basis.mapping.invF = partial(_inverse, basis.mapping)
    return field_of(basis, found, components=2)


def kirsch(x: FloatArray, y: FloatArray) -> FloatArray:
    """Compute Kirsch's stress for the tension 1: [2, 2, …]."""
    angle, near = np.arctan2(y, x), RADIUS**2 / (x**2 + y**2)
    c2, s2, c4, s4 = np.cos(2 * angle), np.sin(2 * angle), np.cos(4 * angle), np.sin(4 * angle)
    xx = 1 - near * (1.5 * c2 + c4) + 1.5 * near**2 * c4
    yy = -near * (0.5 * c2 - c4) - 1.5 * near**2 * c4
    xy = -near * (0.5 * s2 + s4) + 1.5 * near**2 * s4
    return np.array([[xx, xy], [xy, yy]])


def _plate_meshes(cells: int, kind: Any) -> tuple[Any, fem.MeshQuad]:
    """Return a mesh of `cells` × 2 `cells` bent to the hole, and the straight one."""
    straight = fem.MeshQuad.init_tensor(
        np.linspace(0, 1, cells + 1), np.linspace(0, 1, 2 * cells + 1)
    )
    mesh = straight if kind is fem.MeshQuad else kind.from_mesh(straight)
    along, angle = mesh.doflocs[0], mesh.doflocs[1] * np.pi / 2
    direction = np.array([np.cos(angle), np.sin(angle)])
    # Equal ratios of the radii, from the hole to the side, which is at 1/max(cos, sin).
    radii = RADIUS * (1 / direction.max(axis=0) / RADIUS) ** along
    return kind(direction * radii, mesh.t), straight


def _straight(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the place of a point in the straight mesh: [2, n]."""
    r = np.hypot(x, y)
    along = np.log(r / RADIUS) / np.log(r / np.maximum(x, y) / RADIUS)
    return np.clip([along, np.arctan2(y, x) * 2 / np.pi], 0, 1)


def _inverse(mapping: Any, x: FloatArray, tind: Any = None) -> FloatArray:
    """Return local coordinates by Newton's method, also of points just outside of their cell."""
    local = np.full_like(x, 0.5)
    for _ in range(12):
        step = mapping.invDF(local, tind)
        local += np.einsum("ijkl,jkl->ikl", step, x - mapping.F(local, tind))
    return local
