"""Read and check the argument `weights`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem
from sciml_par.training.weights.loss_weights import LossWeights, TermsOfLoss

_STRATEGIES = (
    "GradientAnnealing(), GradientNorm(), NTKWeights(), ReLoBRaLo(), SelfAdaptive(), "
    "ResidualBasedAttention() or Causal()"
)


def strategy_of(weights: Any, problem: Problem) -> LossWeights | None:
    """Return the strategy that is given; None for numbers and without weights."""
    if weights is None or isinstance(weights, Mapping | LossWeights):
        return weights if isinstance(weights, LossWeights) else None
    if inspect.isclass(weights) and issubclass(weights, LossWeights):
        raise InputError(
            f"train: weights is the class {weights.__name__}; give one of its objects, "
            f"weights={weights.__name__}()."
        )
    names = [term.name for term in problem.terms]
    example: dict[str, Any] = dict.fromkeys(names, 1.0)
    if isinstance(weights, list | tuple | np.ndarray):
        if len(weights) == len(names):
            example = dict(zip(names, weights, strict=True))
        raise InputError(
            f"train: weights go by the names of the terms of the loss, not by their order: "
            f"weights={example!r}."
        )
    raise InputError(
        f"train: expected weights to be numbers by the names of terms, as {example!r}, or "
        f"{_STRATEGIES}; got {weights!r}."
    )


def check_strategy(strategy: LossWeights, terms: TermsOfLoss, *, same_points: bool) -> None:
    """Check that a strategy suits the loss and the points."""
    strategy.check(terms)
    if strategy.of_points and not same_points:
        name = type(strategy).__name__
        raise InputError(
            f"train: {name} carries a weight for each point from step to step, but with "
            f"batch_size, resample_every or adapt the points change. Use the same points at all "
            f"steps, or weights of terms, such as GradientNorm()."
        )


def check_names(problems: Sequence[Problem]) -> None:
    """Check that the terms of stacked members have the same names."""
    names = [tuple(term.name for term in each.terms) for each in problems]
    other = next((each for each in names if each != names[0]), None)
    if other is not None:
        raise InputError(
            f"train: a strategy of weights needs terms of the same names in all members; got "
            f"{', '.join(names[0])} and {', '.join(other)}. Give the residuals and conditions of "
            f"all problems the same names."
        )


def terms_of_loss(problems: Sequence[Problem], points: Sequence[int]) -> TermsOfLoss:
    """Return the facts for a strategy about the loss of stacked members."""
    first = problems[0]
    return TermsOfLoss(
        names=tuple(term.name for term in first.terms),
        equations=len(first.residuals),
        points=tuple(points),
        coordinates=tuple(first.domain.names),
        lower=tuple(tuple(map(float, each.domain.lower)) for each in problems),
        upper=tuple(tuple(map(float, each.domain.upper)) for each in problems),
    )
