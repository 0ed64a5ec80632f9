"""Copies and states of the optimizers of Keras 3, of Keras 2, and Keras 2's legacy ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.gradients.copied_optimizers import plain_name

_PARTS = ("OptimizerMap", "_DynamicLossScaleState")
"""Classes of objects in Keras' optimizers that hold optimizers or variables."""

_OF_THE_FIRST = ("_agg_helper", "_passes", "_reduction")
"""Attributes of an optimizer that is distributed already."""

_OF_KERAS_3 = ("_iterations", "_learning_rate", "_tracker", "_variables")
"""Attributes that the constructor of Keras 3's base class sets."""


def is_optimizer(given: Any) -> bool:
    """Return whether `given` is an optimizer of any Keras."""
    return hasattr(type(given), "apply_gradients") and hasattr(type(given), "get_config")


def keras_of(optimizer: Any) -> Any:
    """Return an optimizer's package: `keras` (Keras 3), `tf_keras`, or None within TensorFlow."""
    roots = [each.__module__.partition(".")[0] for each in type(optimizer).__mro__]
    return next((sys.modules[root] for root in roots if root in ("keras", "tf_keras")), None)


def is_of_keras_3(optimizer: Any) -> bool:
    """Return whether the optimizer updates in `apply`, and not in `apply_gradients`."""
    keras = keras_of(optimizer)
    return keras is not None and keras.__name__ == "keras"


def state_of(optimizer: Any) -> list[Any]:
    """Return the optimizer's variables; before it is built, only a counter and a rate."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Create the optimizer's variables for those of a model, unless they exist."""
    if not is_of_keras_3(optimizer):
        with tf.init_scope():
            # Legacy optimizers have only the private one.
            make = getattr(optimizer, "_create_all_weights", None) or optimizer.build
            make(list(variables))
    elif not optimizer.built:
        with keras_of(optimizer).name_scope(optimizer.name, caller=optimizer):
            optimizer.build(list(variables))


def copy_of(optimizer: Any, into: Any) -> Any:
    """Return an optimizer of class `into` that shares all but the variables with `optimizer`.

    A custom class needs no `get_config`, and its constructor is not called.
    """
    copy = into.__new__(into)
    copies: dict[int, Any] = {id(optimizer): copy}
    trained = set(map(id, getattr(optimizer, "_trainable_variables", ())))
    skipped: tuple[str, ...] = _OF_THE_FIRST
    if is_of_keras_3(optimizer):
        _begin_like(optimizer, copy, copies)
        skipped += _OF_KERAS_3

    def copied(value: Any) -> Any:
        kind: Any
        if id(value) in copies:
            return copies[id(value)]
        if is_optimizer(value):
            new = copy_of(value, value.__class__)
        elif isinstance(value, tf.Variable) and id(value) not in trained:
            name = value.name.partition(":")[0]
            new = tf.Variable(value, trainable=value.trainable, name=name)
        elif isinstance(value, list | set) or type(value) is tuple:
            kind = next(kind for kind in (list, set, tuple) if isinstance(value, kind))
            new = kind(map(copied, value))
        elif isinstance(value, dict):
            new = {key: copied(item) for key, item in value.items()}
        elif type(value).__name__ in _PARTS:
            kind = type(value)
            new = kind.__new__(kind)
            fill(value, new)
        else:
            return value
        copies[id(value)] = new
        return new

    def fill(source: Any, target: Any) -> None:
        # Keras 2's LossScaleOptimizer passes the tracking of its attributes on to the inner one.
        untracked = ("_trackable", "_trainable_variables", "_trainable_variables_indices")
        for name, value in sorted(vars(source).items(), key=lambda item: item[0] != "_trackable"):
            if name in untracked:
                vars(target)[name] = copied(value)
            elif name in ("name", "_name"):
                setattr(target, name, plain_name(value))
            elif not name.startswith("_self_") and name not in skipped:
                setattr(target, name, copied(value))

    fill(optimizer, copy)
    if not is_of_keras_3(optimizer):  # which tracks all that is assigned
        for name, child in getattr(optimizer, "_self_unconditional_dependency_names", {}).items():
            if isinstance(copies.get(id(child)), tf.__internal__.tracking.Trackable):
                copy._track_trackable(copies[id(child)], name, overwrite=True)
    return copy


def _begin_like(optimizer: Any, copy: Any, copies: dict[int, Any]) -> None:
    """Let Keras 3's base class begin a copy, with variables like those of `optimizer`."""
    rate = raw_learning_rate(optimizer)
    keras_of(optimizer).optimizers.Optimizer.__init__(
        copy, learning_rate=rate if callable(rate) else float(rate), name=plain_name(optimizer.name)
    )
    copies |= {id(rate): copy._learning_rate, id(optimizer._iterations): copy._iterations}
    for variable in vars(optimizer)["_variables"]:
        if id(variable) not in copies:
            copies[id(variable)] = copy.add_variable(
                variable.shape, dtype=variable.dtype, name=variable.name
            )
        copies[id(variable)].assign(variable)


def backend_of(variable: Any) -> Any:
    """Return the `tf.Variable` of a `keras.Variable`, whose `value` may be a cast copy."""
    return getattr(variable, "_value", variable)


def raw_learning_rate(optimizer: Any) -> Any:
    """Return the learning rate, or the schedule or function that gives it."""
    legacy = vars(optimizer).get("_hyper", {}).get("learning_rate")
    return getattr(optimizer, "_learning_rate", None) if legacy is None else legacy
