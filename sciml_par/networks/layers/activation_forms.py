"""Activations made of others: stretched ones, and ones that act on some of the units only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import LINEAR, Activation, Derivatives


def stretched(activation: Activation, factor: float) -> Activation:
    """z -> σ(ω z), whose k-th derivative is ω^k σ⁽ᵏ⁾(ω z)."""
    if factor == 1.0:
        return activation

    def derivatives(z: tf.Tensor) -> Derivatives:
        a, slope, curvature = activation.derivatives(factor * z)
        return a, factor * slope, factor**2 * curvature

    return Activation(
        f"{activation.name} of {factor!r} z", lambda z: activation.value(factor * z), derivatives
    )


class ByUnit(Activation):
    """An activation that is not the same for all units; it takes z as [w, n] only."""


def on_some_units(activation: Activation, which: Sequence[bool]) -> Activation:
    """σ on the units named, and nothing on the others."""
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

    return ByUnit(
        f"{activation.name} on {''.join('01'[flag] for flag in flags)}", value, derivatives
    )
