"""Norms of the error of a prediction u against the exact solution u*."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_real


def pointwise_error(u: ArrayLike, u_exact: ArrayLike) -> np.ndarray:
    """Return |u − u*| at every point and component.

    Parameters
    ----------
    u, u_exact : array [n, m] or [n]
        Prediction and exact solution at the same points, of exactly the same shape.

    Returns
    -------
    array of the shape of u
        In the units of u; float64. Not-a-number where either value is.

    Raises
    ------
    InputError
        If the shapes differ, or there are no points.
    """
    difference, _ = _difference(u, u_exact)
    return np.asarray(np.abs(difference))


def relative_l2_error(u: ArrayLike, u_exact: ArrayLike) -> float:
    """Return ‖u − u*‖₂ / ‖u*‖₂, the norms taken over all points and components.

    Parameters
    ----------
    u, u_exact : as in `pointwise_error`.

    Returns
    -------
    float
        Dimensionless. A value of u that is infinite gives inf; one that is not a number gives nan.

    Raises
    ------
    InputError
        If the shapes differ, there are no points, or u* is zero at every point.

    Examples
    --------
    >>> from sciml_par.evaluation import relative_l2_error
    >>> relative_l2_error([3.0, 4.5], [3.0, 4.0])
    0.1
    """
    difference, exact = _difference(u, u_exact)
    scale = _euclidean(exact)
    if scale == 0.0:
        raise InputError(
            "relative_l2_error: the exact solution is zero at every point, so no error is "
            "relative to it. Use max_error or rms_error, which are absolute."
        )
    with np.errstate(all="ignore"):
        return float(np.float64(_euclidean(difference)) / np.float64(scale))


def max_error(u: ArrayLike, u_exact: ArrayLike) -> float:
    """Return max |u − u*| over all points and components.

    Parameters
    ----------
    u, u_exact : as in `pointwise_error`.

    Returns
    -------
    float
        In the units of u; nan if any value is not a number.

    Raises
    ------
    InputError
        As `pointwise_error`.

    Examples
    --------
    >>> from sciml_par.evaluation import max_error
    >>> max_error([1.0, 2.0], [1.0, 2.5])
    0.5
    """
    return float(np.max(pointwise_error(u, u_exact)))


def rms_error(u: ArrayLike, u_exact: ArrayLike) -> float:
    """Return the root mean square error √(Σ |u − u*|² / (n m)).

    Parameters
    ----------
    u, u_exact : as in `pointwise_error`.

    Returns
    -------
    float
        In the units of u; inf or nan if any value is.

    Raises
    ------
    InputError
        As `pointwise_error`.
    """
    difference, _ = _difference(u, u_exact)
    return _euclidean(difference) / float(np.sqrt(difference.size))


def _difference(u: ArrayLike, u_exact: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    predicted, exact = as_real(u, "u"), as_real(u_exact, "u_exact")
    if predicted.shape != exact.shape:
        # NumPy would broadcast [n] against [n, 1] to [n, n] and return a plausible number.
        raise InputError(
            f"expected u and u_exact of one shape, [n, m] or [n]; got u {list(predicted.shape)} "
            f"and u_exact {list(exact.shape)}. Reshape one of them: u[:, None] turns [n] into "
            "[n, 1]."
        )
    if predicted.ndim == 0 or predicted.size == 0:
        raise InputError(
            f"expected at least one point, u of shape [n, m] or [n]; got {list(predicted.shape)}."
        )
    with np.errstate(all="ignore"):
        return predicted - exact, exact


def _euclidean(values: np.ndarray) -> float:
    largest = float(np.max(np.abs(values)))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    # Scaled, so that the squares neither overflow nor vanish.
    return largest * float(np.sqrt(np.sum(np.square(values / largest))))
