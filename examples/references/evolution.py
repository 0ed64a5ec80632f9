"""References of the Allen–Cahn and the Korteweg–de Vries equation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from references.spectral import (
    chebyshev_points,
    differentiation_matrix,
    etdrk4,
    in_time,
    interpolation_matrix,
)

FloatArray = npt.NDArray[np.float64]


@cache
def allen_cahn(
    diffusivity: float, growth: float, *, n: int = 384, steps: int = 500
) -> Callable[[FloatArray], FloatArray]:
    """Return u of u_t = D u_xx + ρ (u − u³), as (x, t): [k, 2] -> [k, 1] (local).

    Chebyshev collocation of degree n on [0, 1], with u_x = 0 at both ends eliminated, as the
    solution is even and periodic; its slope jumps at x = ±1 at t = 0 only. In time by `etdrk4` on
    the eigenvectors of the operator.
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


@cache
def korteweg_de_vries(
    advection: float = 1.0, dispersion: float = 0.022**2, *, modes: int = 512, steps: int = 4000
) -> Callable[[FloatArray], FloatArray]:
    """Return u of u_t + η u u_x + μ u_xxx = 0 for t in [0, 1], as (x, t): [k, 2] -> [k, 1] (local).

    Fourier series with the products on a grid of `modes` points (aliases above two thirds are
    cut), and `etdrk4` in time; after Zabusky and Kruskal (1965, Phys. Rev. Lett. 15, 240).
    """
    wave = np.pi * np.arange(modes // 2 + 1)
    kept = np.arange(modes // 2 + 1) <= modes // 3
    x = -1 + 2 * np.arange(modes) / modes

    def steepening(v: FloatArray) -> FloatArray:
        u = np.fft.irfft(v, modes)
        return np.asarray(-0.5j * advection * wave * kept * np.fft.rfft(u**2))

    start = np.fft.rfft(np.cos(np.pi * x)) * kept
    found = etdrk4(1j * dispersion * wave**3, steepening, start, 1.0, steps)
    # Splines of real numbers; the grid begins at −1, and every mode but the first is there twice.
    amplitudes = found[:, kept] / modes * np.r_[1, np.full(kept.sum() - 1, 2)]
    both = np.concatenate([amplitudes.real, amplitudes.imag], axis=1)
    every = max(1, steps // 2000)
    at_times = in_time(np.linspace(0, 1, steps + 1)[::every], both[::every])

    def at(points: FloatArray) -> FloatArray:
        angles = wave[kept] * (points[:, :1] + 1)
        real, imaginary = np.split(at_times(points[:, 1]), 2, axis=1)
        parts = real * np.cos(angles) - imaginary * np.sin(angles)
        return np.asarray(np.sum(parts, axis=1, keepdims=True))

    return at
