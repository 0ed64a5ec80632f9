"""Least squares and Hamiltonian Monte Carlo with the exact solution, and how often intervals hold
the truth."""

from __future__ import annotations

import time
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
    """Attributes: estimates [B, p], their covariances [B, p, p], and χ² [B]."""

    estimates: FloatArray
    covariances: FloatArray
    chi_squared: FloatArray


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
    return Fits(c, covariances(model, c, sigma), chi / sigma**2)


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


CHAINS, WARM_UP, DRAWS, LEAPS = 8, 300, 2_000, 8
_ACCEPTED = 0.8
QUANTILES = (0.025, 0.16, 0.5, 0.84, 0.975)


class Posterior(NamedTuple):
    """Attributes: draws [chains, draws, p], the largest R̂ of all coefficients, and seconds."""

    draws: FloatArray
    rhat: float
    seconds: float


def sample(
    model: Model, data: FloatArray, sigma: float, start: FloatArray, scale: FloatArray, seed: int
) -> Posterior:
    """Draw from the posterior with a flat prior, in units of the deviations `scale`: [p].

    The leapfrog steps of Neal (2011, Handbook of Markov Chain Monte Carlo, chapter 5), with the
    step size of the warm-up by dual averaging (Hoffman and Gelman 2014, section 3.2).
    """
    began, rng, p = time.perf_counter(), np.random.default_rng(seed), len(start)

    def density(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        c = start + scale * z
        with np.errstate(invalid="ignore"):  # infinite for coefficients without a solution
            errors = (model(c) - data) / sigma
            slopes = np.einsum("bnp,bn->bp", sensitivity(model, c) * scale / sigma, errors)
        solved = np.isfinite(slopes).all(axis=1)
        value = np.where(solved, -np.sum(errors**2, axis=1) / 2, -np.inf)
        return value, np.where(solved[:, None], -slopes, 0.0)

    z = 0.3 * rng.normal(size=(CHAINS, p))
    value, slope = density(z)
    step, mean, average = 0.5, 0.0, np.log(0.5)
    draws = np.empty((CHAINS, DRAWS, p))
    for t in range(-WARM_UP, DRAWS):
        momentum = rng.normal(size=z.shape)
        moved, push, now, there = z, momentum, value, slope
        for _ in range(rng.integers(1, LEAPS + 1)):
            push = push + step * there / 2
            moved = moved + step * push
            now, there = density(moved)
            push = push + step * there / 2
        gain = now - value + np.sum(momentum**2 - push**2, axis=1) / 2
        chance = np.exp(np.minimum(np.nan_to_num(gain, nan=-np.inf), 0.0))
        taken = rng.uniform(size=CHAINS) < chance
        z = np.where(taken[:, None], moved, z)
        value, slope = np.where(taken, now, value), np.where(taken[:, None], there, slope)
        if t < 0:
            k = t + WARM_UP + 1
            mean += (_ACCEPTED - chance.mean() - mean) / (k + 10)
            step = float(np.exp(np.log(5.0) - np.sqrt(k) / 0.05 * mean))
            average += k**-0.75 * (np.log(step) - average)
            step = step if t < -1 else float(np.exp(average))
        else:
            draws[:, t] = start + scale * z
    return Posterior(draws, _rhat(draws), time.perf_counter() - began)


def _rhat(draws: FloatArray) -> float:
    """Return the largest R̂ of halved chains (Gelman et al. 2013, section 11.4)."""
    halves = np.concatenate(np.split(draws, 2, axis=1))
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = n * halves.mean(axis=1).var(axis=0, ddof=1)
    return float(np.sqrt(((n - 1) / n * within + between / n) / within).max())
