"""What is claimed of solutions by polynomials: whether one meets the tolerance, and its error."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.assembly.equations import NONE
from sciml_par.assembly.solution import Solution
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.by_correction import OF_ZERO, Corrected, estimate_by, opened
from sciml_par.training.estimate.uniqueness import Free
from sciml_par.training.optimizers.least_squares.least_squares import LastStep
from sciml_par.training.outcome.result_of import Report, result_of
from sciml_par.training.solving.cell_points import PointsOfTerms
from sciml_par.training.solving.ladder import (
    NO_MORE,
    UNDECIDED,
    USEFUL,
    Ladder,
    fall_of,
    useless_text,
)
from sciml_par.training.solving.polynomial_error import (
    CAUTION,
    CONVERGES,
    SEVERAL,
    change_of,
    error_of,
    linearized_of,
    with_others,
)
from sciml_par.training.solving.polynomial_march import March, march_suits, time_order
from sciml_par.training.solving.polynomial_stage import (
    PolynomialSolver,
    Stage,
    operations,
    squares_of,
)
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]

FALL, FALL_FOR_ERROR, MOST_OPERATIONS = 3.0, 5.0, 2e11
"""A stage after which the residual at unseen points has not fallen by the first factor is in vain;
by the second one it must have fallen for an estimate of the error to be made, whose residual will
hardly fall by more. Operations of the factorization of a band, some seconds."""
IF_NOT_KNOWN, _NEAR, _NEAR_IN_WINDOWS, _USEFUL_WITH_NOISE = 10.0, 2.0, 0.7, 0.5
"""By how much less an error must be foreseen after one that was not known; times the tolerance, of
the foreseen error of which an estimate is made, which in windows takes several times as long as a
further stage; and as `USEFUL`, of a residual that contains errors of data."""
_MOST_FOR_ERROR, _TOO_LARGE = 2_000, 0.5
"""In three dimensions more columns have no estimate by further ones, which would take several times
the time and memory; and errors that grow in time to so much of u are not known."""
_TOO_COSTLY = "an estimate by more polynomials would take more time or memory than there is"
_GROWTH = (
    "errors as small as the residual grow in time until they are as large as u; solve with "
    "slightly different initial values, too, to see up to which time u can be known"
)
_RESOLVES, _MOST_FREE, _BEGIN = {1: 20, 2: 12, 3: 8}, 600, (1e-3, 0.05)
"""The least degree, and the most columns, with which it is asked whether functions can be added to
u; and the share of the time in which that is seen."""
RICHER, _RESIDUAL, _FALLS = 1.35, 1e-9, 0.3
"""The degree is so many times as high for a claim; and the residual of a function that can be added
is at rounding, or falls so far with it."""
_SHRINKS, _SMALL = 2.0, 1e-3
"""The fall of the residual, and of changes of u, from which changes tell the error; and an error,
below which polynomials alone go on."""
TIMES_AS_LONG, _GROWS = 10.0, 1.5
"""A round and the estimate of its error, in relation to the round before, where no estimate was
made yet; and how much longer each takes than the one before."""


class Claims:
    """Tells the errors of stages, and keeps these as results (collective).

    why : why all ends, if it does.
    as_long : a round and the estimate of its error, in relation to the round before.
    evolves : whether slabs of time suit, so that errors may grow in time.
    tested : the degree by which it was asked whether functions can be added to u.
    """

    def __init__(
        self, ladder: Ladder, problem: Problem, sizes: dict[str, float], solver: PolynomialSolver
    ) -> None:
        self.ladder, self.problem, self.solver = ladder, problem, solver
        self._sizes, self._inside, self._d = sizes, ladder.at[1], problem.domain.dimension
        self._noisy = bool(statistical_terms(problem))
        self.why: str | None = None
        local = all(asked.at_own_points for asked in solver.points.asked.values())
        self.evolves = local and march_suits(problem)
        self.as_long, self.tested = TIMES_AS_LONG, 0
        self._concluded: Stage | None = None
        self._times, self._changed, self._shrinks = 1.0, math.inf, False

    @property
    def known(self) -> bool:
        """Whether the error of the best result is known and small (collective)."""
        best = self.ladder.best
        return self.ladder.decided(best is not None and best.error.relative < _SMALL)

    @property
    def done(self) -> bool:
        """Whether the tolerance is met, or no error can be known (collective)."""
        return self.why == UNDECIDED or self.ladder.met

    def met(self, stage: Stage, before: Stage | None, *, certain: bool = False) -> bool:
        """Return whether a stage that promises to meet the tolerance does so, by its error."""
        promising, little, fall, foreseen = False, False, 1.0, math.inf
        tolerance = self.ladder.tolerance
        if before is not None and self._noisy:
            # Errors of the data may leave more open than the tolerance, which a result tells.
            promising = stage.steps.steps > 0
        elif before is not None:
            fall = fall_between(before, stage)
            change = self.ladder.foreseen(stage.u, before.u, 1.0)
            self._shrinks, self._changed = _SHRINKS * change <= self._changed, change
            foreseen = change / max(fall, 1.0)
            # In windows a smaller fall will do, as at a corner, if what was foreseen came true.
            little = fall < FALL_FOR_ERROR
            times = (self._times if stage.windows > 1 else math.inf) if little else 1.0
            near = _NEAR_IN_WINDOWS if stage.windows > 1 else _NEAR
            promising = foreseen * times <= near * tolerance
            # Slabs, which come next, take far longer than an estimate.
            promising |= (
                self.evolves and self._concluded is None and self._share(stage) <= _NEAR * tolerance
            )
        changed = CAUTION * foreseen <= tolerance and self._changes(stage, fall)
        # In three dimensions the next stage takes less time than an estimate, and tells as much.
        promising &= self._d < 3 or stage.windows > 1 or self._noisy
        ends = self._ends(stage, before)
        if self.ladder.decided(certain or promising or changed or ends):
            error = self.conclude(stage, fall, before if changed else None)
            if error is not None:
                known = error.relative / foreseen if error.known else IF_NOT_KNOWN * self._times
                self._times = max(known, 1.0)
        ends = self._ends(stage, before)
        self.why, best = UNDECIDED if ends else None, self.ladder.best
        # An order of magnitude is to be clearly below the tolerance.
        rough = little and best and best.error.relative > tolerance / _NEAR
        return self._concluded is stage and (ends or not rough and self.ladder.met)

    def _ends(self, stage: Stage, before: Stage | None) -> bool:
        """Return whether no error can be known of a small residual, as all is open (collective)."""
        solver, ladder = self.solver, self.ladder
        share = self._share(stage)
        small = share <= (USEFUL if solver.sides_are_open else ladder.tolerance)
        ends = len(solver.open_names) == self.problem.outputs and small
        # A higher degree may show that what is nearly open is not.
        nearly = solver.free is not None and solver.free.residual > _RESIDUAL
        falls = before is None or fall_between(before, stage) > FALL
        return ladder.decided(ends and not (nearly and falls and not self.evolves))

    def _changes(self, stage: Stage, fall: float) -> bool:
        """Return whether the change since the stage before can tell the error (local)."""
        converges = fall > (_SHRINKS if self._shrinks else CONVERGES)
        return self._d > 2 and stage.windows == 1 and not self._noisy and converges

    def conclude_in_space(self, best: Stage, former: Stage) -> None:
        """Make a result in three dimensions, with an estimate, which is sharper, if it suffices."""
        ladder, fall = self.ladder, fall_between(former, best)
        near = ladder.foreseen(best.u, former.u, fall) <= _NEAR * ladder.tolerance
        late = ladder.left() < TIMES_AS_LONG * best.seconds
        by_change = ladder.decided((late or not near) and self._changes(best, fall))
        if by_change or ladder.decided(near):
            self.conclude(best, fall, former if by_change else None)

    def conclude(
        self, stage: Stage, fall: float = 1.0, before: Stage | None = None
    ) -> ErrorEstimate | None:
        """Make a result of a stage, and return its error, unless its residual is still large.

        fall : of the residual since the stage before, which shows whether polynomials converge.
        before : that stage, if the change since it is to be the error.
        """
        ladder = self.ladder
        share = self._share(stage)
        useful = share <= (_USEFUL_WITH_NOISE if self._noisy else USEFUL)
        if stage is self._concluded or not ladder.decided(useful or before is not None):
            return None
        self._concluded = stage
        ladder.doing("estimating the error")
        if stage.windows == 1 and self.tested:
            self.finds_open(stage, RICHER)
        left = ladder.left() / ladder.longest(stage.seconds)
        in_time = operations(stage.model, self.problem) * left
        most = max(1.0, min(MOST_OPERATIONS, in_time))
        several = self._is_one_of_many(stage)
        costly = left < 1.0 or stage.theta.size > _MOST_FOR_ERROR
        costly = ladder.decided(costly and self._d > 2 and stage.windows == 1)

        def estimate() -> ErrorEstimate:
            of, free, m = (self.solver, stage), self.solver.free, self.problem.outputs
            if free is not None and len(free.components) == m and (several or before is not None):
                return ErrorEstimate.not_known(m, free.reason)
            if before is not None:
                return change_of(*of, before, self._inside, fall)
            if costly:
                return ErrorEstimate.not_known(m, _TOO_COSTLY)
            return error_of(*of, self._inside, fall=fall, most_operations=most)

        error = self.ladder.alike(lambda: self._grown(stage, estimate()))
        self.as_long = _GROWS * (1 + ladder.longest(error.seconds / stage.seconds))
        of_all = ladder.world.communicator.broadcast_object(error.without_field())
        # As processors may differ.
        self.keep(stage, replace(of_all, evaluate=error.evaluate), "polynomials, error")
        return of_all

    def _is_one_of_many(self, stage: Stage) -> bool:
        """Return whether u is not determined beside unknowns, and keep that (collective)."""
        sought = self.problem.unknowns and not self._noisy and stage.windows == 1
        if not sought or not self.ladder.decided(self.ladder.alike(partial(with_others, stage))):
            return False
        every, none = (*range(self.problem.outputs),), np.zeros(0)
        self.solver.free = Free(every, none, none, reason=SEVERAL)
        return True

    def _share(self, stage: Stage) -> float:
        """Return the residual of a stage in relation to that of u = 0 (local)."""
        return self.ladder.share_of(stage.judged.validation_loss, stage.judged.zero_loss)

    def finds_open(self, stage: Stage, times: float = 1.0) -> bool:
        """Keep which functions can be added to u; whether that can be told (collective).

        times : the degree that resolves them; once more only where it is higher.
        """
        ladder, d, problem, former = self.ladder, self._d, self.problem, self.solver.free
        resolves = 0 if problem.unknowns or self._noisy else _RESOLVES.get(d, 0)
        degree = math.ceil(times * max(stage.degree, resolves))
        while times > 1 and math.comb(degree + d, d) * stage.system.outputs > _MOST_FREE:
            degree -= 1
        if self.tested and (degree <= self.tested or self.evolves or not resolves):
            return True
        if self.evolves:  # what grows in time is not open at its begin
            begin, end = (float(x[-1]) for x in (problem.domain.lower, problem.domain.upper))
            domain: Any = problem.domain
            problem = problem.on_slab(domain._between(begin, begin + _BEGIN[d > 1] * (end - begin)))
        found = self.ladder.alike(partial(self.solver.open_functions, stage, problem, degree))
        free = ladder.world.communicator.broadcast_object(found and found[0])
        if free is None or found is None:
            return False
        falls = former is None or free.residual < max(_RESIDUAL, _FALLS * former.residual)
        # What changes residuals, by however little, is not open.
        self.solver.free = free if falls or self.evolves else free._replace(components=())
        self.solver.opened, self.tested = opened(found[1]), degree
        ladder.free = self.solver.open_names
        return True

    def march(self, before: Stage, target: float, points: PointsOfTerms) -> March:
        """Return a march that begins near a solution; `target` as of it (local)."""
        start, orders = before.solution.network_values, time_order(before.unseen)
        of = self.problem, self.ladder.drawn, target, self.ladder.left_here, orders, start
        layers = points if points.layered else None
        return March(*of, points.asked, [*self.solver.open_names], layers)

    def _grown(self, stage: Stage, error: ErrorEstimate) -> ErrorEstimate:
        """Return the error with what time makes of it, which one space does not tell (local)."""
        given = any(map(self.solver.points.given, self.problem.conditions))
        if given or not (self.evolves and error.known):  # slabs may have none of given points
            return error
        solved = getattr(error.evaluate, "solved", None)
        u = stage.solution if solved is None else solved.corrected
        share = self.march(stage, 0.0, self.solver.points).grown(u)
        if not share < _TOO_LARGE:
            return ErrorEstimate.not_known(self.problem.outputs, _GROWTH, reliability=0.0)
        times = 1 + share / error.relative
        absolute, own = times * error.absolute, max(error.own_error, 1 - 1 / times)
        return replace(error, relative=times * error.relative, absolute=absolute, own_error=own)

    def keep_march(self, marching: March, before: Stage) -> ErrorEstimate:
        """Keep the solution of a march with its error (collective)."""
        ladder = self.ladder
        model, u, values, report, error = self.ladder.alike(
            partial(self._judged_march, marching, before)
        )
        agreed = report.squares, report.judged, error.without_field()
        squares, judged, of_all = ladder.world.communicator.broadcast_object(agreed)
        report = replace(report, squares=squares, judged=judged)
        error = replace(of_all, evaluate=error.evaluate)
        result = result_of(
            model, u, values, report, error, world=ladder.world, seed=ladder.seed, sizes=self._sizes
        )
        ladder.keep("polynomials, slabs", marching.text, result)
        return error

    def _judged_march(self, marching: March, before: Stage) -> tuple[Any, ...]:
        """Return the model, u, its values, how it was found and its error (local)."""
        began, solver = time.perf_counter(), self.solver
        (model, richer), (x, inside) = marching.joined(), self.ladder.at
        u, both = Solution.of(self.problem, model), Solution.of(self.problem, model, richer)
        unseen = solver.everywhere
        judged, residuals, loss = solver.judged(u, unseen)
        if not math.isfinite(judged.zero_loss):  # as where the equation is singular at u = 0
            judged = replace(judged, zero_loss=before.judged.zero_loss)
        squares = np.stack([solver.squares_of_zero(unseen, b""), squares_of(residuals)])
        start = np.concatenate([u.theta, np.zeros(richer.coefficients.shape).ravel()])
        after = solver.loss_of(unseen, both.jets(unseen), NONE)
        corrected = Corrected(both, start, loss, after, judged.zero_loss, LastStep(0 * start, 1.0))
        values = u(x)
        prediction = Prediction("prediction", x, values, inside=inside)
        of = corrected, self.problem, prediction, began, solver.free
        error = estimate_by(*of, converges=fall_of(loss, after) > CONVERGES, opened=solver.opened)
        report = Report(unseen, squares, marching.steps, judged, marching.seconds)
        return model, u, values, report, error

    def keep_useless(self, stage: Stage) -> None:
        """Keep a stage whose residual is too large for an estimate, or whose time is over.

        Or where u = 0 solves, so that no method tells an error.
        """
        ladder = self.ladder
        if ladder.decided(not stage.judged.zero_loss > 0.0):
            self.why = NO_MORE
            self.keep(stage, ErrorEstimate.not_known(self.problem.outputs, OF_ZERO), "polynomials")
            return
        share = self._share(stage)
        late = ladder.left() <= 0
        if ladder.decided(late or share < 1.0):
            error = ErrorEstimate.not_known(self.problem.outputs, useless_text(share))
            self.keep(stage, ladder.no_time() if late else error, "polynomials")
            ladder.useful = False

    def keep(self, stage: Stage, error: ErrorEstimate, method: str) -> None:
        """Keep a stage with its error, if it is the best."""
        ladder = self.ladder
        of_data = self.ladder.alike(partial(linearized_of, stage))
        of_data = ladder.world.communicator.broadcast_object(of_data)
        found = stage.model, stage.solution, stage.u, stage.report, error, of_data
        result = result_of(*found, world=ladder.world, seed=ladder.seed, sizes=self._sizes)
        ladder.keep(method, text_of_stage(stage), result)


def fall_between(before: Stage, after: Stage) -> float:
    """Return the factor by which the residual falls from a stage to another (local)."""
    return fall_of(before.loss, after.loss)


def text_of_stage(stage: Stage) -> str:
    """Return the size of a stage in a few words (local)."""
    size = f"{stage.model.width:,}, degree"
    return f"{size if stage.windows == 1 else f'{stage.windows:,} of degree'} {stage.degree}"
