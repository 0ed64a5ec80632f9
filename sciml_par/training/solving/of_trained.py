"""The errors of trained networks: their differences from a solution by polynomials.

A solution v of the same problem tells its own error δ, so that a network u is wrong by v − u up to
δ. It is made until δ is small beside that, once for all networks of a problem, and begins with one
of them, so that of several solutions it is the one near it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par._text import one_line
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import KNOWN, ErrorEstimate
from sciml_par.results.member import SIGNALS, Member
from sciml_par.results.result import Result
from sciml_par.training.arguments.ensemble import DATA
from sciml_par.training.estimate.two_solutions import OfResult, sizes_of
from sciml_par.training.loop.course import Course
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.outcome.evaluate import Solution
from sciml_par.training.outcome.outcome import Outcome
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.run.signals import SignalWatcher
from sciml_par.training.solving.ladder import Ladder, fall_of

Array = npt.NDArray[Any]

_WORTH, _SECONDS, _SHARE, _LONGEST = 20.0, 60.0, 0.25, 600.0
"""Seconds of a training that is worth an estimate without being asked for it; of the estimate at
most, if it was asked for; or this share of the training, up to the last."""
_BEGIN, _WANTED, _LEAST, _MOST = 1e-3, 0.2, 1e-12, 0.5
"""The error of v that is asked for at first; relative to its distance from u, at last; the least;
and the most, up to which the distance itself is the error, and more than an order of magnitude."""


def wants_estimate(
    asked: bool | None, members: Sequence[Member], ready: Preparation, everyone: Communicator
) -> bool:
    """Return whether errors are to be estimated; the same on every rank (collective)."""
    if asked is not None:
        return asked
    alone = ready.settings.mode == DATA
    return max(everyone.allgather_object(_seconds_of(members) if alone else 0.0)) >= _WORTH


def _seconds_of(members: Sequence[Member]) -> float:
    return max(each.seconds_train + each.seconds_compile for each in members)


def with_estimates(
    members: Sequence[Member],
    ready: Preparation,
    courses: Sequence[Course],
    outcomes: Sequence[Outcome],
    world: World,
    signals: SignalWatcher,
    *,
    asked: bool,
) -> list[Member]:
    """Return the members with the estimated error of each (collective in their group).

    Each rank solves alone, and the digits of the first one of a group count; what one of them does
    not know is not known.

    asked : whether somebody waits for the estimate, which otherwise takes a quarter of the time.
    """
    setups = [setup for course in courses for setup in course.stack.setups]
    layouts = [course.stack.layout for course in courses for _ in course.stack.setups]
    by_number = {member.number: member for member in members}
    groups: dict[int, list[_Trained]] = {}
    for setup, layout, outcome in zip(setups, layouts, outcomes, strict=True):
        u = Solution(setup.problem, setup.network, layout, outcome.kept)
        trained = _Trained(by_number[setup.number], setup, u)
        groups.setdefault(id(setup.problem), []).append(trained)
    seconds = max(_SECONDS if asked else 0.0, min(_SHARE * _seconds_of(members), _LONGEST))
    alone, errors = replace(world, communicator=world.alone), dict[int, ErrorEstimate]()
    for group in groups.values():
        errors |= _errors(group, alone, ready.settings.seed, seconds / len(groups), signals)
    of_ranks = ready.group.allgather_object({k: e.without_field() for k, e in errors.items()})
    agreed = {k: min((each[k] for each in of_ranks), key=lambda e: e.known) for k in errors}
    known = {
        k: replace(e, evaluate=errors[k].evaluate if e.known else None) for k, e in agreed.items()
    }
    return [replace(member, error=known[member.number]) for member in members]


@dataclass(frozen=True)
class _Trained:
    """A network as it was trained."""

    member: Member
    setup: MemberSetup
    u: Solution

    @property
    def start(self) -> Callable[[Array], Array] | None:
        """What polynomials begin with: the network in an ansatz, or u; None if it is not known."""
        problem, network = self.u.problem, self.setup.network
        if problem.ansatz is None:
            return self.u
        if problem.scaled_box is not None or problem.output_ranges is not None:
            return None
        own, *_ = network.parts(self.u.layout.unflatten(tf.constant(self.u.theta)))
        return lambda x: np.asarray(network.apply(own, tf.constant(x, self.u.theta.dtype)))


@dataclass
class _Reference(Ladder):
    """Solves a problem until its error is small beside the distance from given values.

    others : those of networks at the points `at`, [k, m] each.
    """

    others: list[Array] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether the error is small enough."""
        return self.best is not None and self.best.error.relative <= self.tolerance

    def keep(self, method: str, size: str, result: Result) -> None:
        """Keep a result if it is the best, and ask for no more than is needed."""
        super().keep(method, size, result)
        if self.best is not None and self.best.error.known:
            v, inside = self.best.members[0].prediction.u, self.at[1]
            means, free = self.problem.means(self.at[0]), _open_of(self.problem, self.best.error)
            seen = (means * v)[inside]
            far = [sizes_of((means * (v - u))[inside], seen, free)[0] for u in self.others]
            self.tolerance = min(self.tolerance, max(_WANTED * float(np.nanmin(far)), _LEAST))


def _open_of(problem: Problem, error: ErrorEstimate) -> list[int]:
    """Return the components that the problem does not determine."""
    return [problem.output_names.index(name) for name in error.undetermined]


