"""One solution by polynomials, on the box or in windows, and its error: what a rank does alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import Solution, zero_jets
from sciml_par.assembly.system import Solved, System, gauss_newton
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.networks.propagation.cells import Cells
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.convergence import if_converged
from sciml_par.training.estimate.estimate import estimate_by
from sciml_par.training.estimate.uniqueness import free_of, smooth_functions
from sciml_par.training.optimizers.least_squares.least_squares import LastStep
from sciml_par.training.outcome.result_of import Report
from sciml_par.training.outcome.validation import AtOtherPoints, judged, sizes_of_conditions
from sciml_par.training.solving.cell_points import PointsOfTerms, outside

Array = npt.NDArray[np.float64]

MOST_DIMENSIONS = 3
"""In which there are windows, and polynomials in all variables at once."""
_INTERACTING = 2
"""In more dimensions, products have at most so many variables, as in an analysis of variance;
residuals at unseen points tell whether this suits the solution."""
_POINTS_PER_COLUMN, _MOST_STEPS = 2.5, 15
_OF_CELL = 3.4
"""Points of a cell for each of its columns; along an axis there are more than its degrees."""
_FREE_POINTS, _FOR_SIZES = 300, 500
_OF_SOLUTION, _OF_ERROR = (0, 1), (2, 3)
"""Draws of points at which solutions and their errors are found, and judged."""


_RICHER, _RICHER_OTHERWISE, _RICHER_IN_WINDOWS = 1.35, 2, (4, 2)
"""The degree of polynomials that tell the error: so many times as high on the box in up to three
dimensions, and higher by so much otherwise."""


@dataclass(frozen=True)
class Stage:
    """A solution by polynomials: squares of the terms at its begin, [T], and u at x: [k, d]."""

    model: Any
    degree: int
    system: System
    begin: Array
    steps: Solved
    unseen: Equations
    judged: AtOtherPoints
    x: Array
    seconds: float

    @property
    def windows(self) -> int:
        """The number of windows; 1 on the box."""
        return len(self.model.cells.kept)

    @cached_property
    def solution(self) -> Solution:
        """u."""
        return Solution.of(self.unseen.problem, self.model)

    @cached_property
    def u(self) -> Array:
        """u at the points of the evaluation, [k, m]."""
        return self.solution(self.x)

    @property
    def report(self) -> Report:
        """How it was found."""
        equations = self.system.equations
        end = squares_of(equations.residuals(self.system.jets(self.steps.c)))
        squares = np.stack([self.begin, end])
        return Report(equations, squares, self.steps.steps, self.judged, self.seconds)


def squares_of(residuals: Sequence[Array]) -> Array:
    """Return Σ |r|² of each term, [T]."""
    return np.array([float(np.sum(np.square(r))) for r in residuals])


class PolynomialSolver:
    """Solves one problem by polynomials (local).

    Parameters
    ----------
    problem : with the weights of its terms.
    seed : of points.
    x : the points of the evaluation, [k, d].
    start : u at x: [n, d] -> [n, m], to begin with.
    """

    def __init__(
        self, problem: Problem, seed: int, x: Array, start: Callable[[Array], Array] | None
    ) -> None:
        self.problem, self.x = problem, x
        self._start, self._points = start, PointsOfTerms(problem, seed)
        self._networks: Any = import_module("sciml_par.networks")
        self._d = problem.domain.dimension

    def on_box(self, degree: int) -> Any:
        """Return polynomials on the box, with coefficients of zero."""
        interacting = None if self._d <= MOST_DIMENSIONS else _INTERACTING
        return self._polynomials(degree=degree, interacting=interacting)

    def in_windows(self, breaks: Sequence[Array], degree: int) -> Any:
        """Return polynomials in the windows of cells that the domain meets."""
        cells = Cells(tuple(tuple(map(float, along_axis)) for along_axis in breaks))
        dropped = outside(self.problem, cells, self._along(degree))
        return self._polynomials(degree=degree, breaks=cells.breaks, dropped=dropped)

    def _polynomials(self, **options: Any) -> Any:
        m, box = self.problem.network_outputs, self.problem.box_of_inputs
        return self._networks.Polynomials(self._d, m, box=box, **options)

    def solve(self, model: Any, degree: int, like: Stage | None) -> Stage | None:
        """Solve for the coefficients, beginning with another solution.

        None where the equations are not finite at the beginning.
        """
        began = time.perf_counter()
        at, unseen = self.equations(model, degree)
        system = System(at, model)
        begin = self._begin(system, like)
        residuals = at.residuals(system.jets(begin))
        if not all(np.isfinite(r).all() for r in residuals):
            return None
        steps, squares = gauss_newton(system, begin, steps=_MOST_STEPS), squares_of(residuals)
        model.coefficients.assign(steps.c)
        seen = self._judged(Solution.of(self.problem, model), unseen)
        if not math.isfinite(seen.zero_loss):  # as where the equation is singular at u = 0
            seen = replace(seen, zero_loss=float(squares.sum()))
        seconds = time.perf_counter() - began
        return Stage(model, degree, system, squares, steps, unseen, seen, self.x, seconds)

    def _judged(self, solution: Solution, equations: Equations) -> AtOtherPoints:
        """Judge a solution, and a network of zeros, at the points of equations."""
        both = solution.jets(equations), zero_jets(equations)
        squares, of_zero = (squares_of(equations.residuals(jets)) for jets in both)
        x = equations.rows[0].arrays[0]
        x = x[:: -(-len(x) // _FOR_SIZES)]
        sizes = sizes_of_conditions(self.problem, solution.field, x)
        weights = [rows.factors @ rows.factors for rows in equations.rows]
        sums = np.array([squares, of_zero, sizes, weights, [len(x)] * len(weights)], np.float64)
        return judged([term.name for term in self.problem.terms], sums)

    def equations(
        self, model: Any, degree: int, draws: tuple[int, int] = _OF_SOLUTION
    ) -> list[Equations]:
        """Return the equations at the points that polynomials need, and at fewer unseen ones."""
        if math.prod(model.cells.shape) == 1:
            count = int(_POINTS_PER_COLUMN * model.width)
            counts = count, max(count // 2, 400)
            return [
                self._points.scattered(n, draw=draw) for n, draw in zip(counts, draws, strict=True)
            ]
        return [
            self._points.in_cells(model.cells, self._along(degree)),
            self._points.in_cells(model.cells, (degree,) * self._d, draw=draws[1]),
        ]

    def _along(self, degree: int) -> tuple[int, ...]:
        columns = math.comb(degree + self._d, self._d)
        return (max(degree + 2, math.ceil((_OF_CELL * columns) ** (1 / self._d))),) * self._d

    def _begin(self, system: System, like: Stage | None) -> Array:
        if like is None:
            return self._constant(system) if self._start is None else system.fitted(self._start)
        if math.prod(system.model.cells.shape) == 1:
            return _padded(like.model, like.steps.c, system.model)
        return system.fitted(Solution.of(self.problem, like.model).network_values)

    def _constant(self, system: System) -> Array:
        """Return coefficients of the constant u that suits the conditions best, if one does."""
        begin = np.zeros((1, system.width, system.outputs))
        first = len(self.problem.residuals)
        r, slopes = system.equations.linearized(zero_jets(system.equations))
        # A constant has the same value at all points that a condition asks for, as a periodic one.
        by_value = [np.sum([s[:, 0] for s in of_term], axis=0) for of_term in slopes[first:]]
        rows = [slope.transpose(0, 2, 1).reshape(-1, system.outputs) for slope in by_value]
        values = [r_of_term.ravel() for r_of_term in r[first:]]
        if rows and np.isfinite(np.concatenate(values)).all():
            found = np.linalg.lstsq(np.concatenate(rows), -np.concatenate(values), 1e-10)[0]
            begin[0, 0] = np.nan_to_num(found)
        return begin

    def is_undetermined(self, stage: Stage) -> bool:
        """Return whether functions are free, or u = 0 is the solution, of which others tell."""
        if not stage.judged.zero_loss > 0.0:
            return True
        system, (c,), solution = stage.system, stage.steps.c, stage.solution
        factor = system.triangle(system.linearized(stage.steps.c)[1])
        x = self.problem.domain.sample(_FREE_POINTS, seed=0, method="sobol")
        means, u = self.problem.means(x), solution(x)

        def changes(columns: Array) -> Array:
            by_output = columns.T.reshape(-1, system.outputs, system.width)
            moved = [solution.at((c + d.T).ravel())(x) for d in by_output]
            return np.array([np.linalg.norm(means * (v - u), axis=0) for v in moved])

        return bool(free_of(factor, system.values(x), smooth_functions(self.problem, x), changes))


def _padded(model: Any, c: Array, larger: Any) -> Array:
    """Return coefficients of the same function for a model with more exponents."""
    places = {tuple(exponents): j for j, exponents in enumerate(larger.exponents)}
    padded = np.zeros(larger.coefficients.shape)
    padded[0, [places[tuple(exponents)] for exponents in model.exponents]] = c[0]
    return padded


@dataclass(frozen=True)
class _Corrected:
    """A solution and its correction by more polynomials; see `estimate.Corrected`."""

    corrected: Solution
    start: Array
    before: float
    after: float
    of_zero: float
    last: LastStep

    @property
    def end(self) -> Array:
        """The parameters of both."""
        return self.corrected.theta

    def solution(self, theta: Array | None = None) -> Solution:
        """Return u with its correction, or with other parameters (local)."""
        return self.corrected if theta is None else self.corrected.at(theta)


def error_of(
    solver: PolynomialSolver, stage: Stage, inside: Any, *, most_operations: float
) -> ErrorEstimate:
    """Return the estimated error of a stage (local).

    inside : which points of the evaluation lie in the domain, [k].
    most_operations : of the factorization in windows, if a smaller degree can keep to it.
    """
    began, solution, d = time.perf_counter(), stage.solution, stage.x.shape[1]
    richer, degree = _richer(solver, stage, d, most_operations)
    at, unseen = solver.equations(richer, degree, _OF_ERROR)
    system, nothing = System(at, richer, solution.jets(at)), np.zeros(richer.coefficients.shape)
    richer.coefficients.assign(-system.step(*system.linearized(nothing))[0])
    jets, of_correction = (
        each.jets(unseen) for each in (solution, Solution.of(solver.problem, richer))
    )
    together = [
        [z + dz for z, dz in zip(*of_term, strict=True)]
        for of_term in zip(jets, of_correction, strict=True)
    ]
    before, after = (float(squares_of(unseen.residuals(z)).sum()) for z in (jets, together))
    behind = nothing.ravel()
    corrected = _Corrected(
        Solution.of(solver.problem, stage.model, richer),
        np.concatenate([solution.theta, behind]),
        before,
        after,
        stage.judged.zero_loss,
        LastStep(np.concatenate([stage.steps.direction.ravel(), behind]), stage.steps.size),
    )
    prediction = Prediction("prediction", stage.x, stage.u, inside=inside)
    error = estimate_by([corrected], solver.problem, prediction, began, (), converges=False)
    return if_converged(error, corrected, (stage.x, inside), ())


def _richer(
    solver: PolynomialSolver, stage: Stage, d: int, most_operations: float
) -> tuple[Any, int]:
    """Return polynomials of a higher degree, and the degree."""
    if math.prod(stage.model.cells.shape) == 1:
        higher = d <= MOST_DIMENSIONS
        degree = math.ceil(_RICHER * stage.degree) if higher else stage.degree + _RICHER_OTHERWISE
        return solver.on_box(degree), degree
    breaks = [np.array(b) for b in stage.model.cells.breaks]
    for more in _RICHER_IN_WINDOWS:
        degree = stage.degree + more
        richer = solver.in_windows(breaks, degree)
        if operations(richer) <= most_operations:
            break
    return richer, degree


def operations(model: Any) -> float:
    """Return about how many operations the factor of the band of windows takes: n b²."""
    strides = [math.prod(model.cells.shape[axis + 1 :]) for axis in range(len(model.cells.shape))]
    columns = model.width * model.output_size
    return float(len(model.cells.kept) * columns * ((1 + sum(strides)) * columns) ** 2)
