"""Intervals and bands of one trained model, from the linearization at its end."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.unknowns.unknowns import names_of_numbers
from sciml_par.results.linearized import Linearized
from sciml_par.results.member import Member
from sciml_par.results.predict import Predictor, kept_weights
from sciml_par.results.uncertainty import Uncertainty, remarks_on

_STEP = 1e-3
"""Of a deviation, at most, for the derivatives along it."""
_LONGEST = 1e-5
"""Of the parameters, for the same: what the data do not determine has deviations far above u."""

_NOTHING = (
    "train computes it at its end, for the weights that are kept, where observations have known "
    "errors, Observations(…, noise=σ)"
)


def check_level(level: Any, where: str) -> float:
    """Return a level in (0, 1)."""
    good = isinstance(level, int | float) and not isinstance(level, bool) and 0 < level < 1
    if not good:
        raise InputError(
            f"{where}: expected a level in (0, 1), as 0.95 for intervals that hold the truth in 95 "
            f"of 100 experiments; got {level!r}."
        )
    return float(level)


def linearized_uncertainty(member: Member, level: float) -> Uncertainty:
    """Return intervals, covariance and bands of a member (local)."""
    found = member.linearized or Linearized.not_known(_NOTHING)
    names = tuple(names_of_numbers(found.unknowns))
    error, numerical = member.error, np.full(len(names), math.nan)
    if error is not None and error.known:  # of each number by the solution of the equation
        given = [np.abs(np.ravel(each)) for each in error.unknowns.values()]
        numbers = np.concatenate([np.empty(0), *given])
        numerical = numbers if len(numbers) == len(names) else numerical
    true = member.unknown_values.true_numbers
    return Uncertainty(
        method="linearized",
        level=level,
        names=names,
        values=found.values,
        deviations=np.sqrt(np.diag(found.covariance)),
        covariance=found.covariance,
        bounds=widened(found.intervals(level), numerical),
        numerical=numerical,
        remarks=tuple(remarks_on(found, names)),
        reason=found.reason,
        chi_square=found.chi_square,
        degrees=found.rows - found.freedom,
        reach=found.quantile(level),
        true=np.array([true.get(name) for name in names], np.float64),
        prediction=member.prediction,
        observations=member.observations,
        _bands=partial(_bands, member, level),
        _after=partial(_after, member),
        _of_functions={
            each.name: partial(_bands_of_function, member, number, level)
            for number, each in enumerate(member.functions)
        },
    )


def widened(bounds: FloatArray, numerical: FloatArray) -> FloatArray:
    """Return intervals, [q, 2], with the numerical errors that are known, [q], on both sides."""
    return bounds + np.nan_to_num(numerical)[:, None] * np.array([-1.0, 1.0])


def changes_at(member: Member, steps: FloatArray, x: Any) -> tuple[FloatArray, FloatArray]:
    """Return what a member predicts at x, [n, m], and its change for each step: [f, n, m]."""
    predictor = Predictor([member])
    weights = kept_weights(member).astype(np.float64)
    size, count = np.linalg.norm(weights), len(steps)
    lengths = np.linalg.norm(steps, axis=1)
    with np.errstate(divide="ignore"):
        h = np.minimum(_STEP, _LONGEST * (1 + size) / lengths)[:, None]
    points = predictor.points(x).astype(np.float64)
    moved = np.concatenate([weights[None], weights + h * steps, weights - h * steps])
    values = member.field.of_members(moved, points)
    slopes = (values[1 : 1 + count] - values[1 + count :]) / (2 * h[:, :, None])
    return values[0], slopes


def _after(member: Member, x: Any, noise: float) -> FloatArray:
    """Return the deviations of the numbers with one more observation at x, [n, m, q].

    C′ = C − C h hᵀ C/(σ² + hᵀ C h) with h = ∂u(x)/∂a (Sherman and Morrison).
    """
    found = _arrays_of(member)
    _, changes = changes_at(member, found.steps[:, : len(kept_weights(member))], x)
    numbers = found.steps_of_unknowns * found.slopes
    shared = np.einsum("fnm,fq->nmq", changes, numbers)
    spread = np.sum(changes**2, axis=0)[..., None]
    before = np.sum(numbers**2, axis=0)
    return np.sqrt(np.maximum(before - shared**2 / (noise**2 + spread), 0.0))


def _bands(member: Member, level: float, x: Any) -> tuple[FloatArray, FloatArray]:
    found = _arrays_of(member)
    mean, changes = changes_at(member, found.steps[:, : len(kept_weights(member))], x)
    reach = found.quantile(level) * np.linalg.norm(changes, axis=0)
    if member.error is not None and member.error.known:
        error = member.error.values_at(Predictor([member]).points(x))
        reach = reach + np.nan_to_num(np.abs(error))
    return mean - reach, mean + reach


def _bands_of_function(
    member: Member, number: int, level: float, x: Any
) -> tuple[FloatArray, FloatArray]:
    found = _arrays_of(member)
    first = len(kept_weights(member))
    functions = [each.as_member(member) for each in member.functions]
    sizes = [len(kept_weights(each)) for each in functions]
    begin = first + sum(sizes[:number])
    own = found.steps[:, begin : begin + sizes[number]]
    mean, changes = changes_at(functions[number], own, x)
    reach = found.quantile(level) * np.linalg.norm(changes, axis=0)
    return mean - reach, mean + reach


def _arrays_of(member: Member) -> Linearized:
    found = member.linearized
    if found is None or not found.known or member.weights is None:
        raise InputError(
            f"Uncertainty: bands of member {member.number} are not known here: "
            f"{found.reason if found and found.reason else _NOTHING}; of an ensemble they are on "
            f"rank 0."
        )
    return found


def bands_of_draws(
    member: Member, draws: FloatArray, level: float, x: Any
) -> tuple[FloatArray, FloatArray]:
    """Return the interval of u(x) from parameters [M, p] of other members, [n, m] each (local)."""
    found, own = _arrays_of(member), kept_weights(member)
    points = Predictor([member]).points(x).astype(np.float64)
    thetas = np.concatenate([own[None], draws[:, : len(own)]]).astype(np.float64)
    values = member.field.of_members(thetas, points)
    reach = found.quantile(level, draws=len(draws)) * values[1:].std(axis=0, ddof=1)
    return values[0] - reach, values[0] + reach
