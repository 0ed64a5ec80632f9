"""The collectives as differentiable functions of checked tensors; each gradient is the adjoint.

In plain graphs, shapes may be unknown until the graph runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.arguments import rows_for_each
from sciml_par.parallel.collectives.call_options import (
    COUNTS,
    Again,
    CallOptions,
    Gradient,
    Tensor,
    any_rows_of,
    widened,
)
from sciml_par.parallel.collectives.tensor_bundle import by_groups
from sciml_par.parallel.execution.dispatch import may_have_unknown_shapes, perform_bundle
from sciml_par.parallel.execution.graph_lifetime import custom_gradient
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.requests.reduce_op import Average, Max, Min, Product, ReduceOp, Sum
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    Request,
    Shape,
    any_rows,
    even_rows,
)
from sciml_par.parallel.tensors.packing import shape_of


def reduced(x: Tensor, op: ReduceOp, options: CallOptions) -> Tensor:
    """Return y = x_0 ∘ x_1 ∘ … on every rank (collective)."""

    def request_of(shape: Shape) -> Request:
        return Allreduce(x.dtype.name, shape, op, name=options.name)

    def again(x: Tensor, now: CallOptions) -> Tensor:
        return reduced(x, op, now)

    if not _has_derivatives(x):
        return options.perform(x, request_of, again)

    def with_gradient(x: Tensor) -> tuple[Tensor, Gradient]:
        y = _keeping_nan(x, op, options, request_of, again)

        def gradient(g: Tensor) -> Tensor:
            after = options.of_gradient()
            if op is Average:
                return reduced(g, Average, after)
            return _reduction_gradient(reduced(g, Sum, after), x, y, op, after)

        return y, gradient

    return options.differentiable(with_gradient, x)


def reduced_bundle(tensors: list[Tensor], op: ReduceOp, options: CallOptions) -> list[Tensor]:
    """Sum or average each tensor, by one custom call of XLA (collective)."""
    assert op in (Sum, Average)
    count = sum(x.shape.num_elements() for x in tensors)
    request = Allreduce(tensors[0].dtype.name, (count,), op, name=options.name)

    def with_gradient(*xs: Tensor) -> tuple[list[Tensor], Any]:
        def gradient(*gs: Tensor) -> list[Tensor]:
            known = [tf.ensure_shape(g, x.shape) for g, x in zip(gs, xs, strict=True)]
            return reduced_bundle(known, op, options.of_gradient())

        all_passes = options.all_passes(lambda xs, now: reduced_bundle(xs, op, now))
        return (perform_bundle(request, xs, options.placement, all_passes), gradient)

    ys: list[Tensor] = custom_gradient(with_gradient, *tensors)
    return ys


def broadcasted(x: Tensor, root: int, options: CallOptions) -> Tensor:
    """Return y = x_root on every rank (collective)."""

    def request_of(shape: Shape) -> Request:
        return Broadcast(x.dtype.name, shape, root, name=options.name)

    def gradient(g: Tensor) -> Tensor:
        total = reduced(g, Sum, options.of_gradient())
        if options.group.rank == root:
            return total
        with tf.control_dependencies([total]):  # or a graph would drop the collective
            # Zeros that depend on it: all ranks take part in its derivative as well.
            return tf.where(tf.zeros_like(total, tf.bool), total, tf.zeros_like(total))

    return options.moved(x, request_of, lambda x, now: broadcasted(x, root, now), gradient)


def gathered_rows(x: Tensor, rows: Shape, options: CallOptions) -> Tensor:
    """Return y = (x_0; x_1; …), given the number of rows of each rank (collective)."""
    first = sum(rows[: options.group.rank])
    end = first + rows[options.group.rank]

    def request_of(shape: Shape) -> Request:
        return Allgather(x.dtype.name, shape, rows, name=options.name)

    def gradient(g: Tensor) -> Tensor:
        return reduced(g, Sum, options.of_gradient())[first:end]

    again: Again = lambda x, now: gathered_rows(x, rows, now)  # noqa: E731
    return options.moved(x, request_of, again, gradient, by_rows=True)


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
    groups = [
        [i for i, x in enumerate(tensors) if x.dtype == dtype]
        for dtype in dict.fromkeys(x.dtype for x in tensors)
    ]

    def gather(indices: list[int]) -> list[Tensor]:
        return _gathered_flat([tensors[i] for i in indices], rows[:, indices], options)

    return by_groups(range(len(tensors)), groups, gather)


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
        signature = any_rows(options.kind, x.dtype.name, shape_of(x), options.name, rows_only=True)
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


def scattered(
    x: Tensor, op: ReduceOp, options: CallOptions, *, rows: Shape | None = None
) -> Tensor:
    """Return this rank's rows of x_0 ∘ x_1 ∘ … (collective)."""
    group = options.group

    def request_of(shape: Shape) -> Request:
        split = rows or even_rows(shape[0], group.size)
        return Reducescatter(x.dtype.name, shape, op, split, group.rank, name=options.name)

    def whole(part: Tensor, after: CallOptions) -> Tensor:
        # The shape of x decides, on every rank alike: that of its gradient may be known less or
        # more.
        if not x.shape.is_fully_defined():
            back = gathered_together([part], after)[0]
            return back if x.shape.rank is None else tf.ensure_shape(back, x.shape)
        split = rows or even_rows(x.shape[0], group.size)
        mine = tf.ensure_shape(part, [split[group.rank], *shape_of(x)[1:]])
        return gathered_rows(mine, split, after)

    def with_gradient(x: Tensor) -> tuple[Tensor, Gradient]:
        again: Again = lambda x, now: scattered(x, op, now, rows=rows)  # noqa: E731
        y = _keeping_nan(x, op, options, request_of, again, by_rows=True)

        def gradient(g: Tensor) -> Tensor:
            after = options.of_gradient()
            total = whole(g, after)
            result = whole(y, after) if op in (Min, Max) else y
            return _reduction_gradient(total, x, result, op, after)

        return y, gradient

    if not _has_derivatives(x):
        return with_gradient(x)[0]
    return options.differentiable(with_gradient, x)


