"""The weight of conditions without one of their own, where an optimizer has a default for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from sciml_par.errors import InputError
from sciml_par.problems.conditions.condition import Condition
from sciml_par.problems.problem import Problem
from sciml_par.training.optimizers.optimizer import Optimizer
from sciml_par.training.optimizers.phases import Phase


class ConditionWeight:
    """What the phases of a training take for conditions without a weight of their own.

    An optimizer may have an attribute `condition_weight`, a number. The largest one of all phases
    holds in all of them, so that the loss is the same throughout.
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        known = [(_weight_of(phase.optimizer), _name(phase.optimizer)) for phase in phases]
        given = [(weight, name) for weight, name in known if weight is not None]
        self._weight: float | None
        self._weight, self._of = max(given, key=lambda pair: pair[0], default=(None, ""))
        # Members that share a problem go on to share it. The first one stays alive in the second.
        self._made: dict[int, tuple[Problem, Problem]] = {}
        self._first: Condition | None = None

    def applied_to(self, problem: Problem) -> Problem:
        """Return the problem with that weight, or as it is where the user has said all weights."""
        weight = self._weight
        terms = problem.terms[len(problem.residuals) :]
        own = [
            each
            for each, term in zip(problem.conditions, terms, strict=True)
            if each.weight is None and term.name not in problem.term_weights
        ]
        if weight is None or not own or problem.condition_weight is not None:
            return problem
        if id(problem) not in self._made:
            self._made[id(problem)] = problem, problem.with_condition_weight(weight)
            self._first = self._first or own[0]
        return self._made[id(problem)][1]

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of it, once it has been applied."""
        if self._first is None or self._weight == 1.0:
            return ()
        kind = type(self._first).__name__
        return (
            f"conditions without a weight of their own count {self._weight:g} times, the default "
            f"of {self._of}; {kind}(…, weight=1) changes it.",
        )


def _weight_of(optimizer: Optimizer) -> float | None:
    weight: Any = optimizer.condition_weight
    if weight is None:
        return None
    number = isinstance(weight, Real) and not isinstance(weight, bool)
    if not number or not math.isfinite(weight) or weight < 0:
        raise InputError(
            f"optimizer: condition_weight of {_name(optimizer)} must be a finite number ≥ 0, which "
            f"is the weight of conditions without one of their own, or None; got {weight!r}."
        )
    return float(weight)


def _name(optimizer: Optimizer) -> str:
    return type(optimizer).__name__
