"""On a GPU, with CuPy and NCCL: the real launches. Skipped where one of these is missing.

Each rank is alone here, with an NCCL of one rank: it moves nothing to others, but it launches
kernels, on the right streams or not, between the right addresses or not.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from fake_gpus import carriers_from_now_on
from mpi4py import MPI
from ranks import TYPES, numpy_type, values

import sciml_par.parallel as sp
from sciml_par.parallel.execution.dispatch import run_eagerly
from sciml_par.parallel.execution.xla_custom_call import bridge
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
)
from sciml_par.parallel.tensors.memory import HOST_MEMORY, has_gpus, kind_of_memory
from sciml_par.parallel.transports.cupy_binding import MissingBindingError, load_gpu, load_nccl
from sciml_par.parallel.transports.nccl import CUDA_MEMORY, NCCLTransport

pytestmark = pytest.mark.gpu

GPU = "/GPU:0"
NOT_OF_NCCL = ("bool", "int16", "uint16")
NOT_EMPTY_ON_GPUS = ("uint32",)
"""TensorFlow has no tf.raw_ops.Empty for them there, so eager tensors go by MPI."""


def obstacle():
    """Why this rank has no GPU for these tests; empty if it has."""
    if sp.current_world().gpu is None:
        return "there is no GPU"
    try:
        load_gpu()
        load_nccl()
    except MissingBindingError as missing:
        return str(missing)
    return "" if has_gpus() else "TensorFlow sees no GPU"


@pytest.fixture(scope="module")
def needs_gpu():
    # The ranks decide together, because they must skip together.
    obstacles = sp.current_world().communicator.allgather_object(obstacle())
    for rank, text in enumerate(obstacles):
        if text:
            pytest.skip(f"rank {rank}: {text}")


@pytest.fixture(scope="module")
def group(needs_gpu):
    """This rank alone, with an NCCL of its own."""
    group = Communicator(MPI.COMM_SELF, name="one GPU")
    group.gpu = load_gpu()
    group.nccl_transport = NCCLTransport.connect(
        load_nccl(), group.gpu, 0, 1, lambda shared: shared
    )
    yield group
    group.nccl_transport.finish()
    group.nccl_transport.abort()


@pytest.fixture
def carried(monkeypatch):
    """By what each collective of this rank was carried, in order."""
    return carriers_from_now_on(monkeypatch)


REQUESTS = {
    "allreduce": lambda dtype, shape: Allreduce(dtype, shape, sp.Sum),
    "largest": lambda dtype, shape: Allreduce(dtype, shape, sp.Max),
    "product": lambda dtype, shape: Allreduce(dtype, shape, sp.Product),
    "broadcast": lambda dtype, shape: Broadcast(dtype, shape, 0),
    "allgather": lambda dtype, shape: Allgather(dtype, shape, shape[:1]),
    "reducescatter": lambda dtype, shape: Reducescatter(dtype, shape, sp.Sum, shape[:1], 0),
    "alltoall": lambda dtype, shape: Alltoall(dtype, shape, shape[:1], shape[:1]),
}
"""Each gives one rank its own tensor."""


def on_gpu(x):
    with tf.device(GPU):
        return tf.identity(tf.constant(x))


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


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("shape", ((3, 2), (0, 2), (300_000, 2)))
def test_eager(group, carried, kind, shape):
    """From where the tensor lies: TensorFlow keeps some types of a GPU in host memory."""
    expected = []
    for dtype in TYPES:
        if dtype == "bool" and kind in ("allreduce", "reducescatter"):
            continue
        x = on_gpu(values(sp.rank(), shape, dtype))
        y = run_eagerly(CallSite(group, REQUESTS[kind](dtype, shape)), x)
        memory = kind_of_memory(x)
        assert memory in (HOST_MEMORY, CUDA_MEMORY)
        on_host = memory == HOST_MEMORY or dtype in (*NOT_OF_NCCL, *NOT_EMPTY_ON_GPUS)
        expected.append("MPI" if on_host else "NCCL")
        assert y.dtype == dtype and y.device == x.device
        np.testing.assert_array_equal(y.numpy(), x.numpy(), err_msg=dtype)
    assert carried == expected and "NCCL" in carried


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64"))
def test_the_average_of_one(group, dtype):
    x = on_gpu(values(sp.rank(), (5,), dtype))
    y = run_eagerly(CallSite(group, Allreduce(dtype, (5,), sp.Average)), x)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_eager_code_reads_the_result_at_once(group):
    """What TensorFlow computes before and after stands on its own streams."""
    call_site = CallSite(group, Allreduce("float32", (1000, 1000), sp.Sum))
    x = on_gpu(np.full((1000, 1000), 1e-3, np.float32))
    with tf.device(GPU):
        for _ in range(20):
            x = tf.matmul(run_eagerly(call_site, tf.matmul(x, x)), x)  # each keeps a constant 1e-3
    np.testing.assert_allclose(x.numpy(), np.full((1000, 1000), 1e-3), rtol=1e-3)


def emitted(group, request, x):
    return bridge().emit(CallSite(group, request), x, bridge().order())


def test_compiled(group, carried):
    """A loop of computation, collective, computation, with nothing but XLA's stream between."""

    @tf.function(jit_compile=True)
    def run(x):
        def step(i, y):
            total = emitted(group, Allreduce("float32", (1000,), sp.Sum), 0.5 * y)
            return i + 1, emitted(group, Broadcast("float32", (1000,), 0), total + 1.0)

        return tf.while_loop(lambda i, y: i < 100, step, (0, x))[1]

    x = on_gpu(np.full(1000, 4.0, np.float32))
    with tf.device(GPU):
        y = run(x)
    assert y.device == x.device
    np.testing.assert_array_equal(y.numpy(), np.full(1000, 2.0 + 2.0 * 0.5**100, np.float32))
    assert carried == ["NCCL"] * 200
    group.nccl_transport.finish()
    assert group.standing() is None and group.nccl_transport.error() is None


