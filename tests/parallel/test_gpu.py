"""The launches on a GPU, with CuPy and NCCL: addresses, streams, the order of kernels.

Each rank is alone here, with an NCCL of one rank; test_collectives.py and test_gpu_ranks.py have
the exchange. Without a GPU, the tests run over the fake of NCCL, in the host's memory, and by MPI
in compiled functions.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from mpi4py import MPI
from ranks import COMPLEX, MOVED, compiled, compiled_loop, eager, graph, values
from real_gpus import Busy, group_of_this_rank, nccl_of_this_rank, require_gpu
from transports import device_of, fake_nccl_communicator

import sciml_par.parallel as sp
from sciml_par.parallel.execution.dispatch import Placement, perform
from sciml_par.parallel.execution.vectorized import AllPasses
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
)
from sciml_par.parallel.tensors.memory import HOST_MEMORY, kind_of_memory
from sciml_par.parallel.transports.nccl import CUDA_MEMORY

CONTEXTS = (eager, graph, compiled)
SOME_TYPES = ("float16", "int64", "uint32")
NOT_OF_NCCL = ("bool", "int16", "uint16")

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


@pytest.fixture(scope="module", params=["fakes", pytest.param("GPU", marks=pytest.mark.gpu)])
def group(request):
    if request.param == "GPU":
        require_gpu(request.config)
        group = group_of_this_rank(nccl_of_this_rank())
    elif sp.size() > 1:
        pytest.skip("one rank is enough to rehearse what one rank does")
    else:
        group = group_of_this_rank(fake_nccl_communicator(MPI.COMM_SELF)[0])
        group.nccl_transport.memory = HOST_MEMORY
    yield group
    group.nccl_transport.finish()
    group.nccl_transport.abort()


def has_streams(group):
    return group.nccl_transport.memory == CUDA_MEMORY


def tensor(group, x):
    """In the memory that the group's NCCL reads."""
    with device_of(group):
        return tf.identity(tf.constant(x))


def carry(group, request, x):
    in_loops = AllPasses(lambda _: pytest.fail("no tf.vectorized_map is here"), "carry")
    return perform(request, x, Placement(group), in_loops)


def request_for(kind, x):
    return REQUESTS[kind](x.dtype.name, tuple(x.shape))


def types_of(kind):
    """The element types for which a collective of one rank has a meaning."""
    without = {"allreduce": ("bool",), "reducescatter": ("bool",), "largest": COMPLEX}
    return [dtype for dtype in MOVED if dtype not in without.get(kind, ())]


def is_of_nccl(kind, dtype):
    return dtype not in NOT_OF_NCCL and not (kind == "product" and dtype in COMPLEX)


# Values and types


@pytest.mark.parametrize("context", (eager, graph, compiled_loop))
def test_values_and_types(group, carried, context):
    """In the tensor's memory: TensorFlow keeps some types of a GPU in host memory."""
    # Without a GPU, one kind is enough of a rehearsal.
    for kind in REQUESTS if has_streams(group) or context is eager else ("largest",):
        carried.clear()
        check_values_and_types(group, carried, context, kind)


def check_values_and_types(group, carried, context, kind):
    is_compiled = context is compiled_loop
    shapes = [(t, (3, 2)) for t in types_of(kind) if not (is_compiled and t in ("bool", "int32"))]
    shapes += [(t, shape) for t in SOME_TYPES for shape in ((0, 2), (300_000, 2))]
    xs = [tensor(group, values(sp.rank(), shape, dtype)) for dtype, shape in shapes]
    run = context(lambda *xs: [carry(group, request_for(kind, x), x) for x in xs])
    with device_of(group) if is_compiled else contextlib.nullcontext():
        ys = run(*xs)
    for x, y in zip(xs, ys, strict=True):
        assert y.dtype == x.dtype
        # TensorFlow calls the device of int32 in host memory a GPU.
        assert context is graph or y.backing_device == x.backing_device
        np.testing.assert_array_equal(y.numpy(), x.numpy(), err_msg=x.dtype.name)
    if is_compiled:  # before a loop and in it; others go through the host, in the same program
        of_nccl = [has_streams(group) and is_of_nccl(kind, dtype) for dtype, _ in shapes]
        assert carried == 2 * ["NCCL" if each else "MPI" for each in of_nccl]
    else:
        expected = ["NCCL" if goes_by_nccl(group, kind, x) else "MPI" for x in xs]
        # In a graph, TensorFlow decides in which memory its tensors are.
        assert carried == expected if context is eager else "NCCL" in carried


def goes_by_nccl(group, kind, x):
    in_its_memory = kind_of_memory(x) == group.nccl_transport.memory
    return in_its_memory and is_of_nccl(kind, x.dtype.name)


# The place between TensorFlow's kernels


def in_context(group, context):
    """Return the transport of an int64 in a context: programs for the CPU have no NCCL."""
    return "NCCL" if has_streams(group) or context is not compiled else "MPI"


LONG = 1 << 17
"""Numbers of int64: 1 MiB, whose kernels are long enough to be overtaken."""


