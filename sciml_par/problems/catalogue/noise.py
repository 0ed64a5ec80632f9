"""Errors of observations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def with_noise(values: FloatArray, share: float, seed: int) -> FloatArray:
    """u_ij + share · √(mean_i u_ij²) · ε_ij with ε_ij from the normal distribution N(0, 1).

    Parameters
    ----------
    values : u: [n, c], of c components.
    share : dimensionless; 0.01 is called 1 % of noise.
    seed : of ε.
    """
    scale = np.sqrt(np.mean(np.square(values), axis=0))
    errors = np.random.default_rng([seed, 1]).normal(size=values.shape)
    return np.asarray(values + share * scale * errors)
