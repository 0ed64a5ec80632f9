"""What first layers have in common that make waves of the coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._checks import is_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.layers.activation import ACTIVATIONS, Activation
from sciml_par.networks.propagation.taylor import Layer

ValueOf = Callable[[Any], Any]
"""Gives the tensor that a variable of a model stands for."""

SIN = ACTIVATIONS["sin"]


class Waves(NamedTuple):
    """An embedding as a dense layer σ(x W + b): W [d, w] and b [w]."""

    weight: Any
    bias: npt.NDArray[np.float64]
    activation: Activation

    def layer(self, dtype: Any) -> Layer:
        """Return the same for Taylor propagation."""
        weight, bias = (tf.cast(tf.convert_to_tensor(v), dtype) for v in self[:2])
        return Layer(weight, bias, self.activation)


def live(variable: Any) -> Any:
    """What a Keras variable holds now, or what stands for it while Keras traces a model."""
    return variable.value


def natural(value: Any, what: str) -> int:
    """Let an integer of at least 1 through."""
    if not is_integer(value) or value < 1:
        raise InputError(f"{what} must be an integer of at least 1, got {value!r}")
    return int(value)