def stepped(x):
    """Compute before each collective; modulo 2⁶⁴ no wrong element becomes right again."""
    return 3 * x + sp.rank() + 1


def start_values(seed):
    return np.arange(LONG) * (sp.rank() + 2) + seed


def after(steps, x):
    for _ in range(steps):
        x = stepped(x)
    return x


@pytest.mark.parametrize("context", CONTEXTS)
def test_computations_and_collectives_in_turns(group, carried, context):
    """In a loop over collectives of all kinds, a long one in compiled functions."""
    rounds = 100 if context is compiled else 4
    names = ("allreduce", "broadcast", "allgather", "reducescatter", "alltoall")

    def body(i, x):
        for name in names:
            x = stepped(x)
            x = carry(group, request_for(name, x), x)
        return i + 1, x

    run = context(lambda x: [tf.while_loop(lambda i, _: i < rounds, body, (0, x))[1]])
    for seed in (0, 1):  # no memory that was not overwritten fits both
        with device_of(group):
            (y,) = run(tensor(group, start_values(seed)))
        np.testing.assert_array_equal(y.numpy(), after(5 * rounds, start_values(seed)))
    assert carried == [in_context(group, context)] * (10 * rounds)
    group.nccl_transport.finish()
    assert group.in_progress() is None and group.nccl_transport.error() is None


def test_eager_code_reads_the_result_at_once(group):
    """TensorFlow computes before and after on separate streams."""
    n, constant = 512, 2.0**-9  # all products are exact, and n · constant² is the constant
    request = Allreduce("float32", (n, n), sp.Sum)
    x = tensor(group, np.full((n, n), constant, np.float32))
    with device_of(group):
        for _ in range(20):
            x = tf.matmul(carry(group, request, tf.matmul(x, x)), x)
    np.testing.assert_array_equal(x.numpy(), np.full((n, n), constant))


# Streams, and whether anybody waits

STEPS = 100
REQUEST = Allreduce("int64", (LONG,), sp.Sum)


@pytest.fixture
def busy(group):
    if not has_streams(group):
        pytest.skip("takes the streams of a GPU")
    busy = Busy()
    yield busy
    busy.release()


def test_the_gpu_copies_and_waits(group):
    if not has_streams(group):
        pytest.skip("copies to the memory of a GPU")
    assert group.gpu.name()
    stream, event = group.gpu.new_stream(), group.gpu.new_event()
    x, y = np.arange(1000.0), np.zeros(1000)
    address = group.gpu._cuda.malloc(x.nbytes)
    group.gpu.copy_from_host(address, x.ctypes.data, x.nbytes, stream)
    group.gpu.copy_to_host(y.ctypes.data, address, x.nbytes, stream)
    group.gpu.record(event, stream)
    group.gpu.synchronize(stream)
    assert group.gpu.has_passed(event)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("elsewhere", (False, True))
def test_the_host_waits_for_no_collective_of_a_compiled_program(
    group, busy, monkeypatch, elsewhere
):
    """On the program's stream no collective overtakes a computation; on another one it would."""
    nccl, ahead, armed = group.nccl_transport, [], False
    allreduce = nccl._link.allreduce

    def watched(*arguments):
        *others, stream = arguments
        if armed and not ahead:
            busy.put_on(stream)
        allreduce(*others, nccl.stream if elsewhere else stream)
        if armed:
            ahead.append(not busy.is_done())

    monkeypatch.setattr(nccl._link, "allreduce", watched)

    @tf.function(jit_compile=True)
    def run(x):
        for _ in range(STEPS):
            x = carry(group, REQUEST, stepped(x))
        return x

    with tf.device("/GPU:0"):
        run(tf.constant(start_values(0))).numpy()  # compiles, and lets NCCL load its kernels
        x = tf.identity(tf.constant(start_values(1)))
        tf.test.experimental.sync_devices()
        armed = True
        right = run(x).numpy() == after(STEPS, start_values(1))
    if elsewhere:
        assert not right.all()
    else:
        assert right.all() and len(ahead) == STEPS
        assert ahead[0], "the first transfer came back when the work in front of it was done"


# Errors


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_refused_call_is_an_error_of_the_program(group, monkeypatch, context):
    if in_context(group, context) != "NCCL":
        pytest.skip("compiled for the CPU, it does not go by NCCL")
    refuse = True
    allreduce = group.nccl_transport._link.allreduce

    def refusing(*arguments):
        if refuse:
            raise RuntimeError("the furnace is cold")
        allreduce(*arguments)

    monkeypatch.setattr(group.nccl_transport._link, "allreduce", refusing)
    run = context(lambda x: [carry(group, Allreduce("float32", (2,), sp.Sum), x)])
    with device_of(group):
        x = tensor(group, np.array([1.0, 2.0], np.float32))
        with pytest.raises(Exception, match="NCCL refused .*: the furnace is cold"):
            run(x)[0].numpy()
        refuse = False
        assert run(x)[0].numpy().tolist() == [1.0, 2.0]
