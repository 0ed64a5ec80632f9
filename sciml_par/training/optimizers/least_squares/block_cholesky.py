"""The normal equations of a Gauss–Newton step, with a matrix that is divided over the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Jacobian
from sciml_par.training.optimizers.least_squares import lapack
from sciml_par.training.optimizers.least_squares.linear_system import Linearization, LinearSystem
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any
Array = npt.NDArray[np.float64]
Owned = dict[int, Tensor]
"""The panels of this rank by number, each [M, rows, columns]."""


# Where there are not more ranks: each panel has its own operations in the program.
_MOST_PANELS = 24

_NARROWEST = 64


@dataclass(frozen=True)
class Panels:
    """Panels of neighbouring columns of the triangle i ≥ j of a matrix [p, p].

    Panel k has the columns `first(k)` to `end(k)` and the rows from `first(k)` on. The ranks take
    turns, so that each has short panels and long ones, and work until the last panels.

    Attributes
    ----------
    p : how many columns there are.
    ranks : that share them.
    """

    p: int
    ranks: int

    @property
    def width(self) -> int:
        """Of all panels but the last."""
        # Six for each rank, unless that are too many, or they are too narrow for BLAS.
        most = max(_MOST_PANELS, self.ranks)
        narrowest = min(_NARROWEST, _ceil(self.p, self.ranks))
        return max(_ceil(self.p, most), _ceil(self.p, 6 * self.ranks), narrowest)

    @property
    def count(self) -> int:
        """How many panels there are."""
        return _ceil(self.p, self.width)

    def first(self, k: int) -> int:
        """Return the first column of panel k, and its first row."""
        return k * self.width

    def end(self, k: int) -> int:
        """Return the first column after panel k."""
        return min(self.p, (k + 1) * self.width)

    def shape(self, k: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of panel k."""
        return self.p - self.first(k), self.end(k) - self.first(k)

    def owner(self, k: int) -> int:
        """Return the rank that keeps panel k."""
        return k % self.ranks


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


class _Matrix(NamedTuple):
    panels: Panels
    owned: Owned


class BlockCholesky(LinearSystem):
    """(JᵀJ + λ D²) d = Jᵀ v with the triangle of JᵀJ: [p, p] divided over P ranks.

    The columns are divided into panels, which the ranks own in turns (Golub and Van Loan 2013,
    section 6.3). Each rank multiplies its own rows of J for one panel after the other, and the sum
    over the ranks goes to the panel's owner. The owner of the first panel factorizes it and gives
    it to all, each of which subtracts its products from the panels that it owns, and so on. The
    factor stays where it is: the substitutions go from owner to owner, and what the last one has
    found is given to all, so that all make the same step to the last bit.

    No rank ever holds [p, p]; time and memory fall with the number of ranks.
    """

    def linearize(self, objective: Objective, parameters: Tensor, batch: Batch) -> Linearization:
        known = objective.evaluate(Jacobian, parameters, batch)
        ranks, (members, p) = objective.ranks, parameters.shape
        panels = Panels(p, ranks.size)
        rows = [tf.cast(j, tf.float64) for j in known.jacobian]
        owned: Owned = {}
        for k in range(panels.count):
            shape = (members, *panels.shape(k))
            product = partial(_product, panels.first(k), panels.end(k))
            here = algebra_on_host(product, rows, [shape], columns=p)[0]
            whole = ranks.sum_on_rank(tf.reshape(here, [-1]), panels.owner(k))
            if panels.owner(k) == ranks.rank:
                owned[k] = tf.reshape(whole, shape)
        doubles = [tf.cast(r, tf.float64) for r in known.residuals]
        gradient = tf.add_n([tf.linalg.matvec(j, r) for j, r in zip(rows, doubles, strict=True)])
        return Linearization.of(ranks, known, known.jacobian, _Matrix(panels, owned), gradient)

    def factorize(self, at: Linearization, damping: Tensor, scale: Tensor) -> _Matrix:
        """See `LinearSystem`; panels are not finite if no factor exists."""
        panels, left = at.matrix.panels, dict(at.matrix.owned)
        members, p = scale.shape
        added = damping[:, None] * scale * scale
        factor: Owned = {}
        for k in range(panels.count):
            shape = (members, *panels.shape(k))
            if panels.owner(k) == at.ranks.rank:
                mine = added[:, panels.first(k) : panels.end(k)]
                given = [left.pop(k), mine]
                panel = factor[k] = algebra_on_host(_factorize, given, [shape], columns=p)[0]
            else:
                panel = tf.zeros(shape, tf.float64)
            if k == panels.count - 1:
                break
            panel = at.ranks.from_rank(panel, panels.owner(k))
            if left:
                reduced = algebra_on_host(
                    partial(_subtract, [panels.first(j) - panels.first(k) for j in left]),
                    [panel, *left.values()],
                    [tuple(other.shape) for other in left.values()],
                    columns=p,
                )
                left = dict(zip(left, reduced, strict=True))
        return _Matrix(panels, factor)

    def solution(self, at: Linearization, factor: _Matrix, right: Tensor) -> Tensor:
        """Return L⁻ᵀ L⁻¹ v, from owner to owner: [M, p]."""
        ranks, panels, solution = at.ranks, factor.panels, right
        order = range(panels.count)
        for substitute, numbers in ((_forward, order), (_backward, reversed(order))):
            for k in numbers:
                first = panels.first(k)
                if panels.owner(k) == ranks.rank:
                    rest = solution[:, first:]
                    given, shape = [factor.owned[k], rest], tuple(rest.shape)
                    found = algebra_on_host(substitute, given, [shape], columns=shape[1])[0]
                    solution = tf.concat([solution[:, :first], found], axis=1)
                solution = ranks.from_rank(solution, panels.owner(k))
        return solution


