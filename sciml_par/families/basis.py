"""The basis of a family and the one of its errors, from solved queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.families.branch import Branch
from sciml_par.families.reduced import QuickError, Reduced, Step
from sciml_par.families.space import Space

Array = npt.NDArray[np.float64]

_TAIL, _MOST, _MOST_ERRORS = 5e-2, 150, 60
"""Of the tolerance, the part of solutions that modes may lack; and modes at most."""
_TAIL_OF_ERRORS = 1e-3
_ROWS = 3
"""Rows of least squares for each function of a basis."""
_PROBE, _PROBED, _DRAWN = 1e-9, 8, 32
"""The rounding by which linear residuals are told, and at how many queries; and how many tell
whether their slopes are few fixed ones."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Functions orthonormal in L2 that span solutions: c = a V.

    Attributes
    ----------
    space : of the functions.
    v : their coefficients, [r, p].
    branch : regression of a on the inputs.
    reduced : Gauss–Newton steps for a.
    errors, quick : coefficients of functions that span errors, [r_e, p_r], and their least squares;
        None before these are known.
    values : of all these functions at the points of the space, [n m, r + r_e].
    """

    space: Space
    v: Array
    branch: Branch
    reduced: Reduced
    errors: Array | None = None
    quick: QuickError | None = None
    values: Array | None = None

    @classmethod
    def with_functions(cls, space: Space, v: Array, vectors: Array, a: Array) -> Basis:
        """Return the basis with known functions, and coordinates a: [S, r] of queries."""
        weights = space.own_norm.weights(_ROWS * len(v))
        rows = space.rows(space.system.equations, [(space.model, v)], weights)
        probe, q = a[:_PROBED] + _PROBE, vectors[:_PROBED]
        r = [np.asarray(rows.residuals(k * probe, q)) for k in (0.0, 1.0, 2.0)]
        linear = np.abs(r[2] - 2 * r[1] + r[0]).max() <= _PROBE * np.abs(r[2]).max()
        step = Step(rows, space.inputs.draw(_DRAWN, 0) if linear else None)
        reduced = Reduced(step, size=len(v), inputs=vectors.shape[1])
        branch = Branch(space.inputs.coordinates(vectors), a)
        return cls(space, v, branch, reduced)

    def with_error_functions(self, errors: Array) -> Basis:
        """Return the basis with known functions of errors, [r_e, p_r]."""
        space, n = self.space, len(self.v) + len(errors)
        both = [(space.model, self.v), (space.richer, errors)]
        weights = space.norm(space.richer_system).weights(_ROWS * n)
        seen = space.rows(space.richer_system.equations, both, weights)
        unseen = space.rows(space.judging[0], both, space.judging[1])
        values = np.hstack([space.values_of(self.v), space.values_of_errors(errors)])
        gram = values.T @ values / len(space.x)
        linear = space.inputs.draw(_DRAWN, 0) if self.reduced.step.linear else None
        quick = QuickError(seen, unseen, gram, inputs=space.inputs.size, linear=linear)
        return Basis(space, self.v, self.branch, self.reduced, errors, quick, values)

    def start(self, vectors: Array) -> Array:
        """Return coordinates by regression, [Q, r] (level 0)."""
        return self.branch(self.space.inputs.coordinates(vectors))

    def solve(self, vectors: Array) -> tuple[Array, Array]:
        """Return coordinates by Gauss–Newton steps, [Q, r], and what is left of rows (level 1)."""
        return self.reduced.solve(self.start(vectors), vectors)


def functions_of(space: Space, c: Array, tolerance: float) -> tuple[Array, Array]:
    """Return functions that span solutions c: [S, p], and the coordinates of these, [S, r]."""
    values = space.values_of(c)
    v = _modes(values, c, _TAIL * tolerance, _MOST)
    return v, np.asarray(np.linalg.lstsq(space.values_of(v), values, rcond=None)[0].T)


def error_functions_of(space: Space, e: Array) -> Array:
    """Return functions that span errors e: [S, p_r]."""
    return _modes(space.values_of_errors(e), e, _TAIL_OF_ERRORS, _MOST_ERRORS)


def _modes(values: Array, c: Array, tail: float, most: int) -> Array:
    """Return the first singular functions of normalized ones, [r, p], which lack so little."""
    tiny = np.finfo(np.float64).tiny
    sizes = np.maximum(np.linalg.norm(values, axis=0), tiny)
    _, s, wt = np.linalg.svd(values / sizes, full_matrices=False)
    tails = np.sqrt(np.cumsum(s[::-1] ** 2)[::-1] / len(c))
    r = int(np.clip(np.count_nonzero(tails > tail), 1, min(most, len(s))))
    return np.asarray((wt[:r] / np.maximum(s[:r, None], tiny)) @ (c / sizes[:, None]))
