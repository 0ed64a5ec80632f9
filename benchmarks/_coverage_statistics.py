"""Least squares with the exact solution, its intervals, and how often intervals hold the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

FloatArray = npt.NDArray[np.float64]
Model = Callable[[FloatArray], FloatArray]
"""Coefficients [B, p] -> predictions [B, N]."""

LEVELS = (0.68, 0.95)
_MOST_STEPS = 60


def sensitivity(model: Model, c: FloatArray) -> FloatArray:
    """Return ∂ model/∂c by central differences: [B, p] -> [B, N, p]."""
    sets, p = c.shape
    h = 1e-4 * np.maximum(np.abs(c), 0.05)
    changes = np.eye(p) * h[:, None, :]
    moved = np.concatenate([c[:, None] + changes, c[:, None] - changes], axis=1)
    values = model(moved.reshape(-1, p)).reshape(sets, 2 * p, -1)
    return np.swapaxes((values[:, :p] - values[:, p:]) / (2 * h[:, :, None]), 1, 2)


class Fits(NamedTuple):
    """Attributes: estimates [B, p], and their covariances [B, p, p]."""

    estimates: FloatArray
    covariances: FloatArray


def least_squares(model: Model, data: FloatArray, sigma: float, start: FloatArray) -> Fits:
    """Return the least squares estimates of B data sets [B, N] by damped Gauss–Newton."""
    c = np.tile(start, (len(data), 1))
    chi = np.sum((model(c) - data) ** 2, axis=1)
    open_ = np.arange(len(data))
    for _ in range(_MOST_STEPS):
        s = sensitivity(model, c[open_])
        normal, gradient = np.swapaxes(s, 1, 2) @ s, model(c[open_]) - data[open_]
        step = np.linalg.solve(normal, np.swapaxes(s, 1, 2) @ gradient[..., None])[..., 0]
        moved, now = _best_along(model, data[open_], c[open_], step, chi[open_])
        change = (moved - c[open_])[:, None, :]
        in_deviations = np.sum((change @ normal) * change, axis=(1, 2)) / sigma**2
        c[open_], chi[open_] = moved, now
        open_ = open_[in_deviations > 1e-10]
        if len(open_) == 0:
            break
    return Fits(c, covariances(model, c, sigma))


def _best_along(
    model: Model, data: FloatArray, c: FloatArray, step: FloatArray, chi: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return c − η step for the first η = 1, ½, … that does not raise the sum of squares."""
    found, best = c.copy(), chi.copy()
    left, size = np.arange(len(c)), 1.0
    for _ in range(12):
        trial = c[left] - size * step[left]
        with np.errstate(all="ignore"):
            now = np.sum((model(trial) - data[left]) ** 2, axis=1)
        good = now <= chi[left] * (1 + 1e-12)
        found[left[good]], best[left[good]] = trial[good], now[good]
        left, size = left[~good], size / 2
        if len(left) == 0:
            break
    return found, best


def covariances(model: Model, c: FloatArray, sigma: float) -> FloatArray:
    """Return σ² (SᵀS)⁻¹ of coefficients [B, p]: the Cramér–Rao bound where they are the truth."""
    s = sensitivity(model, c)
    return sigma**2 * np.linalg.inv(np.swapaxes(s, 1, 2) @ s)


def half_width(level: float) -> float:
    """Return how many deviations an interval of that level extends to each side."""
    return float(norm.ppf((1 + level) / 2))


def symmetric(estimates: FloatArray, deviations: FloatArray) -> dict[float, FloatArray]:
    """Return estimate ± z · deviation by level: [..., 2] each."""
    return {
        level: np.stack([estimates - z * deviations, estimates + z * deviations], axis=-1)
        for level, z in ((level, half_width(level)) for level in LEVELS)
    }


def coverage(intervals: dict[float, FloatArray], true: FloatArray) -> dict[str, list[float]]:
    """Return the share of data sets whose interval holds the truth: of [B, k, 2] and [k]."""
    return {
        f"{level:g}": np.mean((each[..., 0] <= true) & (true <= each[..., 1]), axis=0).tolist()
        for level, each in intervals.items()
    }


def summary(
    estimates: FloatArray,
    deviations: FloatArray,
    intervals: dict[float, FloatArray],
    true: FloatArray,
    bound: FloatArray,
) -> dict[str, Any]:
    """Return coverage, bias, spread and widths relative to the bound of k quantities: [B, k]."""
    return {
        "coverage": coverage(intervals, true),
        "bias": ((estimates.mean(axis=0) - true) / bound).tolist(),
        "spread": (estimates.std(axis=0, ddof=1) / bound).tolist(),
        "width": (deviations.mean(axis=0) / bound).tolist(),
    }
