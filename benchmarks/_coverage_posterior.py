"""Hamiltonian Monte Carlo for the coefficients of a problem with an exact solution."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from _coverage_statistics import Model, sensitivity

FloatArray = npt.NDArray[np.float64]

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
