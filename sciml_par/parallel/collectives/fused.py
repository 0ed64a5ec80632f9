"""Many small tensors as one: flat buffers of one element type, a collective for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.adasum import adasum
from sciml_par.parallel.collectives.arguments import check_rows, shape_of, tensor_of
from sciml_par.parallel.collectives.broadcast import broadcast
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor, gradient_name
from sciml_par.parallel.collectives.fused_rows import gathered_together, scattered_together
from sciml_par.parallel.collectives.primitives import reduced, reduced_bundle
from sciml_par.parallel.collectives.sparse import reduced_slices
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.custom_gradient import custom_gradient
from sciml_par.parallel.execution.dispatch import takes_bundles
from sciml_par.parallel.execution.unknown_shapes import may_have_unknown_shapes
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import (
    Adasum,
    Average,
    ReduceOp,
    Sum,
    check_reducible,
    check_scatterable,
)
from sciml_par.parallel.tensors.compression import Compression
from sciml_par.parallel.tensors.packing import can_pack, packed, unpacked
from sciml_par.parallel.tensors.scaling import ScalingAndCompression
from sciml_par.parallel.tensors.shapes import shape_digest

BUCKET_BYTES = 64 << 20
"""How long a flat buffer may become. Longer ones gain no speed, and take memory once more."""


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
    """`allreduce` of each tensor, in one transfer per element type and 64 MiB (collective).

    Parameters
    ----------
    tensors : of any shapes, the same on every rank. `tf.IndexedSlices` among them are gathered, all
        together.
    op, prescale_factor, postscale_factor, compression, name, communicator, device : as for
        `allreduce`. Adasum takes each tensor by itself.

    Returns
    -------
    The reduced tensors, in order.
    """
    results: list[Tensor] = list(tensors)
    sparse, dense = _sparse_and_dense(results)
    together = Together.of([results[i] for i in dense], "allreduce")
    options = CallOptions.of("allreduce", together.called(name), communicator, device)
    scaling = ScalingAndCompression(prescale_factor, postscale_factor, compression, "allreduce")

    def reduce(flat: Tensor) -> Tensor:
        x = options.tensor(flat)
        check_reducible(op, x.dtype.name, where="allreduce")
        return scaling.around(lambda x: reduced(x, op, options), x)

    def reduce_each(tensors: list[Tensor]) -> list[Tensor]:
        return scaling.around_all(lambda xs: adasum(xs, options), tensors)

    def reduce_bundle(tensors: list[Tensor]) -> list[Tensor]:
        if len(tensors) == 1 or not all(x.shape.is_fully_defined() for x in tensors):
            return [reduce(x) for x in tensors]
        for x in tensors:
            check_reducible(op, x.dtype.name, where="allreduce")
        return scaling.around_all(lambda xs: reduced_bundle(xs, op, options), tensors)

    def reduce_later(tensors: list[Tensor]) -> list[Tensor]:
        return scaling.around_all(lambda xs: _reduced_later(xs, op, options, name), tensors)

    if op is Adasum:
        whole = fuse_lists(reduce_each, together)
    elif together.has_open_shapes and op in (Sum, Average) and may_have_unknown_shapes():
        whole = reduce_later(together.tensors)
    elif _as_bundle(op, compression, options):
        whole = fuse_lists(reduce_bundle, together)
    else:
        whole = fuse(reduce, together)
    for i, y in zip(dense, whole, strict=True):
        results[i] = y
    if sparse:
        slices = [results[i] for i in sparse]
        for i, y in zip(sparse, reduced_slices(slices, op, scaling, options), strict=True):
            results[i] = y
    return results


@not_converted
def fused_broadcast(
    tensors: Sequence[Tensor],
    root: int = 0,
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """`broadcast` of each tensor, in one transfer per element type and 64 MiB (collective)."""
    together = Together.of(tensors, "broadcast")
    name = together.called(name)
    return fuse(
        lambda flat: broadcast(flat, root, name=name, communicator=communicator, device=device),
        together,
    )


@not_converted
def fused_allgather(
    tensors: Sequence[Tensor],
    *,
    name: str | None = None,
    communicator: Communicator | None = None,
    device: str | None = None,
) -> list[Tensor]:
    """`allgather` of each tensor, in one transfer per element type (collective).

    Parameters
    ----------
    tensors : [n_ri, ...] on rank r; the first dimensions may differ from rank to rank.
    name, communicator, device : as for `allgather`.

    Returns
    -------
    [Σ_r n_ri, ...] for each, in order.
    """
    options = CallOptions.of("allgather", name, communicator, device)
    converted = [options.tensor(x) for x in tensors]
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
    """`reducescatter` of each tensor, in one transfer per element type and 64 MiB (collective).

    Parameters
    ----------
    tensors : [n_i, ...], of shapes that are the same on every rank.
    op, prescale_factor, postscale_factor, name, communicator, device : as for `reducescatter`.

    Returns
    -------
    This rank's rows of each result, in order; those that `reducescatter` gives.
    """
    together = Together.of(tensors, "reducescatter")
    options = CallOptions.of("reducescatter", together.called(name), communicator, device)
    scaling = ScalingAndCompression(prescale_factor, postscale_factor, None, "reducescatter")

    def scatter(tensors: list[Tensor]) -> list[Tensor]:
        return scaling.around_all(lambda xs: scattered_together(xs, op, options), tensors)

    for x in map(options.tensor, together.tensors):
        check_rows(x, "reducescatter")
        check_scatterable(op, x.dtype.name, where="reducescatter")
    return fuse_lists(scatter, together)


def _reduced_later(
    tensors: list[Tensor], op: ReduceOp, options: CallOptions, name: str | None, order: int = 0
) -> list[Tensor]:
    """`fused_allreduce` by Sum or Average when a plain graph runs, which then knows all shapes.

    It asks for what a rank asks for that has known them when it was traced (collective).

    Parameters
    ----------
    order : 1 for the gradient, 2 for the gradient of that, ...
    """
    group = options.group
    if group.size == 1:
        return [tf.identity(x) for x in tensors]
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in tensors]

    def run(_: Any, *xs: Tensor) -> list[Tensor]:
        together = Together.of(xs, options.kind)
        called = together.called(name)
        for _ in range(order):
            called = gradient_name(called)
        now = CallOptions.of(options.kind, called, group, options.placement.device)
        return fuse(lambda flat: reduced(flat, op, now), together)

    def with_gradient(*xs: Tensor) -> tuple[list[Tensor], Any]:
        def gradient(*gs: Tensor) -> list[Tensor]:
            return _reduced_later(list(gs), op, options.of_gradient(), name, order + 1)

        return options.at_run_time(run, xs, specs), gradient

    ys: list[Tensor] = custom_gradient(with_gradient, *tensors)
    return ys


def _as_bundle(op: ReduceOp, compression: Any, options: CallOptions) -> bool:
    """Whether tensors need not be laid in one first: a compressor of the user's sees them all."""
    known = (None, Compression.none, Compression.fp16, Compression.bf16)
    return op in (Sum, Average) and compression in known and takes_bundles(options.placement)


