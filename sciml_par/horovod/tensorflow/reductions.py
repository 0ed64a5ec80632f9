"""The collectives that reduce tensors, by Horovod's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sciml_par import parallel
from sciml_par._tensorflow import is_recorded, tf
from sciml_par.errors import InputError
from sciml_par.horovod.common.arguments import device_for, device_of, reduction
from sciml_par.horovod.common.exceptions import UnsupportedError, invalid_arguments
from sciml_par.horovod.common.process_sets import ProcessSet, communicator_of, global_process_set
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.parallel import Adasum, Average, Communicator, ReduceOp, Sum
from sciml_par.parallel.collectives.tensor_bundle import by_groups
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.gradients.reduction import on_values

Tensor = Any
Collective = Callable[[list[Tensor]], list[Tensor]]

_FACTORS = ("prescale_factor", "postscale_factor")

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
    device = device_sparse if isinstance(tensor, tf.IndexedSlices) else device_dense
    op = _operation(op, average, process_set)
    return _reduction(locals(), op, device_of(device)).allreduce([tensor])[0]


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
    device = device_for(device_dense, device_sparse)
    op = _operation(op, average, process_set)
    return _reduction(locals(), op, device).allreduce(tensors)


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
    return _reduction(locals(), op, device_of(device_dense)).reducescatter([tensor])[0]


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
    return _reduction(locals(), op, device_of(device_dense)).reducescatter(tensors)


def _operation(op: ReduceOp | None, average: bool | None, process_set: ProcessSet) -> ReduceOp:
    chosen = reduction(op, average)
    if chosen is Adasum and process_set is not global_process_set:
        raise UnsupportedError(
            "allreduce: Adasum is for all ranks, as in Horovod. For some of them, use "
            "sciml_par.parallel.allreduce with a communicator."
        )
    return chosen


def _reduction(given: Mapping[str, Any], op: ReduceOp, device: str | None) -> _Reduction:
    """Return the reduction by Horovod's arguments."""
    group = communicator_of(given["process_set"])
    options = {name: given[name] for name in _FACTORS}
    options |= {"name": given.get("name"), "communicator": group, "device": device}
    return _Reduction(op, group, given["compression"], options)


@dataclass(frozen=True)
class _Reduction:
    """A reduction of tensors, with the options of `sciml_par.parallel`."""

    op: ReduceOp
    group: Communicator
    compression: Any
    options: dict[str, Any]

    def allreduce(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the reduced tensors and `tf.IndexedSlices`, in order (collective)."""
        missing = [str(i) for i, tensor in enumerate(tensors) if tensor is None]
        if missing:
            raise InputError(
                f"allreduce: expected tensors; got None for number {', '.join(missing)} of "
                f"{len(tensors)}. Leave out variables without a gradient, on all ranks."
            )

        def dense(tensors: list[Tensor]) -> list[Tensor]:
            return self._compressed(_Reduction._of_tensors, tensors)

        return _each_kind(tensors, lambda t: isinstance(t, tf.IndexedSlices), self._sparse, dense)

    def reducescatter(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return this rank's rows (collective)."""
        if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
            raise UnsupportedError("reducescatter: expected a tensor; got tf.IndexedSlices.")
        return self._compressed(_Reduction._scattered, tensors)

    def _sparse(self, slices: list[Tensor]) -> list[Tensor]:
        if self.op not in (Sum, Average):
            raise UnsupportedError(
                f"allreduce: expected Sum or Average for tf.IndexedSlices; got {self.op!r}. Make "
                f"them dense by tf.convert_to_tensor, or sparse_as_dense=True of an optimizer."
            )
        scales = [self.options[name] for name in _FACTORS]
        if scales != [1.0, 1.0]:
            raise UnsupportedError(
                f"allreduce: prescale_factor and postscale_factor are for tensors; got {scales} "
                f"for tf.IndexedSlices. Multiply their values."
            )
        return self._averaged(_Reduction._of_slices, slices)

    def _compressed(self, reduce: Reduce, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return `reduce` of the tensors, each compressed separately (collective)."""
        pairs = [self.compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors]
        reduced = self._averaged(reduce, [tensor for tensor, _ in pairs])
        decompress = self.compression.decompress
        return [decompress(y, context) for y, (_, context) in zip(reduced, pairs, strict=True)]

    def _averaged(self, reduce: Reduce, tensors: list[Tensor]) -> list[Tensor]:
        """Return `reduce` of tensors; the Average of integers is rounded towards zero."""

        def average(total: Tensor, dtype: tf.DType) -> Tensor:
            return on_values(
                lambda v: tf.cast(tf.truncatediv(v, tf.cast(self.group.size, v.dtype)), dtype),
                total,
            )

        def wide(x: Tensor) -> Tensor:
            return tf.cast(x, tf.uint64 if x.dtype == tf.uint64 else tf.int64)

        def integers(whole: list[Tensor]) -> list[Tensor]:
            if self.group.rank == 0:
                warnings.warn(
                    "allreduce: the average of integers is rounded towards zero, as in Horovod. "
                    "Cast them to a floating type first, or use op=Sum.",
                    stacklevel=2,
                )
            # A sum may not fit into the type of its terms. The ranks compare the types in the name.
            types = ", ".join(each.dtype.name for each in whole)
            name = f"{self.options['name'] or 'average'} ({types})"
            named = replace(self, options=self.options | {"name": name})
            sums = reduce(named, [on_values(wide, each) for each in whole], Sum)
            return [average(total, x.dtype) for total, x in zip(sums, whole, strict=True)]

        return _each_kind(
            tensors,
            lambda t: self.op is Average and bool(t.dtype.is_integer),
            integers,
            lambda others: reduce(self, others, self.op),
        )

    def _of_tensors(self, tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        def reduce(tensors: list[Tensor]) -> list[Tensor]:
            if len(tensors) == 1:
                return [parallel.allreduce(tensors[0], op, **self.options)]
            return parallel.fused_allreduce(tensors, op, **self.options)

        if op in (Sum, Average):  # whose adjoints are the same allreduce
            return reduce(tensors)
        return _each_kind(
            tensors,
            lambda t: bool(t.dtype.is_floating),
            lambda floating: with_itself_as_gradient(reduce, floating),
            reduce,
        )

    def _of_slices(self, slices: list[Tensor], op: ReduceOp) -> list[Tensor]:
        times = partial(with_gradient_times, 1 / self.group.size)
        averaged = [on_values(times, s) for s in slices]
        return parallel.fused_allreduce(averaged, op, **self.options)

    def _scattered(self, tensors: list[Tensor], op: ReduceOp) -> list[Tensor]:
        multiplied = [with_gradient_times(float(self.group.size), tensor) for tensor in tensors]
        with invalid_arguments():
            return parallel.fused_reducescatter(multiplied, op, **self.options)


def _each_kind(
    values: Sequence[Tensor],
    is_one: Callable[[Tensor], bool],
    one: Callable[[list[Tensor]], list[Tensor]],
    other: Callable[[list[Tensor]], list[Tensor]],
) -> list[Tensor]:
    """Return `one` of the values with `is_one`, and `other` of the rest, in order."""
    kinds = [is_one(value) for value in values]
    for kind, function in ((True, one), (False, other)):
        indices = [i for i, each in enumerate(kinds) if each is kind]
        values = by_groups(values, [indices] if indices else [], function)
    return list(values)


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
    """Return `tensor`, with a gradient multiplied by `factor`.

    In Horovod the loss is the mean over the P ranks for collectives that gather, and the sum for
    those that scatter: these gradients are the adjoints times 1/P or P.
    """
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
