"""allreduce of `tf.IndexedSlices`, such as the gradients of an embedding: by allgather."""

from __future__ import annotations

from collections.abc import Sequence

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.collectives.call_options import CallOptions, Tensor
from sciml_par.parallel.collectives.fused_rows import gathered_together
from sciml_par.parallel.requests.reduce_op import Average, ReduceOp, Sum, check_reducible
from sciml_par.parallel.tensors.scaling import ScalingAndCompression


def reduced_slices(
    slices: Sequence[Tensor], op: ReduceOp, scaling: ScalingAndCompression, options: CallOptions
) -> list[Tensor]:
    """Return the rows of all ranks, in one transfer an element type (collective).

    Rows with one index count as their sum, so that the sum over the ranks is all their rows; for
    the Average, the values are divided by P.

    Parameters
    ----------
    slices : `tf.IndexedSlices`, values [n_r, ...] and indices [n_r]; n_r may differ from rank to
        rank. Their dense_shape must not: ranks that differ in it get an error.
    """
    values = [options.tensor(each.values) for each in slices]
    for x in values:
        check_reducible(op, x.dtype.name, where=options.kind)
        if op not in (Sum, Average):
            raise InputError(
                f"{options.kind}: expected Sum or Average for tf.IndexedSlices; got {op!r}. Make "
                f"the tensor dense by tf.convert_to_tensor first."
            )
    indices = [options.tensor(each.indices) for each in slices]
    before = [scaling.before(x) for x in values]
    shapes = [each.dense_shape for each in slices]
    whole = gathered_together([*(x for x, _ in before), *indices], options, alike=shapes)
    results = []
    for i, (each, (_, context)) in enumerate(zip(slices, before, strict=True)):
        y = scaling.after(whole[i], context)
        if op is Average:
            y = y / options.group.size
        results.append(tf.IndexedSlices(y, whole[len(slices) + i], each.dense_shape))
    return results
