"""Normal equations of networks in windows, whose matrix is banded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided
from scipy.linalg import LinAlgError, cho_solve, cho_solve_banded, cholesky, cholesky_banded

from sciml_par._tensorflow import tf
from sciml_par.algebra.banded import Block, common_rows
from sciml_par.errors import InputError
from sciml_par.training.loss.known import WindowJacobian
from sciml_par.training.loss.window_jacobian import WindowBand
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host, found_by_first
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class WindowEquations(LinearSystem):
    """(JᵀJ + λ D²) d = Jᵀ v for one network in windows and q unknowns.

    With B = J_wᵀ J_a of windows and unknowns, the matrix is

        [ A   B ]
        [ Bᵀ  C ]

    where A, [P, P], has blocks of windows that overlap only, so that it has b diagonals below the
    main one in the order of `WindowBand`. Its Cholesky factor takes P b² operations in place of
    P³/3. Each rank multiplies its rows. One allreduce adds A, B, C and Jᵀr; the first rank
    factorizes and solves, as in `NormalEquations`.
    """

    band: WindowBand

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        known = objective.evaluate(WindowJacobian, parameters, batch)
        ranks, p = objective.ranks, parameters.shape[1]
        numbers = [i for i, rows in enumerate(batch) if rows.arrays[0].shape[0]]
        sizes = [*self._sizes(), p, len(batch)]
        made = partial(self._products, numbers, sizes)
        given = [tf.cast(each, tf.float64) for each in _flat(known)]
        whole = tf.zeros([1, sum(sizes)], tf.float64)
        if given:
            whole = self._on_host(made, given, (1, sum(sizes)))
        *matrix, gradient, terms = tf.split(ranks.sum(whole), sizes, axis=1)
        return Linearization(ranks, known.residuals, [], (matrix, known), gradient, terms)

    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> Any:
        """See `LinearSystem`; the factors of A, A⁻¹ B and those of C − Bᵀ A⁻¹ B."""
        matrix, sizes = at.matrix[0], self._sizes()
        if at.ranks.rank != 0:
            return [tf.zeros([1, n], tf.float64) for n in sizes]
        given = [*matrix, damping[:, None] * scale * scale]
        return algebra_on_host(
            self._factorize, given, [(1, n) for n in sizes], columns=self.band.width
        )

    def solution(self, at: Linearization, factor: Any, right: Tensor) -> Tensor:
        given, columns = [*factor, right], self.band.places.shape[1]
        return found_by_first(at.ranks, self._solve, given, right, columns=columns)

    def transposed_times(self, at: Linearization, v: list[Tensor]) -> Tensor:
        p, known = at.gradient.shape[1], at.matrix[1]
        if not known.slopes:
            return tf.zeros([1, p], tf.float64)
        made = partial(self._transposed, len(known.slopes))
        given = [tf.cast(each, tf.float64) for each in (*_flat(known), *_with_rows(v))]
        return self._on_host(made, given, (1, p))

    def along(self, at: Linearization, direction: Tensor) -> list[Tensor]:
        known, found = at.matrix[1], []
        terms = iter(zip(*_lists(known), strict=True))
        for r in at.residuals:
            if not r.shape[1]:
                found.append(tf.zeros_like(r))
                continue
            given = [tf.cast(each, tf.float64) for each in (*next(terms), direction)]
            found.append(tf.cast(self._on_host(self._along, given, tuple(r.shape)), r.dtype))
        return found

    def squared_column_norms(self, at: Linearization) -> Tensor:
        (a, _, c), p = at.matrix[0], at.gradient.shape[1]
        return self._on_host(self._diagonal, [a, c, at.gradient], (1, p))

    def blocks(self, numbers: Array, slopes: Array, rows: int) -> dict[int, Block]:
        """Return the rows of each window that has some, and derivatives by its c parameters."""
        n, found = rows // len(slopes), dict[int, Block]()
        used = np.flatnonzero(np.any(slopes != 0.0, axis=(0, 1)))
        windows, points = numbers[used].astype(int), used % n
        order = np.lexsort((points, windows))
        used, windows, points = used[order], windows[order], points[order]
        starts = np.flatnonzero(np.diff(windows, prepend=-1))
        for first, end in zip(starts, [*starts[1:], len(windows)], strict=True):
            at, here = points[first:end], slopes[:, :, used[first:end]]
            alone = np.flatnonzero(np.diff(at, prepend=-1))
            if len(alone) < len(at):  # the network was asked at several points for one residual
                at, here = at[alone], np.add.reduceat(here, alone, axis=2)
            columns = here.transpose(1, 0, 2).reshape(here.shape[1], -1)
            places = (np.arange(len(slopes))[:, None] * n + at).ravel()
            found[int(windows[first])] = Block(places, columns)
        return found

    def _on_host(self, function: Any, given: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        columns = self.band.places.shape[1]
        return algebra_on_host(function, given, [shape], columns=columns)[0]

    def _sizes(self) -> list[int]:
        """Return how many numbers A, B and C have."""
        rows, q = self.band.size, self.band.unknowns
        return [rows * (self.band.width + 1), rows * q, q * q]

    def _products(
        self,
        given: Sequence[int],
        sizes: Sequence[int],
        arguments: Sequence[Array],
        results: Sequence[Array],
    ) -> None:
        """Add A, B, C, Jᵀr and the terms of the loss over the points of this rank.

        given : the numbers of the terms that have points here.
        """
        out = results[0][0]
        out[:] = 0.0
        a, b, c, gradient, terms = np.split(out, np.cumsum(sizes)[:-1])
        band = self.band
        q = band.unknowns
        b, c = b.reshape(band.size, q), c.reshape(q, q)
        for number, (r, slopes, numbers, by_unknowns) in zip(given, _terms(arguments), strict=True):
            terms[number] = r @ r
            gradient[len(gradient) - q :] += by_unknowns @ r
            c += by_unknowns @ by_unknowns.T
            blocks = self.blocks(numbers, slopes, len(r))
            for window, block in blocks.items():
                start, columns = band.start(window), block.columns
                gradient[band.places[window]] += columns @ r[block.rows]
                b[start : start + len(columns)] += columns @ by_unknowns[:, block.rows].T
                square = columns @ columns.T
                for row in range(len(square)):
                    begin = (start + row) * (band.width + 1)
                    a[begin : begin + len(square) - row] += square[row:, row]
            windows = sorted(blocks, key=lambda window: band.position[window])
            common = common_rows([blocks[window].rows for window in windows])
            for (k, other), (i, j) in common.items():
                first, last = windows[k], windows[other]
                product = blocks[last].columns[:, j] @ blocks[first].columns[:, i].T
                self._add(a, last, first, product)

    def _add(self, a: Array, one: int, other: int, block: Array) -> None:
        """Add the product of two windows; `one` is behind the other."""
        band = self.band
        if not band.coupled[one, other]:
            raise InputError(
                "LevenbergMarquardt: solver='windows' needs residuals of windows that overlap, and "
                "one couples others. Take solver='normal equations'."
            )
        row, column = band.start(one), band.start(other)
        # The entry (r, c) is at c (b + 1) + r − c.
        first, step = column * band.width + row, a.strides[0]
        as_strided(a[first:], block.T.shape, (band.width * step, step))[:] += block.T

    def _transposed(self, terms: int, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        """Compute Jᵀ v over the points of this rank."""
        found = results[0][0]
        found[:] = 0.0
        pairs = zip(_terms(arguments[: 4 * terms]), arguments[4 * terms :], strict=True)
        for (_, slopes, numbers, by_unknowns), v in pairs:
            found[len(found) - len(by_unknowns) :] += by_unknowns @ v[0]
            for window, block in self.blocks(numbers, slopes, v.shape[1]).items():
                found[self.band.places[window]] += block.columns @ v[0, block.rows]

    def _factorize(self, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        a, b, c, damping = (each[0] for each in arguments)
        factor, reached, rest = (each[0] for each in results)
        size, width, q = self.band.size, self.band.width, self.band.unknowns
        whole = a.reshape(size, width + 1).copy()
        whole[:, 0] += damping[self.band.in_order]
        try:
            # Of this shape, LAPACK works in place.
            lower = cholesky_banded(whole.T, lower=True, overwrite_ab=True, check_finite=False)
            columns = b.reshape(size, q)
            y = cho_solve_banded((lower, True), columns, check_finite=False) if q else columns
            s = c.reshape(q, q) + np.diag(damping[len(damping) - q :]) - columns.T @ y
            rest[:] = (cholesky(s, lower=True) if q else s).ravel()
        except (LinAlgError, ValueError):
            factor[:] = reached[:] = rest[:] = np.nan
            return
        factor[:], reached[:] = lower.T.ravel(), y.ravel()

    def _solve(self, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        factor, reached, rest, right = (each[0] for each in arguments)
        size, q, order = self.band.size, self.band.unknowns, self.band.in_order
        found = results[0][0]
        found[:] = np.nan
        if not np.isfinite(factor[0]):
            return
        lower = factor.reshape(size, -1).T
        y = cho_solve_banded((lower, True), right[order], check_finite=False)
        found[:] = 0.0
        if q:
            columns = reached.reshape(size, q)
            of_unknowns = right[len(right) - q :] - columns.T @ right[order]
            z = cho_solve((rest.reshape(q, q), True), of_unknowns, check_finite=False)
            y, found[len(found) - q :] = y - columns @ z, z
        found[order] = y

    def _along(self, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        r, slopes, numbers, by_unknowns, d = (each[0] for each in arguments)
        found = results[0][0]
        found[:] = d[len(d) - len(by_unknowns) :] @ by_unknowns
        for window, block in self.blocks(numbers, slopes, len(r)).items():
            found[block.rows] += d[self.band.places[window]] @ block.columns

    def _diagonal(self, arguments: Sequence[Array], results: Sequence[Array]) -> None:
        a, c, _ = (each[0] for each in arguments)
        found, q = results[0][0], int(np.sqrt(len(c)))
        found[:] = 0.0
        found[self.band.in_order] = a.reshape(self.band.size, -1)[:, 0]
        found[len(found) - q :] = np.diag(c.reshape(q, q))


def _lists(known: WindowJacobian) -> tuple[list[Tensor], ...]:
    residuals = _with_rows(known.residuals)
    return residuals, known.slopes, known.windows, known.by_unknowns


def _with_rows(v: Sequence[Tensor]) -> list[Tensor]:
    return [each for each in v if each.shape[1]]


def _flat(known: WindowJacobian) -> list[Tensor]:
    return [part for term in zip(*_lists(known), strict=True) for part in term]


def _terms(arguments: Sequence[Array]) -> Iterator[list[Array]]:
    """Return residuals, slopes, windows and derivatives by unknowns of each term of one member."""
    for first in range(0, len(arguments), 4):
        yield [each[0] for each in arguments[first : first + 4]]
