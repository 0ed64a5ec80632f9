"""Gauss–Legendre points and weights on a box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def gauss_legendre(
    lower: FloatArray, upper: FloatArray, counts: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Points [k, d] and weights [k] of the product of one-dimensional rules; see `Box`."""
    rules = [np.polynomial.legendre.leggauss(count) for count in counts]
    half, centre = (upper - lower) / 2, (lower + upper) / 2
    axes = [c + h * nodes for c, h, (nodes, _) in zip(centre, half, rules, strict=True)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(lower))
    weights = np.ones(1)
    for h, (_, rule) in zip(half, rules, strict=True):
        weights = np.multiply.outer(weights, h * rule).ravel()
    return x, weights
