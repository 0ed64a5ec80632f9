"""Gradients of operations that TensorFlow puts into compiled functions without giving them one."""

from __future__ import annotations

import contextlib
from typing import Any

from sciml_par._tensorflow import tf

Tensor = Any


def register_gradients() -> None:
    """Give TensorFlow the gradients that it lacks, if it still does (local).

    In a function that XLA compiles, the gradient of a slice is an XlaDynamicUpdateSlice, which
    has no gradient itself. The gradient of a concatenation is made of slices, so that a network
    with a skip connection would have no second derivatives whose gradient could be taken.
    """
    with contextlib.suppress(KeyError):  # it has been registered, by us or by a later TensorFlow
        tf.RegisterGradient("XlaDynamicUpdateSlice")(_of_dynamic_update_slice)


def _of_dynamic_update_slice(op: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    """y is `operand` with `update` in place of what begins at `indices`."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops  # tf.raw_ops leaves them out

    _, update, indices = op.inputs
    to_operand = gen_xla_ops.xla_dynamic_update_slice(grad, tf.zeros_like(update), indices)
    return to_operand, tf.slice(grad, indices, tf.shape(update, out_type=indices.dtype)), None
