"""Gradients and pfor conversions that TensorFlow lacks for operations of compiled functions."""

from __future__ import annotations

import contextlib
from typing import Any

from sciml_par._tensorflow import tf

Tensor = Any


def register_gradients() -> None:
    """Give TensorFlow the gradients and conversions that it lacks, if it still does.

    In a function that XLA compiles, the gradient of a slice is an XlaDynamicUpdateSlice, which
    has no gradient itself. The gradient of a concatenation is made of slices, so that a network
    with a skip connection would have no second derivatives whose gradient could be taken. For
    Jacobians, pfor would make a loop over the points of each such operation, with a warning.
    """
    from tensorflow.python.ops.parallel_for.pfor import RegisterPFor

    with contextlib.suppress(KeyError):  # it has been registered, by us or by a later TensorFlow
        tf.RegisterGradient("XlaDynamicUpdateSlice")(_of_dynamic_update_slice)
    with contextlib.suppress(AssertionError):
        RegisterPFor("XlaDynamicUpdateSlice")(_of_all_passes)


def _of_dynamic_update_slice(op: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    """Return the gradient of y, which is `operand` with `update` written from `indices` on."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops  # tf.raw_ops leaves them out

    _, update, indices = op.inputs
    to_operand = gen_xla_ops.xla_dynamic_update_slice(grad, tf.zeros_like(update), indices)
    return to_operand, tf.slice(grad, indices, tf.shape(update, out_type=indices.dtype)), None


def _of_all_passes(call: Any) -> Any:
    """Update the slices of all passes of a vectorized loop at once."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops
    from tensorflow.python.ops.parallel_for.pfor import wrap

    call.stack_inputs([0, 1])
    operand, update, indices = call.stacked_input(0), call.stacked_input(1), call.unstacked_input(2)
    begin = tf.concat([tf.zeros([1], indices.dtype), indices], axis=0)
    return wrap(gen_xla_ops.xla_dynamic_update_slice(operand, update, begin), True)
