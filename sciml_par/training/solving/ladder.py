"""What the stages of `solve` share: the time, the best result so far, and the lines shown."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from sciml_par._tensorflow import tf
from sciml_par._terminal import console, prints_to_terminal
from sciml_par.errors import ResultWarning
from sciml_par.parallel.groups.world import World
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.member import SIGNALS, Member
from sciml_par.results.predict import kept_weights
from sciml_par.results.result import Result
from sciml_par.training.checkpoints.checkpoint import Checkpoint
from sciml_par.training.estimate.by_correction import ROUNDING
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.outcome.evaluate import points_of
from sciml_par.training.outcome.together import as_training_error
from sciml_par.training.run.signals import SignalWatcher
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[Any]
T = TypeVar("T")

_SEED = 401
USEFUL = 0.01
"""The residual, relative to that at the start, above which no error is estimated."""
_MOVED = 0.5
"""The change of an unknown, relative to its start, that is told."""
_SMALL = 0.1
"""The numerical error that no longer counts, as a share of the deviation by the data or of u."""
_LIMITED = (
    f"numerical errors are at most {_SMALL:.0%} of what the errors of the data leave open, for u "
    f"and for each unknown"
)
HIDDEN = 100.0
"""Times the squares of residuals at some points, from which there is something between these."""
UNDECIDED, NO_MORE = "no other method can decide between these", "no other method can tell more"
NO_FURTHER = "no method makes the residual at unseen points fall any further"


@dataclass
class Ladder:
    """One solution, stage by stage; see `sciml_par.solve`."""

    problem: Problem
    tolerance: float
    seconds: float
    precision: str
    seed: int
    world: World
    shown: bool
    checkpoint: Checkpoint | None = None
    resume: bool = False
    start: Callable[[Array], Array] | None = None
    unknowns: Array | None = None
    """Their parameters to begin with, [q], in place of their own start."""
    refused: str = ""
    """Why polynomials are not used, if so."""
    best: Result | None = None
    useful: bool = False
    linear: bool = False
    """Whether the equations are seen to be linear, together with their unknowns."""
    """Whether a method has ended with more than a residual that is too large for an estimate."""
    everywhere: Callable[[Member], float] | None = None
    """Gives the loss of a solution at so many points that little is hidden between them."""
    zero_loss: float = math.nan
    start_loss: float = math.nan
    free: Mapping[int, str] = field(default_factory=dict)
    signals: SignalWatcher | None = None
    signal: str | None = None
    """What some rank received, which ends all."""

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        self.drawn = _SEED + self.seed
        self.at = points_of(self.problem.domain, None)
        self._headed = False
        self._line: tuple[Progress, TaskID] | None = None
        self.most_steps = 1
        self._judged: Result | None = None
        self._limited = False

    def decided(self, choice: bool) -> bool:
        """Return the first rank's choice (collective); others may have rounded errors otherwise."""
        return bool(self.world.communicator.broadcast_object(choice))

    def alike(self, action: Callable[[], T]) -> T:
        """Do what all ranks do alike: what fails on one fails on all (collective)."""
        return self.world.communicator.attempt(partial(one_thread, action))

    @property
    def met(self) -> bool:
        """Whether the best result is known to meet the tolerance, or is limited by its data.

        Collective.
        """
        best = self.best
        within = best is not None and best.error.relative <= self.tolerance
        return self.decided(within) or self.limited_by_data

    @property
    def limited_by_data(self) -> bool:
        """Whether numerical errors are small beside what the data leave open (collective).

        That of each unknown beside its deviation, and that of u beside its band; of unknown
        functions it is not known.
        """
        if self.best is self._judged:
            return self._limited
        self._judged, limited = self.best, False
        alone = bool(statistical_terms(self.problem)) and not self.problem.unknown_functions
        if self.best is not None and alone and self.world.communicator.rank == 0:
            found, (x, inside) = self.best.uncertainty(), self.at
            limited = found.known and bool((found.numerical <= _SMALL * found.deviations).all())
            if limited:
                (lower, upper), u = found.bands(x[inside]), self.best.predict(x[inside]).mean
                band = np.linalg.norm(upper - lower) / 2 / np.linalg.norm(u)
                limited = bool(self.best.error.relative <= _SMALL * band)
        self._limited = self.decided(limited)
        return self._limited

    @property
    def fits_noise(self) -> bool:
        """Whether unknowns are found from data with noise, for which features are not used.

        In such a loss the equation may deviate a little, and their steps ended far from least χ².
        """
        unknown = self.problem.unknowns or self.problem.unknown_functions
        return bool(unknown and statistical_terms(self.problem))

    def left_here(self) -> float:
        """Return the remaining seconds by this rank's clock; none after a signal (local)."""
        left = self.seconds - (time.perf_counter() - self._began)
        return 0.0 if self.ended() in SIGNALS else left

    def left(self) -> float:
        """Return the remaining seconds, by the clock of the slowest rank (collective)."""
        here = self.left_here(), self.ended()
        seconds, reasons = zip(*self.world.communicator.allgather_object(here), strict=True)
        self.signal = self.signal or next((each for each in reasons if each in SIGNALS), None)
        return float(min(seconds))

    def ended(self) -> str | None:
        """Return why this rank is asked to end what it does, a signal or the time (local)."""
        return None if self.signals is None else self.signals.stop()

    def at_start(self, of_zero: float) -> float:
        """Return the loss at the start: that of u = 0, or of a better constant, if any (local)."""
        if math.isnan(self.start_loss):
            return of_zero
        least = ROUNDING**2 * of_zero  # of a constant that is the solution
        return float(np.fmin(of_zero, np.fmax(self.start_loss, least)))

    def share_of(self, loss: float, of_zero: float) -> float:
        """Return the residual relative to that at the start (local)."""
        begin = self.at_start(of_zero)
        return math.sqrt(loss / begin) if begin > 0 else math.nan

    def foreseen(self, u: Array, former: Array, fall: float) -> float:
        """Return the relative change of u at the points `at`, divided by the residual's fall."""
        _, inside = self.at
        size = max(float(np.linalg.norm(u[inside])), np.finfo(np.float64).tiny)
        return float(np.linalg.norm((u - former)[inside])) / size / max(fall, 1e-9)

    def longest(self, seconds: float) -> float:
        """Return the largest of the numbers of all ranks (collective)."""
        return max(self.world.communicator.allgather_object(seconds))

    def no_time(self) -> ErrorEstimate:
        """Return the error of a solution that there was no time to estimate (local)."""
        why = "no time was left to estimate it; give solve more seconds."
        return ErrorEstimate.not_known(self.problem.outputs, why)

    def keep(self, method: str, size: str, result: Result) -> None:
        """Show a result, and keep it if it is the best (collective)."""
        result, self.useful = self._with_integrals(self._judged_everywhere(result)), True
        self.say(method, size, result.members[0].validation_loss, text_of(result.error))
        if self.decided(self.best is None or _better(result, self.best)):
            self.best = result

    def _with_integrals(self, result: Result) -> Result:
        """Add to an error what more points change of integrals, which it does not contain."""
        (member,), error = result.members, result.error
        pairs: list[Any] = [*self.problem.terms_of_conditions]
        of = [(each, term) for each, term in pairs if each.kind == "integral" and term.sums]
        if not of or not error.known:
            return result
        weights = kept_weights(member)
        u, domain = member.field.with_weights(tf.constant(weights)), self.problem.domain

        def missed(condition: Any, term: Term) -> float:
            assert term.sums is not None
            integrand = partial(term.sums.function, u)
            return float(condition.missed(integrand, domain, weights.dtype))

        share = self.world.communicator.on_root(lambda: max(missed(*pair) for pair in of))
        if not share > error.relative:
            return result
        absolute = error.absolute + share * np.sqrt(np.mean(member.prediction.u**2, axis=0))
        error = replace(error, relative=error.relative + share, absolute=absolute, own_error=1.0)
        return replace(result, members=(replace(member, error=error),))

    def _judged_everywhere(self, result: Result) -> Result:
        """Return a result, of an unknown error if residuals are hidden between its points."""
        loss_of_member = self.everywhere
        if loss_of_member is None:
            return result
        (member,) = result.members
        loss = self.world.communicator.on_root(partial(loss_of_member, member))
        judged = max(member.validation_loss, ROUNDING**2 * member.zero_loss)
        if not loss > HIDDEN * judged:
            return result
        why = (
            f"between the points of this solution its residual is {math.sqrt(loss / judged):.0g} "
            f"times as large as at them, as in a narrow layer or peak."
        )
        error = ErrorEstimate.not_known(self.problem.outputs, why)
        return replace(result, members=(replace(member, error=error, validation_loss=loss),))

    def say(self, method: str, size: str, loss: float, text: str) -> None:
        """Show a line on rank 0 (local)."""
        if not self.shown or self.world.communicator.rank > 0:
            return
        if not self._headed:
            self._headed = True
            print(f"{'method':<22}{'size':<28}{'residual':>9}  {'error':<18}{'time':>8}")
        seconds = f"{time.perf_counter() - self._began:6.1f} s"
        residual = "" if math.isnan(loss) else f"{math.sqrt(loss):.1e}"
        print(f"{method:<22}{size:<28}{residual:>9}  {text:<18}{seconds}", flush=True)

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Show a line with the stage and a clock meanwhile, if rank 0 prints to a terminal."""
        if not self.shown or self.world.communicator.rank > 0 or not prints_to_terminal():
            yield
            return
        columns = TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=console(), transient=True) as line:
            self._line = line, line.add_task("preparing", total=None)
            yield
        self._line = None

    def doing(self, text: str) -> None:
        """Show what is done now in the line that `live` shows (local)."""
        if self._line is not None:
            line, task = self._line
            line.update(task, description=f"{text}, limit {self.seconds:g} s, so far")

    def note(self, text: str) -> None:
        """Show a sentence on rank 0 (local)."""
        if self.shown and self.world.communicator.rank == 0:
            print(text, flush=True)

    def end(self, why: str | None) -> Result:
        """Say how it ends, with a warning if the tolerance is not met; return the best result.

        Collective.
        """
        assert self.best is not None
        met = self.met
        if met:
            why = _LIMITED if self.limited_by_data else "the tolerance is met"
        elif self.signal:
            why = f"{self.signal} has ended it"
        text = f"{str(self.best.error).rstrip('.')}; {why or NO_FURTHER}"
        if self.world.communicator.rank > 0:
            return self.best
        if self.shown:
            print(text)
        self._say_moved()
        if not met:
            warnings.warn(
                f"solve: the tolerance {self.tolerance:g} is not met: {text}.",
                ResultWarning,
                stacklevel=4,
            )
        return self.best

    def _say_moved(self) -> None:
        """Warn of unknowns that have left their start, where no data choose a solution (local)."""
        assert self.best is not None
        observed = any(isinstance(each, Observations) for each in self.problem.conditions)
        if observed or self.linear:  # as there is one solution
            return
        values = self.best.members[0].unknown_values
        for name, value in values.by_name(values.best).items():
            start = np.asarray(self.problem.unknowns[name].start)
            if np.any(np.abs(value - start) > _MOVED * np.abs(start)):
                before, now = (f"{v:.4g}" if start.ndim == 0 else str(v) for v in (start, value))
                warnings.warn(
                    f"solve: {name} has gone from its start {before} to {now}: this may be another "
                    f"solution than the one that you look for. Begin with {name} nearer to it, or "
                    f"with start= near its solution.",
                    ResultWarning,
                    stacklevel=5,
                )


def one_thread(action: Callable[[], T]) -> T:
    """Do it with the same digits on any number of cores; see `as_training_error` (local)."""
    with threads(1):
        return as_training_error(action)


def with_error(result: Result, error: ErrorEstimate) -> Result:
    """Return a result of one member with its error."""
    (member,) = result.members
    return replace(result, members=(replace(member, error=error),))


def fall_of(before: float, after: float) -> float:
    """Return the factor by which the residual falls, of losses at unseen points."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.sqrt(np.float64(before) / np.float64(after)))
    return ratio if math.isfinite(ratio) else 1.0


def useless_text(share: float) -> str:
    """Return why the error is not estimated after the residual has fallen to a share."""
    return (
        f"no estimate was made, since the residual at unseen points is still {share:.1%} of that "
        f"at the start."
    )


def text_of(error: ErrorEstimate) -> str:
    """Return the estimated error in a few letters."""
    return f"{error.relative:.1e}" if error.known else "not known"


def _better(result: Result, other: Result) -> bool:
    a, b = result.error, other.error
    if a.known and b.known:
        return a.relative < b.relative
    # A known error of the size of u says no more than a residual.
    small, of_other = a.relative < _SMALL, b.relative < _SMALL
    return small if small != of_other else loss_of(result) < loss_of(other)


def loss_of(result: Result) -> float:
    """Return the loss at unseen points, infinite where it is not known."""
    loss = result.members[0].validation_loss
    return loss if math.isfinite(loss) else math.inf
