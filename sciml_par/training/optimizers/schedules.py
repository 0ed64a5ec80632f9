"""Learning rates that change with the steps."""

from __future__ import annotations

import itertools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import (
    check_flag,
    check_not_negative,
    check_number,
    check_positive,
    checked_integer,
    is_number,
)
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.identity.described import Described, key_of, text_of

Tensor = Any


class Schedule(Described, ABC):
    """A learning rate as a function of the number of steps that a phase has made.

    A custom schedule is a frozen dataclass derived from this class; or it is derived from
    `keras.optimizers.schedules.LearningRateSchedule`, whose objects are taken as well.
    """

    @abstractmethod
    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        """Return the rate of the update after `step` updates, a scalar of this type (local)."""

    def with_ranks(self, size: int) -> Schedule:
        """Return the same schedule in a training whose loss is shared by `size` ranks (local)."""
        return self


@dataclass(frozen=True)
class Constant(Schedule):
    """The same rate in every step.

    Parameters
    ----------
    value : α > 0.
    """

    value: float

    def __post_init__(self) -> None:
        check_positive("Constant", value=self.value)

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        return tf.constant(self.value, dtype)


@dataclass(frozen=True)
class ExponentialDecay(Schedule):
    """A rate that falls by the same factor every n steps.

        α(t) = α₀ r^{t/s}; with `staircase` r^{⌊t/s⌋}

    which is what `keras.optimizers.schedules.ExponentialDecay` computes, with its names.

    Parameters
    ----------
    initial_learning_rate : α₀ > 0.
    decay_steps : s ≥ 1, in steps.
    decay_rate : r > 0, dimensionless.
    staircase : let the rate fall at multiples of s only.
    """

    initial_learning_rate: float
    decay_steps: int
    decay_rate: float
    _: KW_ONLY
    staircase: bool = False

    def __post_init__(self) -> None:
        name = "ExponentialDecay"
        check_positive(name, initial_learning_rate=self.initial_learning_rate)
        checked_integer(self.decay_steps, f"{name}: decay_steps", least=1)
        check_positive(name, decay_rate=self.decay_rate)
        check_flag(name, "staircase", self.staircase)

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        exponent = tf.cast(step, dtype) / tf.constant(self.decay_steps, dtype)
        exponent = tf.floor(exponent) if self.staircase else exponent
        return self.initial_learning_rate * tf.pow(tf.constant(self.decay_rate, dtype), exponent)


@dataclass(frozen=True)
class CosineDecay(Schedule):
    """Half a period of a cosine, from α₀ down to a α₀ (Loshchilov and Hutter 2017, eq. 5).

        α(t) = α₀ (a + (1−a) (1 + cos(π min(t/s, 1)))/2)

    which is what `keras.optimizers.schedules.CosineDecay` computes, with its names.

    Parameters
    ----------
    initial_learning_rate : α₀ > 0.
    decay_steps : s ≥ 1, in steps; later the rate is a α₀.
    alpha : a in [0, 1], the final rate in units of the initial one.
    """

    initial_learning_rate: float
    decay_steps: int
    alpha: float = 0.0

    def __post_init__(self) -> None:
        name = "CosineDecay"
        check_positive(name, initial_learning_rate=self.initial_learning_rate)
        checked_integer(self.decay_steps, f"{name}: decay_steps", least=1)
        check_number(name, "alpha", self.alpha, "in [0, 1]", lambda a: 0 <= a <= 1)

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        part = tf.minimum(tf.cast(step, dtype) / tf.constant(self.decay_steps, dtype), 1)
        cosine = 0.5 * (1 + tf.cos(tf.constant(math.pi, dtype) * part))
        return self.initial_learning_rate * (self.alpha + (1 - self.alpha) * cosine)


