"""The start of TensorFlow 1 programs: the same variables on all ranks."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.horovod.common.errors import NeedsGraphError
from sciml_par.horovod.tensorflow.functions import broadcast_variables


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that gives the global variables of rank `root_rank` to all ranks (collective).

    It can be built before `init`; it runs after it.

    Raises
    ------
    InputError
        There is no graph, as TensorFlow executes eagerly; it is a `RuntimeError` as well.
    """
    if tf.executing_eagerly():
        raise NeedsGraphError(
            "broadcast_global_variables is for graphs of TensorFlow 1. In TensorFlow 2 call "
            "broadcast_variables(model.variables, root_rank), and the same for the optimizer's."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives the variables of rank `root_rank` to all ranks once a session has initialized them.

    Parameters
    ----------
    root_rank : the rank whose values all ranks get.
    device : where the operations are placed.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Add the operation to the graph, which is about to be closed."""
        graph = tf.compat.v1.get_default_graph()
        if self.bcast_op is None or self.bcast_op.graph is not graph:
            with tf.device(self.device or None):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run it (collective)."""
        session.run(self.bcast_op)
