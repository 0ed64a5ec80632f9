"""The stages of `solve` by polynomials: on the whole box, then in windows that are refined."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.assembly.asked import NotByJetsError
from sciml_par.assembly.equations import NONE, Equations
from sciml_par.assembly.solution import Solution
from sciml_par.errors import ResultWarning, TrainingError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import initial_unknowns
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.by_correction import ROUNDING, Corrected, estimate_by, opened
from sciml_par.training.estimate.uniqueness import Free
from sciml_par.training.identity.described import of_array
from sciml_par.training.optimizers.least_squares.least_squares import LastStep, LeastSquares
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.outcome.result_of import Report, result_of
from sciml_par.training.outcome.together import as_training_error
from sciml_par.training.preparation.consistency import check_consistency
from sciml_par.training.preparation.description import describe_equations
from sciml_par.training.preparation.problem_changes import ProblemChanges
from sciml_par.training.solving.cell_points import PointsOfTerms
from sciml_par.training.solving.ladder import (
    NO_FURTHER,
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
from sciml_par.training.solving.polynomial_march import (
    March,
    has_all_begins,
    march_suits,
    time_order,
)
from sciml_par.training.solving.polynomial_stage import (
    MOST_DIMENSIONS,
    PolynomialSolver,
    Stage,
    operations,
    squares_of,
)
from sciml_par.training.solving.refinement import DEGREES, refined
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]
T = TypeVar("T")

_DEGREES = {1: (10, 20, 40, 60), 2: (6, 10, 15, 20, 25), 3: (4, 7, 10, 12, 15, 18, 22)}
_DEGREES_OTHERWISE = (3, 4, 6, 8, 10, 12)
_MOST_COLUMNS, _MOST_NUMBERS, _MOST_FOR_ERROR = 4_000, 8e8, 2_000
"""On the box; and what they have at points, 8 bytes each. In three dimensions more columns than the
last have no estimate by further ones, which would take several times the time and memory."""
_FALL, _ORDER, _SMOOTH, _FALL_FOR_ERROR, _LEAST_STAGES = 3.0, 2.5, 5.0, 5.0, 4
"""A stage after which the residual at unseen points has not fallen by the first factor is in vain.
On the box it is the last if it has not fallen as this power of the degree, but not before the
polynomials can resolve some oscillations; if not as the next power, functions of corners are added
in three dimensions, where they are many. By the next factor it must have fallen for an estimate of
the error to be made, whose residual will hardly fall by more."""
_NEAR, _NEAR_IN_WINDOWS, _IF_NOT_KNOWN, _USEFUL_WITH_NOISE = 2.0, 0.7, 10.0, 0.5
"""Times the tolerance, of the foreseen error of which an estimate is made, which in windows takes
several times as long as a further stage; by how much less it must be after one that was not known;
and as `USEFUL`, of a residual that contains errors of data."""
_LEAST_STEPS, _SECONDS = 3, 2e-8
"""Gauss–Newton steps that tell that equations are not linear; and those for a cube of columns."""
_NUMERICAL = ("LinAlgError", "NotByJetsError")
_FIRST_CELLS = {1: 4, 2: 4, 3: 2}
"""The number along each axis of the first windows."""
_MOST_OF_WINDOWS, _MOST_OPERATIONS, _TRIED = 25_000, 2e11, 4e10
"""Columns in all windows; and operations of the factorization of the band, some seconds, and those
with which a higher degree is tried that has not proved itself."""
_SHARE, _LITTLE_FALL, _MOST_WITHOUT_FALL = 0.25, 1.5, {1: 4, 2: 1, 3: 1}
"""Of the time that is left, for windows; and rounds in which the residual falls by less than this
factor, which in one dimension take little time, as until a layer is resolved."""
_MARCHES, _RESOLVED, _TIGHTER = 3, 1e-4, 0.3
"""Marches at most, where the equation amplifies errors; the most that slabs may add, since what one
does not resolve troubles the next; and the share of the target that a further march would need, if
errors were proportional to it."""
_TOO_LARGE = 0.5
_TOO_COSTLY = "an estimate by more polynomials would take more time or memory than there is"
_GROWTH = (
    "errors as small as the residual grow in time until they are as large as u; solve with "
    "slightly different initial values, too, to see up to which time u can be known"
)
_EVER_SHORTER = "Slabs become ever shorter there: u may grow without bound, or have no derivative."
_RESOLVES, _MOST_FREE, _BEGIN = {1: 20, 2: 12, 3: 8}, 600, (1e-3, 0.05)
"""The least degree, and the most columns, with which it is asked whether functions can be added to
u; and the share of the time in which that is seen."""
_RICHER, _RESIDUAL, _FALLS = 1.35, 1e-9, 0.3
"""The degree is so many times as high for a claim; and the residual of a function that can be added
is at rounding, or falls so far with it."""
_SHRINKS = 2.0
"""The fall of the residual, and of changes of u, from which changes tell the error."""
_SMALL, _LATE = 1e-3, "further windows of polynomials would take longer than the time that is left"
"""An error, below which polynomials alone go on."""
_TIMES_AS_LONG, _AT_LEAST, _GROWS = 10.0, 4.0, 1.5
"""A round and the estimate of its error, in relation to the round before, where no estimate was
made yet, and where the residual falls fast; and how much longer each takes than the one before."""


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
    climb, best = _Climb(ladder, problem, sizes, points), None
    try:
        best = climb.on_box()
        stages = [climb.in_slabs] if climb.evolves else []
        stages += [climb.in_windows] if _suits_windows(ladder.problem) else []
        # Slabs, without functions of inward corners and holes, would divide cells at these.
        for stage in stages[:: -1 if climb.solver.inward else 1]:
            if best is not None and not climb.done:
                stage(best)
        if climb.least is not None and ladder.best is None:  # what comes next may be worse
            climb.keep_useless(climb.least)
    except TrainingError as failure:  # on all ranks, as of a singular matrix; others may do better
        ladder.say("polynomials", one_line(failure), math.nan, "")
        if everyone.rank == 0 and not str(failure).startswith(_NUMERICAL):  # such as of a residual
            said = f"solve: polynomials ended by {one_line(failure)}; other methods went on."
            warnings.warn(said, ResultWarning, stacklevel=5)
    if not ladder.problem.unknowns:
        ladder.everywhere = climb.solver.loss_everywhere
    if ladder.best is not None and ladder.left() <= 0:
        return "time is up"
    windowed = best is not None and _suits_windows(ladder.problem)
    ends = climb.why == UNDECIDED or windowed and climb.known and not ladder.met
    return (climb.why or NO_FURTHER) if ends else None


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
        ladder.refused += f"{kind}{one_line(error)}."
        return None
    if tape.watched_variables():  # which would not be trained, as the other methods say
        ladder.refused += "a residual reads variables."
        return None
    ladder.refused = ""
    return weighed, changes.sizes(weighed), points, equations


def _suits_windows(problem: Problem) -> bool:
    """Return whether windows are few enough, and cells have the coordinates of the domain."""
    return problem.domain.dimension <= MOST_DIMENSIONS and problem.scaled_box is None


@dataclass
class _Climb:
    """Solves one problem by polynomials, on all ranks alike (collective)."""

    ladder: Ladder
    problem: Problem
    sizes: dict[str, float]
    points: PointsOfTerms

    def __post_init__(self) -> None:
        ladder = self.ladder
        x, self._inside = ladder.at
        self._d = self.problem.domain.dimension
        begin = ladder.unknowns
        if begin is None:
            begin = initial_unknowns(self.problem.unknowns, ladder.seed)
        of = self.problem, ladder.drawn, x, ladder.start, begin, self.points.asked
        self.solver = PolynomialSolver(*of)
        self._noisy = bool(statistical_terms(self.problem))
        self._concluded: Stage | None = None
        self.least: Stage | None = None
        self.why: str | None = None
        self._as_long, self._times = _TIMES_AS_LONG, 1.0
        self._untried: PointsOfTerms | None = None
        local = all(asked.at_own_points for asked in self.points.asked.values())
        self._others, self._tested, self.evolves = True, 0, local and march_suits(self.problem)
        self._changed, self._shrinks = math.inf, False

    @property
    def known(self) -> bool:
        """Whether the error of the best result is known and small (collective)."""
        best = self.ladder.best
        return self.ladder.decided(best is not None and best.error.relative < _SMALL)

    @property
    def done(self) -> bool:
        """Whether the tolerance is met, or no error can be known (collective)."""
        return self.why == UNDECIDED or self.ladder.met

    def on_box(self) -> Stage | None:
        """Solve with polynomials on the whole box; None if other methods are to go on."""
        ladder, best, linear, former = self.ladder, None, True, None
        for number, degree in enumerate(_DEGREES.get(self._d, _DEGREES_OTHERWISE), 1):
            if best is not None and self.solver.points.unknowns is not None:
                self.solver.begin_at(best.steps.p)  # with layers as of what was found
            model = self.solver.on_box(degree)
            columns = model.width * self.problem.network_outputs
            memory = max(1.0, (1 + self._d) ** 0.5 / 2) * columns
            longer = -math.inf
            numbers = 0.0 if best is None else (columns / best.theta.size) ** 2 * best.numbers
            if best is not None and bool(best.model.corners) == bool(model.corners):
                longer = (columns / best.theta.size) ** 3 * best.seconds
                # What is done once, as residuals are traced, does not grow with the columns.
                longer = min(longer, best.seconds + _SECONDS * columns**3)
            many = memory > _MOST_COLUMNS or numbers > _MOST_NUMBERS
            if many or ladder.left() < ladder.longest(longer):
                break
            ladder.doing(f"solving for {model.width:,} polynomials")
            stage = self._agreed(partial(self.solver.solve, model, degree, best))
            if stage is None:
                return None
            determined = has_all_begins(self.problem, stage.unseen)
            if best is None and not (determined or self._finds_open(stage)):
                return None
            ladder.say("polynomials", _text(stage), stage.loss, "")
            linear = ladder.linear = linear and stage.steps.steps < _LEAST_STEPS
            exact = stage.loss <= ROUNDING**2 * stage.judged.zero_loss
            fall, enough, more = math.inf, _FALL, False
            if best is not None:
                fall, enough = _fall(best, stage), (degree / best.degree) ** _ORDER
                slow = ladder.decided(fall < (degree / best.degree) ** _SMOOTH and not exact)
                if slow and self._untried is not None:  # they do not help
                    self.solver.use(self._untried)
                    self._untried, self._others = None, False
                    continue
                self._untried = None
                more = slow and self._others and self._other_functions(linear)
                if more and self.solver.follows:
                    ladder.doing("fitting the observations")
                    p = self._alike(partial(self.solver.by_data, degree))
                    self.solver.begin_at(ladder.world.communicator.broadcast_object(p))
                    best, self._untried, self._others = None, None, False
                    continue
            if self._met(stage, best, certain=exact):
                return stage
            former, best = (best, stage) if best is None or fall > 1.0 else (former, best)
            # Functions of corners, which are many in three dimensions, need no oscillations.
            resolves = number >= _LEAST_STAGES or self._d > 2 and bool(stage.model.corners)
            last = resolves and self._d <= MOST_DIMENSIONS and fall < enough
            if ladder.decided(exact or last and not more):
                break
        if best is not None and former is not None and self._d == MOST_DIMENSIONS:
            self._conclude_in_space(best, former)
        if best is not None and (not _suits_windows(self.problem) or ladder.left() <= 0):
            self._conclude_once(best)
        elif best is not None and self._tested:
            self._finds_open(best, _RICHER)
        return best

    def _conclude_in_space(self, best: Stage, former: Stage) -> None:
        """Make a result in three dimensions, with an estimate, which is sharper, if it suffices."""
        ladder, fall = self.ladder, _fall(former, best)
        near = ladder.foreseen(best.u, former.u, fall) <= _NEAR * ladder.tolerance
        late = ladder.left() < _TIMES_AS_LONG * best.seconds
        by_change = ladder.decided((late or not near) and self._changes(best, fall))
        if by_change or ladder.decided(near):
            self._conclude_once(best, fall, former if by_change else None)

    def _other_functions(self, linear: bool) -> bool:
        """Use further functions, since the residual falls slowly; return whether there are any.

        Those of layers are left out again if it falls as slowly with them.
        """
        former = self.solver.points
        more = self.solver.use_corners(linear=linear)
        self._untried = former if more and self.solver.points.layered else None
        return more

    def _finds_open(self, stage: Stage, times: float = 1.0) -> bool:
        """Keep which functions can be added to u; whether that can be told (collective).

        times : the degree that resolves them; once more only where it is higher.
        """
        ladder, d, problem, former = self.ladder, self._d, self.problem, self.solver.free
        resolves = 0 if problem.unknowns or self._noisy else _RESOLVES.get(d, 0)
        degree = math.ceil(times * max(stage.degree, resolves))
        while times > 1 and math.comb(degree + d, d) * stage.system.outputs > _MOST_FREE:
            degree -= 1
        if self._tested and (degree <= self._tested or self.evolves or not resolves):
            return True
        if self.evolves:  # what grows in time is not open at its begin
            begin, end = (float(x[-1]) for x in (problem.domain.lower, problem.domain.upper))
            domain: Any = problem.domain
            problem = problem.on_slab(domain._between(begin, begin + _BEGIN[d > 1] * (end - begin)))
        found = self._alike(partial(self.solver.open_functions, stage, problem, degree))
        free = ladder.world.communicator.broadcast_object(found and found[0])
        if free is None or found is None:
            return False
        falls = former is None or free.residual < max(_RESIDUAL, _FALLS * former.residual)
        # What changes residuals, by however little, is not open.
        self.solver.free = free if falls or self.evolves else free._replace(components=())
        self.solver.opened, self._tested = opened(found[1]), degree
        ladder.free = self.solver.open_names
        return True

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
            most = _MOST_OPERATIONS if proved else _TRIED
            many = many or operations(model, self.problem) > most
            # Where the error is known or the residual falls fast, other methods come no nearer.
            fast = fall > _FALL_FOR_ERROR
            kept = 0.0 if self.known or fast else (1 - _SHARE) * at_begin
            as_long = min(self._as_long, _AT_LEAST) if fast else self._as_long
            late = ladder.decided(left < max(as_long * seconds, kept))
            self.why = _LATE if late else None
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
            ladder.say("polynomials, windows", _text(stage), stage.loss, "")
            if self._met(stage, best):
                return
            fall = _fall(best, stage)
            if best is before and fall < 1.0:  # windows will come nearer late, if at all
                self._conclude_once(before)
                if self.done:
                    return
            little = 0 if fall > _LITTLE_FALL or stage.misses else little + 1
            if best is not before and stage.degree > best.degree and fall < _FALL:
                # In vain, as at a corner: cells of the lower degree are divided from now on.
                self.solver.smooth, lowest = False, best.degree
            best = stage
            breaks, degree = self._refined(stage, lowest)
        if best is not before:
            self._conclude_once(best, fall)

    def in_slabs(self, before: Stage) -> None:
        """Solve slab by slab of time, of lengths that errors choose, once more if these grow."""
        ladder, target = self.ladder, min(self.ladder.tolerance, _RESOLVED)
        for _ in range(_MARCHES):
            marching = self._march(before, target)
            ladder.doing("solving slab by slab of time")
            # One rank does it, since each step depends on the digits of the one before.
            everyone = ladder.world.communicator
            everyone.on_root(partial(self._limited, marching.run))
            marching.parts = everyone.broadcast_object(marching.parts)
            if not marching.ended:
                ladder.say("polynomials, slabs", marching.text, math.nan, "")
                if self._d == 1 and ladder.left() > 0:
                    ladder.note(_EVER_SHORTER)
                return
            error = self._keep_march(marching, before)
            late = ladder.decided(marching.loosened or ladder.left() <= 0)
            if ladder.met or late or not (error.known or self._d == 1):
                return
            # An error that is not known may be too large for the linearized equation.
            share = ladder.tolerance / error.relative if error.known else _IF_NOT_KNOWN**-2
            target *= _TIGHTER * share

    def _march(self, before: Stage, target: float) -> March:
        start, orders = before.solution.network_values, time_order(before.unseen)
        of = self.problem, self.ladder.drawn, target, self.ladder.left_here, orders, start
        points = self._untried or self.solver.points
        layers = points if points.layered else None
        return March(*of, self.points.asked, [*self.solver.open_names], layers)

    def _grown(self, stage: Stage, error: ErrorEstimate) -> ErrorEstimate:
        """Return the error with what time makes of it, which one space does not tell (local)."""
        given = any(map(self.points.given, self.problem.conditions))
        if given or not (self.evolves and error.known):  # slabs may have none of given points
            return error
        solved = getattr(error.evaluate, "solved", None)
        u = stage.solution if solved is None else solved.corrected
        share = self._march(stage, 0.0).grown(u)
        if not share < _TOO_LARGE:
            return ErrorEstimate.not_known(self.problem.outputs, _GROWTH, reliability=0.0)
        times = 1 + share / error.relative
        absolute, own = times * error.absolute, max(error.own_error, 1 - 1 / times)
        return replace(error, relative=times * error.relative, absolute=absolute, own_error=own)

    def _keep_march(self, marching: March, before: Stage) -> ErrorEstimate:
        """Keep the solution of a march with its error (collective)."""
        ladder = self.ladder
        model, u, values, report, error = self._alike(partial(self._judged_march, marching, before))
        agreed = report.squares, report.judged, error.without_field()
        squares, judged, of_all = ladder.world.communicator.broadcast_object(agreed)
        report = replace(report, squares=squares, judged=judged)
        error = replace(of_all, evaluate=error.evaluate)
        result = result_of(
            model, u, values, report, error, world=ladder.world, seed=ladder.seed, sizes=self.sizes
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

    def _refined(self, stage: Stage, lowest: int) -> tuple[list[Array], int]:
        found = self._alike(partial(refined, stage, smooth=self.solver.smooth))
        breaks, degree = self.ladder.world.communicator.broadcast_object(found)
        return breaks, degree if self.solver.smooth else lowest

    def _met(self, stage: Stage, before: Stage | None, *, certain: bool = False) -> bool:
        """Return whether a stage that promises to meet the tolerance does so, by its error."""
        promising, little, fall, foreseen = False, False, 1.0, math.inf
        tolerance = self.ladder.tolerance
        if before is not None and self._noisy:
            # Errors of the data may leave more open than the tolerance, which a result tells.
            promising = stage.steps.steps > 0
        elif before is not None:
            fall = _fall(before, stage)
            change = self.ladder.foreseen(stage.u, before.u, 1.0)
            self._shrinks, self._changed = _SHRINKS * change <= self._changed, change
            foreseen = change / max(fall, 1.0)
            # In windows a smaller fall will do, as at a corner, if what was foreseen came true.
            little = fall < _FALL_FOR_ERROR
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
            error = self._conclude_once(stage, fall, before if changed else None)
            if error is not None:
                known = error.relative / foreseen if error.known else _IF_NOT_KNOWN * self._times
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
        falls = before is None or _fall(before, stage) > _FALL
        return ladder.decided(ends and not (nearly and falls and not self.evolves))

    def _changes(self, stage: Stage, fall: float) -> bool:
        """Return whether the change since the stage before can tell the error (local)."""
        converges = fall > (_SHRINKS if self._shrinks else CONVERGES)
        return self._d > 2 and stage.windows == 1 and not self._noisy and converges

    def _conclude_once(
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
        if stage.windows == 1 and self._tested:
            self._finds_open(stage, _RICHER)
        left = ladder.left() / ladder.longest(stage.seconds)
        in_time = operations(stage.model, self.problem) * left
        most = max(1.0, min(_MOST_OPERATIONS, in_time))
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

        error = self._alike(lambda: self._grown(stage, estimate()))
        self._as_long = _GROWS * (1 + ladder.longest(error.seconds / stage.seconds))
        of_all = ladder.world.communicator.broadcast_object(error.without_field())
        # As processors may differ.
        self.keep(stage, replace(of_all, evaluate=error.evaluate), "polynomials, error")
        return of_all

    def _is_one_of_many(self, stage: Stage) -> bool:
        """Return whether u is not determined beside unknowns, and keep that (collective)."""
        sought = self.problem.unknowns and not self._noisy and stage.windows == 1
        if not sought or not self.ladder.decided(self._alike(partial(with_others, stage))):
            return False
        every, none = (*range(self.problem.outputs),), np.zeros(0)
        self.solver.free = Free(every, none, none, reason=SEVERAL)
        return True

    def _share(self, stage: Stage) -> float:
        """Return the residual of a stage in relation to that of u = 0 (local)."""
        return self.ladder.share_of(stage.judged.validation_loss, stage.judged.zero_loss)

    def keep_useless(self, stage: Stage) -> None:
        """Keep a stage whose residual is too large for an estimate, or whose time is over."""
        ladder = self.ladder
        share = self._share(stage)
        late = ladder.left() <= 0
        if ladder.decided(late or share < 1.0):
            error = ErrorEstimate.not_known(self.problem.outputs, useless_text(share))
            self.keep(stage, ladder.no_time() if late else error, "polynomials")
            ladder.useful = False

    def keep(self, stage: Stage, error: ErrorEstimate, method: str) -> None:
        """Keep a stage with its error, if it is the best."""
        ladder = self.ladder
        of_data = self._alike(partial(linearized_of, stage))
        of_data = ladder.world.communicator.broadcast_object(of_data)
        found = stage.model, stage.solution, stage.u, stage.report, error, of_data
        result = result_of(*found, world=ladder.world, seed=ladder.seed, sizes=self.sizes)
        ladder.keep(method, _text(stage), result)

    def _alike(self, action: Callable[[], T]) -> T:
        """Do what all ranks do alike: what fails on one fails on all."""
        return self.ladder.world.communicator.attempt(partial(self._limited, action))

    def _limited(self, action: Callable[[], T]) -> T:
        with threads(1):  # the same digits on any number of cores
            return as_training_error(action)

    def _agreed(self, action: Callable[[], Stage | None]) -> Stage | None:
        """Return a stage with the digits of the first rank, as processors may differ.

        None if there is none on some rank.
        """
        everyone, stage = self.ladder.world.communicator, self._alike(action)
        if any(everyone.allgather_object(stage is None)):
            return None
        assert stage is not None
        agreed = {name: getattr(stage, name) for name in ("steps", "judged", "loss")}
        stage = replace(stage, **everyone.broadcast_object(agreed))
        stage.model.coefficients.assign(stage.steps.c)
        if self.least is None or stage.loss < self.least.loss:
            self.least = stage
        return stage


def _fall(before: Stage, after: Stage) -> float:
    return fall_of(before.loss, after.loss)


def _text(stage: Stage) -> str:
    size = f"{stage.model.width:,}, degree"
    return f"{size if stage.windows == 1 else f'{stage.windows:,} of degree'} {stage.degree}"
