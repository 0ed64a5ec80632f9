"""Values at once, also where Keras 2 works in a graph of TensorFlow 1."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.horovod.tensorflow.keras_version import keras_of_tensorflow


def session_of_keras() -> Any:
    """The session in which Keras 2 runs the graph of TensorFlow 1 under construction (local).

    None in eager mode, in a function that is traced, and where there is no session.
    """
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        return None
    if keras_of_tensorflow().__version__.startswith("3"):
        return tf.compat.v1.get_default_session()
    return tf.compat.v1.keras.backend.get_session()


def number_of(given: Any) -> float:
    """Return a number, or the value of a variable (local)."""
    session = session_of_keras()
    if session is None or not tf.is_tensor(given):
        return float(tf.convert_to_tensor(given)) if tf.executing_eagerly() else float(given)
    return float(session.run(given))
