"""The Korteweg–de Vries equation with u = cos πx at t = 0, periodic on [−1, 1]."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from sciml_par.problems.catalogue.references.chebyshev import in_time
from sciml_par.problems.catalogue.references.time_steps import etdrk4

FloatArray = npt.NDArray[np.float64]


@cache
def solution(
    advection: float = 1.0,
    dispersion: float = 0.022**2,
    *,
    modes: int = 512,
    steps: int = 4000,
) -> Callable[[FloatArray], FloatArray]:
    """u of u_t + η u u_x + μ u_xxx = 0 for t in [0, 1], as (x, t): [k, 2] -> [k, 1] (local).

    Fourier series with the products on a grid (aliases above two thirds are cut), and `etdrk4` in
    time; after Zabusky and Kruskal (1965, Phys. Rev. Lett. 15, 240).

    Parameters
    ----------
    advection, dispersion : η and μ.
    modes : points of the grid.
    steps : in time.
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
