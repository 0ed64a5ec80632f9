"""Solve members of a family in one space of polynomials, and tell their errors in a richer one."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par._text import one_line
from sciml_par.algebra.dense import by_normal_equations
from sciml_par.assembly.asked import Asked, NotByJetsError, Rows
from sciml_par.assembly.equations import Equations, Linearized
from sciml_par.assembly.solution import Solution, zero_jets
from sciml_par.assembly.system import Solved, System, flat, gauss_newton
from sciml_par.errors import InputError, TrainingError
from sciml_par.families.dual import DualNorm
from sciml_par.families.inputs import Inputs
from sciml_par.families.reduced import Columns, RowsInBasis
from sciml_par.families.shares import Shares
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.preparation.description import describe_equations, first_difference
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.solving.cell_points import PointsOfTerms
from sciml_par.training.solving.corners import functions_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_STEPS = 20
_RICHER, _MORE = 1.3, 4
"""The degree of the richer space: so many times as high, and higher by so much at least."""
_SEED, _SAMPLE = 5, 600
"""Points of the domain at which functions are compared."""
_SHARED, _ANCHORS = 12, 5
"""Queries that tell whether slopes are sums of few parts; and those of which one gives a norm."""
_POINTS_MORE, _JUDGING, _MOST_NUMBERS = 3, 64, 15_000_000
"""Points along an axis, more than the degree; rows by which errors are judged, and the most numbers
in the matrix of which they are made."""
_BY_ROWS = (
    "learn: residuals get each unknown with a row for each point, D: [n, 1], or c[i]: [n, 1] of an "
    "array; write D * laplacian(u, x), nothing that needs a single number."
)


@dataclass(frozen=True, eq=False)
class OfInputs:
    """The residual (u, *arrays, columns) -> r of a term, the unknowns being the columns: [n, q]."""

    inner: Callable[..., Any]
    inputs: Inputs

    def __call__(self, u: Any, *arrays: Any) -> Any:
        """Compute r: [n, k]."""
        *given, columns = arrays
        return self.inner(u.with_unknowns(self.inputs.values(columns)), *given)


class OfFamily(System):
    """The least-squares problem of a query, whose JᵀJ is a sum of few known matrices.

    It preconditions conjugate gradients, so that rounding in the sum does no harm.
    """

    shares: Shares | None = None

    def share(self, inputs: Inputs) -> None:
        """Find the matrices, if equations are linear and their slopes few (local)."""
        rng, size = np.random.default_rng(_SEED), int(np.prod(self.model.coefficients.shape))
        slopes = []
        for vector in inputs.draw(_SHARED, 0):
            here = _with_equations(self, at(self.equations, inputs, vector))
            terms = here.linearized(rng.normal(size=size))
            slopes.append(_slopes(terms))

        def columns(part: Array) -> Array:
            parts, begin = list[Linearized](), 0
            for term in terms:
                by_jets = []
                for of_request in term.by_jets:
                    end = begin + of_request.size
                    by_jets.append(part[begin:end].reshape(of_request.shape))
                    begin = end
                parts.append(replace(term, by_jets=by_jets))
            return self.dense(parts)

        self.shares = Shares.of(np.stack(slopes), columns)

    def step(self, terms: Sequence[Linearized], *, fixed: bool = False) -> tuple[Array, float]:
        """Return argmin_d |J d − r|, and the least |J d − r|² (local)."""
        if self.shares is not None:
            theta, whether = self.shares.theta(_slopes(terms)[None])
            if whether:
                gram, columns = np.array(self.shares.gram(theta)[0]), self.shares.columns(theta[0])
                columns = self.dense(terms) if columns is None else columns
                return by_normal_equations(columns, flat(terms), gram=gram)
        return super().step(terms)


def _slopes(terms: Sequence[Linearized]) -> Array:
    """Return √w ∂r/∂z of all terms, [W]."""
    return np.concatenate([slope.ravel() for term in terms for slope in term.by_jets])


class Space:
    """Polynomials of one degree on the box, in which queries are solved (local).

    Parameters
    ----------
    problem : without unknowns, which are those of the inputs.
    inputs : of the family.
    degree : of the polynomials.
    layers : whether there are functions of layers from the initial time beside them.
    """

    def __init__(
        self, problem: Problem, inputs: Inputs, degree: int, *, layers: bool = False
    ) -> None:
        self.problem, self.inputs, self.degree = problem, inputs, degree
        self.x = problem.domain.sample(_SAMPLE, seed=_SEED, method="sobol")
        self._asked = dict[str, Asked]()
        at_corners = problem.domain.dimension == 2
        in_layers = layers and at_corners
        self._points = PointsOfTerms(problem, _SEED, at_corners=at_corners, in_layers=in_layers)
        self._terms, self._checked = list[Term](), False
        self._networks: Any = import_module("sciml_par.networks")
        self.model = self._polynomials(degree)
        self.system = OfFamily(self.equations(degree + _POINTS_MORE), self.model)
        self.richer = self._polynomials(_higher(degree))
        self.richer_system = OfFamily(self.equations(_higher(degree) + _POINTS_MORE), self.richer)

    @property
    def layers(self) -> bool:
        """Whether there are functions of layers from the initial time."""
        return self._points.layered

    @cached_property
    def judging(self) -> tuple[Equations, Array | None]:
        """Equations at points that none has seen, and the weights of their rows.

        By polynomials richer than the richer ones; None if these are too many.
        """
        degree = _higher(_higher(self.degree))
        equations, model = self.equations(degree + _POINTS_MORE), self._polynomials(degree)
        columns = model.width * self.problem.network_outputs
        if columns * sum(rows.points for rows in equations.rows) > _MOST_NUMBERS:
            return equations, None
        system = OfFamily(equations, model)
        return equations, self.norm(system).weights(_JUDGING)

    def _polynomials(self, degree: int) -> Any:
        """Return polynomials on the box, and functions of its corners."""
        d, box = self.problem.domain.dimension, self.problem.box_of_inputs
        corners = functions_of(self._points.on_box, degree, self.problem)
        of = d, self.problem.network_outputs
        return self._networks.Polynomials(*of, degree=degree, corners=corners, box=box)

    def equations(self, along: int) -> Equations:
        """Return the equations of the family at Gauss' points of the box, so many along each axis.

        They are close to each other at the ends, where polynomials vary fastest.
        """
        cells, d = self.model.cells, self.problem.domain.dimension
        try:
            found = self._points.in_cells(cells, (along,) * d)
            for rows in found.rows:
                if rows.sums is not None:
                    raise NotByJetsError(f"the term {rows.term.name!r} couples points")
            return self._of_family(found)
        except NotByJetsError as error:
            raise InputError(f"learn: {error}.") from None

    def _of_family(self, equations: Equations) -> Equations:
        """Return equations whose terms take the inputs as their last array."""
        if not self._terms:
            self._terms += family_terms([rows.term for rows in equations.rows], self.inputs)
        terms = self._terms  # the same functions for all points, by which graphs are found again
        first = self.inputs.draw(1, 0)
        arrays = [(*rows.arrays, np.tile(first, (rows.points, 1))) for rows in equations.rows]
        factors = [rows.factors for rows in equations.rows]
        try:
            found = Equations(self.problem, arrays, factors, self._asked, terms=terms)
            self._check(equations, found)
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            raise InputError(f"{_BY_ROWS} {one_line(error)}") from None
        return found

    def _check(self, alone: Equations, family: Equations) -> None:
        """Raise if unknowns in rows give other residuals than numbers."""
        if self._checked:
            return
        rng = np.random.default_rng(0)
        jets = [[rng.normal(size=z.shape) for z in of_term] for of_term in zero_jets(alone)]
        first, other = self.inputs.draw(2, 0)
        of_first, of_other, mixed = (
            at(family, self.inputs, vectors).residuals(jets)
            for vectors in (first, other, np.stack([first, other]))
        )
        for known, a, b, both in zip(alone.residuals(jets), of_first, of_other, mixed, strict=True):
            expected = a.copy()
            expected[:, 1::2] = b[:, 1::2]
            for right, found in ((known, a), (expected, both)):
                if not np.allclose(right, found, rtol=1e-9, atol=1e-9, equal_nan=True):
                    raise InputError(f"{_BY_ROWS} Residuals change when rows have other values.")
        self._checked = True

    @property
    def described(self) -> dict[str, str]:
        """What tells the problem from others, which a file keeps."""
        found = describe_equations(self.problem, self.system.equations.rows, "float64")
        ranges = {name: repr(part) for name, part in self.inputs.parts.items()}
        return {**found, **{f"the input {name}": text for name, text in ranges.items()}}

    def difference(self, described: dict[str, str]) -> str | None:
        """Return the first name in which this problem differs from one that was described."""
        return first_difference([self.described, described])

    @property
    def columns(self) -> int:
        """The number of coefficients."""
        return int(np.prod(self.model.coefficients.shape))

    @cached_property
    def values(self) -> Array:
        """u at the points x for each coefficient, [n m, p]."""
        return self.system.values(self.x)

    @cached_property
    def values_of_richer(self) -> Array:
        """e at the points x for each coefficient of the richer polynomials, [n m, p_r]."""
        return self.richer_system.values(self.x)

    def share(self) -> None:
        """Compute what many queries have in common (local)."""
        for system in (self.system, self.richer_system):
            system.share(self.inputs)

    def solve(self, vector: Array, begin: Array | None = None) -> Solved:
        """Solve for one μ: [q] by Gauss–Newton steps."""
        begin = np.zeros(self.columns) if begin is None else begin
        equations = at(self.system.equations, self.inputs, vector)
        return gauss_newton(_with_equations(self.system, equations), begin, steps=_STEPS)

    def solution(self, c: Array) -> Solution:
        """Return u with these coefficients, [p]."""
        return Solution(self.problem, (self.model,), c)

    def error(self, c: Array, vector: Array) -> Array:
        """Return e of richer polynomials for u with coefficients c, [p_r]."""
        system, terms = self._about(self.richer_system, self.solution(c), vector)
        return -system.step(terms)[0]

    def _about(
        self, system: OfFamily, u: Solution, vector: Array
    ) -> tuple[OfFamily, list[Linearized]]:
        """Return the problem of what is added to u for one μ: [q], linearized."""
        other = _with_equations(system, at(system.equations, self.inputs, vector))
        other.base = u.jets(other.equations)
        return other, other.linearized(np.zeros(int(np.prod(system.model.coefficients.shape))))

    def reliability(self, c: Array, e: Array, vector: Array) -> float:
        """Return the factor q by which e lowers what richer polynomials still find."""
        equations, weights = self.judging
        unseen = at(equations, self.inputs, vector)
        both = Solution(self.problem, (self.model, self.richer), np.concatenate([c, e]))
        parts = (unseen.residuals(u.jets(unseen)) for u in (self.solution(c), both))
        rows = (np.concatenate([r.ravel() for r in of_terms]) for of_terms in parts)
        before, after = (np.linalg.norm(r if weights is None else weights @ r) for r in rows)
        return float(before / max(after, np.finfo(np.float64).tiny))

    @cached_property
    def own_norm(self) -> DualNorm:
        """The norm of residuals at the points of the system."""
        return self.norm(self.system)

    def rows(self, equations: Equations, basis: Columns, weights: Array | None) -> RowsInBasis:
        """Return the rows of a basis at the points of equations (local)."""
        begin, places = 0, list[Integers]()
        for rows in equations.rows:  # one after another has components, in a basis points
            k, n = rows.asked.components, rows.points
            places.append(begin + np.arange(k * n).reshape(k, n).T.ravel())
            begin += k * n
        weights = None if weights is None else weights[:, np.concatenate(places)]
        return RowsInBasis(self.problem, equations, self.inputs.to_rows, basis, weights)

    def norm(self, system: OfFamily, anchor: tuple[Array, Solution] | None = None) -> DualNorm:
        """Return the norm of residuals at the points of a system, at a query."""
        vector, solution = self.anchor if anchor is None else anchor
        here, terms = self._about(system, solution, vector)
        rows = here.equations.rows[0]
        x, w = rows.requests[rows.own].x, rows.factors
        w = w * np.sqrt(len(self.x)) / np.linalg.norm(w)
        values = (self._counting(x) * w[:, None]).reshape(-1, 1) * here.values(x)
        return DualNorm(here.dense(terms), values)

    @cached_property
    def _solved(self) -> list[tuple[Array, Solution]]:
        """Some queries and their solutions."""
        pairs = [(each, self.solve(each).c.ravel()) for each in self.inputs.draw(_ANCHORS, _SEED)]
        found = [(vector, self.solution(c)) for vector, c in pairs if np.isfinite(c).all()]
        if not found:
            raise TrainingError("learn: Gauss–Newton steps from u = 0 do not converge.")
        return found

    @cached_property
    def anchor(self) -> tuple[Array, Solution]:
        """A query and its solution, whose norm of residuals is the median of some.

        At a resonance, as the middle of the family may be, it would see one function alone.
        """
        norms = [np.linalg.norm(self.norm(self.system, each).weights(8)) for each in self._solved]
        return self._solved[int(np.argsort(norms)[len(norms) // 2])]

    @cached_property
    def sizes(self) -> Array:
        """The usual size of each component, [m], in which errors count, whatever their units."""
        if self.problem.network_outputs == 1:
            return np.ones(1)
        means = self.problem.means(self.x)
        values = np.stack([means * u(self.x) for _, u in self._solved])
        sizes = np.sqrt(np.median(np.sum(values**2, axis=1), axis=0) / means.sum(axis=0))
        return np.asarray(np.where(sizes > 0, sizes, sizes.max() or 1.0))

    def values_of(self, c: Array) -> Array:
        """Return u in units of its sizes at the points x: c [S, p] -> [n m, S]."""
        return self._counting(self.x).reshape(-1, 1) * (self.values @ c.T)

    def values_of_errors(self, e: Array) -> Array:
        """Return e in units of the sizes at the points x: [S, p_r] -> [n m, S]."""
        return self._counting(self.x).reshape(-1, 1) * (self.values_of_richer @ e.T)

    def _counting(self, x: Array) -> Array:
        """Return factors of components at x, [n, m]: 1 / size, or 0 where one means nothing."""
        return np.asarray(self.problem.means(x) / self.sizes)

    def relative_error(self, c: Array, vector: Array) -> float:
        """Return |e| / |u + e|."""
        of_e = self.values_of_errors(self.error(c, vector)[None])[:, 0]
        size = np.linalg.norm(self.values_of(c[None])[:, 0] + of_e)
        return float(np.linalg.norm(of_e) / max(size, np.finfo(np.float64).tiny))


def _higher(degree: int) -> int:
    """Return the degree of richer polynomials."""
    return max(degree + _MORE, math.ceil(_RICHER * degree))


def family_terms(terms: Sequence[Term], inputs: Inputs) -> list[Term]:
    """Return terms that take the inputs as their last array, [n, q] (local)."""
    return [replace(term, function=OfInputs(term.function, inputs)) for term in terms]


def bound_problem(problem: Problem, inputs: Inputs) -> Problem:
    """Return the problem of the first query, with the weights of `LeastSquares` (local)."""
    known = problem.with_values(inputs.known(inputs.draw(1, 0)[0]))
    return ProblemChanges(None, [LeastSquares()]).weigh(known)


def at(equations: Equations, inputs: Inputs, vector: Array) -> Equations:
    """Return the equations of a family for one μ: [q], or several in turn, [k, q] (local)."""
    other, vectors = copy.copy(equations), inputs.to_rows(np.atleast_2d(vector)).numpy()

    def of_rows(rows: Rows) -> Rows:
        columns = tf.constant(np.resize(vectors, (rows.points, vectors.shape[1])))
        return replace(rows, arrays=(*rows.arrays[:-1], columns))

    other.rows = list(map(of_rows, equations.rows))
    return other


def _with_equations(system: OfFamily, equations: Equations) -> OfFamily:
    other = copy.copy(system)
    other.equations = equations
    return other
