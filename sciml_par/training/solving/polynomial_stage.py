"""One solution by polynomials, on the box or in windows: what a rank does alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par.assembly.asked import Asked
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import Solution, zero_jets
from sciml_par.assembly.system import Solved, System, gauss_newton
from sciml_par.networks.propagation.cells import Cells
from sciml_par.problems.conditions.drawing import has_time
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.results.predict import kept_weights
from sciml_par.training.estimate.by_correction import Corrected
from sciml_par.training.estimate.uniqueness import UNDETERMINED, Free, free_of, smooth_functions
from sciml_par.training.outcome.result_of import Report
from sciml_par.training.outcome.validation import AtOtherPoints, judged, sizes_of_conditions
from sciml_par.training.solving.cell_points import PointsOfTerms, outside
from sciml_par.training.solving.corners import functions_of
from sciml_par.training.solving.open_sides import open_sides
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]

MOST_DIMENSIONS = 3
"""In which there are windows, and polynomials in all variables at once."""
INTERACTING = 2
"""In more dimensions, products have at most so many variables at first, as in an analysis of
variance; residuals at unseen points tell whether this suits the solution."""
_POINTS_PER_COLUMN, _ON_LINE, _MOST_STEPS = 2.5, 0.5, 15
"""Points for each column; and, on a line, for each square of the degree, with which even points
resolve what polynomials do at the ends; and Gauss–Newton steps."""
_OF_CELL = 3.4
"""Points of a cell for each of its columns; along an axis there are more than its degrees."""
_LEAST_UNSEEN, _MOST_UNSEEN, _NUMBERS_UNSEEN = 400, 20_000, (500_000, 1_000_000)
"""Points at which solutions are judged, and with all columns' values there, also of errors."""
MISSED = 1e4
"""Times the squares at its points, from which a solution misses something between these."""
_FREE_POINTS, _NUMBERS_OPEN = 150, 4_000_000
"""Where it is asked what is open, the fewest points, and the most numbers in a matrix of values."""
_FOR_SIZES, _MOST_GAUSS, _LEAST_PART = 500, 64, 0.1
_FACTORS, _STEPS_OF_FACTOR = (1e-8, 1e-3), 8
"""Limits of the factor of √w of equations with which unknowns are sought first, by the data."""
_STEP, _MOST_FITS, _FEW_UNKNOWNS = 1e-4, 30, 8
"""Of unknowns by which layers change: differences, fits at most, and how many there may be."""
_SEED = 7
"""Of the random u with which modes are begun."""
_ENTER = (
    "the equation carries values into the domain at {}, where fewer conditions are given than it "
    "takes; add a condition there."
)
_ROUGH = 0.01
"""Of the residual of u = 0, more than which tells that polynomials are too few."""
OF_SOLUTION, OF_ERROR = (0, 1), (2, 3)
"""Draws of points at which solutions and their errors are found, and judged."""


