"""Many small tensors as one: a flat buffer per element type, one collective for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.autograph import as_written
from sciml_par.parallel.collectives import allreduce, broadcast
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.reduction import Average, ReduceOp

Tensor = Any


@as_written
def fused_allreduce(
    tensors: Sequence[Tensor],
    op: ReduceOp = Average,
    *,
    communicator: Communicator | None = None,
) -> list[Tensor]:
    """`allreduce` of each tensor, in one transfer per element type (collective).

    Parameters
    ----------
    tensors : of any shapes, the same on every rank.
    op, communicator : as for `allreduce`.

    Returns
    -------
    The reduced tensors, in order.
    """
    return fuse(lambda flat: allreduce(flat, op, communicator=communicator), tensors)


@as_written
def fused_broadcast(
    tensors: Sequence[Tensor], root: int = 0, *, communicator: Communicator | None = None
) -> list[Tensor]:
    """`broadcast` of each tensor, in one transfer per element type (collective)."""
    return fuse(lambda flat: broadcast(flat, root, communicator=communicator), tensors)


def fuse(collective: Callable[[Tensor], Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Apply an element-wise collective to all `tensors` at once, types in order of appearance."""
    converted = [tf.convert_to_tensor(t) for t in tensors]
    by_type: dict[str, list[int]] = {}
    for i, t in enumerate(converted):
        by_type.setdefault(t.dtype.name, []).append(i)
    results: list[Tensor] = [None] * len(converted)
    for indices in by_type.values():
        together = [converted[i] for i in indices]
        for i, result in zip(indices, _apply_flat(collective, together), strict=True):
            results[i] = result
    return results


def _apply_flat(collective: Callable[[Tensor], Tensor], tensors: list[Tensor]) -> list[Tensor]:
    if len(tensors) == 1:
        return [collective(tensors[0])]
    flat = collective(tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0))
    parts = tf.split(flat, [t.shape.num_elements() for t in tensors])
    return [tf.reshape(part, t.shape) for part, t in zip(parts, tensors, strict=True)]
