"""Ranks, and the collectives that only move tensors, by Horovod's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par import parallel
from sciml_par._tensorflow import tf
from sciml_par.horovod.common.basics import HorovodBasics
from sciml_par.horovod.common.exceptions import invalid_arguments
from sciml_par.horovod.common.process_sets import (
    ProcessSet,
    communicator_of,
    global_process_set,
    process_set_of,
    root_in,
)
from sciml_par.horovod.tensorflow.reductions import with_gradient_times
from sciml_par.parallel.execution.autograph import not_converted
from sciml_par.parallel.execution.dispatch import outside_the_order
from sciml_par.parallel.execution.xla_custom_call import in_compiled_function

Tensor = Any

_basics = HorovodBasics(__file__, "mpi_lib")

shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
size = _basics.size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built
Average = _basics.Average
Sum = _basics.Sum
Adasum = _basics.Adasum
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product


def init(*args: Any, **kwargs: Any) -> None:
    """Join the ranks of this job (collective); see `HorovodBasics.init` for the parameters."""
    _basics.init(*args, **kwargs)


@not_converted
def allgather(
    tensor: Tensor,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Concatenate the ranks' tensors [n_r, ...] to [Σ_r n_r, ...] (collective).

    Gradient: this rank's rows of (1/P) Σ_r ḡ_r.
    """
    return grouped_allgather([tensor], name=name, process_set=process_set)[0]


@not_converted
def grouped_allgather(
    tensors: Sequence[Tensor],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Return `allgather` of each tensor, in one transfer (collective)."""
    group = communicator_of(process_set)
    averaged = [with_gradient_times(1 / group.size, tensor) for tensor in tensors]
    with invalid_arguments():
        return parallel.fused_allgather(averaged, name=name, communicator=group)


@not_converted
def broadcast(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Return the tensor of rank `root_rank` of the job on every rank of the set (collective).

    Gradient: (1/P) Σ_r ḡ_r on that rank, zero on the others.
    """
    root = root_in(process_set, root_rank)
    group = communicator_of(process_set)
    x = with_gradient_times(1 / group.size, tensor)
    return parallel.broadcast(x, root, name=name, communicator=group)


@not_converted
def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Assign the values of rank `root_rank` of the job on every rank (collective).

    Returns
    -------
    The new values, in order. In graphs of TensorFlow 1, running them assigns them.
    """
    variables = list(variables)
    given = [tf.convert_to_tensor(variable) for variable in variables]

    def receive(*given: Tensor) -> list[Tensor]:
        root, group = root_in(process_set, root_rank), communicator_of(process_set)
        return parallel.fused_broadcast(given, root, name=name, communicator=group)

    if not (tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function):
        # A session of TensorFlow 1 may run this before it can feed the collectives built before.
        with outside_the_order():
            received = receive(*given) if is_initialized() else _when_it_runs(receive, given)
    else:
        received = receive(*given)
    values = []
    for variable, value in zip(variables, received, strict=True):
        assigned = variable.assign(value)
        operation = getattr(assigned, "op", None) if not tf.executing_eagerly() else None
        with tf.control_dependencies([] if operation is None else [operation]):
            values.append(tf.identity(value))
    return values


@not_converted
def alltoall(
    tensor: Tensor,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send different rows to each rank (collective).

    Parameters
    ----------
    tensor : [n_r, ...], any number of rows.
    splits : the number of rows for each rank, [P]; equal numbers by default.

    Returns
    -------
    The rows received, in the order of ranks; with `splits`, also the number of rows from each
    rank, int32 [P].

    Raises
    ------
    tf.errors.InvalidArgumentError
        The splits do not fit.
    """
    group = communicator_of(process_set)
    with invalid_arguments():
        received, counts = parallel.alltoall(tensor, splits, name=name, communicator=group)
    if splits is None:
        return received
    return received, tf.cast(tf.convert_to_tensor(counts), tf.int32)


def join() -> Tensor:
    """Take part in the others' collectives until every rank has called `join` (collective).

    Returns
    -------
    The last rank to call it, as a tensor of int32.
    """
    return tf.constant(parallel.join(), tf.int32)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every rank of the set has called `barrier` (collective)."""
    communicator_of(process_set).barrier()


def size_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """Return the number of ranks of a process set when the graph runs: int32."""
    return _number(lambda: process_set_of(process_set_id).size(), name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Tensor:
    """Return 1 if this rank is in a process set when the graph runs, otherwise 0: int32."""
    return _number(lambda: process_set_of(process_set_id).included(), name)


def local_size_op(name: str | None = None) -> Tensor:
    """Return the number of ranks on this host when the graph runs: int32."""
    return _number(local_size, name)


def rank_op(name: str | None = None) -> Tensor:
    """Return this process's number when the graph runs: int32."""
    return _number(rank, name)


def local_rank_op(name: str | None = None) -> Tensor:
    """Return this process's number on its host when the graph runs: int32."""
    return _number(local_rank, name)


def _when_it_runs(
    collective: Callable[..., list[Tensor]], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """Return `collective` of tensors, with their shapes, for a graph built before `init`."""
    if not tensors:
        return []
    results = tf.py_function(collective, tensors, [x.dtype for x in tensors])
    for x, y in zip(tensors, results, strict=True):
        y.set_shape(x.shape)
    return list(results)


@not_converted
def _number(ask: Callable[[], Any], name: str | None) -> Tensor:
    if tf.executing_eagerly() or in_compiled_function():
        return tf.constant(int(ask()), tf.int32, name=name or "Const")
    import numpy as np

    y = tf.numpy_function(lambda: np.int32(ask()), [], tf.int32, name=name)
    y.set_shape(())
    return y
