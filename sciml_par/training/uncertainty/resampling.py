"""Intervals without linearization: members on perturbed data, and profiles of χ²."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError, TrainingError
from sciml_par.problems.conditions.condition import Arrays, Condition
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import Unknowns, numbers_of
from sciml_par.results.linearized import Linearized
from sciml_par.results.linearized_bands import bands_of_draws, widened
from sciml_par.results.member import Member
from sciml_par.results.uncertainty import PROFILE, RANDOMIZED, Uncertainty
from sciml_par.training.uncertainty.from_rows import noise_is_unknown, weight_of_a_row
from sciml_par.training.uncertainty.retraining import Retraining, Trained
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[Any]

_DISAGREE = 0.2
"""The relative difference of half widths from which the linearization is said to be wrong."""
_OFFSETS = (0.4, 0.8, 1.2, 1.6, 2.0, 2.6, 3.4)
"""Where unknowns are held, in deviations to each side."""
_TIGHT = 30.0
"""A held unknown deviates by about this share of its deviation."""
_PINNED = "held unknowns"


def resampled(
    retraining: Retraining, member: Member, linear: Uncertainty, *, method: str, members: int
) -> Uncertainty:
    """Return intervals by "randomized" or "profile" (collective)."""
    found = member.linearized
    if found is None or not found.known or linear.reason:
        raise InputError(
            f"Result.uncertainty: method={method!r} begins with the linearization, and that is not "
            f"known: {linear.reason}."
        )
    by = _randomized if method == RANDOMIZED else _profile
    return by(retraining, member, found, linear, members)


def _randomized(
    retraining: Retraining, member: Member, found: Linearized, linear: Uncertainty, members: int
) -> Uncertainty:
    """Return the spread of members on data that are perturbed by errors of their deviation.

    That is randomized maximum likelihood (Oliver, He and Reynolds 1996; Bardsley, Solonen, Haario
    and Laine 2014, SIAM J. Sci. Comput. 36(4)): exact for linear problems, and close to the
    posterior for mildly nonlinear ones.
    """
    rng = np.random.default_rng([retraining.arguments.seed, 1_409])
    setup = retraining.ready.stacks[0].setups[0]
    rows = statistical_terms(setup.problem)
    shapes = zip(setup.problem.terms, setup.feed.totals, setup.traced.components, strict=True)
    sizes = {term.name: (n, k) for term, n, k in shapes if term.name in rows}
    scales = {name: _scale(retraining.problem, name, found) for name in sizes}
    # Those of all members are made from one, with whose functions they are traced once.
    base = retraining.problem.with_shifts({n: np.zeros(size) for n, size in sizes.items()})
    problems = [
        base.with_shifts({n: scales[n] * rng.normal(size=size) for n, size in sizes.items()})
        for _ in range(members)
    ]
    trained = retraining.train(problems)
    thetas = trained.parameters[trained.finite]
    if len(thetas) < 3:
        raise TrainingError(
            f"Result.uncertainty: of {members} trainings on perturbed data {len(thetas)} ended "
            f"with a finite loss, too few for a deviation."
        )
    q = len(linear.names)
    values = numbers_of(found.unknowns, thetas[:, thetas.shape[1] - q :])
    covariance = np.atleast_2d(np.cov(values.T)) if q else np.empty((0, 0))
    spread = thetas[:, thetas.shape[1] - q :].std(axis=0, ddof=1)
    bounds = found.around(found.quantile(linear.level, draws=len(thetas)) * spread)
    return _compared(
        replace(
            linear,
            method=RANDOMIZED,
            linearized=linear,
            deviations=np.sqrt(np.diag(covariance)),
            covariance=covariance,
            bounds=widened(bounds, linear.numerical),
            draws=values,
            _bands=partial(bands_of_draws, member, thetas, linear.level),
            _of_functions={},
            _after=None,
        ),
        linear,
        _DISAGREE + 2 / np.sqrt(2 * (len(thetas) - 1)),
    )


def _scale(problem: Problem, name: str, found: Linearized) -> float:
    """Return by what the deviation of a term's data is to be multiplied."""
    return found.scale if noise_is_unknown(problem, name) else 1.0


class _Held(Condition):
    """One row: the numbers less their values, for those that are held in units of a share of σ."""

    kind: ClassVar[str] = "held"
    points_are_given: ClassVar[bool] = True
    on_boundary = False
    statistical = True
    number_of_rows = 1

    def __init__(self, unknowns: Unknowns, domain: Domain, factors: Array, values: Array) -> None:
        self._set_common(on=None, where=None, points=None, name=_PINNED, weight=None)
        self.unknowns = unknowns
        place = (np.asarray(domain.lower) + np.asarray(domain.upper))[None] / 2
        self.arrays: Arrays = (place, factors[None], values[None])

    def points(self, domain: Domain, n: int) -> Arrays:
        return self.arrays

    def residual(self, u: Any, *arrays: tf.Tensor, **unknowns: Any) -> tf.Tensor:
        _, factors, values = arrays
        parts = [tf.reshape(unknowns[name], [-1]) for name in self.unknowns]
        return (tf.concat(parts, axis=0)[None] - values) * factors


