"""Smooth activations σ with derivatives up to the fourth in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

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
    to_fourth : callable, optional
        z -> (σ(z), σ′(z), …, σ⁗(z)), likewise. Without one, σ‴ and σ⁗ come from tapes.
    """

    name: str
    value: Callable[[tf.Tensor], tf.Tensor]
    derivatives: Callable[[tf.Tensor], Derivatives]
    to_fourth: Callable[[tf.Tensor], tuple[tf.Tensor, ...]] | None = None

    def up_to(self, order: int, z: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return σ(z), σ′(z), … up to the derivative of an order of at most 4 (local)."""
        if order <= 2:
            return self.derivatives(z)[: order + 1]
        if self.to_fourth is None:
            return _by_tapes(self.derivatives, z)[: order + 1]
        return self.to_fourth(z)[: order + 1]


def _by_tapes(derivatives: Callable[[tf.Tensor], Derivatives], z: tf.Tensor) -> tuple[Any, ...]:
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(z)
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(z)
            a, slope, curvature = derivatives(z)
        third = inner.gradient(curvature, z, unconnected_gradients="zero")
    fourth = outer.gradient(third, z, unconnected_gradients="zero")
    return a, slope, curvature, third, fourth


def _tanh(z: tf.Tensor) -> Derivatives:
    a = tf.tanh(z)
    slope = 1 - a * a
    return a, slope, -2 * a * slope


def _tanh_to_fourth(z: tf.Tensor) -> tuple[tf.Tensor, ...]:
    a, slope, curvature = _tanh(z)
    square = a * a
    return a, slope, curvature, slope * (6 * square - 2), slope * a * (16 - 24 * square)


def _sin(z: tf.Tensor) -> Derivatives:
    a = tf.sin(z)
    return a, tf.cos(z), -a


def _sin_to_fourth(z: tf.Tensor) -> tuple[tf.Tensor, ...]:
    a, slope = tf.sin(z), tf.cos(z)
    return a, slope, -a, -slope, a


def _sigmoid(z: tf.Tensor) -> Derivatives:
    a = tf.sigmoid(z)
    slope = a * (1 - a)
    return a, slope, slope * (1 - 2 * a)


def _sigmoid_to_fourth(z: tf.Tensor) -> tuple[tf.Tensor, ...]:
    a, slope, curvature = _sigmoid(z)
    return a, slope, curvature, slope * (1 - 6 * slope), curvature * (1 - 12 * slope)


def _softplus(z: tf.Tensor) -> Derivatives:
    s = tf.sigmoid(z)
    return tf.nn.softplus(z), s, s * (1 - s)


def _softplus_to_fourth(z: tf.Tensor) -> tuple[tf.Tensor, ...]:
    s, first, second, third, _ = _sigmoid_to_fourth(z)
    return tf.nn.softplus(z), s, first, second, third


def _swish(z: tf.Tensor) -> Derivatives:
    s = tf.sigmoid(z)
    bump = s * (1 - s)
    return z * s, s + z * bump, bump * (2 + z * (1 - 2 * s))


def _swish_to_fourth(z: tf.Tensor) -> tuple[tf.Tensor, ...]:
    # The n-th derivative of z s is z s⁽ⁿ⁾ + n s⁽ⁿ⁻¹⁾.
    s = _sigmoid_to_fourth(z)
    return z * s[0], *(z * s[n] + n * s[n - 1] for n in range(1, 5))


def _gelu(z: tf.Tensor) -> Derivatives:
    cdf = _normal_cdf(z)
    density = tf.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return z * cdf, cdf + z * density, density * (2 - z * z)


def _gelu_to_fourth(z: tf.Tensor) -> tuple[tf.Tensor, ...]:
    square = z * z
    density = tf.exp(-0.5 * square) / math.sqrt(2 * math.pi)
    return *_gelu(z), density * z * (square - 4), density * (square * (7 - square) - 4)


def _normal_cdf(z: tf.Tensor) -> tf.Tensor:
    return 0.5 * (1 + tf.math.erf(z / math.sqrt(2)))


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "tanh": Activation("tanh", tf.tanh, _tanh, _tanh_to_fourth),
        "sin": Activation("sin", tf.sin, _sin, _sin_to_fourth),
        "sigmoid": Activation("sigmoid", tf.sigmoid, _sigmoid, _sigmoid_to_fourth),
        "softplus": Activation("softplus", tf.nn.softplus, _softplus, _softplus_to_fourth),
        # tf.nn.swish has a custom gradient; the product differentiates to any order like the rest.
        "swish": Activation("swish", lambda z: z * tf.sigmoid(z), _swish, _swish_to_fourth),
        "gelu": Activation("gelu", lambda z: z * _normal_cdf(z), _gelu, _gelu_to_fourth),
    }
)
"""The activations by name; swish is z·sigmoid(z), gelu is z·Φ(z) with the exact normal Φ."""

LINEAR = Activation("linear", lambda z: z, lambda z: (z, tf.ones_like(z), tf.zeros_like(z)))
"""σ(z) = z, for layers without an activation."""


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
    """Return the activation that a function of Keras or TensorFlow is, or None."""
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


def stretched(activation: Activation, factor: float) -> Activation:
    """Return z -> σ(ω z), whose k-th derivative is ω^k σ⁽ᵏ⁾(ω z)."""
    if factor == 1.0:
        return activation

    def derivatives(z: tf.Tensor) -> Derivatives:
        a, slope, curvature = activation.derivatives(factor * z)
        return a, factor * slope, factor**2 * curvature

    return Activation(
        f"{activation.name} of {factor!r} z", lambda z: activation.value(factor * z), derivatives
    )


def on_some_units(activation: Activation, which: Sequence[bool]) -> Activation:
    """Return σ on the units named, and the identity on the others, for z: [w, n]."""
    flags = tuple(map(bool, which))
    if all(flags):
        return activation
    column = np.array(flags)[:, None]

    def value(z: tf.Tensor) -> tf.Tensor:
        return tf.where(column, activation.value(z), z)

    def derivatives(z: tf.Tensor) -> Derivatives:
        own, others = activation.derivatives(z), LINEAR.derivatives(z)
        a, slope, curvature = (tf.where(column, p, q) for p, q in zip(own, others, strict=True))
        return a, slope, curvature

    name = f"{activation.name} on {''.join('01'[flag] for flag in flags)}"
    return Activation(name, value, derivatives)
