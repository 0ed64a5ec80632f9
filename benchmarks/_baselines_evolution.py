"""Finite elements by scikit-fem in space, methods for stiff systems in time; inverse problems by
them and `scipy.optimize.least_squares`."""

from __future__ import annotations

from typing import Any

import numpy as np
import skfem as fem
from _baselines_problems import (
    CASES,
    CONDUCTIVITY_NOISE,
    DIFFUSIVITY,
    PRIOR_AMPLITUDE,
    PRIOR_LENGTH,
    REYNOLDS,
    Field,
    FloatArray,
    conductivity,
    heat_source,
    observed_temperature,
    taylor_green,
)
from references.spectral import in_time
from scipy.integrate import solve_ivp
from scipy.linalg import cholesky, lu_factor, lu_solve, solve_banded, solve_triangular
from scipy.optimize import least_squares
from scipy.sparse import bmat, csr_matrix
from scipy.sparse.linalg import splu
from scipy.stats import norm
from skfem import asm
from skfem.helpers import dot, grad
from skfem.models.general import divergence
from skfem.models.poisson import laplace, mass, vector_laplace

from sciml_par.problems import problem_by_name

QUANTILE = float(norm.ppf(0.975))
LINES = {1: fem.ElementLineP1, 2: fem.ElementLineP2, 3: lambda: fem.ElementLinePp(3)}


def heat(degree: int, cells: int, tolerance: float) -> Field:
    """Solve u_t = 0.1 u_xx with the catalogue's initial values; Radau's method in time."""
    basis = fem.Basis(
        fem.MeshLine(np.linspace(0, 1, cells + 1)), LINES[degree](), intorder=2 * degree + 4
    )
    exact = problem_by_name("heat").exact
    return in_space(basis, 0.1, lambda x: exact(np.stack([x, 0 * x], 1))[:, 0], tolerance)


def burgers(degree: int, cells: int, tolerance: float) -> Field:
    """Solve Burgers' equation on a mesh that is denser at the front; Radau's method in time."""
    nodes = np.sinh(np.linspace(-5, 5, cells + 1)) / np.sinh(5)
    basis = fem.Basis(fem.MeshLine(nodes), LINES[degree](), intorder=2 * degree + 4)
    return in_space(basis, 0.01 / np.pi, lambda x: -np.sin(np.pi * x), tolerance, steepening=True)


def in_space(
    basis: fem.Basis,
    diffusivity: float,
    start: Field,
    tolerance: float,
    *,
    steepening: bool = False,
) -> Field:
    """Solve M u′ = −κ K u + ∫ (u²/2) φ′ with u = 0 at both ends; the last term if `steepening`."""
    inner = basis.complement_dofs(basis.get_dofs())
    stiff, masses = (
        form.assemble(basis).toarray()[np.ix_(inner, inner)] for form in (laplace, mass)
    )
    factors = lu_factor(masses)
    x, weights = np.asarray(basis.global_coordinates())[0].ravel(), basis.dx.ravel()
    values, slopes = (_at_nodes(basis, order)[:, inner] for order in (0, 1))
    linear = -diffusivity * lu_solve(factors, stiff)
    first = lu_solve(factors, values.T @ (weights * start(x)))
    spread = lu_solve(factors, slopes.T * weights) if steepening else None

    def velocity(_: float, u: FloatArray) -> FloatArray:
        found = linear @ u
        return found if spread is None else found + spread @ ((values @ u) ** 2 / 2)

    def jacobian(_: float, u: FloatArray) -> FloatArray:
        return linear + spread @ ((values @ u)[:, None] * values)

    found = solve_ivp(
        velocity, (0, 1), first, "Radau", rtol=tolerance, atol=tolerance * 1e-2,
        jac=linear if spread is None else jacobian, dense_output=True,
    )  # fmt: skip

    def at(x: FloatArray) -> FloatArray:
        rows = csr_matrix(basis.probes(x[:, :1].T))[:, inner]
        return np.asarray(rows.multiply(found.sol(x[:, 1]).T).sum(axis=1))

    return at


def _at_nodes(basis: fem.Basis, order: int) -> FloatArray:
    """Return the matrix from a solution to its values (0) or slopes (1) for quadrature."""
    cells, points = basis.dx.shape
    matrix = np.zeros((cells, points, basis.N))
    for (shape,), columns in zip(basis.basis, basis.element_dofs, strict=True):
        value = shape.grad[0] if order else np.asarray(shape)
        matrix[np.arange(cells)[:, None], np.arange(points), columns[:, None]] = value
    return matrix.reshape(-1, basis.N)


@fem.BilinearForm
def _vector_mass(w: Any, v: Any, _: Any) -> Any:
    return dot(w, v)


@fem.LinearForm
def _advection(v: Any, w: Any) -> Any:
    return dot(np.einsum("ij...,j...->i...", grad(w.u), w.u), v)


@fem.LinearForm
def _initial(v: Any, w: Any) -> Any:
    places = np.stack([w.x[0].ravel(), w.x[1].ravel(), 0 * w.x[0].ravel()], axis=1)
    return dot(taylor_green(places)[:, :2].T.reshape(2, *w.x[0].shape), v)


