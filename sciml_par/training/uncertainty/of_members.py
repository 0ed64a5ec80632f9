"""The covariance of a trained member's parameters, from the Jacobians at its end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.errors import InputError, SciMLParError
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import names_of_numbers
from sciml_par.results.linearized import Linearized
from sciml_par.results.member import Member
from sciml_par.results.uncertainty import relative_steps, unknown_before_the_end
from sciml_par.training.arguments.settings import BEST
from sciml_par.training.loop.course import Course
from sciml_par.training.loss.member_objective import MemberObjective
from sciml_par.training.loss.objective import field_of, jacobians_of
from sciml_par.training.members.stack import Stack
from sciml_par.training.outcome.data_fits import observed_in
from sciml_par.training.outcome.outcome import Outcome
from sciml_par.training.outcome.together import as_training_error, together
from sciml_par.training.points.feed import RankFeed
from sciml_par.training.points.make_feed import make_feed
from sciml_par.training.points.points import Points
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.uncertainty.constraint import free_directions
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[Any]

_SEED, _DTYPE = 421, "float64"
_ROWS_PER_PARAMETER = 2
_PHYSICS, _KNOWN, _UNKNOWN = _KINDS = ("physics", "known", "unknown")
_MOST_RELATIVE = 100.0
MOST_PARAMETERS, _MOST_MEMBERS = 2_500, 16


@dataclass(frozen=True)
class Factors:
    """R of the QR factors of [J r] over all ranks.

    Attributes
    ----------
    physics : of equations and conditions.
    known, unknown : of data in units of their deviations, and of those in units of a guess.
    rows : the numbers of these two.
    """

    physics: Array
    known: Array
    unknown: Array
    rows: tuple[int, int]

    def data(self, scale: float) -> Array:
        """Return the rows of all data, where the guess is to be multiplied by `scale`."""
        return np.vstack([self.known, self.unknown / scale])


def check_uncertainty(asked: Any) -> None:
    """Check the argument `uncertainty` of `train` (local)."""
    if asked is not None and not isinstance(asked, bool):
        raise InputError(f"train: expected uncertainty to be True, False or None; got {asked!r}.")


def with_uncertainties(
    members: Sequence[Member],
    ready: Preparation,
    courses: Sequence[Course],
    outcomes: Sequence[Outcome],
    asked: bool | None,
    *,
    samples: bool = False,
) -> list[Member]:
    """Return this group's members with how well their data determine them (collective in it).

    samples : whether each member has another sample of the data, of a bootstrap.
    """
    setups = [setup for course in courses for setup in course.stack.setups]
    best = ready.settings.keep == BEST
    kept = {s.number: o.best if best else o.last for s, o in zip(setups, outcomes, strict=True)}
    stacks = {number: course.stack for course in courses for number in course.stack.numbers}
    problems = {setup.number: setup.problem for setup in setups}
    shared: dict[int, Jacobians] = {}
    found = []
    for member in members:
        stack = stacks[member.number]
        why = _obstacle(stack, len(members), asked, samples)
        if why is None:
            found.append(member)
            continue
        if why:
            linearized = Linearized.not_known(why)
        else:
            jacobians = shared.setdefault(id(stack), Jacobians(stack, ready))
            linearized = jacobians.linearized(member.number, kept[member.number])
        observed = observed_in(
            problems[member.number], linearized.scale, with_errors=linearized.known
        )
        found.append(replace(member, linearized=linearized, observations=observed))
    return found


def _obstacle(stack: Stack, members: int, asked: bool | None, samples: bool) -> str | None:
    """Return None where nothing is asked, "" where nothing is in the way, or the obstacle."""
    problem = stack.problem
    if asked is False or not statistical_terms(problem):
        if asked:
            return (
                "no condition has known errors: give Observations(…, noise=σ), the standard "
                "deviation of the observed values"
            )
        return None
    if not problem.residuals:
        return "there is no equation, so that only the network's smoothness restricts a fit"
    if samples:  # all data are not at their optimum there
        return (
            "members of bootstrap=True have samples of the observations; the deviation of the "
            "members is that of the unknowns"
        )
    if asked is None and members > _MOST_MEMBERS:
        return f"of more than {_MOST_MEMBERS} members it is found by train(…, uncertainty=True)"
    if stack.layout.size > MOST_PARAMETERS:
        return (
            f"the model has {stack.layout.size:,} parameters, and at most {MOST_PARAMETERS:,} "
            f"can be linearized; take a smaller network"
        )
    return ""


class Jacobians:
    """The Jacobians of the members of a stack, at more points than they have parameters."""

    def __init__(self, stack: Stack, ready: Preparation) -> None:
        self._stack, self._ready = stack, ready
        problem, network = stack.problem, stack.network
        self._objective = MemberObjective(
            partial(field_of, problem, network),
            stack.terms,
            layout=stack.layout,
            jacobians=jacobians_of(problem, network, stack.layout),
        )
        self._prepared = False

    def linearized(self, number: int, theta: Array) -> Linearized:
        """Return the distribution of a member's parameters at θ: [p] (collective in its group)."""
        began, group = time.perf_counter(), self._ready.group
        try:
            factors = self.factors(number, theta)
            setup = next(each for each in self._stack.setups if each.number == number)
            solve = partial(linearized_by, factors, setup.problem, theta, began)
            return group.on_root(lambda: as_training_error(solve))
        except SciMLParError as error:  # a training of days is not to be lost for this
            why = f"its linearization failed: {one_line(error)}"
            return Linearized.not_known(why, seconds=time.perf_counter() - began)

    def factors(self, number: int, theta: Array) -> Factors:
        """Return the factors at θ: [p], on the first rank (collective in the group)."""
        group = self._ready.group
        here = together(group, lambda: self._here(number, theta))
        parts: list[Factors] = group.allgather_object(here)
        if group.rank or len(parts) == 1:
            return parts[0]
        physics, known, unknown = (_triangle([getattr(p, n) for p in parts]) for n in _KINDS)
        counts = sum(p.rows[0] for p in parts), sum(p.rows[1] for p in parts)
        return Factors(physics, known, unknown, counts)

    def _here(self, number: int, theta: Array) -> Factors:
        setup = next(each for each in self._stack.setups if each.number == number)
        given = self._feed(setup.problem, setup.feed).whole(0)
        batch = tf.nest.map_structure(lambda each: tf.cast(each, _DTYPE), given)
        # In single precision, what nothing determines looks as if rounding determined it.
        at = tf.constant(theta.astype(_DTYPE))
        if not self._prepared:
            self._objective.prepare_jacobian(at, batch)
            self._prepared = True
        residuals, jacobians = self._objective.jacobian(at, batch)
        rows = [
            np.column_stack([j.numpy().T, r.numpy()])
            for r, j in zip(residuals, jacobians, strict=True)
        ]
        weights = [math.sqrt(float(np.ravel(each.weights)[0])) for each in batch]  # √(w/N)
        return factors_of(setup.problem, rows, weights)

    def _feed(self, problem: Problem, trained: RankFeed) -> RankFeed:
        """Return points that determine all parameters, where the domain can be sampled."""
        ready, p = self._ready, self._stack.layout.size
        wanted = Points.of(ready.points)
        if math.isnan(problem.domain.volume) or isinstance(wanted.interior, np.ndarray):
            return trained
        components = sum(self._components(problem))
        interior = max(trained.totals[0], math.ceil(_ROWS_PER_PARAMETER * p / components))
        more = {"interior": interior + 1, "method": "sobol", "seed": _SEED + ready.settings.seed}
        return make_feed(
            problem,
            wanted.with_changes(**more, batch_size={}, resample_every=None, adapt=None),
            rank=ready.group.rank,
            size=ready.group.size,
            seed=ready.settings.seed,
            dtype=ready.settings.precision,
        )

    def _components(self, problem: Problem) -> tuple[int, ...]:
        traced = self._stack.setups[0].traced
        known = () if traced is None else traced.components[: len(problem.residuals)]
        return known or (1,)


