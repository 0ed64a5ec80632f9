"""Variables and Python objects from one rank to all, by Horovod's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.horovod.common.exceptions import NeedsGraphError
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
    """Assign the values of rank `root_rank` of the job on every rank (collective).

    Parameters
    ----------
    variables : `tf.Variable`s or `keras.Variable`s, on every rank in the same number, order,
        shapes and types.
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
    """Return the picklable `obj` of rank `root_rank` of the job on every rank (collective).

    `session` and `name` are ignored.
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
    """Return every rank's picklable `obj`, in the order of ranks (collective)."""
    return communicator_of(process_set).allgather_object(obj)


def broadcast_global_variables(root_rank: int) -> Any:
    """Return the operation that gives all ranks the global variables of one (collective).

    It can be built before `init`, but not run.

    Raises
    ------
    InputError
        TensorFlow executes eagerly; the error is a `RuntimeError` as well.
    """
    if tf.executing_eagerly():
        raise NeedsGraphError(
            "broadcast_global_variables is for graphs of TensorFlow 1. In TensorFlow 2 call "
            "broadcast_variables(model.variables, root_rank), and the same for the optimizer's."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives all ranks the variables of one once a session has initialized them.

    Parameters
    ----------
    root_rank : the rank whose values all ranks get.
    device : the device of the operations.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Add the operation to the graph before it is closed."""
        graph = tf.compat.v1.get_default_graph()
        if self.bcast_op is None or self.bcast_op.graph is not graph:
            with tf.device(self.device or None):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run the operation (collective)."""
        session.run(self.bcast_op)
