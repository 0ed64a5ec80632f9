"""Smooth activations σ with σ′ and σ″ in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError

Derivatives = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


@dataclass(frozen=True)
class Activation:
    """An activation with its first two derivatives.

    Parameters
    ----------
    name : str
    value : callable
        z -> σ(z), pointwise.
    derivatives : callable
        z -> (σ(z), σ′(z), σ″(z)), pointwise, sharing the costly part.
    """

    name: str
    value: Callable[[tf.Tensor], tf.Tensor]
    derivatives: Callable[[tf.Tensor], Derivatives]


def _tanh(z: tf.Tensor) -> Derivatives:
    a = tf.tanh(z)
    slope = 1 - a * a
    return a, slope, -2 * a * slope


def _sin(z: tf.Tensor) -> Derivatives:
    a = tf.sin(z)
    return a, tf.cos(z), -a


def _sigmoid(z: tf.Tensor) -> Derivatives:
    a = tf.sigmoid(z)
    slope = a * (1 - a)
    return a, slope, slope * (1 - 2 * a)


def _softplus(z: tf.Tensor) -> Derivatives:
    s = tf.sigmoid(z)
    return tf.nn.softplus(z), s, s * (1 - s)


def _swish_value(z: tf.Tensor) -> tf.Tensor:
    # tf.nn.swish carries a custom gradient; the product differentiates to any order like the rest.
    return z * tf.sigmoid(z)


def _swish(z: tf.Tensor) -> Derivatives:
    s = tf.sigmoid(z)
    bump = s * (1 - s)
    return z * s, s + z * bump, bump * (2 + z * (1 - 2 * s))


def _gelu_value(z: tf.Tensor) -> tf.Tensor:
    return z * _normal_cdf(z)


def _gelu(z: tf.Tensor) -> Derivatives:
    cdf = _normal_cdf(z)
    density = tf.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return z * cdf, cdf + z * density, density * (2 - z * z)


def _normal_cdf(z: tf.Tensor) -> tf.Tensor:
    return 0.5 * (1 + tf.math.erf(z / math.sqrt(2)))


def _linear(z: tf.Tensor) -> Derivatives:
    return z, tf.ones_like(z), tf.zeros_like(z)


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "tanh": Activation("tanh", tf.tanh, _tanh),
        "sin": Activation("sin", tf.sin, _sin),
        "sigmoid": Activation("sigmoid", tf.sigmoid, _sigmoid),
        "softplus": Activation("softplus", tf.nn.softplus, _softplus),
        "swish": Activation("swish", _swish_value, _swish),
        "gelu": Activation("gelu", _gelu_value, _gelu),
    }
)
"""The activations by name; swish is z·sigmoid(z), gelu is z·Φ(z) with the exact normal Φ."""

LINEAR = Activation("linear", lambda z: z, _linear)
"""σ(z) = z: what a layer has that has no activation."""


def activation_named(name: str) -> Activation:
    """Look an activation up by its name (local).

    Raises
    ------
    InputError
        The name is unknown, or names a piecewise linear function, whose second derivative
        vanishes, so that a second-order equation would have nothing to train on.
    """
    known = ", ".join(ACTIVATIONS)
    if isinstance(name, str) and "relu" in name.lower():
        raise InputError(
            f"activation {name!r} is refused: it is piecewise linear, its second derivative is "
            f"zero almost everywhere, and a second-order residual would not see the network; "
            f"choose one of {known}"
        )
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise InputError(f"unknown activation {name!r}; choose one of {known}")
    return ACTIVATIONS[name]


def activation_of(function: Any) -> Activation | None:
    """The activation that a function of Keras or TensorFlow is, or None (local).

    Parameters
    ----------
    function : the function itself, such as `tf.sin` or `keras.activations.gelu`; None is linear.
    """
    if function is None:
        return LINEAR
    return next((known for other, known in _functions() if other is function), None)


@lru_cache(maxsize=1)
def _functions() -> tuple[tuple[Any, Activation], ...]:
    """Functions that compute an activation by default, with that activation."""
    keras: Any = import_module("keras")
    of_keras, ops = keras.activations, keras.ops
    named = {
        "tanh": (of_keras.tanh, ops.tanh, tf.tanh, tf.nn.tanh),
        "sin": (ops.sin, tf.sin),
        "sigmoid": (of_keras.sigmoid, ops.sigmoid, tf.sigmoid, tf.nn.sigmoid),
        "softplus": (of_keras.softplus, ops.softplus, tf.nn.softplus),
        "swish": (of_keras.silu, ops.silu, tf.nn.silu),
        # That of keras.ops is an approximation by default.
        "gelu": (of_keras.gelu, tf.nn.gelu),
    }
    known = [(function, ACTIVATIONS[name]) for name, all_ in named.items() for function in all_]
    return ((of_keras.linear, LINEAR), (tf.identity, LINEAR), *known)
