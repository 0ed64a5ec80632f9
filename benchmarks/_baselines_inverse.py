"""Inverse problems by finite elements and `scipy.optimize.least_squares`."""

from __future__ import annotations

from typing import Any

import numpy as np
import skfem as fem
from _baselines_evolution import in_space
from _baselines_problems import (
    CASES,
    CONDUCTIVITY_NOISE,
    DIFFUSIVITY,
    PRIOR_AMPLITUDE,
    PRIOR_LENGTH,
    FloatArray,
    conductivity,
    heat_source,
    observed_temperature,
)
from scipy.linalg import cholesky, solve_banded, solve_triangular
from scipy.optimize import least_squares
from scipy.stats import norm

QUANTILE = float(norm.ppf(0.975))


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