def _profile(
    retraining: Retraining, member: Member, found: Linearized, linear: Uncertainty, members: int
) -> Uncertainty:
    """Return where Δχ² of the best fit with an unknown held at a value is that of the level.

    The profile likelihood (Venzon and Moolgavkar 1988, Appl. Statist. 37(1)).
    """
    q, problem = len(linear.names), retraining.problem
    reach = np.sqrt(np.sum(found.steps_of_unknowns**2, axis=0))
    offsets = np.array([*(-o for o in reversed(_OFFSETS)), *_OFFSETS])
    held: list[tuple[Array, Array]] = [(np.zeros(q), found.values)]
    for i in range(q):
        moved = found.parameters + offsets[:, None] * reach * np.eye(q)[i]
        values = numbers_of(found.unknowns, moved)
        held += [(np.eye(q)[i] * _TIGHT / linear.deviations[i], each) for each in values]
    one = _Held(found.unknowns, problem.domain, *held[0])
    base = problem.with_condition(one, weight=weight_of_a_row(problem))
    place = one.arrays[0]
    trained = retraining.train(
        [
            base.with_arrays(_PINNED, (place, factors[None], values[None]))
            for factors, values in held
        ]
    )
    return _of_profiles(problem, trained, found, linear, offsets)


def _of_profiles(
    problem: Problem, trained: Trained, found: Linearized, linear: Uncertainty, offsets: Array
) -> Uncertainty:
    q = len(linear.names)
    chi = np.sum(
        [
            each / _scale(problem, name, found) ** 2
            for name, each in trained.chi_squares.items()
            if name != _PINNED
        ],
        axis=0,
    )
    parameters = trained.parameters[:, trained.parameters.shape[1] - q :]
    numbers = numbers_of(found.unknowns, parameters)
    best, count = float(chi[0]), len(offsets)
    reach = found.quantile(linear.level)
    bounds, profiles, open_ = np.empty((q, 2)), {}, []
    for i, name in enumerate(linear.names):
        own = slice(1 + i * count, 1 + (i + 1) * count)
        good = trained.finite[own]
        rise = np.maximum(chi[own][good] - best, 0.0)
        values = numbers[own, i][good]
        center = numbers[0, i]
        profiles[name] = (
            np.insert(values, np.sum(values < center), center),
            np.insert(rise, np.sum(values < center), 0.0),
        )
        for side in (0, 1):
            end = _crossing(parameters[own, i][good], rise, parameters[0, i], reach, side)
            if end is None:
                open_.append(f"{name} from {'below' if side == 0 else 'above'}")
                bounds[i, side] = np.inf if side else -np.inf
            else:
                moved = parameters[0].copy()
                moved[i] = end
                bounds[i, side] = numbers_of(found.unknowns, moved)[i]
    bounds = np.sort(bounds, axis=1)
    remarks = [f"! the data do not bound {each} at this level." for each in open_]
    answer = replace(
        linear,
        method=PROFILE,
        linearized=linear,
        bounds=widened(bounds, linear.numerical),
        profiles=profiles,
        remarks=(*linear.remarks, *remarks),
        _bands=None,
        _of_functions={},
        _after=None,
    )
    return _compared(answer, linear, _DISAGREE)


def _crossing(p: Array, rise: Array, center: float, reach: float, side: int) -> float | None:
    """Return the parameter on one side where the square root of the rise is `reach`, or None."""
    chosen = p < center if side == 0 else p > center
    distance, roots = np.abs(p[chosen] - center), np.sqrt(rise[chosen])
    order = np.argsort(distance)
    distance, roots = (np.concatenate([[0.0], each[order]]) for each in (distance, roots))
    beyond = np.flatnonzero(roots >= reach)
    if not len(beyond):
        return None
    k = beyond[0]
    share = (reach - roots[k - 1]) / (roots[k] - roots[k - 1])
    away = distance[k - 1] + share * (distance[k] - distance[k - 1])
    return center - away if side == 0 else center + away


def _compared(found: Uncertainty, linear: Uncertainty, most: float) -> Uncertainty:
    """Return the same with a remark where its intervals are not those of the linearization.

    most : the relative difference that is not worth a remark.
    """
    sizes, others = (
        each.deviations if found.method == RANDOMIZED else np.ptp(each.bounds, axis=1)
        for each in (found, linear)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(sizes / others - 1)
    said = [
        f"! {name}: the linearized interval, {a:.6g} to {b:.6g}, differs in width by "
        f"{100 * each:.0f} %: the problem is not linear within its errors. Trust this one."
        for name, each, (a, b) in zip(linear.names, apart, linear.bounds, strict=True)
        if each > most
    ]
    return replace(found, remarks=(*found.remarks, *said))
