"""Weigh the terms or points of a loss by a strategy within the compiled loop."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sciml_par._checks import check_number, checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem
from sciml_par.training.identity.described import Described
from sciml_par.training.loss.known import GradientsOfTerms, Jacobian, Residuals, Value
from sciml_par.training.loss.objective import StackedObjective
from sciml_par.training.points.feed import Batch, Rows

Tensor = Any
State = dict[str, Any]
"""A tensor [M, …], the same on all ranks, or a tuple of tensors of points, one for each term:
[M, n_t] of this rank's points within a chunk of steps, and outside [M, N_t] of all ranks' points.
Checkpoints hold the tensors in the alphabetical order of their names."""

_SHARE = ("in [0, 1)", lambda v: 0 <= v < 1)
POSITIVE = ("> 0", lambda v: v > 0)
_LIMITS: Mapping[str, Any] = {
    "every": 1,
    "slices": 2,
    "seed": 0,
    **dict.fromkeys(("memory", "decay"), _SHARE),
    **dict.fromkeys(("rate", "power", "temperature"), POSITIVE),
    "epsilon": ("> 0, or a sequence of these", lambda v: v > 0),
    "initial": ("≥ 0", lambda v: v >= 0),
    "lookback": ("in [0, 1]", lambda v: 0 <= v <= 1),
    "tolerance": ("in (0, 1)", lambda v: 0 < v < 1),
}
"""The limits of the fields of strategies, by their names: the least integer, or of a number."""


class TermsOfLoss(NamedTuple):
    """The facts about a loss before the first step."""

    names: tuple[str, ...]  # of the T terms: the equations first, then the conditions
    equations: int  # their number
    points: tuple[int, ...]  # the number of each term on all ranks, in a step: [T]
    coordinates: tuple[str, ...]  # the names of the d coordinates
    lower: tuple[tuple[float, ...], ...]  # the corners of the box around each member's domain
    upper: tuple[tuple[float, ...], ...]  # [M][d]

    @classmethod
    def of(cls, problems: Sequence[Problem], rows_of_ranks: Sequence[Sequence[int]]) -> Self:
        """Return the facts for stacked members, with how many points each rank has: [T][P]."""
        first = problems[0]
        return cls(
            names=tuple(term.name for term in first.terms),
            equations=len(first.residuals),
            points=tuple(map(sum, rows_of_ranks)),
            coordinates=tuple(first.domain.names),
            lower=tuple(tuple(map(float, each.domain.lower)) for each in problems),
            upper=tuple(tuple(map(float, each.domain.upper)) for each in problems),
        )


class LossWeights(Described, ABC):
    """A strategy for the weights λ of a loss; a frozen dataclass.

        L_λ(θ) = Σ_t (w_t/N_t) Σ_i λ_ti |r_t(x_i)|²

    The optimizer minimizes L_λ. Records, stops and the best weights use L, with λ = 1. All
    functions are pure and are traced into the compiled loop. Row j of all results depends on row j
    of the arguments only.

    A field with a name in `limits` is checked: "every", "memory", "decay", "rate", "power",
    "temperature", "epsilon", "initial", "lookback", "tolerance", "slices" or "seed".
    """

    every: int
    """λ changes at steps whose number, counted from 0, is a multiple of it."""
    limits: ClassVar[Mapping[str, Any]] = _LIMITS
    of_points: ClassVar[bool] = False  # whether each point has a λ with a history
    needs_jacobian: ClassVar[bool] = False  # whether `update` calls `kernel_traces`

    def __post_init__(self) -> None:
        where = type(self).__name__
        for name in filter(partial(hasattr, self), self.limits):
            value, limit = getattr(self, name), self.limits[name]
            if isinstance(limit, int):
                checked_integer(value, f"{where}: {name}", least=limit)
                continue
            # An empty sequence is as wrong as None.
            for number in (value or (None,)) if isinstance(value, tuple | list) else (value,):
                check_number(where, name, number, *limit)

    def check(self, terms: TermsOfLoss) -> None:
        """Raise an `InputError` if the strategy does not suit the loss (local)."""

    def start(self, terms: TermsOfLoss, members: int, dtype: Any) -> State:
        """Return the state before the first step; of points, of those of all ranks (local)."""
        return {"factors": tf.ones([members, len(terms.names)], dtype)}

    @abstractmethod
    def update(self, state: State, loss: LossAt, number: Tensor) -> State:
        """Return the state for the step that follows `number` others (collective)."""

    def multipliers(self, state: State, loss: LossAt) -> list[Tensor]:
        """Return λ of each term: [M], or [M, n_t] for this rank's points (local)."""
        return tf.unstack(state["factors"], axis=1)


