"""A second Keras optimizer like a given one, if need be of another class."""

from __future__ import annotations

from typing import Any

from sciml_par.errors import InputError

_NOT_IN_THE_CONFIG = (
    "_exclude_from_weight_decay",
    "_exclude_from_weight_decay_pattern",
    "gradient_aggregator",
    "gradient_transformers",
)


def copy_of(optimizer: Any, into: Any) -> Any:
    """Return an optimizer of class `into` with the configuration of `optimizer`, not built."""
    config = optimizer.get_config()
    rate = raw_learning_rate(optimizer)
    if callable(rate):
        config["learning_rate"] = rate  # a schedule or function, which need not be serializable
    if "inner_optimizer" in config:
        inner = optimizer.inner_optimizer
        config.pop("learning_rate", None)
        config["inner_optimizer"] = copy_of(inner, type(inner))
    try:
        copy = into(**config) if "inner_optimizer" in config else into.from_config(config)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"DistributedOptimizer: {type(optimizer).__name__} cannot be made anew of what its "
            f"get_config() returns ({error}). A class of your own needs a get_config with all "
            f"arguments of its constructor."
        ) from error
    for name in _NOT_IN_THE_CONFIG:
        if name in vars(optimizer):
            setattr(copy, name, vars(optimizer)[name])
    return copy


def raw_learning_rate(optimizer: Any) -> Any:
    """Return the learning rate, or the schedule or function that gives it."""
    legacy = vars(optimizer).get("_hyper", {}).get("learning_rate")
    return getattr(optimizer, "_learning_rate", None) if legacy is None else legacy
