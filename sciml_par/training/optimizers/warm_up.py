"""A learning rate that rises before it follows a schedule."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from sciml_par._checks import check_flag, check_not_negative, checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.optimizers.schedules import Schedule, as_schedule, take_learning_rate

Tensor = Any


@dataclass(frozen=True)
class WarmUp(Schedule):
    """A rate that rises in a straight line at first, and then follows another schedule.

        α(t) = α_s + (β(0) − α_s) t/s    for t < s,    β(t − s) from then on

    Parameters
    ----------
    learning_rate : β, a number or a schedule, which begins when the rise has ended.
    steps : s ≥ 1, in steps.
    start : α_s ≥ 0, the rate of the first step.
    scale_by_ranks : let the rate rise from β(0) to P β(0), and be P β(t − s) from then on, where P
        ranks share the loss (Goyal et al. 2017, section 2.2). That is meant for minibatches whose
        size is that of each rank times P; where all steps use the same points on any number of
        ranks there is no reason for it. `start` is then left out.

    Examples
    --------
    >>> from sciml_par.training import Adam, CosineDecay, WarmUp
    >>> Adam(WarmUp(CosineDecay(1e-3, 9_000), 1_000)).learning_rate.steps
    1000
    """

    learning_rate: float | Schedule
    steps: int
    _: KW_ONLY
    start: float = 0.0
    scale_by_ranks: bool = False

    def __post_init__(self) -> None:
        take_learning_rate(self)
        checked_integer(self.steps, "WarmUp: steps", least=1)
        check_not_negative("WarmUp", start=self.start)
        check_flag("WarmUp", "scale_by_ranks", self.scale_by_ranks)
        if self.scale_by_ranks and self.start:
            raise InputError(
                f"WarmUp: with scale_by_ranks=True the rate rises from that of one rank; leave out "
                f"start={self.start!r}, or scale_by_ranks."
            )

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        if self.scale_by_ranks:
            raise InputError(
                "WarmUp: with scale_by_ranks=True the rate depends on the number of ranks, which "
                "train sets; to see the rates of P ranks, call .with_ranks(P) first."
            )
        after = as_schedule(self.learning_rate)
        zero = tf.zeros_like(step)
        target = after(zero, dtype)
        part = tf.cast(step, dtype) / tf.constant(self.steps, dtype)
        rising = self.start + (target - self.start) * part
        later = after(tf.maximum(step - self.steps, zero), dtype)
        return tf.where(tf.convert_to_tensor(step) < self.steps, rising, later)

    def with_ranks(self, size: int) -> Schedule:
        after = as_schedule(self.learning_rate).with_ranks(size)
        if not self.scale_by_ranks:
            return replace(self, learning_rate=after)
        return _RankWarmUp(after, self.steps, size)


@dataclass(frozen=True)
class _RankWarmUp(Schedule):
    """From the rate of one rank to P times it, as `WarmUp` says."""

    learning_rate: Schedule
    steps: int
    ranks: int

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        zero = tf.zeros_like(step)
        part = tf.minimum(tf.cast(step, dtype) / tf.constant(self.steps, dtype), 1)
        factor = 1 + (self.ranks - 1) * part
        return factor * self.learning_rate(tf.maximum(step - self.steps, zero), dtype)
