"""When a training ends before its last step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sciml_par._checks import check_fraction, check_not_negative, checked_integer
from sciml_par._other_names import ByName
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.loop.loop import Limits

_NEVER = 2**31 - 1


@dataclass(frozen=True)
class TargetLoss(ByName):
    """End a model when its loss has come down to a value.

    The loss is that of a step, and with minibatches the mean over an epoch. The model keeps the
    weights that have that loss.

    Parameters
    ----------
    value : the loss, dimensionless, at least 0.
    """

    value: float

    def __post_init__(self) -> None:
        check_not_negative("TargetLoss", value=self.value)


@dataclass(frozen=True)
class NoProgress(ByName):
    """End a phase of a model when its loss has not fallen for a number of steps.

    In a training of several phases the next one begins; in the last, the model ends. (What Keras
    calls EarlyStopping.)

    Parameters
    ----------
    steps : how many.
    least_progress : the share by which the loss must be below the last that counted as progress,
        in [0, 1), dimensionless.
    """

    steps: int
    _: KW_ONLY
    least_progress: float = 1e-3

    def __post_init__(self) -> None:
        steps = checked_integer(self.steps, "NoProgress: steps", least=1)
        object.__setattr__(self, "steps", steps)
        check_fraction("NoProgress", least_progress=self.least_progress)


@dataclass(frozen=True, kw_only=True)
class WallTime(ByName):
    """End the whole training when so much time has passed since it began, compilation included.

    It is seen between chunks of steps, about twice a second, by rank 0's clock.

    Parameters
    ----------
    seconds, minutes, hours : are added.
    """

    seconds: float = 0.0
    minutes: float = 0.0
    hours: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative("WallTime", seconds=self.seconds, minutes=self.minutes, hours=self.hours)
        if self.total == 0:
            raise InputError("WallTime: expected a time > 0, as WallTime(hours=8); got none.")

    @property
    def total(self) -> float:
        """In seconds."""
        return float(self.seconds + 60 * self.minutes + 3600 * self.hours)


Stop = TargetLoss | NoProgress | WallTime


@dataclass(frozen=True)
class Stops:
    """The stops of one training, at most one of each kind."""

    target: TargetLoss | None = None
    progress: NoProgress | None = None
    time: WallTime | None = None

    @property
    def seconds(self) -> float:
        """The time that the training may take."""
        return math.inf if self.time is None else self.time.total

    def limits(self, dtype: str) -> Limits:
        """Return the limits for the compiled loop."""
        return Limits(
            target_loss=tf.constant(-1.0 if self.target is None else self.target.value, dtype),
            patience=tf.constant(_NEVER if self.progress is None else self.progress.steps),
            least_progress=tf.constant(
                0.0 if self.progress is None else self.progress.least_progress, dtype
            ),
        )


def as_stops(stop: Stop | Sequence[Stop] | None) -> Stops:
    """Return one stop or several as a checked tuple; empty for None."""
    if stop is None:
        return Stops()
    given = list(stop) if isinstance(stop, list | tuple) else [stop]
    names = {TargetLoss: "target", NoProgress: "progress", WallTime: "time"}
    found: dict[str, Any] = {}
    for each in given:
        name = names.get(type(each))
        if name is None:
            raise InputError(_not_a_stop(each))
        if name in found:
            raise InputError(f"train: stop has two of {type(each).__name__}; give one of a kind.")
        found[name] = each
    return Stops(**found)


def _not_a_stop(value: Any) -> str:
    if isinstance(value, type):
        example = f"the class {value.__name__}; make an object of it, as NoProgress(2000)"
    elif type(value).__module__.partition(".")[0] in ("keras", "tf_keras"):
        example = f"{type(value).__name__} of Keras; NoProgress is its EarlyStopping here"
    else:
        example = repr(value)
    return (
        f"train: expected stop to be TargetLoss(1e-6), NoProgress(2000), WallTime(hours=8) of "
        f"sciml_par.training, or a list of these; got {example}."
    )
