"""Variables and Python objects over the ranks, by Horovod's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.horovod.common.process_sets import (
    ProcessSet,
    communicator_of,
    global_process_set,
    root_in,
)
from sciml_par.horovod.tensorflow.mpi_ops import broadcast_
from sciml_par.parallel.execution.autograph import not_converted


@not_converted
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Assign what rank `root_rank` of the job has to the variables of every rank (collective).

    Parameters
    ----------
    variables : `tf.Variable`s or `keras.Variable`s, alike in number, order, shape and type on
        every rank.
    inplace : ignored.

    Returns
    -------
    None; in graphs of TensorFlow 1, the operation that makes the assignments.
    """
    values = broadcast_(variables, root_rank, process_set=process_set)
    return None if tf.executing_eagerly() else tf.group(*values)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The picklable `obj` of rank `root_rank` of the job, on every rank of the set (collective).

    No `session` is needed; `name` makes no difference.
    """
    root = root_in(process_set, root_rank)
    return communicator_of(process_set).broadcast_object(obj, root=root)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """Return the function obj ↦ `broadcast_object(obj, root_rank, …)`."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Every rank's picklable `obj`, in the order of ranks (collective)."""
    return communicator_of(process_set).allgather_object(obj)