Kind = tuple[Any, tuple[int, ...] | None]
"""A tensor's element type and shape, the latter None where a graph leaves it open."""


@dataclass(frozen=True)
class Together:
    """Tensors that travel as few as can be.

    Parameters
    ----------
    tensors : in order.
    kinds : what each of them is.
    """

    tensors: list[Tensor]
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, values: Sequence[Any], where: str) -> Together:
        """Each of `values` as a tensor, which `where` is to carry (local)."""
        # To look at a tensor takes Python as long as to carry some hundred elements of it.
        if set(map(type, values)) == {_eager_tensor()}:
            return cls(list(values), tuple([_kind_of_eager(x) for x in values]))
        tensor_type = tf.Tensor
        tensors = [x if isinstance(x, tensor_type) else tensor_of(x, where) for x in values]
        return cls(tensors, tuple(map(_kind_of, tensors)))

    @property
    def has_open_shapes(self) -> bool:
        """Whether a graph leaves the shape of one of them open."""
        return any(shape is None for _, shape in self.kinds)

    def called(self, name: str | None) -> str | None:
        """What the ranks agree on, with the shapes, which a flat buffer does not show (local)."""
        if len(self.tensors) < 2:
            return name
        label = _label(self.kinds)
        return label if name is None else f"{name} ({label})"


