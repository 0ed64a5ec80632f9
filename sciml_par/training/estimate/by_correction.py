"""The error that a correction tells: e = the difference of two solutions, and how sure it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.assembly.solution import Solution
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import KNOWN, SURE, ErrorEstimate
from sciml_par.training.estimate.two_solutions import sizes_of
from sciml_par.training.estimate.uniqueness import Free
from sciml_par.training.optimizers.least_squares.least_squares import LastStep

Array = npt.NDArray[Any]

MOST_DIMENSIONS = 3
_MARGIN = 10.0
_CAUTION = 3.0
"""The relative error of a correction is at most this multiple of 1/q^½."""
_UNCHANGED, _JUDGED = 1e-3, 200
"""The change of a quantity by free functions, relative to that by others, up to which it is
determined, and the points at which that is judged."""
OF_ZERO = "u = 0 satisfies the equation and all conditions."
ROUNDING = 1e-10
"""A residual of less than this share of that of u = 0 is at rounding in double precision."""
_LARGER = 10.0
"""Times the claimed error, from which a last step contradicts the claim."""
LARGE = 0.05
"""Of u, from which a last step is the reason why an error is not known."""
NOT_CONVERGED = "the Gauss–Newton steps have not converged"


@dataclass(frozen=True)
class Corrected:
    """A solution and its correction by more polynomials.

    Attributes
    ----------
    corrected : u + e.
    start : the parameters of both with e = 0, [p].
    before, after, of_zero : the loss at unseen points of u, of u + e and of u = 0.
    last : the step that led to u, θ − size · direction.
    again : returns u + e after a further correction, by points that the first one has not seen.
    """

    corrected: Solution
    start: Array
    before: float
    after: float
    of_zero: float
    last: LastStep
    again: Callable[[], Solution] | None = None

    @property
    def end(self) -> Array:
        """The parameters of both."""
        return self.corrected.theta

    def solution(self, theta: Array | None = None) -> Solution:
        """Return u with its correction, or with other parameters (local)."""
        return self.corrected if theta is None else self.corrected.at(theta)


def opened(solution: Solution) -> Corrected:
    """Return a solution as one to which free functions can be added (local)."""
    theta = solution.theta
    return Corrected(solution, theta, 0.0, 0.0, 0.0, LastStep(np.zeros_like(theta), 0.0))


def reliability_of(solved: Corrected) -> float:
    """Return the factor q by which the residual at unseen points has fallen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        q = float(np.sqrt(np.float64(solved.before) / np.float64(solved.after)))
    return q if math.isfinite(q) else 0.0


def estimate_by(
    solved: Corrected,
    problem: Problem,
    prediction: Prediction,
    began: float,
    free: Free | None,
    *,
    converges: bool,
    opened: Corrected | None = None,
) -> ErrorEstimate:
    """Return the estimate that a correction gives, or why the error is not known.

    opened : the solution to which the free functions can be added.
    """
    components = () if free is None else free.components
    names = tuple(problem.output_names[each] for each in components)
    q, inside = reliability_of(solved), prediction.inside
    if inside is None:
        inside = np.ones(len(prediction.x), np.bool_)
    own_error = _CAUTION / math.sqrt(q) if q > 0 else math.inf
    at_rounding = q < SURE and solved.before <= ROUNDING**2 * solved.of_zero
    # Near a layer that no point sees, the residual falls a little and then no further.
    doubtful = q < KNOWN or (q < SURE and not converges)
    correction = Correction(solved, opened if components else None, free)
    if free is not None and len(components) == problem.outputs:
        seconds, m = time.perf_counter() - began, problem.outputs
        error = ErrorEstimate.not_known(m, free.reason, reliability=q, seconds=seconds)
        return replace(error, evaluate=correction if q >= KNOWN else None)
    corrected = correction.corrected(prediction.x)
    # Of the prediction itself, whose rounding in single precision the correction does not see.
    e = corrected - prediction.u
    seconds = time.perf_counter() - began
    means = problem.means(prediction.x[inside])
    relative, absolute = sizes_of(means * e[inside], means * corrected[inside], components)
    share = math.sqrt(solved.before / solved.of_zero) if solved.of_zero > 0 else math.nan
    step = step_size(solved, prediction.x[inside], components) if solved.last.size < 1.0 else 0.0
    why = None
    if not solved.of_zero > 0 or not math.isfinite(relative):
        why = OF_ZERO
    elif step > (LARGE if doubtful else relative) and not at_rounding:
        why = reason_of(step)
    elif doubtful and not at_rounding:
        why = _reason(problem, q)
    if why is not None:
        error = ErrorEstimate.not_known(problem.outputs, why, reliability=q, seconds=seconds)
        return replace(error, undetermined=names)
    factor = _MARGIN * max(relative, share) / relative if at_rounding else 1.0
    if q < SURE and not at_rounding and (again := solved.again):
        # Where points of the correction miss what others see, it is smaller than the error.
        further = means * (again()(prediction.x[inside]) - corrected[inside])
        factor += sizes_of(further, means * corrected[inside], components)[0] / relative
    return ErrorEstimate(
        factor * relative,
        factor * absolute,
        q,
        own_error=own_error,
        values=np.where(np.isnan(absolute), math.nan, e),
        unknowns=correction.of_unknowns(problem),
        seconds=seconds,
        at_rounding=at_rounding,
        undetermined=names,
        evaluate=correction,
    )


