"""Conditions at points whose errors are correlated: all of them are one row of the loss.

Points are distributed over ranks, drawn in batches and sampled row by row. A row of n points
therefore keeps them together: r = L⁻¹ (v(x) − y) with C = L Lᵀ has n components of one row, on the
first rank of those that share a model, and χ² = |r|² is the loss of this row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray

_SYMMETRIC = 1e-10
"""The largest difference between C and Cᵀ that is rounding, relative to the largest element."""


def whitening(covariance: FloatArray, what: str) -> FloatArray:
    """Return L⁻¹ of a covariance C = L Lᵀ: [n, n], with which errors become independent.

    Raises
    ------
    InputError
        C is not symmetric, or not positive definite.
    """
    scale = float(np.max(np.abs(covariance), initial=0.0))
    apart = np.abs(covariance - covariance.T)
    if apart.max(initial=0.0) > _SYMMETRIC * scale:
        i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
        raise InputError(
            f"{what}: a covariance must be symmetric; its elements [{i}, {j}] and [{j}, {i}] are "
            f"{covariance[i, j]:g} and {covariance[j, i]:g}."
        )
    eigenvalues = np.linalg.eigvalsh(covariance)
    if eigenvalues[0] <= len(covariance) * np.finfo(float).eps * scale:
        raise InputError(
            f"{what}: a covariance must be positive definite, but its smallest eigenvalue is "
            f"{eigenvalues[0]:.3g} and its largest {eigenvalues[-1]:.3g}. Add the variance of the "
            f"independent errors to its diagonal, or leave out points that repeat others."
        )
    lower = np.linalg.cholesky(covariance)
    inverse: FloatArray = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
    return inverse


def at_all(function: Any, x: tf.Tensor) -> tf.Tensor:
    """Return a function [n, d] -> [n, 1] at the points of each row: [I, n, d] -> [I, n]."""
    _, n, d = x.shape
    return tf.reshape(function(tf.reshape(x, [-1, d])), [-1, n])
