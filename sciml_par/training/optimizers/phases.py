"""The phases of a training, from what the caller gave: which optimizer makes how many steps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.optimizers.optimizer import FirstOrder, Optimizer
from sciml_par.training.optimizers.schedules import as_schedule, is_keras_schedule

_BY_NAME = {
    "adam": "Adam",
    "adamw": "AdamW",
    "sgd": "SGD",
    "rmsprop": "RMSprop",
    "lbfgs": "LBFGS",
    "lm": "LevenbergMarquardt",
    "levenbergmarquardt": "LevenbergMarquardt",
    "ssbroyden": "SSBroyden",
    "spring": "SPRING",
    "leastsquares": "LeastSquares",
}
_EXPECTED = "expected an optimizer, such as Adam(1e-3), LBFGS() or keras.optimizers.Adam(1e-3)"


@dataclass(frozen=True)
class Phase:
    """Some steps of one optimizer, as it was given."""

    optimizer: Optimizer
    steps: int

    @property
    def program(self) -> Optimizer:
        """The optimizer that is compiled: of those with a constant learning rate that with 1.

        The loop multiplies it by `rate`, so that one compiled loop serves all constant rates.
        """
        given: Any = self.optimizer
        return given if self.rate == 1.0 else replace(given, learning_rate=1.0)

    @property
    def rate(self) -> float:
        """What the learning rate of `program` is to be multiplied by."""
        given: Any = getattr(self.optimizer, "learning_rate", None)
        constant = isinstance(self.optimizer, FirstOrder) and isinstance(given, float | int)
        return float(given) if constant else 1.0


def as_phases(optimizer: Any, steps: int | None, phases: Sequence[Any] | None) -> tuple[Phase, ...]:
    """Return the phases that are asked for, by one optimizer and its steps, or as pairs."""
    if phases is None:
        taken = as_optimizer(optimizer)
        return _phases(taken, taken.default_steps if steps is None else steps)
    if optimizer is not None or steps is not None:
        raise InputError(
            "train: give phases=[(optimizer, steps), …], or optimizer= and steps=, not both."
        )
    pairs = list(phases) if isinstance(phases, list | tuple) else [phases]
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise InputError(
            f"train: expected phases to be a list of pairs (optimizer, steps), as "
            f"[(Adam(1e-3), 5000), (Adam(1e-4), 2000)]; got {phases!r}."
        )
    return tuple(chain.from_iterable(_phases(*pair) for pair in pairs))


def _phases(optimizer: Any, steps: Any) -> tuple[Phase, ...]:
    taken, count = as_optimizer(optimizer), checked_integer(steps, "train: steps", least=1)
    return tuple(Phase(*each) for each in taken.in_phases(count))


def initial_rate(optimizer: Any) -> float:
    """Return the learning rate of the first step, of which members' rates are multiples."""
    rate = getattr(optimizer, "learning_rate", None)
    if rate is None:
        rate = getattr(optimizer, "config", {}).get("learning_rate")
    if rate is None:
        raise InputError(
            f"Ensemble: learning_rates need an optimizer with a learning rate, which "
            f"{type(optimizer).__name__} has not."
        )
    return float(as_schedule(rate)(tf.constant(0), tf.float64))


def as_optimizer(value: Any) -> Optimizer:
    """Return the optimizer that `train` was asked for: ours, or any of Keras 3."""
    if value is None:
        return Adam()
    if isinstance(value, type):
        raise InputError(
            f"optimizer: {_EXPECTED}; got the class {value.__name__}, not an object: "
            f"{value.__name__}(…)."
        )
    if isinstance(value, Optimizer):
        return value
    if isinstance(value, str):
        kind = _BY_NAME.get("".join(filter(str.isalnum, value.lower())))
        if kind is None:
            known = ", ".join(map(repr, ("auto", *_BY_NAME)))
            raise InputError(f"optimizer: {_EXPECTED}, or one of {known}; got {value!r}.")
        made: Optimizer = getattr(importlib.import_module("sciml_par.training"), kind)()
        return made
    keras = sys.modules.get("keras")  # without which nobody can have made one
    if keras is not None and isinstance(value, keras.optimizers.Optimizer):
        return _of_keras(value, keras)
    raise InputError(f"optimizer: {_refusal(value)}")


def _of_keras(optimizer: Any, keras: Any) -> Optimizer:
    from sciml_par.training.optimizers.keras_optimizer import KerasOptimizer

    name = type(optimizer).__name__
    if isinstance(optimizer, DistributedUpdate):
        raise InputError(
            f"optimizer: got a DistributedOptimizer around {name}; train reduces gradients over "
            f"the ranks automatically. Pass the optimizer without it."
        )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise InputError(
            f"optimizer: a LossScaleOptimizer is for losses in half precision, which train does "
            f"not compute; pass the {type(optimizer.inner_optimizer).__name__} inside, its "
            f"inner_optimizer."
        )
    several = getattr(keras.optimizers, "MultiOptimizer", None)
    if several is not None and isinstance(optimizer, several):
        raise InputError(
            "optimizer: a MultiOptimizer, which has an optimizer for each part of the network, "
            "cannot be used in train's compiled loop; pass one optimizer for all parameters."
        )
    rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(rate, type):
        raise InputError(
            f"optimizer: the learning_rate of {name} is the class {rate.__name__}, not an object: "
            f"{rate.__name__}(…)."
        )
    if callable(rate) and not is_keras_schedule(rate):
        raise InputError(
            f"optimizer: the learning_rate of {name} is a function, which a compiled loop would "
            f"call once only; use a number or a keras.optimizers.schedules.LearningRateSchedule."
        )
    if getattr(optimizer, "_exclude_from_weight_decay", None):
        raise InputError(
            f"optimizer: {name} excludes variables from weight decay by var_list, and train makes "
            f"its own networks; name them: exclude_from_weight_decay(var_names=['bias'])."
        )
    return KerasOptimizer.of(optimizer)


def _refusal(value: Any) -> str:
    kind = type(value)
    roots = [each.__module__.partition(".")[0] for each in kind.__mro__]
    if hasattr(kind, "apply_gradients") or isinstance(value, tf.compat.v1.train.Optimizer):
        return (
            f"{_EXPECTED}; got {kind.__name__} of {roots[0]}, which is not of Keras 3. Use that of "
            f"`import keras`."
        )
    if callable(getattr(value, "update", None)) and callable(getattr(value, "init", None)):
        return (
            f"{_EXPECTED}; got {kind.__name__} of {roots[0]}. A custom optimizer is a frozen "
            f"dataclass derived from sciml_par.training.FirstOrder."
        )
    if isinstance(value, tuple | list):
        return f"{_EXPECTED}; got {value!r}. For several phases use phases=[(Adam(1e-3), 5000), …]."
    if hasattr(kind, "compile") and hasattr(kind, "fit"):
        return f"{_EXPECTED}; got {kind.__name__}, a model. Pass its optimizer: model.optimizer."
    return (
        f"{_EXPECTED}; got {value!r}. A custom optimizer derives from "
        f"sciml_par.training.FirstOrder."
    )