@dataclass(frozen=True)
class Stage:
    """A solution by polynomials, and u at x: [k, d].

    `residuals` are those at unseen points, and `loss` that of them without data that have errors.
    """

    model: Any
    degree: int
    system: System
    steps: Solved
    unseen: Equations
    judged: AtOtherPoints
    residuals: list[Array]
    loss: float
    x: Array
    seconds: float

    @property
    def problem(self) -> Problem:
        """The problem, with the weights of its terms."""
        return self.unseen.problem

    @property
    def windows(self) -> int:
        """The number of windows; 1 on the box."""
        return len(self.model.cells.kept)

    @cached_property
    def solution(self) -> Solution:
        """u."""
        return Solution.of(self.problem, self.model, p=self.steps.p)

    @cached_property
    def u(self) -> Array:
        """u at the points of the evaluation, [k, m]."""
        return self.solution(self.x)

    @property
    def misses(self) -> bool:
        """Whether residuals are far larger between the points of the solution than there."""
        return self.judged.validation_loss > MISSED * self.steps.loss

    @property
    def rough(self) -> bool:
        """Whether residuals at unseen points are not far smaller than those of u = 0."""
        return not self.judged.validation_loss < _ROUGH**2 * self.judged.zero_loss

    @property
    def numbers(self) -> int:
        """How many numbers its matrix has."""
        rows = self.system.equations.rows
        return self.theta.size * sum(each.count * each.asked.components for each in rows)

    @property
    def theta(self) -> Array:
        """Coefficients and parameters of unknowns, one after another."""
        return np.concatenate([self.steps.c.ravel(), self.steps.p])

    @property
    def report(self) -> Report:
        """How it was found."""
        steps, equations = self.steps, self.system.equations
        squares = np.stack([squares_of(steps.before), squares_of(steps.residuals)])
        return Report(equations, squares, steps.steps, self.judged, self.seconds)


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
    unknowns : their parameters to begin with, [q].
    asked : see `PointsOfTerms`.

    `ahead` is the step with which the estimate of an error went on in the same windows with a
    higher degree: the stage, the windows, the degree, and what `System.step` returned.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        x: Array,
        start: Callable[[Array], Array] | None,
        unknowns: Array,
        asked: dict[str, Asked],
    ) -> None:
        self.problem, self.x = problem, x
        self._start, self._unknowns = start, unknowns
        self.smooth = True
        self.free: Free | None = None
        self.opened: Corrected | None = None
        self.ahead: tuple[Stage | None, Any, int, Any] = None, None, 0, None
        self.points, data = PointsOfTerms(problem, seed, asked), statistical_terms(problem)
        if problem.domain.dimension == 2 and not has_time(problem.domain):
            self.use_corners()
        self._observed = [isinstance(each, Observations) for each in problem.conditions]
        self._exact = np.array([term.name not in data for term in problem.terms])
        self._networks: Any = import_module("sciml_par.networks")
        self._d, part = problem.domain.dimension, problem.means(x).mean(axis=0).min()
        self.interacting = None if self._d <= MOST_DIMENSIONS else INTERACTING
        # A component that means something in a part has the points there alone.
        self._per_column = _POINTS_PER_COLUMN / max(part, _LEAST_PART)
        # The same points judge several stages.
        self._scattered = lru_cache(maxsize=1)(
            lambda n: self.points.scattered(n, draw=OF_SOLUTION[1])
        )
        self.squares_of_zero = lru_cache(maxsize=1)(
            lambda at, p: squares_of(at.residuals(zero_jets(at), np.frombuffer(p)))
        )

    @property
    def open_names(self) -> dict[int, str]:
        """The components that are not determined, with their names."""
        components = () if self.free is None else self.free.components
        return {each: self.problem.output_names[each] for each in components}

    @property
    def sides_are_open(self) -> bool:
        """Whether nothing is determined since waves enter, which no higher degree changes."""
        return self.free is not None and self.free.reason != UNDETERMINED

    def use_corners(self, *, linear: bool = True) -> bool:
        """Use functions of corners from now on, then those of layers from the initial time.

        And if the equations are not `linear`, products of these. Return whether there are further
        ones.
        """
        former = self.points
        corners = replace(former, at_corners=True)
        layers = replace(corners, in_layers=True)
        products = [] if linear else [replace(layers, products=True)]
        for points in (corners, layers, *products):
            if len(points.corners) > len(former.corners) or points.products > former.products:
                self.use(points)
                return True
        return False

    @property
    def follows(self) -> bool:
        """Whether layers grow with unknowns that are fitted to observations."""
        few = self._d == 2 and 0 < self._unknowns.size <= _FEW_UNKNOWNS  # each takes one more solve
        return few and any(self._observed) and self.points.layered

    def use(self, points: PointsOfTerms) -> None:
        """Use the functions of these points from now on."""
        self.points = points
        vars(self).pop("everywhere", None)

    @property
    def _in_windows(self) -> PointsOfTerms:
        """The points for windows, which take less time without functions at outward corners."""
        plain = replace(self.points, at_corners=False, in_layers=False)
        return self.points if self.inward else plain

    @property
    def inward(self) -> bool:
        """Whether functions of an inward corner or a hole are used."""
        return any(each.inward for each in self.points.corners)

    def on_box(self, degree: int, **box: Any) -> Any:
        """Return polynomials on the box, or another one, with coefficients of zero."""
        corners = () if box else functions_of(self.points.on_box, degree, self.problem)
        of = {"degree": degree, "interacting": self.interacting, "corners": corners}
        return self._polynomials(**of, **box)

    def in_windows(self, breaks: Sequence[Array], degree: int) -> Any:
        """Return polynomials in the windows of cells that the domain meets."""
        cells = Cells(tuple(tuple(map(float, along_axis)) for along_axis in breaks))
        dropped = outside(self.problem, cells, self._along(degree))
        corners = functions_of(self._in_windows.corners, degree, self.problem)
        return self._polynomials(
            degree=degree, breaks=cells.breaks, dropped=dropped, corners=corners
        )

    def _polynomials(self, **options: Any) -> Any:
        options = {"box": self.problem.box_of_inputs, **options}
        return self._networks.Polynomials(self._d, self.problem.network_outputs, **options)

    def solve(self, model: Any, degree: int, like: Stage | None) -> Stage | None:
        """Solve for the coefficients, beginning with another solution.

        None where the equations are not finite at the beginning.
        """
        began = time.perf_counter()
        at, unseen = self.equations(model, degree)
        system = System(at, model, singular=bool(self.open_names))
        begins, first = [begin := self._begin(system, like)], None
        if like is not None and like is self.ahead[0] and self.ahead[1:3] == (model.cells, degree):
            c, first = _padded(like.model, like.steps.c, model), self.ahead[3]
            begins = [np.concatenate([c.ravel(), like.steps.p])]
        sought = system.unknowns and system.windows == 1 and not any(self._observed)
        if like is not None and sought and like.rough:
            # With too few polynomials, unknowns may have left the start.
            like, begin = None, self._begin(system, None)
        if like is None and system.unknowns:
            # Without data there may be many solutions; the start says which one is sought.
            of_start = gauss_newton(system, begin, steps=_MOST_STEPS, fixed=True)
            begins = [np.concatenate([of_start.c.ravel(), of_start.p])]
            begins += [self._data_first(system, begin)] if any(self._observed) else []
        ends = [gauss_newton(system, each, steps=_MOST_STEPS, first=first) for each in begins]
        steps = min(ends, key=lambda each: each.loss)
        if not math.isfinite(steps.loss):
            return None
        model.coefficients.assign(steps.c)
        if not system.unknowns and all(self._exact):
            system.columns.clear()  # nearly all of the memory; others need derivatives by data
        seen, r, loss = self.judged(Solution.of(self.problem, model, p=steps.p), unseen)
        if not math.isfinite(seen.zero_loss):  # as where the equation is singular at u = 0
            seen = replace(seen, zero_loss=float(squares_of(steps.before).sum()))
        seconds = time.perf_counter() - began
        return Stage(model, degree, system, steps, unseen, seen, r, loss, self.x, seconds)

    def by_data(self, degree: int) -> Array:
        """Return the unknowns for whose solution of the equations the data fit best, [q] (local).

        Layers grow with the unknowns, so that no step is right in which they stay as they are.
        """
        from scipy.optimize import least_squares

        weights = [1.0] * len(self.problem.residuals) + [1.0 - each for each in self._observed]

        def misfit(p: Array) -> Array:
            self.begin_at(p)
            model = self.on_box(degree)
            at = self.points.scattered(int(self._per_column * model.width), draw=0, dense=True)
            system = System(at, model)
            theta = np.concatenate([self._constant(system).ravel(), p])
            of = gauss_newton(system.weighted(weights), theta, steps=_MOST_STEPS, fixed=True)
            r = at.residuals(system.jets(np.concatenate([of.c.ravel(), p])), p)
            of_data = zip(r[-len(self._observed) :], self._observed, strict=True)
            return np.concatenate([each.ravel() for each, given in of_data if given])

        found = least_squares(misfit, self._unknowns, diff_step=_STEP, max_nfev=_MOST_FITS)
        return np.asarray(found.x, np.float64)

    def begin_at(self, p: Array) -> None:
        """Begin with these unknowns, and use the layers that grow with them."""
        self._unknowns, self.ahead = p, (None, None, 0, None)
        self.use(replace(self.points, unknowns=tuple(p)))

    def _data_first(self, system: System, theta: Array) -> Array:
        """Return θ after steps in which equations weigh little, then more and more.

        From u = 0, where no residual depends on a coefficient of u, steps with equations that
        outweigh the data end in a curved valley.
        """
        count = len(self.problem.residuals)
        factors = np.array([rows.factors.max() for rows in system.equations.rows])
        # A term may have the weight 0.
        heaviest, least = max(factors[:count], default=0.0), _FACTORS[0]
        light = min((factor for factor in factors[count:] if factor > 0.0), default=1.0)
        lightest = float(np.clip(light / max(heaviest, least), *_FACTORS))
        for factor in np.geomspace(lightest, 1, 1 + math.ceil(-math.log10(lightest))):
            weighted = system.weighted([factor] * count + [1.0] * (len(factors) - count))
            found = gauss_newton(weighted, theta, steps=_STEPS_OF_FACTOR)
            theta = np.concatenate([found.c.ravel(), found.p])
        return theta

    def judged(
        self, solution: Solution, equations: Equations
    ) -> tuple[AtOtherPoints, list[Array], float]:
        """Judge a solution, and a network of zeros, at the points of equations.

        The residuals of the solution follow, and its loss without data that have errors.
        """
        p = solution.parameters
        found = equations.residuals(solution.jets(equations), p)
        squares, of_zero = squares_of(found), self.squares_of_zero(equations, p.tobytes())
        x = equations.rows[0].arrays[0]
        x = x[:: -(-len(x) // _FOR_SIZES)]
        sizes = sizes_of_conditions(self.problem, solution.field, x)
        weights = [rows.factors @ rows.factors for rows in equations.rows]
        sums = np.array([squares, of_zero, sizes, weights, [len(x)] * len(weights)], np.float64)
        names = [term.name for term in self.problem.terms]
        return judged(names, sums), found, float(squares @ self._exact)

    def loss_of(self, equations: Equations, jets: Sequence[Sequence[Array]], p: Array) -> float:
        """Return the loss at jets and unknowns without data that have errors (local)."""
        return float(squares_of(equations.residuals(jets, p)) @ self._exact)

    def equations(
        self, model: Any, degree: int, draws: tuple[int, int] = OF_SOLUTION
    ) -> list[Equations]:
        """Return the equations at the points that polynomials need, and at fewer unseen ones."""
        # So many judge an error that few structures of a width of 1e-4 of the box are missed.
        numbers = _NUMBERS_UNSEEN[draws == OF_ERROR]
        width = int(model.used.sum(axis=1).mean())
        many = min(_MOST_UNSEEN, numbers // width)
        if math.prod(model.cells.shape) == 1:
            on_line = (self._d == 1) * _ON_LINE * degree**2
            count = int(max(self._per_column * model.width, on_line))
            counts = count, max(count // 2, many if draws == OF_ERROR else _LEAST_UNSEEN)
            if draws == OF_SOLUTION:
                return [
                    self.points.scattered(counts[0], draw=draws[0], dense=True),
                    self._scattered(counts[1]),
                ]
            pairs = zip(counts, draws, (True, False), strict=True)
            return [self.points.scattered(n, k, dense=dense) for n, k, dense in pairs]
        along = max(degree, int((many / len(model.cells.kept)) ** (1 / self._d)))
        even = along <= _MOST_GAUSS and (draws == OF_SOLUTION or not self.smooth)
        return [
            self._in_windows.in_cells(model.cells, self._along(degree)),
            self._in_windows.in_cells(model.cells, (along,) * self._d, draw=draws[1], even=even),
        ]

    def loss_everywhere(self, member: Any) -> float:
        """Return the loss of any solution at many points (local)."""
        u = member.field.with_weights(tf.constant(kept_weights(member)))
        rows = self.everywhere.rows
        r = [each.residuals(each.term.function(u, *each.arrays).numpy()) for each in rows]
        return float(squares_of(r).sum())

    @cached_property
    def everywhere(self) -> Equations:
        """The equations at many points."""
        return self.points.scattered(_MOST_UNSEEN // self._d, draw=OF_ERROR[1])

    def _along(self, degree: int) -> tuple[int, ...]:
        columns = math.comb(degree + self._d, self._d)
        return (max(degree + 2, math.ceil((_OF_CELL * columns) ** (1 / self._d))),) * self._d

    def _begin(self, system: System, like: Stage | None) -> Array:
        if like is None:
            start = self._start
            c = self._leaving_zero(system) if start is None else system.fitted(start)
        elif system.windows == 1 and set(like.model.labels) <= set(system.model.labels):
            c = _padded(like.model, like.steps.c, system.model)
        else:
            c = system.fitted(like.solution.network_values)
        return np.concatenate([c.ravel(), self._unknowns if like is None else like.steps.p])

    def _constant(self, system: System) -> Array:
        """Return coefficients of the constant u that suits the conditions best, if one does."""
        begin = np.zeros((1, system.width, system.outputs))
        conditions = system.equations.behind(len(self.problem.residuals))
        at = zero_jets(conditions), self._unknowns
        pairs = list(zip(conditions.rows, conditions.linearized(*at), strict=True))
        # A constant has the same value at all points that a condition asks for, as a periodic one.
        by_value = [
            of.of_points(np.sum(term.by_value, axis=0)) for of, term in pairs if term.by_jets
        ]
        rows = [slope.transpose(0, 2, 1).reshape(-1, system.outputs) for slope in by_value]
        values = [term.residuals.ravel() for _, term in pairs if term.by_jets]
        if rows and np.isfinite(np.concatenate(values)).all():
            found = np.linalg.lstsq(np.concatenate(rows), -np.concatenate(values), 1e-10)[0]
            begin[0, 0] = np.nan_to_num(found)
        return begin

    def _leaving_zero(self, system: System) -> Array:
        """Return a constant, and more where integrals could not change, as that of u² at u = 0."""
        begin = self._constant(system)
        terms = system.linearized(np.concatenate([begin.ravel(), self._unknowns]))

        for rows, term in zip(system.equations.rows, terms, strict=True):
            slopes = [np.abs(each).max(initial=0.0) for each in term.by_jets]
            if rows.sums is not None and not any(slopes) and term.residuals.any():
                total = 1.0 + system.model.exponents.sum(axis=1)[:, None]
                c = np.random.default_rng(_SEED).normal(size=(len(total), system.outputs))
                begin[0, : len(total)] += c / total**2
                break
        return begin

    def open_functions(
        self, stage: Stage, problem: Problem, degree: int
    ) -> tuple[Free, Solution] | None:
        """Return functions that can be added to u, and u with a place for them (local).

        None where others tell, as if u = 0 solves. problem : this one, or on its first times.
        """
        if not stage.judged.zero_loss > 0.0:
            return None
        model, before = self.on_box(degree, box=problem.box_of_inputs), stage.steps.c.size
        points = PointsOfTerms(problem, self.points.seed, self.points.asked)
        x = problem.domain.sample(2 * max(_FREE_POINTS, model.width), seed=0, method="sobol")
        means = problem.means(x)
        # Between scattered points, or few in a part, the residual of a nearly free function hides.
        ranges = [np.ptp(x, axis=0), *(np.ptp(x[own], axis=0) for own in means.T if own.any())]
        part = np.maximum(np.min(ranges, axis=0) / ranges[0], _LEAST_PART)
        finer = max(np.prod(part) / max(means.mean(axis=0).min(), _LEAST_PART), 1.0) / part
        most = (_NUMBERS_OPEN / model.width / np.prod(finer)) ** (1 / self._d)
        along = [max(degree + 3, math.ceil(min(degree + 3, most) * each)) for each in finer]
        if self._d <= MOST_DIMENSIONS:
            at = points.in_cells(model.cells, tuple(along))
        else:
            at = points.scattered(int(_POINTS_PER_COLUMN * model.width), draw=OF_SOLUTION[0])
        system = System(at, model, stage.solution.jets(at))
        both = Solution.of(problem, stage.model, model, p=stage.steps.p)
        factor = system.triangle(system.linearized(both.theta[before:]))
        u, values = both(x), system.values(x)

        def changes(columns: Array) -> Array:
            if problem.ansatz is None and problem.output_ranges is None:
                found = (values @ columns).reshape(*means.shape, -1)
                return np.asarray(np.linalg.norm(means[..., None] * found, axis=0).T)
            moved = [both.at(both.theta + np.pad(d, (before, 0)))(x) for d in columns.T]
            return np.array([np.linalg.norm(means * (v - u), axis=0) for v in moved])

        smooth = smooth_functions(problem, x)
        # Where components mean nothing, all is free, of which a second step would find more.
        times = 2 if means.all() else 1
        free = free_of(factor, values, smooth, system.outputs, changes, times)
        added, usual = (np.pad(part, ((0, 0), (before, 0))) for part in free[1:3])
        free = free._replace(changes=added, usual=usual)
        evolves = problem is not self.problem and not free.components
        sides = evolves and open_sides(self.problem, stage.solution, stage.unseen, points.asked)
        if sides:
            why, of_all = _ENTER.format(" and ".join(sides)), tuple(range(problem.outputs))
            free = free._replace(components=of_all, residual=0.0, reason=why)
        return free, both


def _padded(model: Any, c: Array, larger: Any) -> Array:
    """Return coefficients of the same function for a model with more exponents in its windows."""
    places = {label: j for j, label in enumerate(larger.labels)}
    padded = np.zeros(larger.coefficients.shape)
    padded[:, [places[label] for label in model.labels]] = c
    return padded


def operations(model: Any, problem: Problem) -> float:
    """Return about how many operations the factor of the band of windows takes: n b²."""
    if any(term.sums is not None for term in problem.terms):  # all windows with each other
        return float(model.used.sum() * model.output_size) ** 3
    strides = [math.prod(model.cells.shape[axis + 1 :]) for axis in range(len(model.cells.shape))]
    columns = int(model.used.sum(axis=1).max()) * model.output_size
    return float(len(model.cells.kept) * columns * ((1 + sum(strides)) * columns) ** 2)
