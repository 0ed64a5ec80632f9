"""The stages of `solve` by polynomials: on the whole box, then in windows that are refined."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.assembly.asked import NotByJetsError, ReadsMoreError
from sciml_par.assembly.equations import Equations
from sciml_par.errors import ResultWarning, TrainingError
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.training.estimate.by_correction import ROUNDING
from sciml_par.training.identity.described import of_array
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.preparation.consistency import check_consistency
from sciml_par.training.preparation.description import describe_equations
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.solving.cell_points import PointsOfTerms
from sciml_par.training.solving.ladder import NO_FURTHER, NO_MORE, UNDECIDED, Ladder, one_thread
from sciml_par.training.solving.polynomial_claims import (
    FALL,
    FALL_FOR_ERROR,
    IF_NOT_KNOWN,
    MOST_OPERATIONS,
    RICHER,
    Claims,
    fall_between,
    text_of_stage,
)
from sciml_par.training.solving.polynomial_march import has_all_begins
from sciml_par.training.solving.polynomial_stage import (
    INTERACTING,
    MOST_DIMENSIONS,
    PolynomialSolver,
    Stage,
    operations,
)
from sciml_par.training.solving.refinement import DEGREES, refined

Array = npt.NDArray[np.float64]

_DEGREES = {1: (10, 20, 40, 60), 2: (6, 10, 15, 20, 25), 3: (4, 7, 10, 12, 15, 18, 22)}
_DEGREES_OTHERWISE = (3, 4, 6, 8, 10, 12)
"""In more dimensions at first of products of two coordinates, then of all if the residual of these
does not fall."""
_MOST_NUMBERS = 2e8
"""In the matrix of a stage on the box, 8 bytes each."""
_ORDER, _SMOOTH, _LEAST_STAGES = 2.5, 5.0, 4
"""On the box a stage is the last if the residual has not fallen as the first power of the degree,
but not before the polynomials can resolve some oscillations; if not as the second power, functions
of corners are added in three dimensions, where they are many."""
_LEAST_STEPS, _SECONDS = 3, 2e-8
"""Gauss–Newton steps that tell that equations are not linear; and those for a cube of columns."""
_NUMERICAL = ("LinAlgError", "NotByJetsError", "ReadsMoreError")
_FIRST_CELLS = {1: 4, 2: 4, 3: 2}
"""The number along each axis of the first windows."""
_MOST_OF_WINDOWS, _TRIED = 25_000, 4e10
"""Columns in all windows; and operations with which a higher degree is tried that has not proved
itself."""
_SHARE, _LITTLE_FALL, _MOST_WITHOUT_FALL = 0.25, 1.5, {1: 4, 2: 1, 3: 1}
"""Of the time that is left, for windows; and rounds in which the residual falls by less than this
factor, which in one dimension take little time, as until a layer is resolved."""
_MARCHES, _RESOLVED, _TIGHTER = 3, 1e-4, 0.3
"""Marches at most, where the equation amplifies errors; the most that slabs may add, since what one
does not resolve troubles the next; and the share of the target that a further march would need, if
errors were proportional to it."""
_EVER_SHORTER = "Slabs become ever shorter there: u may grow without bound, or have no derivative."
_LATE = "further windows of polynomials would take longer than the time that is left"
_AT_LEAST = 4.0
"""A round and the estimate of its error, in relation to the round before, where the residual falls
fast."""


def climb_by_polynomials(ladder: Ladder) -> str | None:
    """Solve with polynomials of growing degree, then in windows (collective).

    Problems whose residuals couple their points are left to networks.
    """
    everyone = ladder.world.communicator
    suited = everyone.attempt(lambda: _suited(ladder))
    if any(everyone.allgather_object(suited is None)) or suited is None:
        if ladder.refused:
            ladder.note(ladder.refused)
        return None
    problem, sizes, points, equations = suited
    if everyone.size > 1:
        x, start = equations.rows[0].arrays[0].numpy(), ladder.start
        described = describe_equations(ladder.problem, equations.rows, ladder.precision)
        described["start"] = "nothing" if start is None else of_array(start(x))
        check_consistency(described, everyone)
    climb = _Climb(ladder, problem, sizes, points)
    try:
        try:
            climb.run()
        except TrainingError as failure:
            if not str(failure).startswith(ReadsMoreError.__name__):
                raise
            for asked in points.asked.values():
                asked.read.clear()
            climb = _Climb(ladder, problem, sizes, points)
            climb.run()
    except TrainingError as failure:  # on all ranks, as of a singular matrix; others may do better
        ladder.say("polynomials", one_line(failure), math.nan, "")
        if everyone.rank == 0 and not str(failure).startswith(_NUMERICAL):  # such as of a residual
            said = f"solve: polynomials ended by {one_line(failure)}; other methods went on."
            warnings.warn(said, ResultWarning, stacklevel=5)
    if not ladder.problem.unknowns:
        ladder.everywhere = climb.solver.loss_everywhere
    if ladder.best is not None and ladder.left() <= 0:
        return "time is up"
    known = climb.least is not None and _suits_windows(ladder.problem) and climb.claims.known
    ends = climb.claims.why in (UNDECIDED, NO_MORE) or (known and not ladder.met)
    return (climb.claims.why or NO_FURTHER) if ends else None


def _suited(ladder: Ladder) -> tuple[Problem, dict[str, float], PointsOfTerms, Equations] | None:
    """Return a problem with its weights, sizes of residuals, its points and equations, or None."""
    problem = ladder.problem
    if problem.unknown_functions or problem.holds_out or ladder.precision != "float64":
        return None
    ladder.refused = "polynomials are not used: "
    changes = ProblemChanges(None, [LeastSquares()])
    weighed = changes.weigh(problem)
    sample = weighed.domain.sample(20, seed=0)
    if not weighed.domain.contains(sample).all():
        ladder.refused += "the domain is a surface."
        return None
    points = PointsOfTerms(weighed, 0)
    try:
        with tf.GradientTape() as tape:
            equations = points.scattered(200, draw=0)
    except Exception as error:  # another method says what is wrong with a residual
        kind = "" if isinstance(error, NotByJetsError) else f"{type(error).__name__}: "
        ladder.refused += f"{kind}{one_line(error).rstrip('.')}."
        return None
    if tape.watched_variables():  # which would not be trained, as the other methods say
        ladder.refused += "a residual reads variables."
        return None
    ladder.refused = ""
    return weighed, changes.sizes(weighed), points, equations


def _suits_windows(problem: Problem) -> bool:
    """Return whether windows are few enough, and cells have the coordinates of the domain."""
    return problem.domain.dimension <= MOST_DIMENSIONS and problem.scaled_box is None


class _Climb:
    """Solves one problem by polynomials, on all ranks alike (collective)."""

    def __init__(
        self, ladder: Ladder, problem: Problem, sizes: dict[str, float], points: PointsOfTerms
    ) -> None:
        self.ladder, self.problem, self._d = ladder, problem, problem.domain.dimension
        begin = ladder.unknowns
        if begin is None:
            begin = initial_unknowns(problem.unknowns, ladder.seed)
        of = problem, ladder.drawn, ladder.at[0], ladder.start, begin, points.asked
        self.solver = PolynomialSolver(*of)
        self.claims = Claims(ladder, problem, sizes, self.solver)
        self.least: Stage | None = None
        self._untried: PointsOfTerms | None = None
        self._others = True

    def run(self) -> None:
        """Solve on the box, and then slab by slab and in windows where that is not enough."""
        best = self.on_box()
        stages = [self.in_slabs] if self.claims.evolves else []
        stages += [self.in_windows] if _suits_windows(self.problem) else []
        # Slabs, without functions of inward corners and holes, would divide cells at these.
        for stage in stages[:: -1 if self.solver.inward else 1]:
            if best is not None and not self.claims.done:
                stage(best)
        if self.least is not None and self.ladder.best is None:  # what comes next may be worse
            self.claims.keep_useless(self.least)

    def on_box(self) -> Stage | None:
        """Solve with polynomials on the whole box; None if other methods are to go on."""
        ladder, best, linear, former = self.ladder, None, True, None
        degrees, number = list(_DEGREES.get(self._d, _DEGREES_OTHERWISE)), 0
        pairs: Stage | None = None
        while degrees:
            degree, number = degrees.pop(0), number + 1
            if best is not None and self.solver.points.unknowns is not None:
                self.solver.begin_at(best.steps.p)  # with layers as of what was found
            model = self.solver.on_box(degree)
            if self._costs_too_much(model, best or pairs):
                break
            ladder.doing(f"solving for {model.width:,} polynomials")
            stage = self._agreed(partial(self.solver.solve, model, degree, best))
            if stage is None:
                return None
            determined = has_all_begins(self.problem, stage.unseen)
            if best is None and not (determined or self.claims.finds_open(stage)):
                return None
            ladder.say("polynomials", text_of_stage(stage), stage.loss, "")
            linear = ladder.linear = linear and stage.steps.steps < _LEAST_STEPS
            exact = stage.loss <= ROUNDING**2 * stage.judged.zero_loss
            fall, enough, more = math.inf, FALL, False
            if best is not None:
                fall, enough = fall_between(best, stage), (degree / best.degree) ** _ORDER
                slow = ladder.decided(fall < (degree / best.degree) ** _SMOOTH and not exact)
                if slow and self._untried is not None:  # they do not help
                    self.solver.use(self._untried)
                    self._untried, self._others = None, False
                    continue
                self._untried = None
                more = slow and self._others and self._other_functions(linear)
                if more and self.solver.follows:
                    ladder.doing("fitting the observations")
                    p = self.ladder.alike(partial(self.solver.by_data, degree))
                    self.solver.begin_at(ladder.world.communicator.broadcast_object(p))
                    best, self._untried, self._others = None, None, False
                    continue
            if self.claims.met(stage, best, certain=exact):
                return stage
            former, best = (best, stage) if best is None or fall > 1.0 else (former, best)
            # Functions of corners, which are many in three dimensions, need no oscillations.
            resolves = number >= _LEAST_STAGES or self._d > 2 and bool(stage.model.corners)
            last = resolves and fall < enough
            if self.solver.interacting is not None and ladder.decided(last):
                self.solver.interacting, degrees, number = None, list(_DEGREES_OTHERWISE), 0
                pairs, former, best = best, None, None
                continue
            if ladder.decided(exact or last and not more):
                break
        if pairs is not None and (best is None or pairs.loss <= best.loss):
            self.solver.interacting, former, best = INTERACTING, None, pairs
        if best is not None and former is not None and self._d >= MOST_DIMENSIONS:
            self.claims.conclude_in_space(best, former)
        if best is not None and (not _suits_windows(self.problem) or ladder.left() <= 0):
            self.claims.conclude(best)
        elif best is not None and self.claims.tested:
            self.claims.finds_open(best, RICHER)
        return best

    def _costs_too_much(self, model: Any, before: Stage | None) -> bool:
        """Return whether memory or time are too little, as the stage before tells (collective)."""
        columns, longer, numbers = model.width * self.problem.network_outputs, -math.inf, 0.0
        if before is not None:
            more = columns / before.theta.size
            numbers = more**2 * before.numbers
            if bool(before.model.corners) == bool(model.corners):
                # What is done once, as residuals are traced, does not grow with the columns.
                longer = min(more**3 * before.seconds, before.seconds + _SECONDS * columns**3)
        late = self.ladder.left() < self.ladder.longest(longer)
        return numbers > _MOST_NUMBERS or late

    def _other_functions(self, linear: bool) -> bool:
        """Use further functions, since the residual falls slowly; return whether there are any.

        Those of layers are left out again if it falls as slowly with them.
        """
        former = self.solver.points
        more = self.solver.use_corners(linear=linear)
        self._untried = former if more and self.solver.points.layered else None
        return more

    def in_windows(self, before: Stage) -> None:
        """Solve in windows, which are refined where the residual is largest."""
        ladder, domain, lowest = self.ladder, self.problem.domain, DEGREES[self._d][0]
        cells, corners = _FIRST_CELLS[self._d], zip(domain.lower, domain.upper, strict=True)
        breaks, degree = [np.linspace(a, b, cells + 1) for a, b in corners], lowest
        best, seconds, little, fall, at_begin = before, 0.0, 0, 1.0, ladder.left()
        while little <= _MOST_WITHOUT_FALL[self._d]:
            model = self.solver.in_windows(breaks, degree)
            many = model.used.sum() * model.output_size > _MOST_OF_WINDOWS
            left = ladder.left()
            proved = degree == lowest or best is not before and best.degree > lowest
            most = MOST_OPERATIONS if proved else _TRIED
            many = many or operations(model, self.problem) > most
            # Where the error is known or the residual falls fast, other methods come no nearer.
            fast = fall > FALL_FOR_ERROR
            kept = 0.0 if self.claims.known or fast else (1 - _SHARE) * at_begin
            as_long = min(self.claims.as_long, _AT_LEAST) if fast else self.claims.as_long
            late = ladder.decided(left < max(as_long * seconds, kept))
            self.claims.why = _LATE if late else None
            if many and best is not before and degree > best.degree:
                # A few cells may still be divided.
                self.solver.smooth, lowest = False, best.degree
                breaks, degree = self._refined(best, lowest)
                continue
            if ladder.decided(many or late):
                break
            ladder.doing(f"solving in {len(model.cells.kept)} windows of polynomials")
            stage = self._agreed(partial(self.solver.solve, model, degree, best))
            if stage is None:
                break
            seconds = ladder.longest(stage.seconds)
            ladder.say("polynomials, windows", text_of_stage(stage), stage.loss, "")
            if self.claims.met(stage, best):
                return
            fall = fall_between(best, stage)
            if best is before and fall < 1.0:  # windows will come nearer late, if at all
                self.claims.conclude(before)
                if self.claims.done:
                    return
            little = 0 if fall > _LITTLE_FALL or stage.misses else little + 1
            if best is not before and stage.degree > best.degree and fall < FALL:
                # In vain, as at a corner: cells of the lower degree are divided from now on.
                self.solver.smooth, lowest = False, best.degree
            best = stage
            breaks, degree = self._refined(stage, lowest)
        if best is not before:
            self.claims.conclude(best, fall)

    def in_slabs(self, before: Stage) -> None:
        """Solve slab by slab of time, of lengths that errors choose, once more if these grow."""
        ladder, target = self.ladder, min(self.ladder.tolerance, _RESOLVED)
        for _ in range(_MARCHES):
            marching = self.claims.march(before, target, self._untried or self.solver.points)
            ladder.doing("solving slab by slab of time")
            # One rank does it, since each step depends on the digits of the one before.
            everyone = ladder.world.communicator
            everyone.on_root(partial(one_thread, marching.run))
            marching.parts = everyone.broadcast_object(marching.parts)
            if not marching.ended:
                ladder.say("polynomials, slabs", marching.text, math.nan, "")
                if self._d == 1 and ladder.left() > 0:
                    ladder.note(_EVER_SHORTER)
                return
            error = self.claims.keep_march(marching, before)
            late = ladder.decided(marching.loosened or ladder.left() <= 0)
            if ladder.met or late or not (error.known or self._d == 1):
                return
            # An error that is not known may be too large for the linearized equation.
            share = ladder.tolerance / error.relative if error.known else IF_NOT_KNOWN**-2
            target *= _TIGHTER * share

    def _refined(self, stage: Stage, lowest: int) -> tuple[list[Array], int]:
        found = self.ladder.alike(partial(refined, stage, smooth=self.solver.smooth))
        breaks, degree = self.ladder.world.communicator.broadcast_object(found)
        return breaks, degree if self.solver.smooth else lowest

    def _agreed(self, action: Callable[[], Stage | None]) -> Stage | None:
        """Return a stage with the digits of the first rank, as processors may differ.

        None if there is none on some rank.
        """
        everyone, stage = self.ladder.world.communicator, self.ladder.alike(action)
        if any(everyone.allgather_object(stage is None)):
            return None
        assert stage is not None
        agreed = {name: getattr(stage, name) for name in ("steps", "judged", "loss")}
        stage = replace(stage, **everyone.broadcast_object(agreed))
        stage.model.coefficients.assign(stage.steps.c)
        if self.least is None or stage.loss < self.least.loss:
            self.least = stage
        return stage
