"""The optimizer of a training, from what the caller gave."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.optimizers.optimizer import Optimizer
from sciml_par.training.optimizers.schedules import is_keras_schedule

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
