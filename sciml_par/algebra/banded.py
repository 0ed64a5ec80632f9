"""Least squares with columns in windows that overlap their neighbours: a band of dense blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.algebra.dense import conjugate_gradients, triangle

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_DAMPING, _SHIFT, _SHIFT_IF_SINGULAR = 1e-12, 1e-12, 1e-6
"""The last: by less, rounding along what is open would outweigh what the rows tell."""
_ITERATIONS, _ENOUGH = 40, 1e-15
_INDEPENDENT = 1e-5
"""The least distance of a column from the span of others, relative to its norm, for the factor
of Cholesky."""


@dataclass(frozen=True)
class Block:
    """The columns of one window: values [p, n] in n rows of all."""

    rows: Integers
    columns: Array


def common_rows(rows: Sequence[Integers]) -> dict[tuple[int, int], tuple[Integers, Integers]]:
    """Return where windows k < other have rows in common: places in either, for such pairs."""
    from scipy.sparse import csr_array, triu

    ends, flat = np.cumsum([0, *map(len, rows)]), np.concatenate([np.zeros(0, np.int64), *rows])
    covers = csr_array((np.ones(len(flat)), flat, ends), (len(rows), 1 + flat.max(initial=0)))
    found = {}
    for k, other in np.argwhere(triu(covers @ covers.T, 1).toarray()).tolist():
        _, a, b = np.intersect1d(rows[k], rows[other], assume_unique=True, return_indices=True)
        found[k, other] = a, b
    return found


def by_blocks(
    blocks: Sequence[Block],
    right: Array,
    common: Mapping[tuple[int, int], tuple[Integers, Integers]],
    *,
    singular: bool = False,
) -> list[tuple[Array, Array]]:
    """Return argmin_d |Σ_k B_kᵀ d_k − r| for the columns B_k of windows, and r − Σ_k B_kᵀ d_k.

    The columns of each window are made orthonormal by QR, so that what couples windows is a band
    around a unit matrix; its Cholesky factor preconditions conjugate gradients on the rows.

    right : the right sides r, [R, N].
    singular : whether the rows leave functions open, as a constant.
    """
    import scipy.linalg as sl

    triangles, unit, grams = zip(*map(_orthonormal, blocks), strict=True)
    widths, pairs = np.array([len(each) for each in unit]), list(common)
    offsets, band = _places(widths, pairs)
    ab = np.zeros((band, int(widths.sum())), order="F")
    # Rounding leaves columns of cut cells not quite orthonormal, which the factor has to know.
    flat = ab.reshape(-1, order="F")
    for first, gram in zip(offsets, grams, strict=True):
        i, j = np.tril_indices(len(gram))
        flat[first * band + i + j * (band - 1)] = gram[i, j]
    ab[0] += _SHIFT_IF_SINGULAR if singular else _SHIFT
    for (k, other), (a, b) in common.items():
        if offsets[k] > offsets[other]:
            (k, a), (other, b) = (other, b), (k, a)
        gram = unit[other][:, b] @ unit[k][:, a].T
        below = offsets[other] - offsets[k] + np.arange(len(gram))[:, None]
        across = np.arange(gram.shape[1])[None]
        ab[below - across, offsets[k] + across] = gram
    lower = (sl.cholesky_banded(ab, lower=True, overwrite_ab=True, check_finite=False), True)
    parts = [slice(*ends) for ends in zip(offsets, offsets + widths, strict=True)]

    def times(y: Array) -> Array:
        out = np.zeros(right.shape[1])
        for block, columns, part in zip(blocks, unit, parts, strict=True):
            out[block.rows] += y[part] @ columns
        return out

    def transposed(v: Array) -> Array:
        out = np.zeros(ab.shape[1])
        for block, columns, part in zip(blocks, unit, parts, strict=True):
            out[part] = columns @ v[block.rows]
        return out

    def solved(r: Array) -> tuple[Array, Array]:
        y, left = conjugate_gradients(
            times,
            transposed,
            lambda t: sl.cho_solve_banded(lower, t, check_finite=False),
            r,
            iterations=_ITERATIONS,
            enough=_ENOUGH,
        )
        d = [
            sl.solve_triangular(factor_k, y[part], check_finite=False)
            for factor_k, part in zip(triangles, parts, strict=True)
        ]
        return np.concatenate(d), left

    return [solved(r) for r in right]


def _places(widths: Integers, pairs: Sequence[tuple[int, int]]) -> tuple[Integers, int]:
    """Return where the columns of each window begin in the matrix, [K], and the width of its band.

    In the order of the windows, or in one in which periodic ones, say, are nearer to each other.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    count, (i, j) = len(widths), np.array([*pairs, (0, 0)]).T
    entries = np.ones(2 * len(i)), (np.append(i, j), np.append(j, i))
    graph = csr_array(entries, shape=(count, count))
    orders = []
    for order in (np.arange(count), reverse_cuthill_mckee(graph, symmetric_mode=True)):
        offsets = np.zeros(count, np.int64)
        offsets[order] = np.cumsum(widths[order]) - widths[order]
        first, last = np.minimum(offsets[i], offsets[j]), (offsets + widths)[[i, j]].max(axis=0)
        orders.append((offsets, int(max(widths.max(), (last - first).max()))))
    return min(orders, key=lambda places: places[1])


def _orthonormal(block: Block) -> tuple[Array, Array, Array]:
    """Return R: [p, p] and rows U = R⁻ᵀ B: [p, n], orthonormal but for rounding, with U Uᵀ (lower).

    By Cholesky's factor where the columns are clearly independent, which takes a third of the time
    of Householder's; see Yamamoto et al., ETNA 44 (2015), "CholeskyQR2". Without the rounding in
    U Uᵀ the band would not be positive definite where windows nearly depend on each other.
    """
    import scipy.linalg as sl

    norms = np.linalg.norm(block.columns, axis=1)
    norms += _DAMPING * norms.max() + 1e-300
    p, n = block.columns.shape
    rows = block.columns / norms[:, None]
    gram = sl.blas.dsyrk(1.0, rows.T, trans=1, lower=1)
    factor, info = sl.lapack.dpotrf(gram, lower=1)
    if info == 0 and factor.diagonal().min() > _INDEPENDENT:
        rows = sl.blas.dtrsm(1.0, factor, rows.T, side=1, lower=1, trans_a=1).T
        return factor.T * norms, rows, sl.blas.dsyrk(1.0, rows.T, trans=1, lower=1)
    damped = np.zeros((p, n + p))
    damped[:, :n] = block.columns
    damped[np.arange(p), n + np.arange(p)] = _DAMPING * norms
    factor = triangle(damped)
    rows = sl.solve_triangular(factor, damped, trans=1, check_finite=False)
    return factor, rows[:, :n], sl.blas.dsyrk(1.0, rows.T, trans=1, lower=1)
