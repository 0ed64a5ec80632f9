"""Horovod's elastic training with Keras, which says what takes its place."""

from __future__ import annotations

from typing import Any

from sciml_par.horovod.common.elastic import refuse
from sciml_par.horovod.tensorflow.elastic import TensorFlowKerasState, run

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class KerasState(TensorFlowKerasState):
    """In Horovod, the state of a Keras model. Making one raises `InputError`."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        refuse(type(self).__name__)


class CommitStateCallback:
    """In Horovod, saves the state every few batches. Making one raises `InputError`."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        refuse(type(self).__name__)


class UpdateBatchStateCallback:
    """In Horovod, counts the batches of an epoch. Making one raises `InputError`."""

    def __init__(self, state: Any) -> None:
        refuse(type(self).__name__)


class UpdateEpochStateCallback:
    """In Horovod, counts the epochs. Making one raises `InputError`."""

    def __init__(self, state: Any) -> None:
        refuse(type(self).__name__)
