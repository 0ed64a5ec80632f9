"""Rows of many tensors, gathered or scattered as one flat vector; slices among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.call_options import (
    COUNTS,
    CallOptions,
    Tensor,
    any_rows_of,
    widened,
)
from sciml_par.parallel.collectives.primitives import gathered_rows, reduced, scattered
from sciml_par.parallel.execution.dispatch import may_have_unknown_shapes
from sciml_par.parallel.execution.graph_lifetime import custom_gradient
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp, Sum, check_reducible
from sciml_par.parallel.requests.request import Allgather, any_rows, even_rows, exchange_of_rows
from sciml_par.parallel.tensors.compression import ScalingAndCompression
from sciml_par.parallel.tensors.packing import shape_of


def gathered_together(
    tensors: Sequence[Tensor], options: CallOptions, *, alike: Sequence[Tensor | None] = ()
) -> list[Tensor]:
    """Gather each, in one exchange of numbers of rows and one transfer per type (collective)."""
    if not tensors:
        return []
    unknown = [options.has_unknown_shape(x) for x in tensors]
    if options.group.size == 1:
        return [tf.identity(x) for x in tensors]
    if any(unknown) or may_have_unknown_shapes():
        return _gathered_when_it_runs(tensors, options, alike)[:-1]
    return _gathered_by_type(tensors, _rows_of_all(tensors, options, alike), options)


def _gathered_by_type(
    tensors: Sequence[Tensor], rows: np.ndarray, options: CallOptions
) -> list[Tensor]:
    """Gather in one transfer per type. rows: [P, n], of every rank's tensors."""
    results: list[Tensor] = [None] * len(tensors)
    for dtype in dict.fromkeys(x.dtype for x in tensors):
        indices = [i for i, x in enumerate(tensors) if x.dtype == dtype]
        whole = _gathered_flat([tensors[i] for i in indices], rows[:, indices], options)
        for i, y in zip(indices, whole, strict=True):
            results[i] = y
    return results


def _gathered_when_it_runs(
    tensors: Sequence[Tensor], options: CallOptions, alike: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return all results, and then the number of rows of each rank and tensor, [P, n]."""
    group, n = options.group, len(tensors)
    results = [*map(any_rows_of, tensors), tf.TensorSpec([group.size, n], COUNTS)]
    known = [widened(each) for each in alike if each is not None]

    def again(inputs: list[Tensor], now: CallOptions) -> list[Any]:
        xs, values = inputs[:n], iter(inputs[n:])
        same = [None if each is None else next(values) for each in alike]
        if not now.placement.eager:
            return _gathered_when_it_runs(xs, now, same)
        rows = _rows_of_all(xs, now, same)
        return [*_gathered_by_type(xs, rows, now), rows]

    def with_gradient(*xs: Tensor) -> tuple[list[Tensor], Any]:
        *ys, rows = options.at_run_time(again, [*xs, *known], results, by_rows=True, travel=n)
        first = tf.reduce_sum(rows[: group.rank], axis=0)

        def gradient(*gs: Tensor) -> list[Tensor]:  # the last one is by the rows
            after = options.of_gradient()
            mine = rows[group.rank]
            totals = [None if g is None else reduced(g, Sum, after) for g in gs[:-1]]
            return [
                None if g is None else g[first[i] : first[i] + mine[i]]
                for i, g in enumerate(totals)
            ]

        return [*ys, rows], gradient

    ys: list[Tensor] = custom_gradient(with_gradient, *tensors)
    return ys


def _gathered_flat(
    tensors: Sequence[Tensor], rows: np.ndarray, options: CallOptions
) -> list[Tensor]:
    """Gather tensors of one type. rows: [P, n], of every rank's tensors."""
    if len(tensors) == 1:
        return [gathered_rows(tensors[0], tuple(rows[:, 0].tolist()), options)]
    shapes = [shape_of(x) for x in tensors]
    counts = rows * [int(np.prod(shape[1:])) for shape in shapes]
    flat = tf.concat([tf.reshape(x, [-1]) for x in tensors], axis=0)
    everyone = gathered_rows(flat, tuple(counts.sum(axis=1).tolist()), options)
    pieces = tf.split(everyone, counts.ravel().tolist())
    return [
        tf.reshape(tf.concat(pieces[i :: len(tensors)], axis=0), [n, *shape[1:]])
        for i, (n, shape) in enumerate(zip(rows.sum(axis=0).tolist(), shapes, strict=True))
    ]


def _rows_of_all(
    tensors: Sequence[Tensor], options: CallOptions, alike: Sequence[Tensor | None]
) -> np.ndarray:
    """Return the number of rows of each rank and tensor, [P, n] (collective)."""
    group, n = options.group, len(tensors)
    if n == 1:
        x = tensors[0]
        signature = exchange_of_rows(options.kind, x.dtype.name, shape_of(x), options.name)
        return np.array(group.gather_rows(x.shape[0], signature=signature))[:, np.newaxis]
    mine = np.array([x.shape.as_list()[0] for x in tensors], np.int64)
    everyone = np.empty((group.size, n), np.int64)
    # By this name the ranks agree on all types and shapes, and on `alike`.
    shapes = [str(any_rows("", x.dtype.name, shape_of(x)))[1:-1] for x in tensors]
    name = f"rows of {options.kind}({'; '.join(shapes)})"
    if alike:
        name += f" with dense_shape {', '.join(map(_text, alike))}"
    if options.name is not None:
        name += f" {options.name}"
    request = Allgather("int64", (n,), (n,) * group.size, name=name)
    CallSite(group, request).prepared(group.mpi_transport).execute(
        mine.ctypes.data, everyone.ctypes.data
    )
    return everyone


def _text(integers: Tensor | None) -> str:
    """Return the values of a tensor if the trace knows them, or "None"."""
    known = None if integers is None else tf.get_static_value(integers)
    return str(known if known is None else np.asarray(known).tolist())


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
    before = [scaling.before(x) for x in values]
    shapes = [each.dense_shape for each in slices]
    travelling = [*(x for x, _ in before), *map(widened, indices)]
    whole = gathered_together(travelling, options, alike=shapes)
    results = []
    for i, (each, (_, context)) in enumerate(zip(slices, before, strict=True)):
        y = scaling.after(whole[i], context)
        if op is Average:
            y = y / options.group.size
        rows = tf.cast(whole[len(slices) + i], indices[i].dtype)
        results.append(tf.IndexedSlices(y, rows, each.dense_shape))
    return results