class Weighed(NamedTuple):
    """The loss of a step, with the weights of the strategy."""

    state: State
    terms: Tensor  # of the loss without the strategy's weights, [M, T]
    batch: Batch  # for the objective that is minimized
    changed: Tensor  # whether the weights may differ from those of the step before; a scalar
    shown: Tensor  # λ of each term, or its mean over the points of all ranks, [M, T]


class Weighting:
    """A strategy that weighs the loss `plain` of the members' problems on the batches of a feed.

    `objective` is the loss that is minimized; `weigh` makes its batches.
    """

    def __init__(
        self, strategy: LossWeights, problems: Sequence[Problem], plain: StackedObjective, feed: Any
    ) -> None:
        self.terms = TermsOfLoss.of(problems, feed.rows_of_ranks)
        self.stacked: Sequence[Any] = feed.stacked
        self.plain = plain
        # All weights of its batches have an axis for the members.
        self.objective = plain.with_stacked([Rows(True, flags[1]) for flags in self.stacked])
        self._strategy, self._rows = strategy, feed.rows_of_ranks

    def prepare(self, parameters: Tensor, batch: Batch) -> None:
        """Make the Jacobian ready, outside of any graph (local)."""
        if self._strategy.needs_jacobian:
            self.plain.prepare(Jacobian, parameters, batch)

    def start(self, members: int, dtype: Any) -> State:
        """Return the state before the first step, with the points of all ranks."""
        return self._strategy.start(self.terms, members, dtype)

    def of_rank(self, state: State) -> State:
        """Return the state for a chunk of steps, with this rank's points."""
        rank = self.plain.ranks.rank
        return self._of_points(lambda v, n: v[:, sum(n[:rank]) :][:, : n[rank]], state)

    def of_all(self, state: State) -> State:
        """Return the state with the points of all ranks, after a chunk of steps (collective)."""
        gather = self.plain.ranks.gather
        return self._of_points(lambda v, n: tf.transpose(gather(tf.transpose(v), n)), state)

    def _of_points(
        self, function: Callable[[Tensor, Sequence[int]], Tensor], state: State
    ) -> State:
        return {
            name: tuple(map(function, value, self._rows)) if isinstance(value, tuple) else value
            for name, value in state.items()
        }

    def weigh(self, parameters: Tensor, state: State, batch: Batch, number: Tensor) -> Weighed:
        """Return the loss of the step that follows `number` others, at θ: [M, p] (collective)."""
        loss = LossAt(self, parameters, batch)
        due = number % self._strategy.every == 0
        if self._strategy.every == 1:
            state = self._strategy.update(state, loss, number)
        else:
            # A loop of at most one pass, in which collectives keep their order.
            _, state = tf.while_loop(
                lambda done, _: due & ~done,
                lambda _, state: (tf.constant(True), self._strategy.update(state, loss, number)),
                (tf.constant(False), state),
            )
        factors = self._strategy.multipliers(state, loss)
        weighed = []
        for rows, flags, factor in zip(batch, self.stacked, factors, strict=True):
            of_points = factor.shape.rank == 2
            weights = _columns(rows, flags) * (factor if of_points else factor[:, None])
            alike = not of_points and rows.weights.shape.rank == int(flags[0])
            weighed.append(Rows(weights[:, 0] if alike else weights, rows.arrays))
        return Weighed(state, loss.values, tuple(weighed), due, self._shown(factors))

    def _shown(self, factors: Sequence[Tensor]) -> Tensor:
        """Return means over the points of all ranks, [M, T] (collective for weights of points)."""
        if all(factor.shape.rank == 1 for factor in factors):
            return tf.stack(factors, axis=1)
        first = float(self.plain.ranks.rank == 0)  # one rank adds the multiplier of a term
        parts = [
            f * first if f.shape.rank == 1 else tf.reduce_sum(f, axis=1) / max(1, count)
            for f, count in zip(factors, self.terms.points, strict=True)
        ]
        return self.plain.ranks.sum(tf.stack(parts, axis=1))


