"""The Allen–Cahn equation with u = x² cos πx at t = 0 on [−1, 1] × [0, 1], even and periodic."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from sciml_par.problems.catalogue.references.chebyshev import (
    chebyshev_points,
    differentiation_matrix,
    in_time,
    interpolation_matrix,
)
from sciml_par.problems.catalogue.references.time_steps import etdrk4

FloatArray = npt.NDArray[np.float64]


@cache
def solution(
    diffusivity: float, growth: float, *, n: int = 384, steps: int = 500
) -> Callable[[FloatArray], FloatArray]:
    """u of u_t = D u_xx + ρ (u − u³), as (x, t): [k, 2] -> [k, 1] (local).

    Chebyshev collocation on [0, 1], with u_x = 0 at both ends eliminated, as the solution is even
    and periodic; its slope jumps at x = ±1 at t = 0 only. In time by `etdrk4` on the eigenvectors
    of the operator.

    Parameters
    ----------
    diffusivity, growth : D and ρ.
    n : degree of the polynomials.
    steps : in time.
    """
    s = chebyshev_points(n)
    d = 2 * differentiation_matrix(s)
    ends, inner = np.array([0, n]), np.arange(1, n)
    # u_x = 0 at the ends gives their values from those inside.
    from_inner: FloatArray = -np.linalg.solve(d[ends][:, ends], d[ends][:, inner])
    second: FloatArray = (d @ d)[inner]
    operator = second[:, inner] + second[:, ends] @ from_inner
    rates, vectors = np.linalg.eig(diffusivity * operator)
    rates, vectors = np.real(rates), np.real(vectors)
    back = np.linalg.inv(vectors)

    def reaction(v: FloatArray) -> FloatArray:
        u = vectors @ v
        return np.asarray(back @ (growth * (u - u**3)))

    x = (s[inner] + 1) / 2
    modes = etdrk4(rates, reaction, back @ (x**2 * np.cos(np.pi * x)), 1.0, steps)
    values = np.zeros((steps + 1, n + 1))
    values[:, inner] = modes @ vectors.T
    values[:, ends] = values[:, inner] @ from_inner.T
    # At t = 0 the slope is not zero at x = 1.
    values[0] = (s + 1) ** 2 / 4 * np.cos(np.pi * (s + 1) / 2)
    at_times = in_time(np.linspace(0, 1, steps + 1), values)

    def at(x: FloatArray) -> FloatArray:
        rows = interpolation_matrix(s, 2 * np.abs(x[:, 0]) - 1)
        return np.asarray(np.sum(rows * at_times(x[:, 1]), axis=1, keepdims=True))

    return at