@lru_cache(maxsize=64)
def _label(kinds: tuple[Kind, ...]) -> str:
    return f"{len(kinds)} tensors of shapes {shape_digest(shape for _, shape in kinds)}"


def fuse(
    collective: Callable[[Tensor], Tensor],
    together: Together,
    *,
    bucket_bytes: int = BUCKET_BYTES,
) -> list[Tensor]:
    """Apply an element-wise collective to all tensors, as many as fit at once.

    Parameters
    ----------
    bucket_bytes : what a flat buffer may hold; a tensor that is longer goes alone.
    """
    apply = _apply_packed if can_pack() else _apply_flat
    return fuse_lists(
        lambda tensors: apply(collective, tensors), together, bucket_bytes=bucket_bytes
    )


def fuse_lists(
    collective: Callable[[list[Tensor]], list[Tensor]],
    together: Together,
    *,
    bucket_bytes: int = BUCKET_BYTES,
) -> list[Tensor]:
    """Apply a collective on lists of tensors of one type to all tensors, as `fuse` does."""
    tensors = together.tensors
    results: list[Tensor] = [None] * len(tensors)
    for indices in _buckets(together.kinds, bucket_bytes):
        for i, result in zip(indices, collective([tensors[i] for i in indices]), strict=True):
            results[i] = result
    return results


def _sparse_and_dense(tensors: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Which of them are `tf.IndexedSlices`, and which are not."""
    types = set(map(type, tensors))
    if not any(issubclass(each, tf.IndexedSlices) for each in types):
        return [], list(range(len(tensors)))
    sparse = [i for i, x in enumerate(tensors) if isinstance(x, tf.IndexedSlices)]
    return sparse, sorted({*range(len(tensors))}.difference(sparse))


def _kind_of_eager(x: Tensor) -> Kind:
    return x._datatype_enum(), x._shape_tuple()  # the properties take ten times as long


def _kind_of(x: Tensor) -> Kind:
    if x.__class__ is _eager_tensor():
        return _kind_of_eager(x)
    return x.dtype, shape_of(x) if x.shape.is_fully_defined() else None


@lru_cache(maxsize=1)
def _eager_tensor() -> Any:
    from tensorflow.python.framework import ops

    return ops.EagerTensor


@lru_cache(maxsize=64)
def _buckets(kinds: tuple[Kind, ...], bucket_bytes: int) -> list[list[int]]:
    """The tensors of each buffer, by index: one element type, types in order of appearance.

    One whose shape a graph leaves open goes alone, after the others.
    """
    by_type: dict[Any, list[list[int]]] = {}
    room: dict[Any, int] = {}
    alone: list[list[int]] = []
    for i, (kind, shape) in enumerate(kinds):
        dtype = tf.as_dtype(kind)
        if shape is None:
            alone.append([i])
            continue
        nbytes = math.prod(shape) * dtype.size
        if room.get(dtype, 0) < nbytes or dtype not in by_type:
            by_type.setdefault(dtype, []).append([])
            room[dtype] = bucket_bytes
        by_type[dtype][-1].append(i)
        room[dtype] -= nbytes
    return [bucket for buckets in by_type.values() for bucket in buckets] + alone


def _apply_packed(collective: Callable[[Tensor], Tensor], tensors: list[Tensor]) -> list[Tensor]:
    if len(tensors) == 1:
        return [collective(tensors[0])]
    shapes = tuple([x._shape_tuple() for x in tensors])
    return unpacked(collective(packed(tensors, shapes)), shapes)


def _apply_flat(collective: Callable[[Tensor], Tensor], tensors: list[Tensor]) -> list[Tensor]:
    if len(tensors) == 1:
        return [collective(tensors[0])]
    flat = collective(tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0))
    parts = tf.split(flat, [t.shape.num_elements() for t in tensors])
    return [tf.reshape(part, t.shape) for part, t in zip(parts, tensors, strict=True)]
