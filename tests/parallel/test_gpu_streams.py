"""On a GPU: streams, and whether anybody waits. What takes no streams is in test_gpu.py."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gpu_work import Busy
from real_gpus import group_of_this_rank, nccl_of_this_rank, require_gpu

import sciml_par.parallel as sp
from sciml_par.parallel.execution.dispatch import Placement, perform
from sciml_par.parallel.requests.request import Allreduce

pytestmark = pytest.mark.gpu

STEPS = 100
REQUEST = Allreduce("int64", (1 << 17,), sp.Sum)
"""1 MiB, whose kernels are long enough to be overtaken."""


@pytest.fixture(scope="module")
def group(request):
    require_gpu(request.config)
    group = group_of_this_rank(nccl_of_this_rank())
    yield group
    group.nccl_transport.finish()
    group.nccl_transport.abort()


@pytest.fixture
def busy(group):
    busy = Busy()
    yield busy
    busy.release()


def test_the_gpu_copies_and_waits(group):
    assert group.gpu.name()
    stream, event = group.gpu.new_stream(), group.gpu.new_event()
    x, y = np.arange(1000.0), np.zeros(1000)
    address = group.gpu.allocate(x.nbytes)
    group.gpu.copy_from_host(address, x.ctypes.data, x.nbytes, stream)
    group.gpu.copy_to_host(y.ctypes.data, address, x.nbytes, stream)
    group.gpu.record(event, stream)
    group.gpu.synchronize(stream)
    assert group.gpu.has_passed(event)
    np.testing.assert_array_equal(y, x)


class Watched:
    """Puts work in front of the next transfer, and notes which come back before it is done.

    Attributes
    ----------
    ahead : of each transfer, whether it came back while the GPU was at the work in front.
    """

    def __init__(self, nccl, monkeypatch):
        self.ahead = []
        self.busy = None
        self._allreduce = nccl._link.allreduce
        monkeypatch.setattr(nccl._link, "allreduce", self._watched)
        self.stream = None
        """The stream to use in place of the program's."""

    def _watched(self, *arguments):
        *others, stream = arguments
        if self.busy is not None and not self.ahead:
            self.busy.put_on(stream)
        self._allreduce(*others, stream if self.stream is None else self.stream)
        if self.busy is not None:
            self.ahead.append(not self.busy.is_done())


@pytest.fixture
def watched(group, monkeypatch):
    return Watched(group.nccl_transport, monkeypatch)


def start_values(seed):
    return np.arange(REQUEST.count) * (sp.rank() + 2) + seed


def stepped(x):
    """What is computed before each collective. Modulo 2⁶⁴ it forgets nothing: no wrong element
    becomes right again."""
    return 3 * x + sp.rank() + 1


def behind(busy, watched, group):
    """The result of a program that is enqueued behind other work, and what it must be."""

    @tf.function(jit_compile=True)
    def run(x):
        for _ in range(STEPS):
            x = perform(group, REQUEST, stepped(x), Placement(group))
        return x

    with tf.device("/GPU:0"):
        run(tf.constant(start_values(0))).numpy()  # compiles, and lets NCCL load its kernels
        x = tf.identity(tf.constant(start_values(1)))
        tf.test.experimental.sync_devices()
        watched.busy = busy
        got = run(x).numpy()
    expected = start_values(1)
    for _ in range(STEPS):
        expected = stepped(expected)
    return got, expected


def test_the_host_waits_for_no_collective_of_a_compiled_program(group, busy, watched):
    """Nor does a collective overtake what the program computes before it."""
    got, expected = behind(busy, watched, group)
    np.testing.assert_array_equal(got, expected)
    assert len(watched.ahead) == STEPS
    assert watched.ahead[0], "the first transfer came back when the work in front of it was done"


def test_a_collective_on_another_stream_would_be_noticed(group, busy, watched):
    """That the test above can fail."""
    watched.stream = group.nccl_transport.stream
    got, expected = behind(busy, watched, group)
    assert (got != expected).any()