class LossAt:
    """The loss of the problem before a step, without the weights of the strategy.

    `values` are its terms, [M, T]. Results that are reduced over `ranks` are the same on all.
    """

    def __init__(self, weighting: Weighting, parameters: Tensor, batch: Batch) -> None:
        self._weighting, self._parameters, self._batch = weighting, parameters, batch
        self.terms, self.ranks = weighting.terms, weighting.plain.ranks
        self.values: Tensor = self._at(Value).terms

    def _at(self, kind: Any) -> Any:
        return self._weighting.plain.evaluate(kind, self._parameters, self._batch)

    def gradients(self) -> Tensor:
        """Return the gradient of each term by the parameters, [M, T, p] (collective)."""
        return self._at(GradientsOfTerms).gradients

    def kernel_traces(self) -> Tensor:
        """Return Σ_i |∂ρ_ti/∂θ|² of each term, with ρ = √(w/N) r, [M, T] (collective)."""
        traces = [tf.reduce_sum(tf.square(j), [1, 2]) for j in self._at(Jacobian).jacobian]
        return self.ranks.sum(tf.stack(traces, axis=1))

    def squares(self) -> list[Tensor]:
        """Return |r_t(x_i)|² without any weight at this rank's points, [M, n_t] for each term."""
        members, dtype = self._parameters.shape[0], self._parameters.dtype
        batch = tuple(Rows(tf.ones([members], dtype), rows.arrays) for rows in self._batch)
        known = self._weighting.objective.evaluate(Residuals, self._parameters, batch)
        found = []
        for r, rows, flags in zip(known.residuals, batch, self._weighting.stacked, strict=True):
            n = rows.arrays[0].shape[int(flags[1][0])]
            # A component lies after the other.
            each = tf.reshape(r, [members, -1, n]) if n else tf.zeros([members, 1, 0], dtype)
            found.append(tf.reduce_sum(tf.square(each), axis=1))
        return found

    def weighted_squares(self) -> list[Tensor]:
        """Return w_t |r_t(x_i)|² at this rank's points, [M, n_t] for each term."""
        of_terms = zip(
            self.squares(), self._batch, self._weighting.stacked, self.terms.points, strict=True
        )
        return [_columns(rows, flags) * n * squares for squares, rows, flags, n in of_terms]

    def coordinate(self, axis: int) -> list[Tensor]:
        """Return a coordinate of this rank's points, [n_t]; [M, n_t] where members differ."""
        return [rows.arrays[0][..., axis] for rows in self._batch]


def _columns(rows: Rows, flags: Any) -> Tensor:
    """Return the weights of a batch with axes for members and points, either of which may be 1."""
    weights = rows.weights if flags[0] else rows.weights[None]
    return weights if weights.shape.rank == 2 else weights[:, None]


def quotient(dividend: Tensor, divisor: Tensor, otherwise: Tensor) -> Tensor:
    """Return the quotient where the divisor is positive and the result finite.

    A term that is zero everywhere, such as one that an ansatz satisfies, has no scale.
    """
    found = dividend / tf.where(divisor > 0, divisor, tf.ones_like(divisor))
    return tf.where((divisor > 0) & tf.math.is_finite(found), found, otherwise)


def strategy_of(weights: Any, problem: Problem) -> LossWeights | None:
    """Return the strategy that is given; None for numbers and without weights."""
    if weights is None or isinstance(weights, Mapping | LossWeights):
        return weights if isinstance(weights, LossWeights) else None
    names = [term.name for term in problem.terms]
    example: dict[str, Any] = dict.fromkeys(names, 1.0)
    text = (
        f"expected weights to be numbers by the names of terms, as {example!r}, or "
        f"GradientAnnealing(), GradientNorm(), NTKWeights(), ReLoBRaLo(), SelfAdaptive(), "
        f"ResidualBasedAttention() or Causal(); got {weights!r}."
    )
    if inspect.isclass(weights) and issubclass(weights, LossWeights):
        name = weights.__name__
        text = f"weights is the class {name}; give one of its objects, weights={name}()."
    if isinstance(weights, list | tuple | np.ndarray):
        if len(weights) == len(names):
            example = dict(zip(names, weights, strict=True))
        text = (
            f"weights go by the names of the terms of the loss, not by their order: "
            f"weights={example!r}."
        )
    raise InputError(f"train: {text}")


def check_strategy(strategy: LossWeights, terms: TermsOfLoss, *, same_points: bool) -> None:
    """Check that a strategy suits the loss and the points."""
    strategy.check(terms)
    if strategy.of_points and not same_points:
        raise InputError(
            f"train: {type(strategy).__name__} carries a weight for each point from step to step, "
            f"but with batch_size, resample_every or adapt the points change. Use the same points "
            f"at all steps, or weights of terms, such as GradientNorm()."
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