def factors_of(problem: Problem, rows: Sequence[Array], weights: Sequence[float]) -> Factors:
    """Return the factors of [J r] of each term, [n, p + 1], with these √(w/N) of rows (local)."""
    found: dict[str, list[Array]] = {kind: [rows[0][:0]] for kind in _KINDS}
    for term, each, weight in zip(problem.terms, rows, weights, strict=True):
        kind = _kind_of(problem, term.name)
        found[kind].append(each if kind == _PHYSICS else each / weight)
    physics, known, unknown = (_triangle(found[kind]) for kind in _KINDS)
    counts = sum(map(len, found[_KNOWN])), sum(map(len, found[_UNKNOWN]))
    return Factors(physics, known, unknown, counts)


def linearized_by(factors: Factors, problem: Problem, theta: Array, began: float) -> Linearized:
    """Return the distribution of parameters θ: [p], unknowns last, by the factors there (local)."""
    names = names_of_numbers(problem.unknowns)
    q = len(names)
    solve = partial(free_directions, factors.physics, unknowns=q, tolerance=tolerance_of(problem))
    found, scale, left, reason = solve(factors.data(1.0)), 1.0, math.inf, ""
    known, guessed = factors.rows
    if guessed:
        left = guessed - found.freedom * guessed / (known + guessed)
        if left < 1.0:
            reason = (
                f"noise='unknown' needs more observations than there are degrees of freedom; "
                f"there are {guessed} values and {found.freedom:.0f} degrees of freedom"
            )
        else:
            scale = float(np.linalg.norm(factors.unknown[:, -1])) / math.sqrt(left)
            found = solve(factors.data(scale))
    answer = Linearized(
        steps=found.steps,
        shift=found.shift[len(theta) - q :],
        parameters=np.asarray(theta[len(theta) - q :], np.float64),
        unknowns=dict(problem.unknowns),
        rows=known + guessed,
        chi_square=float(np.sum(factors.data(scale)[:, -1] ** 2)),
        freedom=found.freedom,
        degrees=left,
        scale=scale,
        dependence=found.dependence,
        reason=reason,
        seconds=time.perf_counter() - began,
    )
    answer = replace(answer, steps=_limited(answer))
    return replace(answer, reason=reason or unknown_before_the_end(answer, names))


