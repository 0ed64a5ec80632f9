"""Callbacks for `fit` on many ranks, with equal weights at the start and equal metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par._text import counted
from sciml_par.errors import InputError
from sciml_par.horovod.common.arguments import device_of
from sciml_par.horovod.tensorflow.functions import broadcast_variables
from sciml_par.horovod.tensorflow.keras.base import Callback, Logs, keras
from sciml_par.horovod.tensorflow.keras.learning_rate import (
    LearningRateScheduleCallback,
    LearningRateWarmupCallback,
)
from sciml_par.horovod.tensorflow.keras.model_state import (
    agree_on_predictions,
    check_model,
    optimizers_of,
)
from sciml_par.horovod.tensorflow.keras_version import number_of, session_of_keras
from sciml_par.parallel import current_world, fused_broadcast, rank
from sciml_par.parallel.gradients.distributed_update import DistributedUpdate
from sciml_par.parallel.gradients.optimizer_state import backend_of, build, state_of
from sciml_par.parallel.gradients.replicas import comparable, compare
from sciml_par.parallel.requests.signature import AT_EPOCH_END

__all__ = [
    "BackupAndRestore",
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(Callback):
    """Broadcast weights and the states of all optimizers at the start of training (collective).

    Variables that only the first batch creates are broadcast after that batch. Layers then get
    rank `root_rank`'s vocabularies and constants, and the ranks compare what their models predict.
    At the end of each epoch the ranks check that they have trained on as many batches as the others
    and have equal weights, learning rates and settings, if the optimizer is a distributed one.

    Parameters
    ----------
    root_rank : the rank with the values.
    device : the device to transfer them from; theirs by default.
    local_variables : a variable, or several, that keep their values and their optimizer's state.

    Raises
    ------
    InputError
        `local_variables` are not variables; the models predict differently with equal weights, or
        have no variables; the optimizer or a layer would work on each rank alone.
    CollectiveMismatchError
        The ranks' models have different weights, or the ranks do not end an epoch together.

    Notes
    -----
    The states of random number generators, as of Dropout, are not weights and not broadcast.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._begin()
        self._local: list[Any] = []
        one = _is_variable(local_variables)
        for variable in [local_variables] if one else local_variables or ():
            self.register_local_var(variable)

    def _begin(self) -> None:
        self.broadcast_done, self._batches = False, 0
        self._sent: set[int] = set()

    def set_model(self, model: Any) -> None:
        if model is not self.model:
            self._begin()
        super().set_model(model)

    def register_local_var(self, variable: Any) -> None:
        """Keep the values of `variable` on each rank."""
        if not _is_variable(variable):
            raise InputError(
                f"{type(self).__name__}: expected local_variables to be variables; got "
                f"{variable!r}."
            )
        self._local.append(variable)

    def on_train_begin(self, logs: Logs = None) -> None:
        check_model(self.model)
        self._broadcast(at_the_latest=False)

    # Not at the end of a batch: Keras would then wait for the result of each one.
    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self._batches:
            self._broadcast(at_the_latest=True)
        self._batches = batch + 1

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._broadcast(at_the_latest=True)
        _compare_after(epoch, self._batches, self.model, self._local)

    def on_train_end(self, logs: Logs = None) -> None:
        if not self.broadcast_done and self._batches:
            raise InputError(
                f"{type(self).__name__}: the training has ended without a broadcast, because the "
                f"model «{self.model.name}» and its optimizers hold no variables. Let the layers "
                f"be attributes of the model."
            )

    def _broadcast(self, *, at_the_latest: bool) -> None:
        """Broadcast the variables that exist, and finish once no others can follow."""
        if self.broadcast_done:
            return
        complete, variables = self._shared_variables(build_optimizer=not at_the_latest)
        kinds = [f"{variable.dtype} {list(variable.shape)}" for variable in variables]
        group = current_world().communicator
        everyone = group.allgather_object((complete, kinds))
        complete = all(theirs for theirs, _ in everyone)
        other = next((rank for rank, (_, ours) in enumerate(everyone) if ours != everyone[0][1]), 0)
        # Other ranks may create theirs in the first batch. Afterwards a difference is an error.
        if other and (complete or at_the_latest):
            pairs = [(rank, everyone[rank][1]) for rank in (0, other)]
            texts = [f"rank {rank} has {len(each)}: {', '.join(each[:8])}" for rank, each in pairs]
            raise group.mismatch_error(
                f"{type(self).__name__}: expected models of the same variables on all ranks; "
                f"{' and '.join(texts)}."
            )
        if variables and not other:
            self._transfer(variables)
            self._sent |= {id(variable) for variable in variables}
        self.broadcast_done = complete or (at_the_latest and bool(self._weights()))
        if self.broadcast_done:
            compare = not self._local and session_of_keras() is None
            agree_on_predictions(self.model, self.root_rank, compare=compare)

    def _transfer(self, variables: list[Any]) -> None:
        session = session_of_keras()
        if session is not None:
            session.run(broadcast_variables(variables, self.root_rank))
            return
        values = [tf.convert_to_tensor(variable) for variable in variables]
        received = fused_broadcast(values, self.root_rank, device=device_of(self.device))
        for variable, value in zip(variables, received, strict=True):
            variable.assign(value)

    def _weights(self) -> list[Any]:
        """Return the model's weights, and those that only its optimizers know."""
        trained = [getattr(each, "_trainable_variables", ()) for each in optimizers_of(self.model)]
        weights = [*self.model.weights, *(variable for some in trained for variable in some)]
        return list({id(backend_of(weight)): weight for weight in weights}.values())

    def _shared_variables(self, *, build_optimizer: bool) -> tuple[bool, list[Any]]:
        """Return whether no others can follow, and those weights and states not yet sent."""
        model, own = self.model, {id(backend_of(variable)) for variable in self._local}
        optimizers = optimizers_of(model)
        if model.built and build_optimizer and model.optimizer is not None:
            build(model.optimizer, model.trainable_variables)
        complete = model.built and all(getattr(each, "built", True) for each in optimizers)
        weights = self._weights()
        local = [weight for weight in weights if id(backend_of(weight)) in own]
        state = [variable for optimizer in optimizers for variable in state_of(optimizer)]
        variables = [
            *(weight for weight in weights if id(backend_of(weight)) not in own),
            *(v for v in state if not any(_is_state_of(weight, v) for weight in local)),
        ]
        return complete, [each for each in variables if id(each) not in self._sent]


