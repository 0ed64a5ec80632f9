"""The collectives that reduce tensors, by Horovod's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sciml_par import parallel
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.horovod.common.arguments import device_for, device_of, reduction
from sciml_par.horovod.common.exceptions import UnsupportedError, invalid_arguments
from sciml_par.horovod.common.process_sets import ProcessSet, communicator_of, global_process_set
from sciml_par.horovod.tensorflow.collective_gradients import (
    averaged_gradient,
    multiplied_gradient,
    with_itself_as_gradient,
)
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.parallel import Adasum, Average, Communicator, ReduceOp, Sum
from sciml_par.parallel.execution.autograph import not_converted

Tensor = Any

Reduce = Callable[["_Reduction", list[Tensor], ReduceOp], list[Tensor]]


@not_converted
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
    average : the older way to choose Average (True) or Sum (False).
    device_dense, device_sparse : the device to transfer it from; its own by default.
    compression : one of `Compression`.
    op : Average (the default), Sum, Min, Max, Product or Adasum. The Average of integers is rounded
        towards zero.
    prescale_factor, postscale_factor : factors before and after.
    name : the name in errors and in the timeline, the same on all ranks.
    process_set : the ranks that take part.
    ignore_name_scope : ignored.

    Raises
    ------
    InputError
        As for `sciml_par.parallel.allreduce`, or both op and average are given. With
        `tf.IndexedSlices`, an operation other than Sum and Average, or a factor, raises an error
        that is a `NotImplementedError` as well.

    Notes
    -----
    Gradient: the same allreduce of the incoming gradient.
    """
    op = reduction(op, average)
    _check_adasum(op, process_set)
    collective = _Reduction(
        op,
        communicator_of(process_set),
        compression,
        (prescale_factor, postscale_factor),
        name,
        device_of(device_sparse if isinstance(tensor, tf.IndexedSlices) else device_dense),
    )
    return collective.allreduce([tensor])[0]


@not_converted
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
    """Return `allreduce` of each tensor, one transfer per type and 64 MiB (collective)."""
    op = reduction(op, average)
    _check_adasum(op, process_set)
    collective = _Reduction(
        op,
        communicator_of(process_set),
        compression,
        (prescale_factor, postscale_factor),
        name,
        device_for(device_dense, device_sparse),
    )
    return collective.allreduce(tensors)


