"""Programs that can run on CPUs and on GPUs, compiled by TensorFlow for the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ranks import all_values, compiled_loop, nested, values

import sciml_par.parallel as sp
from sciml_par.parallel.execution import dispatch as context
from sciml_par.parallel.execution.xla_custom_call import Bridge
from sciml_par.parallel.execution.xla_custom_call import bridge as usual_bridge
from sciml_par.parallel.execution.xla_ffi import foreign_calls

pytestmark = pytest.mark.ranks(most=2, reason="it is about the program of a rank")


def test_tensorflow_takes_handlers_of_gpus():
    name = "sciml_par_test_gpu"
    foreign_calls().register(name, "CUDA", lambda frame: None)
    foreign_calls().register(name, "Host", lambda frame: None)


@pytest.fixture(scope="module")
def bridge_for_gpus():
    """As on a machine with a GPU; what is to lie there, TensorFlow puts on the CPU here."""
    usual = usual_bridge()  # a target has one table in a process, the first one
    bridge = Bridge(with_gpus=True)
    bridge.sites = usual.sites
    return bridge


@pytest.fixture
def on_both_platforms(monkeypatch, bridge_for_gpus):
    monkeypatch.setattr(context, "bridge", lambda: bridge_for_gpus)
    return bridge_for_gpus


needs_ranks = pytest.mark.ranks(least=2, reason="one rank exchanges nothing")


@needs_ranks
@pytest.mark.parametrize("wrap", (compiled_loop, nested))
def test_a_program_for_several_platforms_runs_on_the_cpu(on_both_platforms, wrap):
    def program(x, rows):
        gathered = sp.allgather(rows)
        return [sp.allreduce(x, sp.Sum), gathered, sp.allreduce(gathered[:2], sp.Max)]

    x = tf.constant(values(sp.rank(), (3,), "float32"))
    rows = tf.fill([sp.rank() + 1, 2], 1.0 + sp.rank())
    y, gathered, largest = wrap(program)(x, rows)
    np.testing.assert_array_equal(y.numpy(), all_values((3,), "float32").sum(0))
    expected = np.concatenate([np.full((r + 1, 2), 1.0 + r) for r in range(sp.size())])
    np.testing.assert_array_equal(gathered.numpy(), expected)
    np.testing.assert_array_equal(largest.numpy(), expected[:2])


@needs_ranks
def test_gradients_through_a_loop_for_several_platforms(on_both_platforms):
    @tf.function(jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            body = lambda i, y: (i + 1, sp.allreduce(2.0 * y, sp.Sum))  # noqa: E731
            y = tf.while_loop(lambda i, y: i < 3, body, (0, x), maximum_iterations=3)[1]
        return tape.gradient(y, x)

    # L = Σ_r Σ y_r, and each pass multiplies by 2 and sums over the ranks.
    assert gradient(tf.ones(2)).numpy().tolist() == [(2.0 * sp.size()) ** 3] * 2


def in_the_function(look, device):
    @tf.function
    def program():
        with tf.device(device):
            look()

    program()


def around_its_call(look, device):
    with tf.device(device):
        tf.function(look)()


def in_the_function_that_calls_it(look, device):
    inner = tf.function(look)

    @tf.function
    def outer():
        with tf.device(device):
            inner()

    outer()


@pytest.mark.ranks(most=1, reason="nothing travels")
@pytest.mark.parametrize("named", (in_the_function, around_its_call, in_the_function_that_calls_it))
@pytest.mark.parametrize(
    "device, kind", ((None, "GPU"), ("/CPU:0", "CPU"), ("/GPU:0", "GPU"), ("/device:CPU:0", "CPU"))
)
def test_the_order_is_that_of_the_programs_device(on_both_platforms, named, device, kind):
    """If it is named when the program is traced."""
    orders = on_both_platforms._orders
    found = []

    def look():
        order = on_both_platforms.order()
        graph = tf.compat.v1.get_default_graph()
        found.extend(name for name in orders if graph.capture(orders[name].handle) is order)

    assert orders["CPU"].handle is not orders["GPU"].handle
    named(look, device)
    assert found == [kind]