@pytest.mark.parametrize("kind", REQUESTS)
def test_compiled_of_every_kind(group, carried, kind):
    types = [t for t in TYPES if t not in ("bool", "int32")]
    inputs = [on_gpu(values(sp.rank(), (3, 2), dtype)) for dtype in types]

    @tf.function(jit_compile=True)
    def run(*xs):
        return [
            emitted(group, REQUESTS[kind](dtype, (3, 2)), x)
            for dtype, x in zip(types, xs, strict=True)
        ]

    with tf.device(GPU):
        results = run(*inputs)
    for dtype, x, y in zip(types, inputs, results, strict=True):
        assert y.numpy().dtype == numpy_type(dtype)
        np.testing.assert_array_equal(y.numpy(), x.numpy(), err_msg=dtype)
    # The others go through the host, in the same program.
    assert carried == ["MPI" if t in NOT_OF_NCCL else "NCCL" for t in types]


def test_a_refused_call_is_an_error_of_the_program(group, monkeypatch):
    refuse = True
    allreduce = group.nccl_transport._link.allreduce

    def refusing(*arguments):
        if refuse:
            raise RuntimeError("the furnace is cold")
        allreduce(*arguments)

    monkeypatch.setattr(group.nccl_transport._link, "allreduce", refusing)

    @tf.function(jit_compile=True)
    def run(x):
        return emitted(group, Allreduce("float32", (2,), sp.Sum), x)

    with tf.device(GPU):
        x = on_gpu(np.array([1.0, 2.0], np.float32))
        with pytest.raises(tf.errors.OpError, match="NCCL refused .*: the furnace is cold"):
            run(x).numpy()
        refuse = False
        assert run(x).numpy().tolist() == [1.0, 2.0]
