"""Collectives on values: numbers, arrays and tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.horovod.tensorflow import mpi_ops, reductions
from sciml_par.horovod.tensorflow.compression import Compression
from sciml_par.horovod.tensorflow.keras_version import session_of_keras
from sciml_par.parallel import Average, ReduceOp
from sciml_par.parallel.execution.dispatch import outside_the_order

Value = Any
"""A number, an array, or a tensor."""


def allreduce(
    value: Value,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: Any = Compression.none,
) -> Value:
    """Combine the ranks' values [...] element by element (collective).

    Parameters and errors are those of `sciml_par.horovod.tensorflow.allreduce`.

    Returns
    -------
    A tensor of the same shape; in a session of TensorFlow 1 its value.
    """
    return _value(
        lambda: reductions.allreduce(
            tf.convert_to_tensor(value),
            average=average,
            compression=compression,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            name=name,
        )
    )


def allgather(value: Value, name: str | None = None) -> Value:
    """Concatenate the ranks' values [n_r, ...] to [Σ_r n_r, ...] (collective)."""
    return _value(lambda: mpi_ops.allgather(tf.convert_to_tensor(value), name=name))


def broadcast(value: Value, root_rank: int, name: str | None = None) -> Value:
    """Return the value of rank `root_rank` on every rank (collective)."""
    return _value(lambda: mpi_ops.broadcast(tf.convert_to_tensor(value), root_rank, name=name))


def reducescatter(value: Value, name: str | None = None, op: ReduceOp = Average) -> Value:
    """Combine the ranks' values [n, ...]; each rank gets its rows [n_r, ...] (collective)."""
    return _value(lambda: reductions.reducescatter(tf.convert_to_tensor(value), op=op, name=name))


def _value(make: Callable[[], Any]) -> Value:
    session = session_of_keras()
    if session is None:
        return make()
    with outside_the_order():
        return session.run(make())