def _errors(
    group: Sequence[_Trained], world: World, seed: int, seconds: float, signals: SignalWatcher
) -> dict[int, ErrorEstimate]:
    """Return the errors of networks of one problem by their numbers (local)."""
    began, problem = time.perf_counter(), group[0].setup.problem
    why, v = _obstacle(problem), None
    if group[0].member.ended in SIGNALS:  # on all ranks, and little time may be left
        why = f"{group[0].member.ended} has ended it."
    if why is None:
        try:
            v, why = _solved(group, world, seed, seconds, signals)
        except Exception as error:  # a training of days is not to be lost for its estimate
            why = f"its estimate failed: {type(error).__name__}: {one_line(error)}"
    found, spent = {}, time.perf_counter() - began
    for each in group:
        estimate = (
            ErrorEstimate.not_known(problem.outputs, str(why), seconds=spent)
            if v is None
            else _error_of(each, v, spent)
        )
        found[each.member.number] = _with_windows(each, estimate)
    return found


def _obstacle(problem: Problem) -> str | None:
    """Return why no estimate can be made, if so."""
    if math.isnan(problem.domain.volume) or not problem.residuals:
        return "it takes points that were not trained on, and only given points are known here."
    if problem.unknown_functions:
        names = " and ".join(problem.unknown_functions)
        return (
            f"the error of the unknown function {names} is part of it, which polynomials for u do "
            f"not see; compare networks of several seeds, as with mode=Ensemble(members=2)."
        )
    if problem.holds_out:
        return "it takes all observations, and holdout= keeps some of them from the training."
    return None


def _solved(
    group: Sequence[_Trained], world: World, seed: int, seconds: float, signals: SignalWatcher
) -> tuple[Result | None, str]:
    """Return a solution by polynomials whose error is known, or None and why there is none."""
    losses = [np.nan_to_num(each.member.validation_loss, nan=np.inf) for each in group]
    best = group[int(np.argmin(losses))]
    problem = best.setup.problem.without_slabs().unscaled().with_finer_integrals()
    unknowns = best.u.theta[best.u.layout.size_of_network :].astype(np.float64)
    ladder = _Reference(
        problem,
        _BEGIN,
        seconds,
        "float64",
        seed,
        world,
        shown=False,
        start=best.start,
        unknowns=unknowns if problem.unknowns else None,
        signals=signals,
    )
    ladder.others = [each.u(ladder.at[0]) for each in group]
    polynomials: Any = import_module("sciml_par.training.solving.by_polynomials")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the training itself has said what there is to say
        polynomials.climb_by_polynomials(ladder)
    error = None if ladder.best is None else ladder.best.error
    if error is not None and error.known:
        return ladder.best, ""
    if error is None or ladder.left() <= 0:
        return None, ladder.refused or f"polynomials have not solved it in {seconds:.0f} s."
    return None, f"polynomials, which would tell it, do not solve the problem: {error.reason}"


def _error_of(trained: _Trained, result: Result, seconds: float) -> ErrorEstimate:
    """Return v − u as the error of a network, and beside it that of v (local)."""
    prediction: Any = trained.member.on_own_domain
    problem, of_v, x = trained.setup.problem, result.error, prediction.x
    v, free = OfResult(result), _open_of(problem, result.error)
    inside = np.ones(len(x), np.bool_) if prediction.inside is None else prediction.inside
    # Of the prediction itself, whose rounding in single precision is part of its error.
    values, means = v(x), problem.means(x)
    e = values - prediction.u
    relative, absolute = sizes_of((means * e)[inside], (means * values)[inside], free)
    if not math.isfinite(relative):
        return ErrorEstimate.not_known(problem.outputs, "u = 0 solves it.", seconds=seconds)
    own = of_v.relative / relative
    sure = own <= _MOST
    q = fall_of(trained.member.validation_loss, result.members[0].validation_loss)
    ours, theirs = trained.u.unknowns, v.unknowns
    unknowns = {
        n: np.abs(theirs[n] - ours[n]) + of_v.unknowns.get(n, 0.0) * (not sure) for n in ours
    }
    return ErrorEstimate(
        relative if sure else relative + of_v.relative,
        absolute if sure else absolute + of_v.absolute,
        q,
        own_error=own,
        values=np.where(np.isnan(absolute), math.nan, e),
        unknowns=unknowns,
        seconds=seconds,
        between=not sure or q < KNOWN,
        undetermined=of_v.undetermined,
        evaluate=_Distance(trained.u, v, of_v),
    )


@dataclass(frozen=True)
class _Distance:
    """e(x) = v(x) − u(x)."""

    u: Solution
    v: OfResult
    of_v: ErrorEstimate

    def __call__(self, x: Array) -> Array:
        """Return e at x: [n, d] -> [n, m]."""
        return self.v(x) - self.u(x)

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return f(v, x) − f(u, x) at x: [n, d] -> [n, k], NaN of what is not determined."""
        e = self.v.quantity(f, x) - self.u.quantity(f, x)
        if not self.of_v.undetermined:
            return e
        return np.where(np.isnan(self.of_v.quantity(f, x, e.shape[1])), math.nan, e)


def _with_windows(trained: _Trained, error: ErrorEstimate) -> ErrorEstimate:
    """Return an error with that of each window, of a network in windows."""
    partition = getattr(trained.setup.network.model, "partition", None)
    if partition is None or trained.setup.problem.input_scaling:
        return error  # with scaled inputs, the parts are not those of the domain
    # It imports TensorFlow, which is not to be there before `init`.
    by_window: Any = import_module("sciml_par.training.estimate.by_window")
    return replace(error, by_window=by_window.error_by_window(trained.u, partition, error.evaluate))