@dataclass(frozen=True)
class Correction:
    """e(x), the difference of the fields with the parameters before and after the step."""

    solved: Corrected
    open: Corrected | None = None
    free: Free | None = None
    """Of `open`, what functions can be added to: quantities that these change are not known."""

    def __call__(self, x: Array) -> Array:
        """Return e at x: [n, d] -> [n, m]."""
        return self.corrected(x) - self.solved.solution(self.solved.start)(x)

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return f(u + e, x) − f(u, x) at x: [n, d] -> [n, k]."""
        before, after = self.solved.solution(self.solved.start), self.solved.solution()
        e = after.quantity(f, x) - before.quantity(f, x)
        return e if self._determines(f, x[:: len(x) // _JUDGED + 1]) else np.full_like(e, math.nan)

    def _determines(self, f: Callable[..., Any], x: Array) -> bool:
        """Return whether free functions change f(u, x) far less than other ones of their size."""
        if self.open is None or self.free is None:
            return True
        theta, solution = self.open.end, self.open.solution
        u = solution(theta).quantity(f, x)
        free, usual = (
            [np.linalg.norm(solution(theta + each).quantity(f, x) - u) for each in changes]
            for changes in (self.free.changes, self.free.usual)
        )
        return not max(free, default=0.0) > _UNCHANGED * max(usual)

    def corrected(self, x: Array) -> Array:
        """Return u + e at x: [n, d] -> [n, m]."""
        return self.solved.solution()(x)

    def of_unknowns(self, problem: Problem) -> dict[str, Any]:
        """Return the size of the change of each unknown, by name."""
        start, end = (
            self.solved.solution(each).unknowns for each in (self.solved.start, self.solved.end)
        )
        return {name: np.abs(end[name] - start[name]) for name in problem.unknowns}


def _reason(problem: Problem, q: float) -> str:
    d = problem.domain.dimension
    if d > MOST_DIMENSIONS:
        why = f"they hardly resolve a solution of {d} coordinates"
    else:
        why = (
            "the solution is too rough for them somewhere, as at a shock, a layer or a corner, or "
            "the solution is already as exact as they can be"
        )
    fall = f"falls by a factor of {q:.1f} only" if q >= 1 else "does not fall"
    return f"with more polynomials or features the residual at unseen points {fall}; {why}."


def step_size(solved: Corrected, x: Array, free: Sequence[int] = ()) -> float:
    """Return the change of u by the whole last step, relative to u (local).

    Where the linearized equation amplifies, such as e^{λt}, a small residual asks for a large step.
    """
    theta = solved.end
    u = solved.solution(theta)(x)
    e = solved.solution((theta - solved.last.direction).astype(theta.dtype))(x) - u
    return sizes_of(e, u, free)[0] if np.isfinite(e).all() else np.inf


def if_converged(
    error: ErrorEstimate, solved: Corrected, at: tuple[Array, Array], free: Sequence[int]
) -> ErrorEstimate:
    """Return the error, but not known if the last step is too large for it (local)."""
    x, inside = at
    size = step_size(solved, x[inside], free)
    if not size > (_LARGER * error.relative if error.known else LARGE):
        return error
    return ErrorEstimate.not_known(
        len(error.absolute), reason_of(size), reliability=error.reliability, seconds=error.seconds
    )


def reason_of(size: float) -> str:
    """Return why no error is known after a last step of this size, relative to u."""
    return (
        f"{NOT_CONVERGED}: the linearized equation turns the remaining residual into a change of u "
        f"by {size:.1g} of its size, and the step there does not lower the residual; begin "
        f"nearer to the solution by start=, or train(problem, …) on slabs of time."
    )