@dataclass(frozen=True)
class PiecewiseConstantDecay(Schedule):
    """Constant rates between given steps.

        α(t) = v_i where b_{i-1} < t ≤ b_i

    which is what `keras.optimizers.schedules.PiecewiseConstantDecay` computes, with its names.

    Parameters
    ----------
    boundaries : b_1 < … < b_k, whole numbers of steps ≥ 0.
    values : v_1, …, v_{k+1} ≥ 0, one more than boundaries.
    """

    boundaries: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        name = "PiecewiseConstantDecay"
        for field in ("boundaries", "values"):
            given = getattr(self, field)
            if not isinstance(given, tuple | list):
                raise InputError(f"{name}: expected {field} to be a list; got {given!r}.")
            object.__setattr__(self, field, tuple(given))
        whole = [is_number(b) and b == int(b) and b >= 0 for b in self.boundaries]
        rising = all(whole) and all(a < b for a, b in itertools.pairwise(self.boundaries))
        if not rising or not whole:
            raise InputError(
                f"{name}: expected boundaries to be rising whole numbers of steps; got "
                f"{self.boundaries!r}."
            )
        if len(self.values) != len(self.boundaries) + 1:
            raise InputError(
                f"{name}: expected one value more than boundaries, "
                f"{len(self.boundaries) + 1}; got {len(self.values)}."
            )
        for value in self.values:
            check_not_negative(name, values=value)

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        step = tf.convert_to_tensor(step)
        rate = tf.constant(self.values[0], dtype)
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            rate = tf.where(step > tf.cast(int(boundary), step.dtype), tf.cast(value, dtype), rate)
        return rate


@dataclass(frozen=True)
class KerasSchedule(Schedule):
    """A schedule of Keras, `keras.optimizers.schedules.LearningRateSchedule`.

    It is called with the step as a tensor, int64, and traced into the compiled loop; Keras' own
    compute in single precision.
    """

    schedule: Any

    def __call__(self, step: Tensor, dtype: Any) -> Tensor:
        rate = tf.cast(self.schedule(tf.cast(step, tf.int64)), dtype)
        return tf.reshape(rate, [])

    def describe(self) -> dict[str, str]:
        values = {name: text_of(value) for name, value in sorted(vars(self.schedule).items())}
        return {"kind": f"keras {type(self.schedule).__qualname__}"} | values

    @property
    def key(self) -> Hashable:
        return (type(self), type(self.schedule), key_of(vars(self.schedule)))


def as_schedule(rate: Any, *, where: str = "learning_rate") -> Schedule:
    """Return a schedule as it is, a number as a constant one, one of Keras within ours."""
    if isinstance(rate, Schedule):
        return rate
    if is_number(rate) and math.isfinite(rate) and rate > 0:
        return Constant(float(rate))
    if is_keras_schedule(rate):
        return KerasSchedule(rate)
    raise InputError(f"{where}: {_refusal(rate)}")


def take_learning_rate(owner: Any) -> None:
    """Check the `learning_rate` of a frozen dataclass, and put one of Keras within ours."""
    schedule = as_schedule(owner.learning_rate, where=type(owner).__name__)
    if isinstance(schedule, KerasSchedule):
        object.__setattr__(owner, "learning_rate", schedule)


def is_keras_schedule(value: Any) -> bool:
    """Return whether it is a schedule of Keras 3."""
    keras = sys.modules.get("keras")  # without which nobody can have made one
    return keras is not None and isinstance(value, keras.optimizers.schedules.LearningRateSchedule)


def _refusal(rate: Any) -> str:
    expected = "expected learning_rate to be a number > 0 or a schedule"
    if isinstance(rate, type):
        return f"{expected}; got the class {rate.__name__}, not an object: {rate.__name__}(…)."
    if isinstance(rate, list | tuple):
        return (
            f"{expected}; got {rate!r}. For rates that change with the steps use "
            f"PiecewiseConstantDecay(boundaries, values) or train's phases=; for a rate for each "
            f"member, Ensemble(learning_rates=…)."
        )
    if callable(rate):
        name = getattr(rate, "__qualname__", type(rate).__qualname__)
        return (
            f"{expected}; got the function {name}. Make it the __call__ of a class derived from "
            f"sciml_par.training.Schedule, or from keras.optimizers.schedules.LearningRateSchedule."
        )
    return f"{expected}, such as ExponentialDecay(1e-3, 1000, 0.9); got {rate!r}."
