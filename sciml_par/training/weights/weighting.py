"""Weigh the loss by a strategy within the compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Jacobian, Value
from sciml_par.training.loss.objective import StackedObjective
from sciml_par.training.points.feed import Batch, Rows
from sciml_par.training.weights.loss_weights import LossAt, LossWeights, TermsOfLoss, WeightState

Tensor = Any


@dataclass(frozen=True)
class Weighed:
    """The loss of a step, with the weights of the strategy.

    Attributes
    ----------
    terms : of the loss without the strategy's weights, [M, T].
    batch : for the objective that is minimized.
    changed : whether the weights may differ from those of the step before; a scalar.
    shown : λ of each term, or its mean over the points of all ranks, [M, T].
    """

    state: WeightState
    terms: Tensor
    batch: Batch
    changed: Tensor
    shown: Tensor


class Weighting:
    """A strategy that weighs one objective.

    Parameters
    ----------
    plain : the loss with the weights of residuals and conditions alone.
    stacked : of the batches of `plain`.
    rows_of_ranks : how many points each rank has in a step, for each term: [T][P].

    Attributes
    ----------
    objective : the loss that is minimized; `weigh` makes its batches.
    """

    def __init__(
        self,
        strategy: LossWeights,
        terms: TermsOfLoss,
        plain: StackedObjective,
        *,
        stacked: Sequence[Any],
        rows_of_ranks: Sequence[Sequence[int]],
    ) -> None:
        self._strategy, self._terms, self._plain = strategy, terms, plain
        self._stacked = tuple(stacked)
        self._rows = tuple(tuple(rows) for rows in rows_of_ranks)
        # All weights of its batches have an axis for the members.
        self.objective = plain.with_stacked([Rows(True, flags[1]) for flags in self._stacked])

    def prepare(self, parameters: Tensor, batch: Batch) -> None:
        """Make the Jacobian ready, outside of any graph (local)."""
        if self._strategy.needs_jacobian:
            self._plain.prepare(Jacobian, parameters, batch)

    def start(self, members: int, dtype: Any) -> WeightState:
        """Return the state before the first step, with the points of all ranks."""
        return self._strategy.start(self._terms, members, dtype)

    def of_rank(self, state: WeightState) -> WeightState:
        """Return the state for a chunk of steps, with this rank's points."""
        own = []
        for values, rows in zip(state.of_points, cycle(self._rows), strict=False):
            ends = [0, *accumulate(rows)]
            own.append(values[:, ends[self._plain.ranks.rank] : ends[self._plain.ranks.rank + 1]])
        return state._replace(of_points=tuple(own))

    def of_all(self, state: WeightState) -> WeightState:
        """Return the state with the points of all ranks, after a chunk of steps (collective)."""
        if self._plain.ranks.size == 1:
            return state
        whole = [
            tf.transpose(self._plain.ranks.gather(tf.transpose(values), rows))
            for values, rows in zip(state.of_points, cycle(self._rows), strict=False)
        ]
        return state._replace(of_points=tuple(whole))

    def weigh(
        self, parameters: Tensor, state: WeightState, batch: Batch, number: Tensor
    ) -> Weighed:
        """Return the loss of the step that follows `number` others, at θ: [M, p] (collective)."""
        values = self._plain.evaluate(Value, parameters, batch).terms
        loss = LossAt(
            self._terms, values, self._plain, self.objective, self._stacked, parameters, batch
        )
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
        multipliers = self._strategy.multipliers(state, loss)
        return Weighed(
            state,
            values,
            self._weighted(batch, multipliers),
            due,
            self._shown(multipliers),
        )

    def _weighted(self, batch: Batch, multipliers: Sequence[Tensor]) -> Batch:
        found = []
        for rows, flags, factor in zip(batch, self._stacked, multipliers, strict=True):
            weights = rows.weights if flags[0] else rows.weights[None]
            if weights.shape.rank < factor.shape.rank:
                weights = weights[:, None]
            elif weights.shape.rank > factor.shape.rank:
                factor = factor[:, None]
            found.append(Rows(weights * factor, rows.arrays))
        return tuple(found)

    def _shown(self, multipliers: Sequence[Tensor]) -> Tensor:
        """Return means over the points of all ranks, [M, T] (collective for weights of points)."""
        if all(factor.shape.rank == 1 for factor in multipliers):
            return tf.stack(multipliers, axis=1)
        first = self._plain.ranks.rank == 0
        parts = [
            # One rank adds the multiplier of a term.
            factor * float(first)
            if factor.shape.rank == 1
            else tf.reduce_sum(factor, axis=1) / max(1, sum(rows))
            for factor, rows in zip(multipliers, self._rows, strict=True)
        ]
        return self._plain.ranks.sum(tf.stack(parts, axis=1))
