"""Least squares with one dense matrix, given by its columns: J [p, N] for N rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_SHIFT, _ITERATIONS, _ENOUGH = 1e-13, 20, 1e-14
_BLOCK = 64
_IN_VAIN = 3  # iterations
_RANK = 1e-13


def by_normal_equations(
    columns: Array, r: Array, *, gram: Array | None = None
) -> tuple[Array, float]:
    """Return argmin_d |Jᵀ d − r| and the least square; columns of a condition below 10⁷.

    A shifted Cholesky factor of the scaled J Jᵀ preconditions conjugate gradients on J itself: the
    digits of QR at half of its work and twice its rate.

    gram : J Jᵀ, if it is known; it is overwritten.
    """
    import scipy.linalg as sl

    if gram is None:
        sizes = np.linalg.norm(columns, axis=1)
        gram = sl.blas.dsyrk(1.0, columns.T, trans=1, lower=1)
    else:
        sizes = np.sqrt(np.maximum(gram.diagonal(), 0))
    scale = 1 / np.maximum(sizes, np.finfo(np.float64).tiny)
    gram *= scale[:, None]
    gram *= scale
    gram[np.diag_indices(len(gram))] += _SHIFT * len(gram)
    factor = (sl.cholesky(gram, lower=True, overwrite_a=True, check_finite=False), True)
    d, right = conjugate_gradients(
        lambda y: (scale * y) @ columns,
        lambda v: scale * (columns @ v),
        lambda t: sl.cho_solve(factor, t, check_finite=False),
        r,
        iterations=_ITERATIONS,
        enough=_ENOUGH,
    )
    return scale * d, float(right @ right)


def by_orthogonal_factors(columns: Array, r: Array) -> tuple[Array, float]:
    """Return the shortest argmin_d |Jᵀ d − r| and the least square, by QR with pivoting."""
    import scipy.linalg as sl

    scale = np.linalg.norm(columns, axis=1)
    # A column at rounding says nothing, as of a coefficient on which nothing depends.
    scale[scale <= _RANK * scale.max(initial=0.0)] = np.inf
    rows = columns.T / scale
    d = sl.lstsq(rows, r, cond=_RANK, lapack_driver="gelsy")[0] if len(scale) else np.zeros(0)
    left = r - rows @ d
    return d / scale, float(left @ left)


def pseudoinverse(columns: Array, scale: Array) -> Callable[[Array], Array]:
    """Return r -> argmin_d |w (Jᵀ d − r)|, w giving all rows of Jᵀ for d of this scale the norm 1.

    By QR with pivoting; directions that no row tells stay 0.
    """
    import scipy.linalg as sl

    scaled = columns * scale[:, None]
    w = 1 / np.maximum(np.linalg.norm(scaled, axis=0), np.finfo(np.float64).tiny)
    q, r, order = sl.qr((scaled * w).T, mode="economic", pivoting=True, check_finite=False)
    rank = np.count_nonzero(np.abs(r.diagonal()) > _RANK * np.abs(r[0, 0]))

    def solve(right: Array) -> Array:
        d = np.zeros(len(scale))
        y = q[:, :rank].T @ (w * right)
        d[order[:rank]] = sl.solve_triangular(r[:rank, :rank], y, check_finite=False)
        return scale * d

    return solve


def conjugate_gradients(
    times: Any, transposed: Any, solve: Any, r: Array, *, iterations: int, enough: float
) -> tuple[Array, Array]:
    """Return argmin_y |A y − r| and r − A y by conjugate gradients, preconditioned by `solve`.

    times, transposed : y -> A y and v -> Aᵀ v.
    solve : t -> M⁻¹ t, M near AᵀA; where it is that, one iteration suffices.
    enough : |A (y − y*)| relative to |A y*|, as M tells them, at which it ends; or where rounding
        lets it fall no further.
    """
    right, t = r.copy(), transposed(r)
    first, least, last = 0.0, np.inf, 0
    y, p, old = np.zeros_like(t), np.zeros_like(t), 1.0
    for number in range(iterations):
        h = solve(t)
        now = float(t @ h)
        first = first or now
        if now < least:
            least, last = now, number
        if not now > enough**2 * first or number - last == _IN_VAIN:
            break
        p = h if number == 0 else h + now / old * p
        step = times(p)
        size = now / max(step @ step, np.finfo(np.float64).tiny)
        y += size * p
        right -= size * step
        t, old = transposed(right), now
    return y, right


def triangle(columns: Array) -> Array:
    """Return R of the QR factorization of the rows Jᵀ, [p, p] (Householder)."""
    from scipy.linalg import lapack

    p, n = columns.shape
    rows = np.zeros((max(n, p), p), order="F")
    rows[:n] = columns.T
    factor, *_ = lapack.dgeqrf(rows, lwork=_BLOCK * p, overwrite_a=1)
    found: Array = np.triu(factor[:p])
    return found
