"""Derivatives of every residual by a few parameters of which all residuals may depend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par._tensorflow import tf

Tensor = Any

_FEW = 8


def derivatives_by(tape: Any, residual: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """∂r_i/∂a_k of residuals r: [n] by all q numbers a_k of some tensors: [q, n].

    g(w) = Σ_i w_i ∂r_i/∂a is linear in w, so that a reverse pass through it for each a_k gives a
    row. This is a forward product by two reverse ones: a ForwardAccumulator around those of a
    residual is wrong in silence. Both passes go through what lies between a and r alone, which
    is hardly ever the network.
    """
    w = tf.zeros_like(residual)
    zero = tf.UnconnectedGradients.ZERO
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as outer:
        outer.watch(w)
        back = tape.gradient(residual, parameters, w, unconnected_gradients=zero)
        flat = tf.concat([tf.reshape(each, [-1]) for each in back], axis=0)
        alone = tf.unstack(flat) if flat.shape[0] <= _FEW else []
    if alone:
        return tf.stack([outer.gradient(a, w, unconnected_gradients=zero) for a in alone])
    found = outer.jacobian(flat, w)
    return tf.zeros([flat.shape[0], *w.shape], w.dtype) if found is None else found
