"""A momentum that can change while compiled steps run."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.horovod.tensorflow.keras.legacy_session import number_of


def is_legacy(optimizer: Any) -> bool:
    """Whether it is one of Keras 2's legacy optimizers, whose numbers are variables (local)."""
    return "_hyper" in vars(optimizer)


def is_sgd_with_momentum(optimizer: Any) -> bool:
    """Return whether it is the SGD of a Keras, with a momentum that is not 0 (local)."""
    is_sgd = any(each.__name__ == "SGD" for each in type(optimizer).__mro__)
    return is_sgd and number_of(getattr(optimizer, "momentum", 0.0)) != 0


class LegacyMomentum:
    """The momentum of a legacy SGD of Keras 2."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._value = number_of(optimizer.momentum)

    def multiply(self, factor: float) -> None:
        """Let the steps that follow use `factor` times the number (local)."""
        self._optimizer.momentum = self._value * factor


class VariableMomentum(float):
    """A float to Python, and a variable to TensorFlow's graphs.

    Keras' SGD holds its momentum as a number, which a compiled step takes as a constant when it is
    traced. Of this one it takes a variable. To `get_config` and to comparisons it stays the number
    that it was made of, so the optimizer builds and saves as ever.
    """

    def __new__(cls, value: float) -> VariableMomentum:
        self = super().__new__(cls, value)
        self._variable = tf.Variable(float(value), dtype=tf.float64, trainable=False)
        return self

    _variable: Any

    def multiply(self, factor: float) -> None:
        """Let the steps that follow use `factor` times the number (local)."""
        self._variable.assign(float(self) * factor)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        value = tf.identity(self._variable, name=name)
        return value if dtype is None else tf.cast(value, dtype)

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)
