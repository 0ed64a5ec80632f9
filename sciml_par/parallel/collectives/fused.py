"""Collectives on many small tensors, in as few transfers as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.adasum import adasum
from sciml_par.parallel.collectives.arguments import check_rows, list_of
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor, gradient_name, widened
from sciml_par.parallel.collectives.primitives import (
    broadcasted,
    gathered_together,
    reduced,
    reduced_bundle,
    scattered,
)
from sciml_par.parallel.collectives.tensor_bundle import TensorBundle, by_groups, fuse, fuse_lists
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.dispatch import may_have_unknown_shapes, takes_bundles
from sciml_par.parallel.execution.graph_lifetime import custom_gradient
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.element_type import element_type
from sciml_par.parallel.requests.reduce_op import Adasum, Average, ReduceOp, Sum, check_reducible
from sciml_par.parallel.requests.request import even_rows
from sciml_par.parallel.tensors.compression import Compression, ScalingAndCompression
from sciml_par.parallel.tensors.memory import eager_tensor
from sciml_par.parallel.tensors.packing import shape_of


@not_converted
def fused_allreduce(
    tensors: Sequence[Tensor],
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: Any = None,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """Apply `allreduce` to each tensor, in one transfer per element type and 64 MiB (collective).

    Parameters
    ----------
    tensors : of any shapes, the same on every rank. All `tf.IndexedSlices` among them are gathered
        together.
    op, prescale_factor, postscale_factor, compression, name, communicator, device : as for
        `allreduce`. Adasum combines each tensor separately.

    Returns
    -------
    The reduced tensors, in order.
    """
    results: list[Tensor] = list_of(tensors, "allreduce")
    sparse: list[int] = []
    if set(map(type, results)) != {eager_tensor()}:
        sparse = [i for i, x in enumerate(results) if isinstance(x, tf.IndexedSlices)]
    dense = sorted({*range(len(results))}.difference(sparse))
    bundle = TensorBundle.of([results[i] for i in dense], "allreduce")
    options = CallOptions.of("allreduce", bundle.called(name), communicator, device)
    scaling = ScalingAndCompression(prescale_factor, postscale_factor, compression, "allreduce")
    for dtype in {dtype for dtype, _ in bundle.kinds}:
        element = element_type(tf.as_dtype(dtype).name, where="allreduce")
        check_reducible(op, element.name, where="allreduce")

    def reduce(x: Tensor) -> Tensor:
        return scaling.around_all(lambda xs: [reduced(xs[0], op, options)], [x])[0]

    def reduce_bundle(tensors: list[Tensor]) -> list[Tensor]:
        if len(tensors) == 1 or not all(x.shape.is_fully_defined() for x in tensors):
            return [reduce(x) for x in tensors]
        return scaling.around_all(lambda xs: reduced_bundle(xs, op, options), tensors)

    if len(bundle.tensors) == 1 and options.placement.eager and op is not Adasum:
        whole = [reduce(bundle.tensors[0])]  # what follows takes longer than a short transfer
    elif op is Adasum:
        each = lambda tensors: scaling.around_all(lambda xs: adasum(xs, options), tensors)  # noqa: E731
        whole = fuse_lists(each, bundle)
    elif (
        op in (Sum, Average)
        and may_have_unknown_shapes()
        and any(shape is None for _, shape in bundle.kinds)
    ):
        called = lambda bundle: bundle.called(name)  # noqa: E731
        whole = scaling.around_all(
            lambda xs: _reduced_when_it_runs(xs, op, options, called), bundle.tensors
        )
    elif (  # XLA may take tensors unpacked; a custom compressor needs them packed
        takes_bundles(options.placement)
        and op in (Sum, Average)
        and compression in (None, Compression.none, Compression.fp16, Compression.bf16)
    ):
        whole = fuse_lists(reduce_bundle, bundle)
    else:
        whole = fuse(reduce, bundle)
    results = by_groups(results, [dense], lambda _: whole)
    if not sparse:
        return results
    return by_groups(results, [sparse], lambda xs: reduced_slices(xs, op, scaling, options))


@not_converted
def fused_broadcast(
    tensors: Sequence[Tensor],
    root: int = 0,
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """Apply `broadcast` to each tensor, one transfer per element type and 64 MiB (collective)."""
    bundle = TensorBundle.of(tensors, "broadcast")
    options = CallOptions.of("broadcast", bundle.called(name), communicator, device)
    size = options.group.size
    if not isinstance(root, Integral) or not 0 <= root < size:
        raise InputError(f"broadcast: expected root among ranks 0..{size - 1}; got {root!r}.")
    return fuse(lambda flat: broadcasted(options.tensor(flat), int(root), options), bundle)


@not_converted
def fused_allgather(
    tensors: Sequence[Tensor],
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """Apply `allgather` to each tensor, in one transfer per element type (collective).

    Parameters
    ----------
    tensors : [n_ri, ...] on rank r; the first dimensions may differ from rank to rank.
    name, communicator, device : as for `allgather`.

    Returns
    -------
    [Σ_r n_ri, ...] for each, in order.
    """
    options = CallOptions.of("allgather", name, communicator, device)
    converted = [options.tensor(x) for x in list_of(tensors, "allgather")]
    for x in converted:
        check_rows(x, "allgather")
    return gathered_together(converted, options)


@not_converted
def fused_reducescatter(
    tensors: Sequence[Tensor],
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """Apply `reducescatter` to each tensor, one transfer per element type and 64 MiB (collective).

    Parameters
    ----------
    tensors : [n_i, ...], of the same shapes on every rank.
    op, prescale_factor, postscale_factor, name, communicator, device : as for `reducescatter`.

    Returns
    -------
    This rank's rows of each result, as from `reducescatter`, in order.
    """
    bundle = TensorBundle.of(tensors, "reducescatter")
    options = CallOptions.of("reducescatter", bundle.called(name), communicator, device)
    scaling = ScalingAndCompression(prescale_factor, postscale_factor, None, "reducescatter")

    def scatter(tensors: list[Tensor]) -> list[Tensor]:
        return scaling.around_all(lambda xs: scattered_together(xs, op, options), tensors)

    for x in map(options.tensor, bundle.tensors):
        check_rows(x, "reducescatter")
        check_reducible(op, x.dtype.name, where="reducescatter")
        if op is Adasum:
            raise InputError(
                "reducescatter: Adasum is an operation of allreduce alone. Use allreduce, and take "
                "this rank's rows of the result."
            )
    return fuse_lists(scatter, bundle)


def broadcast_variables(
    variables: Sequence[Any], root: int = 0, *, communicator: Communicator | None = None
) -> None:
    """Assign the values of rank `root` to the variables of every rank (collective).

    Parameters
    ----------
    variables : `tf.Variable`s or `keras.Variable`s, alike in number, order, shape and type on
        every rank.
    root : the rank that sends.
    communicator : the ranks that take part; all by default.

    Raises
    ------
    InputError
        `variables` has other elements than variables.
    CollectiveMismatchError
        The ranks have different variables, or another order of them.
    """
    variables = list_of(variables, "broadcast_variables", of="variables")
    for variable in variables:
        if not hasattr(variable, "assign"):
            raise InputError(
                f"broadcast_variables: expected tf.Variable or keras.Variable; got {variable!r}."
            )
    values = [tf.convert_to_tensor(variable) for variable in variables]
    received = fused_broadcast(values, root, communicator=communicator)
    for variable, value in zip(variables, received, strict=True):
        variable.assign(value)


def _reduced_when_it_runs(
    tensors: list[Tensor], op: ReduceOp, options: CallOptions, called: Callable[[TensorBundle], Any]
) -> list[Tensor]:
    """Sum or average when a plain graph runs and knows all shapes (collective)."""
    if options.group.size == 1:
        return [tf.identity(x) for x in tensors]

    def again(xs: list[Tensor], now: CallOptions) -> list[Tensor]:
        if not now.placement.eager:
            return _reduced_when_it_runs(xs, op, now, called)
        bundle = TensorBundle.of(xs, now.kind)
        now.name = called(bundle)
        return fuse(lambda flat: reduced(flat, op, now), bundle)

    def with_gradient(*xs: Tensor) -> tuple[list[Tensor], Any]:
        def gradient(*gs: Tensor) -> list[Tensor]:
            name = lambda bundle: gradient_name(called(bundle))  # noqa: E731
            return _reduced_when_it_runs(list(gs), op, options.of_gradient(), name)

        specs = [tf.TensorSpec(x.shape, x.dtype) for x in xs]
        return options.at_run_time(again, xs, specs, travel=len(xs)), gradient

    ys: list[Tensor] = custom_gradient(with_gradient, *tensors)
    return ys


def scattered_together(
    tensors: Sequence[Tensor], op: ReduceOp, options: CallOptions
) -> list[Tensor]:
    """Apply `scattered` to tensors of one type, in one transfer (collective)."""
    if len(tensors) == 1:
        return [scattered(tensors[0], op, options)]
    size, rank = options.group.size, options.group.rank
    shapes = [shape_of(x) for x in tensors]
    rows = np.array([even_rows(shape[0], size) for shape in shapes])
    counts = rows.T * [int(np.prod(shape[1:])) for shape in shapes]
    parts = [
        tf.split(tf.reshape(x, [-1]), own.tolist())
        for x, own in zip(tensors, counts.T, strict=True)
    ]
    # The rows for one rank follow each other.
    flat = tf.concat([part[r] for r in range(size) for part in parts], axis=0)
    y = scattered(flat, op, options, rows=tuple(counts.sum(axis=1).tolist()))
    return [
        tf.reshape(piece, [int(own[rank]), *shape[1:]])
        for piece, own, shape in zip(tf.split(y, counts[rank].tolist()), rows, shapes, strict=True)
    ]


def reduced_slices(
    slices: Sequence[Tensor], op: ReduceOp, scaling: ScalingAndCompression, options: CallOptions
) -> list[Tensor]:
    """Return all ranks' rows, over P for the Average, in one transfer per type (collective)."""
    values = [options.tensor(each.values) for each in slices]
    for x in values:
        check_reducible(op, x.dtype.name, where=options.kind)
        if op not in (Sum, Average):
            raise InputError(
                f"{options.kind}: expected Sum or Average for tf.IndexedSlices; got {op!r}. Make "
                f"the tensor dense by tf.convert_to_tensor first."
            )
    indices = [tf.convert_to_tensor(options.tensor(each.indices)) for each in slices]
    shapes = [each.dense_shape for each in slices]
    rows: list[Tensor] = []

    def gather(xs: list[Tensor]) -> list[Tensor]:
        whole = gathered_together([*xs, *map(widened, indices)], options, alike=shapes)
        rows.extend(whole[len(xs) :])
        return whole[: len(xs)]

    results = []
    ys = scaling.around_all(gather, values)
    for each, index, y, row in zip(slices, indices, ys, rows, strict=True):
        mean = y / options.group.size if op is Average else y
        results.append(tf.IndexedSlices(mean, tf.cast(row, index.dtype), each.dense_shape))
    return results
