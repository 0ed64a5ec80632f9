"""What observations with known errors weigh in a loss whose equations hold exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par._text import one_line
from sciml_par.problems.problem import Problem
from sciml_par.training.weights.loss_weights import LossAt, LossWeights, TermsOfLoss, WeightState
from sciml_par.training.weights.sensitivity import stiffness

Tensor = Any
Array = npt.NDArray[np.float64]

_SHARE, _MOST_SHARE = 0.02, 0.1
"""τ g: by what data violate the equation, relative to what they would, were it as soft."""
_LEAST_SHARE = 1e-3
"""The same for the median of g; smaller ones are beyond the accuracy of networks."""
_STAGES = 8
_LEAD = 1e2
"""How much more observations weigh in the first steps."""
_STEPS_OF_SECOND_ORDER, _STEPS_OF_FIRST_ORDER = 5, 100


def statistical_terms(problem: Problem) -> dict[str, int]:
    """Return the terms whose residuals are errors in units of their deviation, and their rows."""
    terms = problem.terms[len(problem.residuals) :]
    pairs = zip(problem.conditions, terms, strict=True)
    return {term.name: c.number_of_rows for c, term in pairs if c.statistical and term.weight > 0}


class Chosen(NamedTuple):
    """Attributes: λ; why it is a guess, or "" if it is not."""

    value: float
    why: str


def weights_of_noise(problem: Problem, known: dict[Any, Chosen]) -> dict[str, float]:
    """Return the weights of observations with noise that have none, by name (local).

    With χ² = Σ_i ((u(x_i) − u_i)/σ_i)² and L_f the terms of equations and conditions, the loss is
    L = L_f + λ χ². For λ → 0 this is least χ² among all u that satisfy the equation (the penalty
    method; Nocedal and Wright 2006, Numerical Optimization, section 17.1). With g² the largest χ²
    of a change of u for which L_f changes by 1, data violate the equation by λ g² of what they
    would if it weighed nothing; λ = (`_SHARE`/g)², with g from smooth functions; see `stiffness`.
    It is not smaller, since a network must satisfy the equation to λ^½ where unknowns move, and it
    has two digits, so that processes that round differently choose the same.

    known : λ of problems that differ from others in the observed values alone; it is added to.
    """
    rows = statistical_terms(problem)
    open_ = [
        term.name
        for term, each in zip(
            problem.terms[len(problem.residuals) :], problem.conditions, strict=True
        )
        if each.statistical and each.weight is None and term.name not in problem.term_weights
    ]
    if not open_:
        return {}
    physics = [term for term in problem.terms if term.name not in rows]
    if not physics:
        return {name: float(rows[name]) for name in open_}
    # If observations have a weight, a prior without one counts as they do.
    given = [t.weight / rows[t.name] for t in problem.terms if t.name in rows.keys() - open_]
    factor = max(given, default=0.0)
    if not factor:
        key = _key(problem, rows)
        if key not in known:
            known[key] = _chosen(problem, rows)
        factor = known[key].value
    return {name: factor * rows[name] for name in open_}


def _key(problem: Problem, rows: Mapping[str, int]) -> Any:
    """Return a key of all that λ depends on but observed values; of functions, which are objects.

    The caller keeps the problems, so that no other function gets one of these identities.
    """
    data = [each for each in problem.conditions if each.statistical]
    arrays = [getattr(each, name, 0.0) for each in data for name in ("x", "noise")]
    return (
        tuple((id(each.function), each.weight) for each in problem.residuals),
        tuple(id(getattr(each, "operator", None)) for each in data),
        tuple((term.name, term.weight) for term in problem.terms),
        tuple(rows.items()),
        tuple(
            np.asarray(a).tobytes() for a in (*arrays, problem.domain.lower, problem.domain.upper)
        ),
    )


def _chosen(problem: Problem, rows: Mapping[str, int]) -> Chosen:
    """Return λ = τ², with τ by which data in units of their deviations move the equation."""
    physics = [term.name for term in problem.terms if term.name not in rows]
    try:
        ratios, why = stiffness(problem, physics, list(rows)), ""
    except Exception as error:  # a user's residual may not like such functions
        ratios, why = np.array([]), f"{type(error).__name__}: {one_line(error)}"
    if not len(ratios):
        why = why or "no observation depends on the solution"
        ratios = np.array([1 / math.sqrt(sum(rows.values()))])
    softest = float(ratios[0])
    wanted = max(_SHARE * softest, _LEAST_SHARE * float(np.median(ratios)))
    return Chosen(float(f"{min(wanted, _MOST_SHARE * softest) ** 2:.1e}"), why)


@dataclass(frozen=True)
class DataFirst(LossWeights):
    """Observations that weigh more in the first steps, so that unknowns begin near their values.

    λ of these terms is `lead`, and falls to 1 in `stages` equal factors.

    Parameters
    ----------
    names : of the terms.
    lead : λ in the first steps.
    stages : how often it falls.
    every : after how many steps it does.
    """

    names: tuple[str, ...]
    lead: float = _LEAD
    stages: int = _STAGES
    every: int = _STEPS_OF_SECOND_ORDER

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> WeightState:
        return WeightState(self._at(terms, tf.constant(0), members, dtype))

    def update(self, state: WeightState, loss: LossAt, number: Tensor) -> WeightState:
        members, dtype = state.of_terms.shape[0], state.of_terms.dtype
        return WeightState(self._at(loss.terms, number, members, dtype))

    def _at(self, terms: TermsOfLoss, number: Tensor, members: int, dtype: Any) -> Tensor:
        done = tf.minimum(tf.cast(number // self.every, dtype) / self.stages, 1.0)
        factor = tf.cast(self.lead, dtype) ** (1.0 - done)
        chosen = tf.constant([name in self.names for name in terms.names])
        return tf.where(chosen, factor, tf.ones([], dtype)) * tf.ones([members, 1], dtype)


def data_first(weighed: Problem, given: Problem, phases: Sequence[Any]) -> DataFirst | None:
    """Return the strategy where a problem got weights of noise and has equations."""
    names = [
        n
        for n in statistical_terms(weighed)
        if n in weighed.term_weights and n not in given.term_weights
    ]
    if not names or not weighed.residuals:
        return None
    second = all(phase.optimizer.second_order for phase in phases)
    # Not by the number of steps, with which a training that is resumed would be another one.
    every = _STEPS_OF_SECOND_ORDER if second else _STEPS_OF_FIRST_ORDER
    return DataFirst(tuple(names), every=every)
