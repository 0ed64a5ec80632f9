"""Horovod's gradients of collectives, where they are not the adjoints.

In Horovod the loss is the mean over the ranks for collectives that gather, and the sum for those
that scatter. With P ranks these gradients are the adjoints times 1/P or P.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import is_recorded, tf

Tensor = Any

Collective = Callable[[list[Tensor]], list[Tensor]]


def with_itself_as_gradient(collective: Collective, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return `collective` of floating-point tensors, which is its own gradient (collective)."""

    def with_gradient(*tensors: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor]]]:
        return collective(list(tensors)), lambda *gradients: with_itself_as_gradient(
            collective, gradients
        )

    if not _is_differentiated():
        return collective(list(tensors))
    results: list[Tensor] = tf.custom_gradient(with_gradient)(*tensors)
    return results


def with_gradient_times(factor: float, tensor: Tensor) -> Tensor:
    """Return `tensor`, with a gradient multiplied by `factor`."""
    if factor == 1 or not _is_differentiated():
        return tensor
    x = tf.convert_to_tensor(tensor)
    if not (x.dtype.is_floating or x.dtype.is_complex):
        return x

    @tf.custom_gradient
    def identity(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return tf.identity(x), lambda gradient: gradient * tf.constant(factor, gradient.dtype)

    return identity(x)


def _is_differentiated() -> bool:
    """Return whether a gradient may be computed: in graphs, and under a tape."""
    return not tf.executing_eagerly() or is_recorded()
