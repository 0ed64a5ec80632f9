"""What observations with known errors weigh in a loss whose equations hold exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.training.weights.loss_weights import LossAt, LossWeights, TermsOfLoss, WeightState

Tensor = Any
Array = npt.NDArray[np.float64]

SHARE = 1e-6
"""λ g², the largest change that data can force on an equation, relative to theirs."""
_POINTS, _PROBES = 128, 9
_STAGES = 8
_LEAD = 1e4
"""How much more observations weigh in the first steps."""
_STEPS_OF_SECOND_ORDER, _STEPS_OF_FIRST_ORDER = 20, 250


def statistical_terms(problem: Problem) -> dict[str, int]:
    """Return the terms whose residuals are errors in units of their deviation, and their rows."""
    terms = problem.terms[len(problem.residuals) :]
    pairs = zip(problem.conditions, terms, strict=True)
    return {term.name: c.number_of_rows for c, term in pairs if c.statistical and term.weight > 0}


def weights_of_noise(problem: Problem, dtype: str) -> dict[str, float]:
    """Return the weights of observations with noise that have none, by name (local).

    With χ² = Σ_i ((u(x_i) − u_i)/σ_i)² and L_f the terms of equations and conditions, the loss is
    L = L_f + λ χ². For λ → 0 this is least χ² among all u that satisfy the equation (the penalty
    method; Nocedal and Wright 2006, Numerical Optimization, section 17.1). What χ² forces on the
    equation is λ g² of what it would change in u, where g² is the largest χ² of a change of u for
    which L_f = 1; λ = `SHARE`/g² with g² from a few smooth functions.
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
    # A prior beside observations with a weight counts as they do.
    given = [t.weight / rows[t.name] for t in problem.terms if t.name in rows.keys() - open_]
    factor = max(given, default=0.0) or SHARE / _sensitivity(problem, rows, dtype)
    return {name: factor * rows[name] for name in open_}


def _sensitivity(problem: Problem, rows: dict[str, int], dtype: str) -> float:
    """Return g², the median over smooth changes of u of χ² over L_f."""
    points = [
        [tf.constant(array, dtype) for array in term.points(_POINTS)] for term in problem.terms
    ]
    scale = max(map(_size, problem.conditions), default=0.0) or 1.0

    def residuals(number: int) -> list[Array]:
        u = problem.field(_probe(problem, number, scale))
        return [
            t.residual(u, *a).numpy().astype(np.float64)
            for t, a in zip(problem.terms, points, strict=True)
        ]

    ratios = []
    try:
        base = residuals(0)
        for number in range(1, _PROBES + 1):
            changes = [
                np.mean(np.sum((a - b) ** 2, 1))
                for a, b in zip(residuals(number), base, strict=True)
            ]
            of = dict(zip((t.name for t in problem.terms), changes, strict=True))
            weights = {t.name: t.weight for t in problem.terms}
            chi = sum(rows[name] * of[name] for name in rows)
            loss = sum(weights[n] * v for n, v in of.items() if n not in rows)
            ratios.append(chi / loss if loss > 0 else np.nan)
    except Exception:  # a user's residual may not like such functions
        ratios = []
    finite = [r for r in ratios if np.isfinite(r) and r > 0]
    return float(np.median(finite)) if finite else float(sum(rows.values()))


def _size(condition: Condition) -> float:
    if not isinstance(condition, Observations) or not condition.statistical:
        return 0.0
    values = np.sqrt(np.mean(np.square(condition.u)))
    return float(values) if values > 0 else 1.0


def _probe(problem: Problem, number: int, scale: float) -> Field:
    """Return a smooth function of the coordinates; that of number 0 is zero."""
    domain, m = problem.domain, problem.network_outputs
    lower, upper = np.asarray(domain.lower), np.asarray(domain.upper)
    if problem.input_scaling:
        lower, upper = -np.ones_like(lower), np.ones_like(upper)
    d = len(lower)
    drawn = np.random.default_rng(number).normal(size=(1 + 2 * d, m)) * (scale if number else 0.0)

    def value(x: Tensor) -> Tensor:
        t = (x - tf.constant(lower, x.dtype)) / tf.constant(upper - lower, x.dtype)
        basis = tf.concat([tf.ones_like(t[:, :1]), t - 0.5, tf.cos(np.pi * t)], axis=1)
        return basis @ tf.constant(drawn, x.dtype)

    return Field(value)


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

    @classmethod
    def of(cls, names: Sequence[str], steps: int, *, second_order: bool) -> DataFirst:
        """Return the strategy for a training of so many steps."""
        usual = _STEPS_OF_SECOND_ORDER if second_order else _STEPS_OF_FIRST_ORDER
        return cls(tuple(names), every=max(1, min(usual, steps // (3 * _STAGES))))

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
    return DataFirst.of(names, sum(phase.steps for phase in phases), second_order=second)