def vortex(cells: int, steps: int) -> Field:
    """Solve for the vortex by Taylor–Hood elements and BDF2, the advection extrapolated."""
    side = np.linspace(0, 1, cells + 1)
    mesh = fem.MeshTri.init_tensor(side, side)
    velocity = fem.Basis(mesh, fem.ElementVector(fem.ElementTriP2()), intorder=5)
    pressure = velocity.with_element(fem.ElementTriP1())
    whole = periodic(velocity)
    matrix = whole.T @ _vector_mass.assemble(velocity) @ whole
    stiff = whole.T @ vector_laplace.assemble(velocity) @ whole / REYNOLDS
    constraint = -periodic(pressure).T @ asm(divergence, velocity, pressure) @ whole

    def system(rate: float) -> Any:
        """Return the factors of the system of a step; the pressure is 0 at one node."""
        both = bmat([[rate * matrix + stiff, constraint.T], [constraint, None]], "lil")
        fixed = matrix.shape[0]
        both[fixed, :], both[:, fixed] = 0, 0
        both[fixed, fixed] = 1
        return splu(both.tocsc())

    def advected(w: FloatArray) -> FloatArray:
        return whole.T @ _advection.assemble(velocity, u=velocity.interpolate(whole @ w))

    w = [splu(matrix.tocsc()).solve(whole.T @ _initial.assemble(velocity))]
    forces, nothing = [advected(w[0])], np.zeros(constraint.shape[0])
    euler, bdf = system(steps), system(1.5 * steps)
    for step in range(steps):
        if step == 0:
            factors, right = euler, steps * matrix @ w[0] - forces[0]
        else:
            before = steps * matrix @ (2 * w[-1] - 0.5 * w[-2])
            factors, right = bdf, before - 2 * forces[-1] + forces[-2]
        w.append(factors.solve(np.concatenate([right, nothing]))[: len(right)])
        forces.append(advected(w[-1]))
    at_times = in_time(np.linspace(0, 1, steps + 1), np.array(w))

    def at(x: FloatArray) -> FloatArray:
        rows, values = csr_matrix(velocity.probes(x[:, :2].T) @ whole), at_times(x[:, 2])
        both = [rows[: len(x)], rows[len(x) :]]
        return np.concatenate([part.multiply(values).sum(axis=1) for part in both], axis=1)

    return at


def periodic(basis: fem.Basis) -> csr_matrix:
    """Return the matrix from the values of a periodic solution to those of the basis."""
    places = np.round(np.mod(basis.doflocs + 1e-9, 1.0), 6)
    kinds = np.zeros(basis.N)
    if isinstance(basis.elem, fem.ElementVector):
        kinds[basis.split_indices()[1]] = 1
    _, which = np.unique(np.vstack([places, kinds]), axis=1, return_inverse=True)
    return csr_matrix((np.ones(basis.N), (np.arange(basis.N), which.ravel())))


def diffusion(seed: int, cells: int = 32) -> dict[str, Any]:
    """Find log D by least squares from D = 1, with quadratic elements and Radau's method."""
    data = CASES["inverse-diffusion"].make(seed=seed).conditions[-1]
    basis = fem.Basis(fem.MeshLine(np.linspace(0, 1, cells + 1)), fem.ElementLineP2())

    def misfit(logarithm: FloatArray) -> FloatArray:
        u = in_space(basis, np.exp(logarithm[0]), lambda x: np.sin(np.pi * x), 1e-8)(data.x)
        return ((u - data.u) / np.reshape(data.noise, (-1, 1))).ravel()

    found = least_squares(misfit, [0.0], diff_step=1e-4)
    (logarithm,), spread = found.x, 1 / np.linalg.norm(found.jac)
    value = float(np.exp(logarithm))
    covers = float(abs(logarithm - np.log(DIFFUSIVITY)) <= QUANTILE * spread)
    return {"value": value, "deviation": value * spread, "covers": covers}


def conduction(seed: int, cells: int = 200) -> dict[str, Any]:
    """Find k at the nodes with the same Gaussian process as prior, and both ends of u."""
    places, seen = observed_temperature(seed)
    nodes = np.linspace(0, 1, cells + 1)
    middle, h = (nodes[1:] + nodes[:-1]) / 2, 1 / cells
    at_places = np.rint(places[:, 0] * cells).astype(int)
    factor = cholesky(matern(nodes) + 1e-10 * np.eye(cells + 1), lower=True)
    # ∫ f φ by Simpson's rule in each cell
    ends, half = heat_source(nodes), heat_source(middle)
    load = h / 3 * (ends[1:-1] + half[1:] + half[:-1])

    def misfit(z: FloatArray) -> FloatArray:
        k = 1 + factor @ z[2:]
        between = (k[1:] + k[:-1]) / 2 / h
        # `solve_banded` does not read the first value of the upper band and the last of the lower.
        bands = np.stack([-between[:-1], between[1:] + between[:-1], -between[1:]])
        right = load.copy()
        right[0] += between[0] * z[0]
        right[-1] += between[-1] * z[1]
        u = np.r_[z[0], solve_banded((1, 1), bands, right), z[1]]
        return np.concatenate([(u[at_places] - seen[:, 0]) / CONDUCTIVITY_NOISE, z[2:]])

    found = least_squares(misfit, np.zeros(cells + 3), x_scale=1.0, method="lm")
    spread = solve_triangular(np.linalg.qr(found.jac, "r"), np.eye(cells + 3))[2:]
    deviation = np.linalg.norm(factor @ spread, axis=1)
    k = 1 + factor @ found.x[2:]
    held = np.abs(k - conductivity(nodes)) <= QUANTILE * deviation
    return {
        "solution": lambda x: np.interp(x[:, 0], nodes, k)[:, None],
        "covers": float(np.mean(held[:: cells // 100])),
    }


def matern(x: FloatArray) -> FloatArray:
    """Return the Matérn kernel 5/2 of the prior: [n] -> [n, n]."""
    r = np.sqrt(5) * np.abs(x[:, None] - x) / PRIOR_LENGTH
    return PRIOR_AMPLITUDE**2 * (1 + r + r**2 / 3) * np.exp(-r)
