"""The memory of results: nobody else's while a tensor or an array lies on it, and used again."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.parallel.tensors.buffer_pool import ResultMemory
from sciml_par.parallel.tensors.memory import tensor_on, view

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

FLOAT = np.dtype("float32")
N = 1000


def floats(memory, n=N):
    return memory.array((n,), FLOAT, 4 * n)


def tensor_of(memory, value, n=N):
    array, _ = floats(memory, n)
    array[:] = value
    return tensor_on(array)


@pytest.mark.parametrize(
    "hold",
    [lambda x: x, lambda x: x._numpy(), lambda x: x._numpy()[5:10], tf.identity, tf.Variable, view],
    ids=["tensor", "array", "part", "identity", "variable", "view"],
)
def test_what_is_held_is_not_used_again(hold):
    memory = ResultMemory()
    tensor = tensor_of(memory, 7)
    held = hold(tensor)
    del tensor
    others = [tensor_of(memory, value) for value in range(10)]
    seen = np.asarray(tf.convert_to_tensor(held)) if held.__class__.__name__ != "View" else None
    if seen is None:
        assert held.address not in [view(other).address for other in others]
    else:
        np.testing.assert_array_equal(seen, 7)


def test_a_dropped_tensor_gives_its_memory_back():
    memory = ResultMemory()
    tensor = tensor_of(memory, 1)
    first = view(tensor).address
    del tensor
    tf.zeros([2]).numpy()  # TensorFlow may put it off until its next operation
    assert floats(memory)[1] == first


def test_what_is_kept_is_bounded():
    memory = ResultMemory(kept_bytes=10_000)
    held = []
    for i in range(40):
        held.append(tensor_of(memory, i, n=200 + i % 7))
        assert memory.kept <= 10_000
    before = memory.kept
    held.append(tensor_of(memory, -1, n=3000))
    assert memory.kept == before, "longer than all that may be kept"
    for i, tensor in enumerate(held[:-1]):
        np.testing.assert_array_equal(tensor, i)


def test_sizes_that_do_not_come_again_are_forgotten():
    memory = ResultMemory()
    for n in range(1, 1000):
        floats(memory, n)
    assert memory.kept < 4 * 1000 * 100
    array, address = floats(memory, 999)
    del array
    assert floats(memory, 999)[1] == address
