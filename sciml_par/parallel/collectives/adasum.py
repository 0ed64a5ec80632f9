"""Adasum: a sum of gradients that averages their common direction.

Maleki et al. 2020, "Scaling distributed training with adaptive summation" (arXiv 2006.02924).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.arguments import unknown_shape
from sciml_par.parallel.collectives.call_options import CallOptions
from sciml_par.parallel.collectives.primitives import exchanged, gathered_rows, reduced
from sciml_par.parallel.collectives.tensor_bundle import as_one_vector
from sciml_par.parallel.requests.reduce_op import Sum
from sciml_par.parallel.requests.request import even_rows
from sciml_par.parallel.tensors.packing import shape_of

Tensor = Any

_HALF_BYTES = 2


def adasum(tensors: Sequence[Tensor], options: CallOptions) -> list[Tensor]:
    """Combine each of the tensors over the ranks, separately (collective).

        A(a, b) = (1 − a·b / 2‖a‖²) a + (1 − a·b / 2‖b‖²) b

    applied to pairs of ranks, to pairs of such pairs, and so on; with P = 2^k + m ranks, rank
    2^k + r is first combined into rank r. Orthogonal vectors are added, parallel ones averaged.

    Notes
    -----
    Every intermediate result is Σ_r w_r x_r, and its products follow from x_r · x_s. So each rank
    takes one part of all ranks' vectors (an alltoall) and multiplies. The sum of the products over
    the parts (an allreduce of P² numbers per tensor) gives all ranks the same weights w; then the
    parts are gathered. The traffic is that of an allreduce of long vectors, and all ranks have the
    same bits. Products are in float64; 16-bit types are combined in float32.
    """
    for x in tensors:
        if not x.shape.is_fully_defined():
            raise unknown_shape(x, options.kind)
    if options.group.size == 1:
        return [tf.identity(x) for x in tensors]
    lengths = [int(np.prod(shape_of(x))) for x in tensors]
    return as_one_vector(lambda flat: _combined(flat, lengths, options), tensors)


def _combined(flat: Tensor, lengths: Sequence[int], options: CallOptions) -> Tensor:
    """Combine [n], the concatenation of vectors of `lengths`."""
    rank, size = options.group.rank, options.group.size
    share = even_rows(sum(lengths), size)
    mine = exchanged(flat, share, (share[rank],) * size, options)
    dtype = tf.float32 if flat.dtype.size == _HALF_BYTES else flat.dtype
    rows = tf.cast(tf.reshape(mine, [size, share[rank]]), dtype)

    first = sum(share[:rank])
    ends = list(itertools.accumulate(lengths))
    inside = {  # {vector: number of its elements in this rank's share}
        i: min(end, first + share[rank]) - max(end - n, first)
        for i, (n, end) in enumerate(zip(lengths, ends, strict=True))
    }
    inside = {i: n for i, n in inside.items() if n > 0} or {0: 0}
    pieces = tf.split(rows, list(inside.values()), axis=1)
    products = [tf.zeros([size, size], tf.float64)] * len(lengths)
    for vector, piece in zip(inside, pieces, strict=True):
        exact = tf.cast(piece, tf.float64)
        products[vector] = tf.matmul(exact, exact, transpose_b=True)
    weights = _weights(reduced(tf.stack(products), Sum, options), size)
    sums = [
        tf.linalg.matvec(piece, tf.cast(weights[vector], dtype), transpose_a=True)
        for vector, piece in zip(inside, pieces, strict=True)
    ]
    part = tf.cast(tf.concat(sums, axis=0), flat.dtype)
    return gathered_rows(part, share, options)


def _weights(products: Tensor, size: int) -> Tensor:
    """Compute w: [n, P] with Adasum(x_0, …) = Σ_r w_r x_r from all x_r · x_s: [n, P, P]."""
    # Row r has the weights of the x in the r-th intermediate result.
    rows = tf.eye(size, batch_shape=[products.shape[0]], dtype=products.dtype)
    whole = 1 << (size.bit_length() - 1)
    more = size - whole
    if more:
        folded = _pairwise(rows[:, :more], rows[:, whole:], products)
        rows = tf.concat([folded, rows[:, more:whole]], axis=1)
    for _ in range(whole.bit_length() - 1):
        rows = _pairwise(rows[:, 0::2], rows[:, 1::2], products)
    return rows[:, 0]


def _pairwise(a: Tensor, b: Tensor, products: Tensor) -> Tensor:
    """Combine each pair. a, b: [n, pairs, P]."""
    of_a, of_b = tf.matmul(a, products), tf.matmul(b, products)
    between = tf.reduce_sum(of_a * b, axis=2, keepdims=True)
    for_a = 1 - _ratio(between, of_a, a, products) / 2
    for_b = 1 - _ratio(between, of_b, b, products) / 2
    return for_a * a + for_b * b


def _ratio(between: Tensor, of_a: Tensor, a: Tensor, products: Tensor) -> Tensor:
    """Return a·b / ‖a‖²; 0 if a is zero or only the rounding of terms that cancel."""
    square = tf.reduce_sum(of_a * a, axis=2, keepdims=True)
    lengths = tf.sqrt(tf.linalg.diag_part(tf.stop_gradient(products)))[:, tf.newaxis]
    uncancelled = tf.reduce_sum(tf.abs(a) * lengths, axis=2, keepdims=True) ** 2
    rounding = 4 * a.shape[2] * np.finfo(np.float64).eps
    known = square > rounding * uncancelled
    return tf.where(known, between / tf.where(known, square, tf.ones_like(square)), 0)
