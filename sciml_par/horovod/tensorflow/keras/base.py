"""The Keras of the program, which callbacks and layers need when they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sciml_par.errors import InputError
from sciml_par.horovod.tensorflow.keras_version import keras_of_tensorflow

if TYPE_CHECKING:
    import keras
else:
    keras = keras_of_tensorflow()

__all__ = ["Callback", "Logs", "keras"]

Logs = dict[str, Any] | None


class Callback(keras.callbacks.Callback):
    """A callback that raises an error if its model is of the other Keras."""

    def __getattr__(self, name: str) -> Any:
        if name == "_implements_train_batch_hooks":  # the first question of Keras 2
            raise InputError(
                f"{type(self).__name__}: the model is of Keras 2 (tf_keras), the callback of Keras "
                f"3. Set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
