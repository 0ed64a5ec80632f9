"""Callbacks that set the learning rate: a schedule by epochs, and the gradual warm-up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.keras.base import Callback, Logs
from sciml_par.horovod.tensorflow.keras_version import number_of
from sciml_par.parallel import rank, size
from sciml_par.parallel.gradients.optimizer_state import raw_learning_rate


class LearningRateScheduleCallback(Callback):
    """Set the learning rate η = initial_lr · m(e) in epochs start_epoch ≤ e < end_epoch.

    At the end of each epoch the logs get the learning rate, as "lr".

    Parameters
    ----------
    initial_lr : the learning rate that the multiplier refers to.
    multiplier : m, a function of the epoch; or a number, then m(e) = multiplier^(e − start_epoch).
    start_epoch, end_epoch : the range of epochs; open by default.
    staircase : set it at the start of each epoch. Otherwise at each batch, with
        e = epoch + batch/steps_per_epoch.
    momentum_correction : multiply the momentum of an SGD by η_new/η_old in the first step with
        η_new (Goyal et al. 2017, arXiv 1706.02677, section 2.3).
    steps_per_epoch : for staircase=False, if Keras does not know the number of batches.

    Raises
    ------
    InputError
        initial_lr or the number of steps is missing, the optimizer's learning rate is a schedule
        or a function, or steps_per_execution > 1 with momentum_correction.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise InputError(f"{type(self).__name__}: expected initial_lr, the rate at the start.")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.multiplier: Callable[[float], float] = (
            multiplier
            if callable(multiplier)
            else lambda epoch: float(multiplier ** (epoch - start_epoch))
        )
        self.current_epoch = 0
        self._multiply_momentum: Callable[[float], None] | None = None
        self._corrected = False

    def on_train_begin(self, logs: Logs = None) -> None:
        optimizer = self._optimizer()
        if callable(raw_learning_rate(optimizer)):
            raise InputError(
                f"{type(self).__name__}: expected an optimizer with a number as its learning rate; "
                f"that of {type(optimizer).__name__} is a schedule or a function. Use one of them."
            )
        if not self.staircase:
            self.steps_per_epoch = self.steps_per_epoch or self._known_steps()
        is_sgd = any(each.__name__ == "SGD" for each in type(optimizer).__mro__)
        momentum = number_of(getattr(optimizer, "momentum", 0.0)) if is_sgd else 0.0
        if self.momentum_correction and momentum != 0:
            self._multiply_momentum = self._multiplier_of_momentum(optimizer)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._restore_momentum()
        self.current_epoch = epoch

    # Not at the end of a batch: Keras would then wait for the result of each batch.
    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        self._restore_momentum()
        epoch = self.current_epoch
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return
        if not self.staircase:
            assert self.steps_per_epoch is not None
            self._set(epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._set(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = self._learning_rate()

    def on_train_end(self, logs: Logs = None) -> None:
        self._restore_momentum()

    def _set(self, epoch: float) -> None:
        old, new = self._learning_rate(), float(self.initial_lr * self.multiplier(epoch))
        self._optimizer().learning_rate = new
        if self._multiply_momentum is not None and old > 0.0:
            self._multiply_momentum(new / old)
            self._corrected = True

    def _restore_momentum(self) -> None:
        if self._multiply_momentum is not None and self._corrected:
            self._multiply_momentum(1.0)
            self._corrected = False

    def _optimizer(self) -> Any:
        optimizer = self.model.optimizer
        return getattr(optimizer, "inner_optimizer", optimizer)

    def _learning_rate(self) -> float:
        return number_of(self._optimizer().learning_rate)

    def _multiplier_of_momentum(self, optimizer: Any) -> Callable[[float], None]:
        """Return what sets the momentum to a multiple; compiled steps read it from a variable."""
        given = self.model.steps_per_execution
        steps = 1 if given is None else int(given)
        if steps > 1:
            raise InputError(
                f"{type(self).__name__}: the momentum cannot be corrected for single steps with "
                f"steps_per_execution={steps}. Pass momentum_correction=False."
            )
        if "_hyper" in vars(optimizer):  # a legacy one of Keras 2, with variables as numbers
            value = number_of(optimizer.momentum)
            return lambda factor: setattr(optimizer, "momentum", value * factor)
        if not isinstance(optimizer.momentum, VariableMomentum):
            optimizer.momentum = VariableMomentum(optimizer.momentum)
            self.model.make_train_function(force=True)  # an older trace has the number
        multiply: Callable[[float], None] = optimizer.momentum.multiply
        return multiply

    def _known_steps(self) -> int:
        params = self.params or {}
        steps: int | None = params.get("steps")
        if not steps and params.get("samples"):  # Keras 2 in graphs of TensorFlow 1
            steps = math.ceil(params["samples"] / params["batch_size"])
        if not steps:
            raise InputError(
                f"{type(self).__name__}: Keras does not know the number of batches of an epoch. "
                f"Pass steps_per_epoch to the callback."
            )
        return steps


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raise the learning rate from initial_lr/P to initial_lr over the first epochs.

        η(e) = (initial_lr/P) (1 + e (P − 1)/warmup_epochs),   e = epoch + (batch + 1)/steps

    of Goyal et al. 2017, arXiv 1706.02677, section 2.2. On one rank the learning rate stays.

    Parameters
    ----------
    initial_lr : the learning rate after the warm-up, already scaled by the number P of ranks.
    warmup_epochs : the number of epochs.
    momentum_correction, steps_per_epoch : as for `LearningRateScheduleCallback`.
    verbose : with 1, rank 0 prints a line at the end of the warm-up.

    Raises
    ------
    InputError
        As for `LearningRateScheduleCallback`.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            ranks = size()
            assert self.steps_per_epoch is not None
            reached = epoch + 1.0 / self.steps_per_epoch
            return (1.0 + reached * (ranks - 1) / warmup_epochs) / ranks

        super().__init__(
            initial_lr,
            multiplier,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and epoch + 1 == self.end_epoch and rank() == 0:
            print(
                f"\nEpoch {epoch + 1}: the warm-up ends at learning rate {self._learning_rate():g}."
            )


class VariableMomentum(float):
    """A float to Python, and a variable to TensorFlow's graphs.

    The momentum of Keras' SGD is a number, and a constant in a compiled step. From this class the
    step reads a variable. `get_config` and comparisons still see the original number.
    """

    def __new__(cls, value: float) -> VariableMomentum:
        self = super().__new__(cls, value)
        self._variable = tf.Variable(float(value), dtype=tf.float64, trainable=False)
        return self

    _variable: Any

    def multiply(self, factor: float) -> None:
        """Use `factor` times the number from now on."""
        self._variable.assign(float(self) * factor)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        value = tf.identity(self._variable, name=name)
        return value if dtype is None else tf.cast(value, dtype)

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)
