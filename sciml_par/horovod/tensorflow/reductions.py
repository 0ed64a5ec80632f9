"""The collectives that reduce tensors, by Horovod's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par import parallel
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.horovod.common.arguments import device_for, device_of, reduction
from sciml_par.horovod.common.process_sets import ProcessSet, communicator_of, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.parallel import Average, Communicator, ReduceOp, Sum
from sciml_par.parallel.autograph import as_written

Tensor = Any

Reduce = Callable[[list[Tensor], ReduceOp], list[Tensor]]


@as_written
def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Tensor:
    """Combine the ranks' tensors; every rank gets the result (collective).

    Parameters
    ----------
    tensor : [...], the same shape and type on every rank; or `tf.IndexedSlices`.
    average : Average or Sum, as older programs say it.
    device_dense, device_sparse : where to carry it from; from where it is by default.
    compression : how it travels.
    op : Average (the default), Sum, Min, Max, Product or Adasum. The Average of integers is rounded
        towards zero.
    prescale_factor, postscale_factor : factors before and after.
    name : what errors and the timeline call it; the ranks must agree on it.
    process_set : the ranks that take part.
    ignore_name_scope : nothing is made of it.

    Raises
    ------
    InputError
        As for `sciml_par.parallel.allreduce`; also where both op and average are given.
    """
    op = reduction(op, average)
    is_sparse = isinstance(tensor, tf.IndexedSlices)
    group = communicator_of(process_set)

    def reduce(tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        return [
            parallel.allreduce(
                t,
                op,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
                compression=compression,
                name=name,
                communicator=group,
                device=device_of(device_sparse if is_sparse else device_dense),
            )
            for t in tensors
        ]

    return _with_integers([tensor], op, reduce, group)[0]


@as_written
def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Tensor]:
    """`allreduce` of each tensor, in one transfer per element type and 64 MiB (collective)."""
    group = communicator_of(process_set)

    def reduce(tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        return parallel.fused_allreduce(
            tensors,
            op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            compression=compression,
            name=name,
            communicator=group,
            device=device_for(device_dense, device_sparse),
        )

    return _with_integers(tensors, reduction(op, average), reduce, group)


@as_written
def reducescatter(
    tensor: Tensor,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Combine the ranks' tensors [n, ...]; each rank gets its part of the rows (collective).

    Rank r gets ⌊n/P⌋ rows, one more if r < n mod P; the parameters are those of `allreduce`.
    """
    scales = (prescale_factor, postscale_factor)
    return _reducescatter([tensor], device_dense, compression, op, name, process_set, scales)[0]


@as_written
def grouped_reducescatter(
    tensors: Sequence[Tensor],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """`reducescatter` of each tensor, together (collective)."""
    scales = (prescale_factor, postscale_factor)
    return _reducescatter(tensors, device_dense, compression, op, None, process_set, scales)


def _reducescatter(
    tensors: Sequence[Tensor],
    device: str,
    compression: Any,
    op: ReduceOp,
    name: str | None,
    process_set: ProcessSet,
    scales: tuple[float, float],
) -> list[Tensor]:
    group = communicator_of(process_set)
    for tensor in tensors:
        if isinstance(tensor, tf.IndexedSlices):
            raise InputError("reducescatter: expected a tensor; got IndexedSlices.")
    pairs = [compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]

    def reduce(tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        return parallel.fused_reducescatter(
            tensors,
            op,
            prescale_factor=scales[0],
            postscale_factor=scales[1],
            name=name,
            communicator=group,
            device=device_of(device),
        )

    parts = _with_integers([tensor for tensor, _ in pairs], op, reduce, group)
    return [compression.decompress(y, ctx) for y, (_, ctx) in zip(parts, pairs, strict=True)]


def _with_integers(
    tensors: Sequence[Tensor], op: ReduceOp, reduce: Reduce, group: Communicator
) -> list[Tensor]:
    """`reduce` of the tensors, of which integers have an Average as well: rounded towards zero."""
    converted = [t if isinstance(t, tf.IndexedSlices) else tf.convert_to_tensor(t) for t in tensors]
    whole = [i for i, t in enumerate(converted) if op is Average and t.dtype.is_integer]
    others = [i for i in range(len(converted)) if i not in whole]
    results: dict[int, Tensor] = {}
    if others:
        results |= zip(others, reduce([converted[i] for i in others], op), strict=True)
    if whole:
        sums = reduce([converted[i] for i in whole], Sum)
        results |= zip(whole, (_divided(y, group.size) for y in sums), strict=True)
    return [results[i] for i in range(len(converted))]


def _divided(total: Tensor, size: int) -> Tensor:
    if isinstance(total, tf.IndexedSlices):
        values = _divided(total.values, size)
        return tf.IndexedSlices(values, total.indices, dense_shape=total.dense_shape)
    return tf.truncatediv(total, tf.cast(size, total.dtype))