class MetricAverageCallback(Callback):
    """Average the metrics of an epoch over the ranks: m = Σ_r n_r m_r / Σ_r n_r (collective).

    n_r is the number of rows from which Keras computed the loss on rank r, in the training or, for
    metrics «val_…», in the validation. So the loss is that over all data, and so is each metric
    that is a mean over rows. Without a loss of Keras all ranks have the same n_r.

    All later callbacks of the list, the progress bar and the history get the averages. Put it
    before EarlyStopping, ReduceLROnPlateau and checkpoints of the best model: then all ranks make
    the same decisions.

    Parameters
    ----------
    device : ignored; metrics are in host memory.

    Raises
    ------
    InputError
        The ranks do not have the same metrics.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device
        self._rows: dict[bool, float | None] = {}  # by whether it is the validation

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._rows = {}

    # Keras counts the rows of the validation with the same variable.
    def on_test_begin(self, logs: Logs = None) -> None:
        self._rows[False] = _rows_of(self.model)

    def on_test_end(self, logs: Logs = None) -> None:
        self._rows[True] = _rows_of(self.model)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        metrics = {} if logs is None else logs
        self._rows.setdefault(False, _rows_of(self.model))
        mine = {name: np.asarray(metrics[name]) for name in sorted(metrics)}
        # As objects: Keras 2 may be in a graph of TensorFlow 1, where tensors have no values yet.
        gathered = current_world().communicator.allgather_object((mine, self._rows))
        everyone = [theirs for theirs, _ in gathered]
        _check_metrics(everyone)
        for name, each in mine.items():
            rows = [theirs.get(name.startswith("val_")) for _, theirs in gathered]
            value = _mean([theirs[name] for theirs in everyone], rows)
            metrics[name] = float(value) if each.ndim == 0 else value


class _OfRank0(Callback):
    """A callback that writes in rank 0 alone."""

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if rank() == 0:
            super().on_epoch_end(epoch, logs)


class BackupAndRestore(_OfRank0, keras.callbacks.BackupAndRestore):
    """`keras.callbacks.BackupAndRestore` for all ranks: rank 0 writes, all continue (collective).

    Give it to all ranks. If a training was interrupted, the next `fit` begins on every rank with
    the epoch, the weights and the optimizer's state of the last backup.

    Parameters
    ----------
    backup_dir : the folder of the backup, which rank 0 alone reads and writes.
    **options : as for `keras.callbacks.BackupAndRestore`.

    Raises
    ------
    InputError
        The program uses Keras 2.
    """

    def __init__(self, backup_dir: Any, **options: Any) -> None:
        if not keras.__version__.startswith("3"):
            raise InputError("BackupAndRestore: expected Keras 3; unset TF_USE_LEGACY_KERAS.")
        super().__init__(backup_dir, **options)

    def on_train_begin(self, logs: Logs = None) -> None:
        if rank() == 0:
            super().on_train_begin(logs)
        group = current_world().communicator
        self.model._initial_epoch = group.broadcast_object(self.model._initial_epoch)
        broadcast = BroadcastGlobalVariablesCallback(0)
        broadcast.set_model(self.model)
        broadcast.on_train_begin()

    def on_train_end(self, logs: Logs = None) -> None:
        if rank() == 0:
            super().on_train_end(logs)


class BestModelCheckpoint(_OfRank0, keras.callbacks.ModelCheckpoint):
    """`keras.callbacks.ModelCheckpoint` of the best model only, written by rank 0.

    Set its attribute `filepath` before `fit`. Either all ranks have the callback, or rank 0 only.
    Rank 0's metric counts: put `MetricAverageCallback` before it.

    Parameters
    ----------
    monitor, verbose, save_weights_only, mode, save_freq : as for `keras.callbacks.ModelCheckpoint`.

    Raises
    ------
    InputError
        `filepath` is not set at the start of training.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(
            filepath=".weights.h5" if save_weights_only else ".keras",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath: Any = None

    def on_train_begin(self, logs: Logs = None) -> None:
        endings = (".weights.h5",) if self.save_weights_only else (".keras", ".h5")
        if not keras.__version__.startswith("3"):
            endings = ("",)  # Keras 2 writes a folder if it does not know the ending
        if not self.filepath or not str(self.filepath).endswith(endings):
            raise InputError(
                f"BestModelCheckpoint: expected its attribute filepath to be a file's name that "
                f"ends in {' or '.join(endings) or 'anything'}; got {self.filepath!r}. Set it "
                f"before fit."
            )
        self.filepath = str(self.filepath)
        super().on_train_begin(logs)


def _compare_after(epoch: int, batches: int, model: Any, local: Sequence[Any]) -> None:
    """Raise an error on all ranks if they do not end an epoch together and alike (collective)."""
    optimizer = model.optimizer
    if not isinstance(optimizer, DistributedUpdate) or session_of_keras() is not None:
        return
    reduction, own = optimizer._reduction, {id(backend_of(variable)) for variable in local}
    group = reduction.communicator or current_world().communicator
    shared = [
        variable
        for variable in model.trainable_variables
        if id(backend_of(variable)) not in own and not reduction.is_local(variable)
    ]
    when = f"{AT_EPOCH_END}{epoch + 1}, after {counted(batches, 'step')}"
    if group.size > 1:
        compare(comparable(shared), optimizer, group, when=when)


def _rows_of(model: Any) -> float | None:
    """Return the number of rows in the mean that is the model's loss; None if it is unknown."""
    for metric in getattr(model, "metrics", ()):
        if metric.name == "loss" and hasattr(metric, "count"):
            return number_of(metric.count)
    return None


def _mean(values: Sequence[np.ndarray], rows: Sequence[float | None]) -> Any:
    weights = [0.0 if n is None else n for n in rows]
    if None in rows or not sum(weights):
        weights = [1.0] * len(values)
    terms = [n * value.astype(np.float64) for n, value in zip(weights, values, strict=True) if n]
    return np.sum(terms, axis=0) / sum(weights)


def _check_metrics(everyone: list[dict[str, np.ndarray]]) -> None:
    """Raise `InputError` if the ranks' metrics differ or are not numbers."""
    shapes = [{name: list(each.shape) for name, each in theirs.items()} for theirs in everyone]
    for number, theirs in enumerate(everyone):
        if shapes[number] != shapes[0]:
            raise InputError(
                f"MetricAverageCallback: expected metrics of the same names and shapes on all "
                f"ranks; got {shapes[0]} on rank 0 and {shapes[number]} on rank {number}. Give "
                f"every rank the same metrics, and validation data to all ranks or to none."
            )
        for name, each in theirs.items():
            if each.dtype.kind not in "biuf":
                raise InputError(
                    f"MetricAverageCallback: metric «{name}» on rank {number} is not a number."
                )


def _is_state_of(weight: Any, variable: Any) -> bool:
    """Return whether an optimizer's variable has the name of a weight."""
    if hasattr(weight, "path"):
        return bool(variable.name.startswith(f"{weight.path.replace('/', '_')}_"))
    own, name = (f"/{each.name.partition(':')[0]}" for each in (weight, variable))
    return name.endswith(own) or f"{own}/" in name  # the second with legacy optimizers


def _is_variable(given: Any) -> bool:
    return isinstance(given, tf.Variable) or hasattr(given, "_value")
