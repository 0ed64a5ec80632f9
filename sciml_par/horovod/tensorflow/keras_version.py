"""The Keras that a program means by `tf.keras`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError


def keras_of_tensorflow() -> ModuleType:
    """`keras`, which is Keras 3; or `tf_keras`, Keras 2, where TF_USE_LEGACY_KERAS is set (local).

    Layers and callbacks derive from its classes, so this is decided when they are imported.
    """
    return import_module(tf.keras.Model.__module__.partition(".")[0])


class OfOneKeras:
    """A callback that says so where it is given to a model of the other Keras.

    `tf_keras` may be imported as it is, and then `tf.keras` is still Keras 3.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "_implements_train_batch_hooks":  # what Keras 2 asks its own callbacks first
            raise InputError(
                f"{type(self).__name__}: the model is of Keras 2 (tf_keras), the callback of Keras "
                f"3. Set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported; then both are of "
                f"Keras 2."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
