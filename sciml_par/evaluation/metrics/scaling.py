"""Speed-up, parallel efficiency, mean and deviation of measured times."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_real


def speed_up(ranks: ArrayLike, seconds: ArrayLike) -> np.ndarray:
    """Return S_P = P₀ T_{P₀} / T_P, where P₀ is the fewest ranks that were measured.

    With P₀ = 1 this is the usual T₁ / T_P. With P₀ > 1, P₀ ranks count as a speed-up of P₀.

    Parameters
    ----------
    ranks : array [k]
        The numbers of ranks P; different whole numbers ≥ 1.
    seconds : array [k]
        The time T_P > 0 for the same work. If the work grows with P, give the time for a unit
        of it: the reciprocal of the throughput of all ranks together.

    Returns
    -------
    array [k]
        Dimensionless, in the order of `ranks`.

    Raises
    ------
    InputError
        If the shapes differ, or a number is out of its range.

    Examples
    --------
    >>> from sciml_par.evaluation import speed_up
    >>> speed_up([1, 2, 4], [8.0, 4.0, 2.5])
    array([1. , 2. , 3.2])
    """
    p, t = _measured(ranks, seconds)
    first = int(np.argmin(p))
    return np.asarray(p[first] * t[first] / t)


def parallel_efficiency(ranks: ArrayLike, seconds: ArrayLike) -> np.ndarray:
    """Return E_P = S_P / P, with the speed-up S_P of `speed_up`: 1 is ideal.

    Parameters
    ----------
    ranks, seconds : as in `speed_up`.

    Returns
    -------
    array [k]
        Dimensionless, in the order of `ranks`.

    Raises
    ------
    InputError
        As `speed_up`.

    Examples
    --------
    >>> from sciml_par.evaluation import parallel_efficiency
    >>> parallel_efficiency([1, 2, 4], [8.0, 4.0, 2.5])
    array([1. , 1. , 0.8])
    """
    p, t = _measured(ranks, seconds)
    return np.asarray(speed_up(p, t) / p)


def _measured(ranks: ArrayLike, seconds: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p, t = as_real(ranks, "ranks"), as_real(seconds, "seconds")
    if p.ndim != 1 or p.shape != t.shape or p.size == 0:
        raise InputError(
            f"expected ranks and seconds of one shape [k], k ≥ 1; got {list(p.shape)} and "
            f"{list(t.shape)}. Give one time for each number of ranks."
        )
    # Written so that a nan fails, as no comparison with it is true.
    whole = np.all((p >= 1) & (p % 1 == 0)) and np.unique(p).size == p.size
    if not whole:
        raise InputError(f"ranks: expected different whole numbers ≥ 1; got {p.tolist()}.")
    if not np.all((t > 0) & np.isfinite(t)):
        raise InputError(f"seconds: expected finite times > 0; got {t.tolist()}.")
    return p, t
