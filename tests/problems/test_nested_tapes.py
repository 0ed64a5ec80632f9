"""The questions asked of TensorFlow's internals; a new TensorFlow may answer otherwise."""

import pytest
import tensorflow as tf

from sciml_par import _tape
from sciml_par._tensorflow import is_recorded


def answers():
    x, other = tf.ones([2, 1]), tf.ones([2, 1])
    found = {"nothing": _tape.is_watched(x), "no tape": is_recorded()}
    with tf.GradientTape() as tape:
        tape.watch(other)
        found["other watched"] = _tape.is_watched(x)
        found["tape"] = is_recorded()
        tape.watch(x)
        found["watched"] = _tape.is_watched(x)
        found["function of watched"] = _tape.is_watched(2 * x)
        with tf.GradientTape():
            found["watched by an outer tape"] = _tape.is_watched(x)
        with tape.stop_recording():
            found["stopped"] = _tape.is_watched(x)
            found["stopped tape"] = is_recorded()
    found["after"] = _tape.is_watched(x)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)):
        found["accumulator"] = _tape.is_watched(x)
        found["other accumulator"] = _tape.is_watched(other)
    return found


EXPECTED = {
    "nothing": False,
    "no tape": False,
    "other watched": False,
    "tape": True,
    "watched": True,
    "function of watched": True,
    "watched by an outer tape": True,
    "stopped": False,
    "stopped tape": False,
    "after": False,
    "accumulator": True,
    "other accumulator": False,
}


@pytest.mark.parametrize("mode", ["eager", "graph", "jit"])
def test_who_follows_a_tensor(mode):
    found = {}
    run = lambda: found.update(answers())  # noqa: E731
    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "jit", autograph=False)
    run()
    assert found == EXPECTED
