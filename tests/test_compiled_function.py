"""Compiled functions compute what they should, and nothing of those that are gone stays."""

import ctypes
import gc
import sys
from pathlib import Path

import numpy as np
import pytest

from sciml_par._compiled_function import MANY, MOST_DROPPED, CompiledFunction, release_dropped
from sciml_par._tensorflow import tf


def loop_of(factor, operations=1):
    def body(i, x):
        for _ in range(operations):
            x = factor * x + 1.0
        return i + 1, x

    return lambda x: tf.while_loop(lambda i, _: i < 3, body, (0, x))[1]


class Mallinfo(ctypes.Structure):
    _fields_ = [(f"field_{k}", ctypes.c_size_t) for k in range(10)]


def bytes_in_use():
    """Return how much was taken from malloc and not given back."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    found = mallinfo()
    return found.field_4 + found.field_7  # mapped directly, and in blocks


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads what glibc and Linux tell"
)


@pytest.fixture
def quick_collections():
    """Leave the objects of other tests out of each collection, or it takes half a second."""
    gc.collect()
    gc.freeze()


SCALAR = tf.TensorSpec([], tf.float32)


def test_results_have_the_structure_of_the_function():
    compiled = CompiledFunction(
        lambda x, y: {"sum": x + y["of"], "none": ()}, (SCALAR, {"of": SCALAR})
    )
    found = compiled(tf.constant(1.0), {"of": np.float32(2.0)})
    assert found["sum"].numpy() == 3.0 and found["none"] == ()


def test_variables_and_large_arrays_that_a_function_reads():
    large, factor = tf.range(1000.0), tf.Variable(2.0)
    after = CompiledFunction(lambda x: x * tf.reduce_sum(large) * factor, (SCALAR,))
    before = CompiledFunction(lambda x: x * factor * tf.reduce_sum(large), (SCALAR,))
    for value in (2.0, 3.0):
        factor.assign(value)
        assert after(1.0).numpy() == before(1.0).numpy() == value * 499_500


@linux
def test_graphs_of_functions_that_are_gone_are_released(monkeypatch, quick_collections):
    """TensorFlow itself would keep 5 kB of each operation."""
    monkeypatch.setattr("sciml_par._compiled_function.MOST_DROPPED", 1)
    used = []
    for number in range(8):
        compiled = CompiledFunction(loop_of(0.1 * number, operations=80), (SCALAR,))
        compiled(tf.constant(1.0))
        del compiled
        gc.collect()
        release_dropped()
        used.append(bytes_in_use())
    assert used[-1] - used[2] < 2_000_000


@linux
def test_machine_code_of_functions_that_are_gone_is_released(quick_collections):
    def pages():
        lines = Path("/proc/self/maps").read_text().splitlines()
        return sum(" r-xp 00000000 00:00 0" in line for line in lines)

    kept = CompiledFunction(loop_of(-1.0), (SCALAR,))
    assert kept(tf.constant(1.0)).numpy() == 0.0
    found = []
    for number in range(2 * MOST_DROPPED):
        release_dropped()
        CompiledFunction(loop_of(float(number)), (SCALAR,))(tf.constant(1.0))
        gc.collect()
        found.append(pages())
    assert max(found) < found[0] + 1.5 * MOST_DROPPED
    assert kept(tf.constant(1.0)).numpy() == 0.0


@pytest.mark.parametrize("points", [1, MANY - 1, MANY])
def test_few_points_need_no_xla(points: int) -> None:
    """So that a first prediction takes a fraction of a second; XLA cannot compile Python."""

    def of_python(x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(np.sin, [x], tf.float32), x.shape)

    compiled = CompiledFunction(of_python, (SCALAR,), points=points)
    if points < MANY:
        assert float(compiled(tf.constant(1.0))) == pytest.approx(np.sin(1.0))
        return
    with pytest.raises(tf.errors.OpError, match="(?i)xla|compil"):
        compiled(tf.constant(1.0))
