"""The learning rate that an optimizer begins with."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.optimizers.schedules import as_schedule


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
