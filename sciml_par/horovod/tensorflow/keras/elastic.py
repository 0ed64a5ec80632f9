"""Horovod's elastic state of a Keras model, and callbacks that update it."""

from __future__ import annotations

from typing import Any

from sciml_par.horovod.tensorflow.elastic import TensorFlowKerasState, run
from sciml_par.horovod.tensorflow.keras.base import Callback, Logs, keras

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class KerasState(TensorFlowKerasState):
    """A `TensorFlowKerasState`, with its parameters and errors, but for the backend."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer=optimizer, backend=keras.backend, **kwargs)


class _StateCallback(Callback):
    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state


class CommitStateCallback(_StateCallback):
    """Commit a state at the end of every n-th batch and of every epoch (collective).

    Parameters
    ----------
    state : the state.
    batches_per_commit : n. A commit copies a model's weights to host memory.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__(state)
        self.batches_per_commit = batches_per_commit
        self._batches = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._batches = 0

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._batches += 1
        if self._batches % self.batches_per_commit == 0:
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.commit()


class UpdateBatchStateCallback(_StateCallback):
    """Set `state.batch` to the number of the last batch of an epoch, and to 0 at its end."""

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.batch = 0


class UpdateEpochStateCallback(_StateCallback):
    """Set `state.epoch` to the number of complete epochs, counted from its value at the start."""

    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1