def _limited(found: Linearized) -> Array:
    """Return the steps, none of which changes an unknown by more than 100 times its value.

    What nothing determines has steps of any size, in which u would be a difference of huge numbers.
    """
    relative = relative_steps(found.steps_of_unknowns, found.slopes, found.values)
    largest = np.max(np.abs(relative), axis=1, initial=_MOST_RELATIVE)
    return found.steps * (_MOST_RELATIVE / largest)[:, None]


def _kind_of(problem: Problem, name: str) -> str:
    """Return the kind of a term's rows."""
    if name not in statistical_terms(problem):
        return _PHYSICS
    return _UNKNOWN if noise_is_unknown(problem, name) else _KNOWN


def noise_is_unknown(problem: Problem, name: str) -> bool:
    """Return whether the deviation of the data of a condition's term was guessed."""
    names = [term.name for term in problem.terms[len(problem.residuals) :]]
    return bool(getattr(problem.conditions[names.index(name)], "noise_unknown", False))


def tolerance_of(problem: Problem) -> float:
    """Return τ, by which the loss L_f + λ χ² lets equation and conditions deviate: λ^½."""
    rows = statistical_terms(problem)
    weights = [term.weight / rows[term.name] for term in problem.terms if term.name in rows]
    return math.sqrt(max(weights))


def _triangle(matrices: Sequence[Array]) -> Array:
    """Return R of the QR factors of matrices below each other, or these if that is less."""
    whole = np.vstack(matrices).astype(np.float64)
    return np.asarray(np.linalg.qr(whole, mode="r")) if len(whole) > whole.shape[1] else whole
