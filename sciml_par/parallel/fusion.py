"""Many small tensors as one: flat buffers of one element type, a collective for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.autograph import as_written
from sciml_par.parallel.collectives import allreduce, broadcast
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.reduction import Average, ReduceOp

Tensor = Any

BUCKET_BYTES = 64 << 20
"""How long a flat buffer may become. Longer ones gain no speed, and take memory once more."""


@as_written
def fused_allreduce(
    tensors: Sequence[Tensor],
    op: ReduceOp = Average,
    *,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """`allreduce` of each tensor, in one transfer per element type and 64 MiB (collective).

    Parameters
    ----------
    tensors : of any shapes, the same on every rank.
    op, communicator, device : as for `allreduce`.

    Returns
    -------
    The reduced tensors, in order.
    """
    return fuse(lambda flat: allreduce(flat, op, communicator=communicator, device=device), tensors)


@as_written
def fused_broadcast(
    tensors: Sequence[Tensor],
    root: int = 0,
    *,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """`broadcast` of each tensor, in one transfer per element type and 64 MiB (collective)."""
    return fuse(
        lambda flat: broadcast(flat, root, communicator=communicator, device=device), tensors
    )


def fuse(
    collective: Callable[[Tensor], Tensor],
    tensors: Sequence[Tensor],
    *,
    bucket_bytes: int = BUCKET_BYTES,
) -> list[Tensor]:
    """Apply an element-wise collective to all `tensors`, as many as fit at once.

    Parameters
    ----------
    bucket_bytes : what a flat buffer may hold; a tensor that is longer goes alone.
    """
    converted = [tf.convert_to_tensor(t) for t in tensors]
    results: list[Tensor] = [None] * len(converted)
    for indices in _buckets(converted, bucket_bytes):
        together = [converted[i] for i in indices]
        for i, result in zip(indices, _apply_flat(collective, together), strict=True):
            results[i] = result
    return results


def _buckets(tensors: Sequence[Tensor], bucket_bytes: int) -> list[list[int]]:
    """The tensors of each buffer, by index: one element type, types in order of appearance."""
    by_type: dict[str, list[list[int]]] = {}
    room: dict[str, int] = {}
    for i, t in enumerate(tensors):
        name = t.dtype.name
        nbytes = (t.shape.num_elements() or 0) * t.dtype.size
        if room.get(name, 0) < nbytes or name not in by_type:
            by_type.setdefault(name, []).append([])
            room[name] = bucket_bytes
        by_type[name][-1].append(i)
        room[name] -= nbytes
    return [bucket for buckets in by_type.values() for bucket in buckets]


def _apply_flat(collective: Callable[[Tensor], Tensor], tensors: list[Tensor]) -> list[Tensor]:
    if len(tensors) == 1:
        return [collective(tensors[0])]
    flat = collective(tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0))
    parts = tf.split(flat, [t.shape.num_elements() for t in tensors])
    return [tf.reshape(part, t.shape) for part, t in zip(parts, tensors, strict=True)]