@not_converted
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
    Gradient: the allgather of the incoming gradients, times the factors, and times P for Sum.
    """
    scales = (prescale_factor, postscale_factor)
    group, device = communicator_of(process_set), device_of(device_dense)
    return _Reduction(op, group, compression, scales, name, device).reducescatter([tensor])[0]


@not_converted
def grouped_reducescatter(
    tensors: Sequence[Tensor],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """Return `reducescatter` of each tensor, in one transfer (collective)."""
    scales = (prescale_factor, postscale_factor)
    group, device = communicator_of(process_set), device_of(device_dense)
    return _Reduction(op, group, compression, scales, None, device).reducescatter(tensors)


def _check_adasum(op: ReduceOp, process_set: ProcessSet) -> None:
    if op is Adasum and process_set is not global_process_set:
        raise UnsupportedError(
            "allreduce: Adasum is for all ranks, as in Horovod. For some of them, use "
            "sciml_par.parallel.allreduce with a communicator."
        )


@dataclass(frozen=True)
class _Reduction:
    """A reduction of tensors, in the terms of `sciml_par.parallel`.

    Parameters
    ----------
    scales : the factors before and after.
    """

    op: ReduceOp
    group: Communicator
    compression: Any
    scales: tuple[float, float]
    name: str | None
    device: str | None

    def allreduce(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the reduced tensors and `tf.IndexedSlices`, in order (collective)."""
        missing = [str(i) for i, tensor in enumerate(tensors) if tensor is None]
        if missing:
            raise InputError(
                f"allreduce: expected tensors; got None for number {', '.join(missing)} of "
                f"{len(tensors)}. Leave out variables without a gradient, on all ranks."
            )
        return _each_kind(
            tensors, lambda t: isinstance(t, tf.IndexedSlices), self._sparse, self._dense
        )

    def reducescatter(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return this rank's rows (collective)."""
        if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
            raise UnsupportedError("reducescatter: expected a tensor; got tf.IndexedSlices.")
        return self._compressed(_Reduction._scattered, tensors)

    def _sparse(self, slices: list[Tensor]) -> list[Tensor]:
        self._check_sparse()
        return self._averaged(_Reduction._of_slices, slices)

    def _dense(self, tensors: list[Tensor]) -> list[Tensor]:
        return self._compressed(_Reduction._of_tensors, tensors)

    def _check_sparse(self) -> None:
        if self.op not in (Sum, Average):
            raise UnsupportedError(
                f"allreduce: expected Sum or Average for tf.IndexedSlices; got {self.op!r}. Make "
                f"them dense by tf.convert_to_tensor, or sparse_as_dense=True of an optimizer."
            )
        if self.scales != (1.0, 1.0):
            raise UnsupportedError(
                f"allreduce: prescale_factor and postscale_factor are for tensors; got "
                f"{self.scales} for tf.IndexedSlices. Multiply their values."
            )

    def _compressed(self, reduce: Reduce, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return `reduce` of the tensors, each compressed separately (collective)."""
        pairs = [self.compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
        reduced = self._averaged(reduce, [tensor for tensor, _ in pairs])
        decompress = self.compression.decompress
        return [decompress(y, context) for y, (_, context) in zip(reduced, pairs, strict=True)]

    def _averaged(self, reduce: Reduce, tensors: list[Tensor]) -> list[Tensor]:
        """Return `reduce` of tensors; the Average of integers is rounded towards zero."""

        def integers(whole: list[Tensor]) -> list[Tensor]:
            # A sum of the ranks' values may not fit into the type that holds each of them. The name
            # holds the types, which the ranks compare.
            types = ", ".join(each.dtype.name for each in whole)
            named = replace(self, name=f"{self.name or 'average'} ({types})")
            sums = reduce(named, [_with_type(each, _wide(each.dtype)) for each in whole], Sum)
            quotients = [_divided(total, self.group.size) for total in sums]
            return [_with_type(q, each.dtype) for q, each in zip(quotients, whole, strict=True)]

        return _each_kind(
            tensors,
            lambda t: self.op is Average and bool(t.dtype.is_integer),
            integers,
            lambda others: reduce(self, others, self.op),
        )

    def _of_tensors(self, tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        def reduce(tensors: list[Tensor]) -> list[Tensor]:
            if len(tensors) == 1:
                return [parallel.allreduce(tensors[0], op, **self._options())]
            return parallel.fused_allreduce(tensors, op, **self._options())

        if op in (Sum, Average):  # whose adjoints are the same allreduce
            return reduce(tensors)
        return _each_kind(
            tensors,
            lambda t: bool(t.dtype.is_floating),
            lambda floating: with_itself_as_gradient(reduce, floating),
            reduce,
        )

    def _of_slices(self, slices: list[Tensor], op: ReduceOp) -> list[Tensor]:
        averaged = [_with_values(s, averaged_gradient(s.values, self.group)) for s in slices]
        return parallel.fused_allreduce(averaged, op, **self._options())

    def _scattered(self, tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        multiplied = [multiplied_gradient(tensor, self.group) for tensor in tensors]
        with invalid_arguments():
            return parallel.fused_reducescatter(multiplied, op, **self._options())

    def _options(self) -> dict[str, Any]:
        before, after = self.scales
        return {
            "prescale_factor": before,
            "postscale_factor": after,
            "name": self.name,
            "communicator": self.group,
            "device": self.device,
        }


def _each_kind(
    values: Sequence[Tensor],
    is_one: Callable[[Tensor], bool],
    one: Callable[[list[Tensor]], list[Tensor]],
    other: Callable[[list[Tensor]], list[Tensor]],
) -> list[Tensor]:
    """Return `one` of the values with `is_one`, and `other` of the rest, in order."""
    kinds = [is_one(value) for value in values]
    results: dict[int, Tensor] = {}
    for kind, function in ((True, one), (False, other)):
        indices = [i for i, each in enumerate(kinds) if each is kind]
        if indices:
            results |= zip(indices, function([values[i] for i in indices]), strict=True)
    return [results[i] for i in range(len(kinds))]


def _wide(dtype: tf.DType) -> tf.DType:
    return tf.uint64 if dtype == tf.uint64 else tf.int64


def _with_type(value: Tensor, dtype: tf.DType) -> Tensor:
    if isinstance(value, tf.IndexedSlices):
        return _with_values(value, tf.cast(value.values, dtype))
    return tf.cast(value, dtype)


def _divided(total: Tensor, size: int) -> Tensor:
    if isinstance(total, tf.IndexedSlices):
        return _with_values(total, _divided(total.values, size))
    return tf.truncatediv(total, tf.cast(size, total.dtype))


def _with_values(slices: Tensor, values: Tensor) -> Tensor:
    return tf.IndexedSlices(values, slices.indices, dense_shape=slices.dense_shape)
