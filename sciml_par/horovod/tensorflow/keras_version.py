"""The Keras that a program means by `tf.keras`, and its numbers in graphs of TensorFlow 1."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from sciml_par._tensorflow import import_module, tf


def keras_of_tensorflow() -> ModuleType:
    """Return `keras`, Keras 3, or with TF_USE_LEGACY_KERAS `tf_keras`, Keras 2."""
    return import_module(tf.keras.Model.__module__.partition(".")[0])


def session_of_keras() -> Any:
    """Return the session of the graph of TensorFlow 1 under construction, or None."""
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        return None
    if keras_of_tensorflow().__version__.startswith("3"):
        return tf.compat.v1.get_default_session()
    return tf.compat.v1.keras.backend.get_session()


def number_of(given: Any) -> float:
    """Return a number, or the value of a variable."""
    session = session_of_keras()
    if session is None or not tf.is_tensor(given):
        return float(tf.convert_to_tensor(given)) if tf.executing_eagerly() else float(given)
    return float(session.run(given))