def _keeping_nan(
    x: Tensor,
    op: ReduceOp,
    options: CallOptions,
    request_of: Callable[[Shape], Request],
    again: Callable[[Tensor, CallOptions], Tensor],
    *,
    by_rows: bool = False,
) -> Tensor:
    """Carry out a reduction; in Min and Max a NaN on any rank wins (collective)."""
    dropped = op in (Min, Max) and x.dtype.is_floating
    # At run time the shape is known, and the reduction comes here again.
    if not dropped or options.group.nccl_transport is None or options.has_unknown_shape(x):
        return options.perform(x, request_of, again, by_rows=by_rows)
    worst, flag = (-math.inf, 1) if op is Max else (math.inf, -1)
    nan = tf.math.is_nan(x)
    flags = tf.cast(nan, x.dtype) * tf.cast(flag, x.dtype)
    both = tf.stack([tf.where(nan, tf.cast(worst, x.dtype), x), flags], axis=-1)
    found = options.perform(both, request_of, again, by_rows=by_rows)
    y, flags = tf.unstack(found, num=2, axis=-1)
    return tf.where(tf.equal(flags, 0), y, tf.cast(math.nan, x.dtype))


def exchanged(x: Tensor, sent: Shape, received: Shape, options: CallOptions) -> Tensor:
    """Return the rows that the ranks send to this one (collective)."""

    def request_of(shape: Shape) -> Request:
        return Alltoall(x.dtype.name, shape, sent, received, name=options.name)

    def gradient(g: Tensor) -> Tensor:
        return exchanged(g, received, sent, options.of_gradient())

    again: Again = lambda x, now: exchanged(x, sent, received, now)  # noqa: E731
    return options.moved(x, request_of, again, gradient, by_rows=True)


def exchanged_by(x: Tensor, splits: Any, options: CallOptions) -> tuple[Tensor, Any]:
    """Exchange rows; return them and the number of rows from each rank (collective).

    In plain graphs the numbers are a tensor of `COUNTS`, and elsewhere integers.
    """
    group, when_it_runs = options.group, may_have_unknown_shapes()
    computed = tf.is_tensor(splits) and tf.get_static_value(splits) is None
    if not options.has_unknown_shape(x) and not (when_it_runs and computed):
        splits = rows_for_each(splits, x.shape[0], group.size)
    if not when_it_runs:
        signature = any_rows("alltoall", x.dtype.name, shape_of(x), options.name, rows_only=True)
        received = tuple(group.exchange_rows(splits, signature=signature))
        return exchanged(x, splits, received, options), received

    def again(xs: list[Tensor], now: CallOptions) -> tuple[Tensor, Any]:
        return exchanged_by(xs[0], xs[1] if xs[1:] else None, now)

    def with_gradient(x: Tensor) -> tuple[Any, Any]:
        inputs = [x] if splits is None else [x, widened(splits)]
        results = [any_rows_of(x), tf.TensorSpec([group.size], COUNTS)]
        y, received = options.at_run_time(again, inputs, results, by_rows=True)

        def gradient(g: Tensor, _: Any) -> Tensor:
            back = exchanged_by(g, received, options.of_gradient())[0]
            return back if x.shape.rank is None else tf.ensure_shape(back, x.shape)

        return (y, received), gradient

    y, received = custom_gradient(with_gradient, x)
    return y, received


def _has_derivatives(x: Tensor) -> bool:
    return bool(x.dtype.is_floating or x.dtype.is_complex)


def _reduction_gradient(
    total: Tensor, x: Tensor, y: Tensor, op: ReduceOp, options: CallOptions
) -> Tensor:
    """Return ∂L/∂x_s given `total` = ∂L/∂y for y = x_0 ∘ x_1 ∘ … (only Min and Max use y)."""
    if op is Sum:
        return total
    if op is Average:
        return total / options.group.size
    if op is Product:
        rank, size = options.group.rank, options.group.size
        everyone = gathered_rows(x[tf.newaxis], (1,) * size, options)
        others = tf.concat([everyone[:rank], everyone[rank + 1 :]], axis=0)
        return total * tf.math.conj(tf.reduce_prod(others, axis=0))  # exact if some are zero
    assert op in (Min, Max)
    holds = tf.cast(tf.equal(x, y), x.dtype)
    return total * holds / reduced(holds, Sum, options)