def _product(first: int, end: int, arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Multiply: (Jᵀ_t, …) -> the rows from `first` and the columns from it to `end` of JᵀJ."""
    (out,) = results
    out[...] = 0.0
    for jacobian in arguments:
        for rows, panel in zip(jacobian, out, strict=True):
            lapack.products(rows[first:], rows[first:end], panel, factor=1.0)


def _factorize(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Factorize a panel: itself, its diagonal's damping -> the panel of L."""
    for panel, damping, factor in zip(*arguments, results[0], strict=True):
        factor[...] = panel
        columns = factor.shape[1]
        top = factor[:columns]
        diagonal = np.einsum("ii->i", top)
        diagonal += damping
        if np.isfinite(diagonal).all() and lapack.cholesky(top):
            lapack.divide_rows(top, factor[columns:])
        else:
            factor[...] = np.nan


def _subtract(starts: Sequence[int], arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Subtract: a panel of L, later panels -> these less the products of their rows in that.

    starts : where each of them starts among the rows of the panel of L.
    """
    factor, *others = arguments
    for start, other, out in zip(starts, others, results, strict=True):
        out[...] = other
        for rows, panel in zip(factor, out, strict=True):
            end = start + panel.shape[1]
            lapack.products(rows[start:], rows[start:end], panel, factor=-1.0)


def _forward(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Substitute: a panel of L, v from its first row on -> y_k = L_kk⁻¹ v_k, the rest of v."""
    for panel, right, out in zip(*arguments, results[0], strict=True):
        out[...] = right
        columns = panel.shape[1]
        lapack.solve_lower(panel, out[:columns])
        out[columns:] -= panel[columns:] @ out[:columns]


def _backward(arguments: Sequence[Array], results: Sequence[Array]) -> None:
    """Substitute: a panel of L, y_k and the solution below -> the solution from its first row."""
    for panel, right, out in zip(*arguments, results[0], strict=True):
        out[...] = right
        columns = panel.shape[1]
        out[:columns] -= out[columns:] @ panel[columns:]
        lapack.solve_lower(panel, out[:columns], transposed=True)
