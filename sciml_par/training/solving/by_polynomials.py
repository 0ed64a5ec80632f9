"""The stages of `solve` by polynomials: on the whole box, then in windows that are halved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par._text import one_line
from sciml_par.assembly.equations import Equations
from sciml_par.assembly.solution import Solution, zero_jets
from sciml_par.assembly.system import Solved as Steps
from sciml_par.assembly.system import System, gauss_newton
from sciml_par.errors import TrainingError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.networks.propagation.cells import Cells
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.convergence import if_converged
from sciml_par.training.estimate.estimate import ROUNDING, estimate_by
from sciml_par.training.estimate.uniqueness import free_of, smooth_functions
from sciml_par.training.loop.loop_cache import holds_out
from sciml_par.training.optimizers.least_squares.least_squares import LastStep, LeastSquares
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.optimizers.phases import Phase
from sciml_par.training.outcome.result_of import Judged, result_of
from sciml_par.training.outcome.together import as_training_error
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.solving.cell_points import PointsOfTerms, cell_of, outside
from sciml_par.training.solving.ladder import USEFUL, Ladder
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]

_DEGREES = {1: (10, 20, 40, 60), 2: (6, 10, 15, 20, 25), 3: (4, 7, 10, 12)}
_DEGREES_OTHERWISE = (3, 4, 6, 8, 10, 12)
_INTERACTING = 2
"""In more than three dimensions, products have at most so many variables, as in an analysis of
variance; residuals at unseen points tell whether this suits the solution."""
_MOST_COLUMNS = 1_400
_POINTS_PER_COLUMN, _MOST_STEPS = 2.5, 15
_RICHER, _RICHER_OTHERWISE, _RICHER_IN_WINDOWS = 1.35, 2, (4, 2)
"""The degree of polynomials that tell the error: so many times as high on the box in up to three
dimensions, and higher by so much otherwise."""
_FALL, _FALL_FOR_ERROR, _LEAST_STAGES = 3.0, 5.0, 4
"""A stage after which the residual at unseen points has not fallen by the first factor is the last,
but not before the polynomials can resolve some oscillations. By the second factor it must have
fallen for an estimate of the error to be made, whose residual will hardly fall by more."""
_MOST_DIMENSIONS = 3
_OF_WINDOWS = {1: range(12, 25, 4), 2: range(10, 19, 4), 3: range(6, 9, 2)}
_FIRST_CELLS = {1: 4, 2: 4, 3: 2}
"""Degrees, and the number along each axis of the first windows."""
_MANY, _ROUGH = 0.5, 0.03
"""The share of rough cells from which cells are divided; and of a rough cell, the coefficients of
the highest degree in relation to the ones of half of it."""
_AT_END, _CLOSE = 0.9, 0.2
"""Of the residual beyond the middle, from which a break is close to that end; and where."""
_MOST_OF_WINDOWS, _MOST_OPERATIONS = 25_000, 4e10
"""Columns in all windows; and operations of the factorization of the band, some seconds."""
_OF_CELL = 3.4
"""Points of a cell for each of its columns; along an axis there are more than its degrees."""
_LARGE, _TAIL = 0.2, 0.2
"""Cells with more than this share of the largest residual are halved, along axes in which the
highest coefficients are more than this share of the largest ones."""
_SHARE, _LITTLE_FALL, _MOST_WITHOUT_FALL = 0.25, 1.5, 1
"""Of all the time, for windows; and rounds in which the residual falls by less than this factor."""
_FREE_POINTS = 300
_DRAWS = 1, 2
"""Of points at which solutions are judged, and those at which their errors are found."""


@dataclass(frozen=True)
class _Stage:
    """A solution by polynomials.

    Attributes
    ----------
    model : with the coefficients found.
    steps : the Gauss–Newton steps, with the squares of each term before them.
    degree, points : of the polynomials; what they were solved at.
    judged, x : at unseen points; the points of the evaluation, [k, d].
    """

    model: Any
    steps: Steps
    begin: Array
    degree: int
    equations: Equations
    system: System
    unseen: Equations
    judged: Judged
    x: Array

    @cached_property
    def solution(self) -> Solution:
        """u."""
        return Solution.of(self.unseen.problem, self.model)

    @cached_property
    def u(self) -> Array:
        """u at the points of the evaluation, [k, m]."""
        return self.solution(self.x)


def climb_by_polynomials(ladder: Ladder) -> str | None:
    """Solve with polynomials of growing degree, then in windows (collective).

    Problems whose residuals are no functions of u and two derivatives at single points are left to
    the other methods.
    """
    everyone = ladder.world.communicator
    suited = everyone.attempt(lambda: _suited(ladder))
    if suited is None:
        return None
    climb = _Polynomials(ladder, *suited)
    try:
        best = climb.on_box()
        few = ladder.problem.domain.dimension <= _MOST_DIMENSIONS
        # Cells are in the coordinates of the domain.
        if best is not None and few and ladder.problem.scaled_box is None and not ladder.met:
            climb.in_windows(best)
    except TrainingError as failure:  # on all ranks, as of a singular matrix; others may do better
        ladder.say("polynomials", one_line(failure), math.nan, "")
    return "time is up" if ladder.best is not None and ladder.left() <= 0 else None


def _suited(ladder: Ladder) -> tuple[Problem, dict[str, float]] | None:
    """Return the problem with its weights, and sizes of residuals; None if it does not suit."""
    problem = ladder.problem
    if (
        problem.unknowns
        or problem.unknown_functions
        or statistical_terms(problem)
        or holds_out(problem)
        or ladder.precision != "float64"
    ):
        return None
    changes = ProblemChanges(None, [Phase(LeastSquares(), 1)])
    weighed = changes.weigh(problem)
    sample = weighed.domain.sample(20, seed=0)
    if not weighed.domain.contains(sample).all():
        return None
    try:
        PointsOfTerms(weighed, 0).scattered(20, draw=0)
    except Exception:  # another method says what is wrong with a residual
        return None
    return weighed, changes.sizes(weighed)


class _Polynomials:
    """Solves one problem by polynomials on all ranks alike."""

    def __init__(self, ladder: Ladder, problem: Problem, sizes: dict[str, float]) -> None:
        self._ladder, self._problem, self._sizes = ladder, problem, sizes
        self._points = PointsOfTerms(problem, ladder.drawn)
        self._networks: Any = import_module("sciml_par.networks")
        self._d = problem.domain.dimension

    def on_box(self) -> _Stage | None:
        """Solve with polynomials on the whole box (collective); None if others are to go on."""
        ladder, best, concluded = self._ladder, None, None
        for number, degree in enumerate(_DEGREES.get(self._d, _DEGREES_OTHERWISE), 1):
            model = self._model(degree)
            columns = model.width * self._problem.network_outputs
            if max(columns, (1 + self._d) ** 0.5 * columns / 2) > _MOST_COLUMNS:  # for the memory
                break
            if best is not None and ladder.left() <= 0:
                break
            ladder.doing(f"solving for {model.width:,} polynomials")
            stage = self._agreed(partial(self._solved_on_box, model, degree, best))
            if stage is None or best is None and self._alike(partial(self._undetermined, stage)):
                return None
            ladder.say("polynomials", self._text(stage), stage.judged.loss, "")
            fall = math.inf if best is None else self._fall(best, stage)
            foreseen = math.inf if best is None else self._foreseen(best, stage)
            best = stage if best is None or fall > 1.0 else best
            exact = stage.judged.loss <= ROUNDING**2 * stage.judged.of_zero
            promising = exact or foreseen <= ladder.tolerance and fall >= _FALL_FOR_ERROR
            if ladder.decided(promising) and self._useful(stage):
                self._conclude(stage)
                concluded = stage
                if ladder.met:
                    return stage
            last = fall < _FALL and number >= _LEAST_STAGES and self._d <= _MOST_DIMENSIONS
            if ladder.decided(exact or last):
                break
        unknown = best is not concluded and self._d > _MOST_DIMENSIONS
        if best is not None and unknown and self._useful(best):
            self._conclude(best)
        return best

    def in_windows(self, before: _Stage) -> None:
        """Solve in windows, which are halved where the residual is largest (collective)."""
        ladder, degree = self._ladder, _OF_WINDOWS[self._d][0]
        lower, upper = self._problem.domain.lower, self._problem.domain.upper
        breaks = [
            np.linspace(a, b, _FIRST_CELLS[self._d] + 1) for a, b in zip(lower, upper, strict=True)
        ]
        best, seconds, little, concluded, smooth = before, 0.0, 0, before, True
        lower_degree = degree
        while True:
            model = self._windowed(breaks, degree)
            count = model.coefficients.shape.num_elements()
            late = ladder.left() < max(10 * seconds, (1 - _SHARE) * ladder.seconds)
            many = count > _MOST_OF_WINDOWS or _operations(model) > _MOST_OPERATIONS
            if ladder.decided(many or late):
                break
            ladder.doing(f"solving in {len(model.cells.kept)} windows of polynomials")
            began = time.perf_counter()
            stage = self._agreed(partial(self._solved_in_windows, model, degree, best))
            if stage is None:
                break
            seconds = ladder.longest(time.perf_counter() - began)
            ladder.say("polynomials, windows", self._text(stage), stage.judged.loss, "")
            foreseen, fall = self._foreseen(best, stage), self._fall(best, stage)
            little = 0 if fall > _LITTLE_FALL else little + 1
            if best is not before and stage.degree > best.degree and fall < _FALL:
                # In vain, as at a corner: cells of the lower degree are divided from now on.
                smooth, lower_degree = False, best.degree
            best = stage
            if ladder.decided(little > _MOST_WITHOUT_FALL):
                break
            promising = foreseen <= ladder.tolerance and fall >= _FALL_FOR_ERROR
            if ladder.decided(promising) and self._useful(stage):
                self._conclude(stage)
                concluded = stage
                if ladder.met:
                    return
            refined = self._refined(stage, smooth=smooth)
            breaks, degree = ladder.world.communicator.broadcast_object(refined)
            degree = degree if smooth else lower_degree
        if best is not concluded and self._useful(best):
            self._conclude(best)

    def _model(self, degree: int) -> Any:
        box = self._problem.box_of_inputs
        interacting = None if self._d <= _MOST_DIMENSIONS else _INTERACTING
        m = self._problem.network_outputs
        return self._networks.Polynomials(
            self._d, m, degree=degree, interacting=interacting, box=box
        )

    def _windowed(self, breaks: Sequence[Array], degree: int) -> Any:
        cells = Cells(tuple(tuple(map(float, each)) for each in breaks))
        dropped = outside(self._problem, cells, self._along(degree))
        return self._networks.Polynomials(
            self._d,
            self._problem.network_outputs,
            degree=degree,
            breaks=cells.breaks,
            dropped=dropped,
            box=self._problem.box_of_inputs,
        )

    def _along(self, degree: int) -> tuple[int, ...]:
        columns = math.comb(degree + self._d, self._d)
        return (max(degree + 2, math.ceil((_OF_CELL * columns) ** (1 / self._d))),) * self._d

    def _alike(self, action: Any) -> Any:
        """Do what all ranks do alike (collective): what fails on one fails on all."""

        def limited() -> Any:
            with threads(1):  # the same digits on any number of cores
                return as_training_error(action)

        return self._ladder.world.communicator.attempt(limited)

    def _agreed(self, action: Callable[[], _Stage | None]) -> _Stage | None:
        """Return a stage with the digits of the first rank, as processors may differ (collective).

        None if there is none on some rank.
        """
        everyone, stage = self._ladder.world.communicator, self._alike(action)
        if any(everyone.allgather_object(stage is None)):
            return None
        steps, judged = everyone.broadcast_object((stage.steps, stage.judged))
        stage.model.coefficients.assign(steps.c)
        return replace(stage, steps=steps, judged=judged)

    def _solved_on_box(self, model: Any, degree: int, like: _Stage | None) -> _Stage | None:
        count = int(_POINTS_PER_COLUMN * model.width)
        at = self._points.scattered(count, draw=0)
        unseen = self._points.scattered(max(count // 2, 400), draw=_DRAWS[0])
        system = System(at, model)
        begin = (
            _padded(like.model, like.steps.c, model) if like is not None else self._constant(system)
        )
        return self._stage(system, model, begin, degree, unseen)

    def _solved_in_windows(self, model: Any, degree: int, like: _Stage) -> _Stage | None:
        along = self._along(degree)
        at = self._points.in_cells(model.cells, along)
        unseen = self._points.in_cells(model.cells, (degree,) * self._d, draw=_DRAWS[0])
        system = System(at, model)
        begin = system.fitted(lambda x: Solution.of(self._problem, like.model).network_values(x))
        return self._stage(system, model, begin, degree, unseen)

    def _stage(
        self, system: System, model: Any, begin: Array, degree: int, unseen: Equations
    ) -> _Stage | None:
        r = system.equations.residuals(system.jets(begin))
        if not all(np.isfinite(each).all() for each in r):
            return None
        steps = gauss_newton(system, begin, steps=_MOST_STEPS)
        model.coefficients.assign(steps.c)
        squares = np.array([float(np.sum(np.square(each))) for each in r])
        judged = Judged.of(Solution.of(self._problem, model), unseen)
        if not math.isfinite(judged.of_zero):  # as where the equation is singular at u = 0
            judged = replace(judged, of_zero=float(squares.sum()))
        x, _ = self._ladder.at
        return _Stage(model, steps, squares, degree, system.equations, system, unseen, judged, x)

    def _constant(self, system: System) -> Array:
        """Return coefficients of the constant u that suits the conditions best, if one does."""
        begin = np.zeros((1, system.width, system.outputs))
        start = self._ladder.start
        if start is not None:
            return system.fitted(start)
        first = len(self._problem.residuals)
        jets = zero_jets(system.equations)
        r, slopes = system.equations.linearized(jets)
        # A constant has the same value at all points that a condition asks for, as a periodic one.
        of_value = [np.sum([s[:, 0] for s in of_term], axis=0) for of_term in slopes[first:]]
        rows = [each.transpose(0, 2, 1).reshape(-1, system.outputs) for each in of_value]
        values = [each.ravel() for each in r[first:]]
        if not rows or not np.isfinite(np.concatenate(values)).all():
            return begin
        found = np.linalg.lstsq(np.concatenate(rows), -np.concatenate(values), 1e-10)[0]
        begin[0, 0] = np.nan_to_num(found)
        return begin

    def _undetermined(self, stage: _Stage) -> bool:
        """Return whether functions are free, or u = 0 is the solution, of which others tell."""
        if not stage.judged.of_zero > 0.0:
            return True
        _, slopes = stage.system.linearized(stage.steps.c)
        factor = stage.system.triangle(slopes)
        x = self._problem.domain.sample(_FREE_POINTS, seed=0, method="sobol")
        values = stage.system.values(x)
        means, u = self._problem.means(x), stage.solution(x)

        def changes(c: Array) -> Array:
            moved = stage.steps.c[0][None] + c.T.reshape(
                len(c.T), -1, stage.system.width
            ).transpose(0, 2, 1)
            found = [stage.solution.at(each.ravel())(x) for each in moved]
            return np.array([np.linalg.norm(means * (each - u), axis=0) for each in found])

        return bool(free_of(factor, values, smooth_functions(self._problem, x), changes))

    def _useful(self, stage: _Stage) -> bool:
        share = self._ladder.share_of(stage.judged.loss, stage.judged.of_zero)
        return self._ladder.decided(share <= USEFUL)

    def _fall(self, before: _Stage, after: _Stage) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = float(np.sqrt(np.float64(before.judged.loss) / np.float64(after.judged.loss)))
        return ratio if math.isfinite(ratio) else 1.0

    def _foreseen(self, before: _Stage, after: _Stage) -> float:
        """Return the change of u since the stage before, divided by the fall of the residual."""
        _, inside = self._ladder.at
        u, former = (stage.u[inside] for stage in (after, before))
        size = max(float(np.linalg.norm(u)), np.finfo(np.float64).tiny)
        return float(np.linalg.norm(u - former)) / size / max(self._fall(before, after), 1.0)

    def _text(self, stage: _Stage) -> str:
        windows = len(stage.model.cells.kept)
        size = f"{windows:,} of degree" if windows > 1 else f"{stage.model.width:,}, degree"
        return f"{size} {stage.degree}"

    def _conclude(self, stage: _Stage) -> None:
        """Make a result of a stage, with its error (collective)."""
        ladder = self._ladder
        ladder.doing("estimating the error")
        began = time.perf_counter()
        error = self._alike(partial(self._error, stage))
        after = np.array(
            [
                float(np.sum(np.square(each)))
                for each in stage.equations.residuals(stage.system.jets(stage.steps.c))
            ]
        )
        result = result_of(
            self._problem,
            stage.model,
            stage.solution,
            world=ladder.world,
            equations=stage.equations,
            terms=[stage.begin, after],
            steps=stage.steps.steps,
            judged=stage.judged,
            error=error,
            seed=ladder.seed,
            seconds=time.perf_counter() - began,
            sizes=self._sizes,
        )
        ladder.keep("polynomials, error", self._text(stage), result)

    def _error(self, stage: _Stage) -> ErrorEstimate:
        """Return the error by more polynomials on the linearized equations (local)."""
        began = time.perf_counter()
        degree = stage.degree + _RICHER_OTHERWISE
        if self._d <= _MOST_DIMENSIONS:
            degree = math.ceil(_RICHER * stage.degree)
        if len(stage.model.cells.kept) == 1 and not stage.model.cells.dropped:
            richer = self._model(degree)
            count = int(_POINTS_PER_COLUMN * richer.width)
            at = self._points.scattered(count, draw=_DRAWS[1])
            others = self._points.scattered(max(count // 2, 400), draw=_DRAWS[1] + 1)
        else:
            breaks = [np.array(each) for each in stage.model.cells.breaks]
            for more in _RICHER_IN_WINDOWS:
                degree = stage.degree + more
                richer = self._windowed(breaks, degree)
                if _operations(richer) <= 3 * _MOST_OPERATIONS:
                    break
            cells = richer.cells
            at = self._points.in_cells(cells, self._along(degree))
            others = self._points.in_cells(cells, (degree + 1,) * self._d, draw=_DRAWS[1])
        solution = stage.solution
        system = System(at, richer, solution.jets(at))
        nothing = np.zeros(richer.coefficients.shape)
        r, slopes = system.linearized(nothing)
        richer.coefficients.assign(-system.step(r, slopes)[0])
        whole = Solution.of(self._problem, stage.model, richer)
        jets = solution.jets(others)
        correction = Solution.of(self._problem, richer).jets(others)
        corrected_jets = [
            [a + b for a, b in zip(*z, strict=True)] for z in zip(jets, correction, strict=True)
        ]
        before, after = (
            sum(float(np.sum(np.square(r))) for r in others.residuals(z))
            for z in (jets, corrected_jets)
        )
        x, inside = self._ladder.at
        corrected = _Corrected(
            whole,
            start=np.concatenate([solution.theta, nothing.ravel()]),
            before=before,
            after=after,
            of_zero=stage.judged.of_zero,
            last=LastStep(
                np.concatenate([stage.steps.direction.ravel(), nothing.ravel()]), stage.steps.size
            ),
        )
        prediction = Prediction("prediction", x, stage.u, inside=inside)
        error = estimate_by([corrected], self._problem, prediction, began, (), converges=False)
        return if_converged(error, corrected, (x, inside), ())

    def _refined(self, stage: _Stage, *, smooth: bool) -> tuple[list[Array], int]:
        """Return breaks between which cells of large residuals are divided, or a higher degree.

        The degree rises where coefficients fall fast with it, so that u is smooth in most of these
        cells. Others are divided along the axes that need it: in the middle, or close to the end
        near which the residual is, as of a corner or a layer.
        """
        cells, degree = stage.model.cells, stage.degree
        x, squares = _squares_at_points(stage)
        of_points = np.maximum(cell_of(cells, x), 0)
        of_cells = np.bincount(of_points, squares, len(cells.kept))
        large = of_cells >= _LARGE**2 * of_cells.max()
        total, c = stage.model.exponents.sum(axis=1), np.abs(stage.steps.c).max(axis=2)
        top = c[:, total >= degree - 1].max(axis=1)
        rough = large & (top >= _ROUGH * c[:, np.abs(total - degree / 2) <= 1].max(axis=1))
        higher = [each for each in _OF_WINDOWS[self._d] if each > degree]
        if smooth and higher and not np.count_nonzero(rough) > _MANY * np.count_nonzero(large):
            return [np.asarray(each) for each in cells.breaks], higher[0]
        rough = rough if rough.any() else large
        exponents = stage.model.exponents
        tails = [c[:, exponents[:, axis] >= degree - 1].max(axis=1) for axis in range(self._d)]
        places = np.unravel_index(cells.kept, cells.shape)
        found = []
        for axis, tail in enumerate(tails):
            needed = rough & (tail >= _TAIL * np.max(tails, axis=0))
            b = np.asarray(cells.breaks[axis])
            # The part of the residual beyond the middle, of all cells that the break divides.
            centre = ((b[1:] + b[:-1]) / 2)[places[axis]]
            chosen = needed[of_points]
            beyond = chosen & (x[:, axis] > centre[of_points])
            whole, upper = (
                np.bincount(places[axis][of_points[at]], squares[at], len(b) - 1)
                for at in (chosen, beyond)
            )
            inside = np.unique(places[axis][needed])
            share = upper[inside] / np.maximum(whole[inside], np.finfo(np.float64).tiny)
            at = np.where(share > _AT_END, 1 - _CLOSE, np.where(share < 1 - _AT_END, _CLOSE, 0.5))
            found.append(np.sort(np.concatenate([b, b[inside] + at * np.diff(b)[inside]])))
        return found, degree


def _squares_at_points(stage: _Stage) -> tuple[Array, Array]:
    """Return the points of all terms at which a stage was judged, and the squares there."""
    residuals = stage.unseen.residuals(stage.solution.jets(stage.unseen))
    x = [rows.arrays[0].numpy() for rows in stage.unseen.rows]
    return np.concatenate(x), np.concatenate([np.sum(np.square(r), axis=0) for r in residuals])


@dataclass(frozen=True)
class _Corrected:
    """A solution and its correction by more polynomials; see `Solved` of side_by_side."""

    whole: Solution
    start: Array
    before: float
    after: float
    of_zero: float
    last: LastStep

    @property
    def end(self) -> Array:
        """The parameters of both."""
        return self.whole.theta

    def solution(self, theta: Array | None = None) -> Solution:
        """Return u with its correction, or with other parameters (local)."""
        return self.whole if theta is None else self.whole.at(theta)


def _operations(model: Any) -> float:
    """Return about how many operations the factor of the band of windows takes: n b²."""
    strides = [math.prod(model.cells.shape[axis + 1 :]) for axis in range(len(model.cells.shape))]
    columns = model.width * model.output_size
    return float(len(model.cells.kept) * columns * ((1 + sum(strides)) * columns) ** 2)


def _padded(model: Any, c: Array, larger: Any) -> Array:
    """Return coefficients of the same function for a model with more exponents."""
    places = {tuple(each): j for j, each in enumerate(larger.exponents)}
    found = np.zeros(larger.coefficients.shape)
    found[0, [places[tuple(each)] for each in model.exponents]] = c[0]
    return found
