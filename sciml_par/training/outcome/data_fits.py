"""How well the members fit observations with noise, and the observations for figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.evaluation.figures.parts.observed import HELD_OUT, Observed
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknown_arguments import with_part
from sciml_par.results.data_fit import DataFit
from sciml_par.training.loss.objective import field_of
from sciml_par.training.members.stack import Stack
from sciml_par.training.preparation.data_remarks import observed_values, unknown_numbers

FloatArray = npt.NDArray[np.float64]

_MOST_DRAWN, _SEED = 2_000, 421
_NORMAL = 1.4826  # 1 over the median of |r| of normal errors of deviation 1


def fits_of_member(stack: Stack, kept: npt.NDArray[Any], member: int) -> dict[str, DataFit]:
    """Return the `data_fits` of a member with parameters θ: [p] (local)."""
    # Of the member's own problem, as its data differ from those of the stack's first.
    problem = stack.setups[member].problem
    parameters = stack.layout.unflatten(tf.constant(kept))
    return data_fits(problem, partial(field_of, problem, stack.network, parameters), kept.dtype)


def data_fits(problem: Problem, u: Callable[[], Any], dtype: Any) -> dict[str, DataFit]:
    """Return the fits of the observations of a problem by u, by the names of terms (local).

    All observations count once, whatever sample or minibatch of them was trained on.

    u : makes the field.
    """
    pairs = [
        (term, each)
        for each, term in problem.terms_of_conditions
        if isinstance(each, Observations) and each.statistical
    ]
    if not pairs:
        return {}
    field = u()
    lost = unknown_numbers(problem) / observed_values(problem)
    return {term.name: _fit(term, each, field, problem, dtype, lost) for term, each in pairs}


def _fit(
    term: Term, observed: Observations, u: Any, problem: Problem, dtype: Any, lost: float
) -> DataFit:
    arrays = [tf.constant(a, dtype) for a in observed.points(problem.domain, 0)]
    try:
        r, s = (
            tf.reshape(with_part(term.function, each)(u, *arrays), observed.u.shape)
            .numpy()
            .astype(np.float64)
            for each in (observed.with_squares(), observed)
        )
    except Exception:  # an ansatz may hold values for the training points alone
        r = s = np.full(observed.u.shape, math.nan)
    rows, free = len(r), len(r) * (1 - lost)
    robust = observed.loss != "squares"
    squares = _NORMAL**2 * np.median(r**2, axis=0) * rows if robust else np.sum(r**2, axis=0)
    scale = np.sqrt(squares / free) if free > 0 else np.full(r.shape[1], math.nan)
    noise = observed.noise
    assert noise is not None
    unknown = observed.noise_unknown
    return DataFit(
        values=r.size,
        degrees_of_freedom=max(free, 0.0) * r.shape[1],
        chi_square=math.nan if unknown else float(np.sum(squares) / r.size),
        deviation=tuple((scale * noise[0]).tolist()) if unknown else (),
        scale=tuple(scale.tolist()),
        loss=float(term.weight * np.sum(s**2) / observed.number_of_rows),
        robust=robust,
    )


def observed_in(
    problem: Problem, scale: float = 1.0, *, with_errors: bool = False
) -> tuple[Observed, ...]:
    """Return the observations of u, for figures; of very many a random part.

    scale : by what a deviation that is not known is multiplied.
    with_errors : leave out those whose errors have no deviation, and those that are held out.
    """
    found = []
    for condition, term in problem.terms_of_conditions:
        if not isinstance(condition, Observations) or condition.operator is not None:
            continue  # the values of an operator are not those of a component
        if with_errors and condition.noise is None:
            continue
        found.append(_drawn(condition, term.name, scale))
        if condition.held_out is not None and not with_errors:
            found.append(_drawn(condition.held_out, f"{term.name}, {HELD_OUT}", scale))
    return tuple(found)


def _drawn(observed: Observations, label: str, scale: float) -> Observed:
    x = observed.x.reshape(len(observed.u), -1)
    rows = np.arange(len(x))
    if len(rows) > _MOST_DRAWN:
        rows = np.sort(np.random.default_rng(_SEED).choice(rows, _MOST_DRAWN, replace=False))
    noise = np.zeros_like(observed.u) if observed.noise is None else observed.noise
    factor = scale if observed.noise_unknown else 1.0
    components = tuple(map(int, observed.component or ()))
    return Observed(label, x[rows], observed.u[rows], noise[rows] * factor, components)
