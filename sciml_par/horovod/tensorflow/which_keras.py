"""The Keras that a program means by `tf.keras`."""

from __future__ import annotations

from types import ModuleType

from sciml_par._tensorflow import import_module, tf


def keras_of_tensorflow() -> ModuleType:
    """`keras`, which is Keras 3; or `tf_keras`, Keras 2, where TF_USE_LEGACY_KERAS is set (local).

    Layers and callbacks derive from its classes, so this is decided when they are imported.
    """
    return import_module(tf.keras.Model.__module__.partition(".")[0])
