"""What is asked of CuPy, call by call, on recorded fakes."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from fake_cuda_runtime import ILLEGAL_ADDRESS, FakeError, FakeRuntime
from fake_cupy import FakeNccl
from mpi4py import MPI

import sciml_par.parallel as sp
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES
from sciml_par.parallel.transports import cupy_binding
from sciml_par.parallel.transports.cupy_binding import (
    BindingError,
    Gpu,
    Link,
    MissingBindingError,
    Nccl,
    load_gpu,
    load_nccl,
)

pytestmark = pytest.mark.ranks(most=1, reason="nothing travels")

FLOAT32, SUM, AVG = 7, 0, 4


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def gpu(runtime):
    return Gpu(runtime)


@pytest.fixture
def nccl(runtime):
    """NCCL for each rank alone."""
    return FakeNccl(MPI.COMM_SELF, runtime)


@pytest.fixture
def link(nccl):
    return Nccl(nccl).connect(1, bytes(128), 0)


def memory(*values):
    """(array, address) of float32 values; the array keeps them."""
    array = np.array(values, np.float32)
    return array, array.ctypes.data


# The library


@pytest.mark.parametrize(
    "code, version", ((23203, (2, 32, 3)), (21803, (2, 18, 3)), (23000, (2, 30, 0)))
)
def test_versions(runtime, code, version):
    assert Nccl(FakeNccl(MPI.COMM_SELF, runtime, version=code)).version == version


def test_every_element_type_has_its_number(nccl):
    numbers = {name: Nccl(nccl).datatype(element) for name, element in ELEMENT_TYPES.items()}
    without = dict.fromkeys(("bool", "int16", "uint16", "complex64", "complex128"))
    integers = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5}
    floats = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
    assert numbers == {**without, **integers, **floats}


def test_a_binding_without_an_element_type():
    assert Nccl(SimpleNamespace(NCCL_FLOAT32=7)).datatype(ELEMENT_TYPES["bfloat16"]) is None


def test_every_operation_has_its_number(nccl):
    operations = (sp.Sum, sp.Product, sp.Max, sp.Min, sp.Average)
    assert [Nccl(nccl).operation(op) for op in operations] == [0, 1, 2, 3, 4]


def test_an_id_has_128_bytes_and_never_comes_twice(nccl):
    ids = [Nccl(nccl).new_id() for _ in range(2)]
    assert [len(each) for each in ids] == [128, 128] and ids[0] != ids[1]


def test_connecting(nccl):
    assert isinstance(Nccl(nccl).connect(1, b"i" * 128, 0), Link)
    assert nccl.calls == [("NcclCommunicator", (1, b"i" * 128, 0))]


# A communicator


@pytest.mark.parametrize(
    "method, function, arguments",
    (
        ("allreduce", "allReduce", (3, FLOAT32, SUM)),
        ("reduce", "reduce", (3, FLOAT32, AVG, 0)),
        ("broadcast", "broadcast", (3, FLOAT32, 0)),
        ("allgather", "allGather", (3, FLOAT32)),
        ("reducescatter", "reduceScatter", (3, FLOAT32, SUM)),
    ),
)
def test_a_collective_is_one_call(gpu, nccl, link, method, function, arguments):
    stream = gpu.new_stream()
    (source, send), (target, receive) = memory(1, 2, 3), memory(0, 0, 0)
    before = len(nccl.calls)
    getattr(link, method)(send, receive, *arguments, stream)
    assert nccl.calls[before:] == [(function, (send, receive, *arguments, stream))]
    assert target.tolist() == [0, 0, 0]  # it has only been enqueued
    gpu.synchronize(stream)
    assert target.tolist() == source.tolist() == [1, 2, 3]


def test_a_message_is_two_calls_in_a_group(gpu, nccl, link):
    stream = gpu.new_stream()
    (_, send), (target, receive) = memory(4, 5), memory(0, 0)
    before = len(nccl.calls)
    with link.group():
        link.send(send, 2, FLOAT32, 0, stream)
        link.receive(receive, 2, FLOAT32, 0, stream)
    gpu.synchronize(stream)
    assert nccl.calls[before:] == [
        ("groupStart", ()),
        ("send", (send, 2, FLOAT32, 0, stream)),
        ("recv", (receive, 2, FLOAT32, 0, stream)),
        ("groupEnd", ()),
    ]
    assert target.tolist() == [4, 5]


def test_a_group_ends_where_a_call_in_it_fails(nccl, link):
    nccl.failing["send"] = "unhandled system error"
    with pytest.raises(FakeError, match="unhandled system error"), link.group():
        link.send(*memory(1.0)[1:], 1, FLOAT32, 0, 0)
    assert nccl.names()[-1] == "groupEnd" and nccl.depth == 0


def test_splitting(nccl, link):
    assert isinstance(link.split(3, 7), Link)
    assert nccl.calls[-1] == ("commSplit", (3, 7))


def test_errors_of_work_that_was_enqueued(nccl):
    communicator = nccl.NcclCommunicator(1, bytes(128), 0)
    link = Link(nccl, communicator)
    assert link.error() is None
    communicator.async_error = "NCCL_ERROR_REMOTE_ERROR: remote process exited"
    assert link.error() == "NCCL_ERROR_REMOTE_ERROR: remote process exited"


def test_an_aborted_communicator_takes_no_work(nccl, link):
    link.abort()
    (_, send), (_, receive) = memory(1), memory(0)
    with pytest.raises(FakeError, match="INVALID_ARGUMENT"):
        link.allreduce(send, receive, 1, FLOAT32, SUM, 0)
    assert "INVALID_ARGUMENT" in link.error()


# The GPU


def test_streams_and_events_are_made_as_needed(gpu, runtime):
    gpu.new_stream()
    gpu.new_event()
    # Non-blocking: it waits for no default stream. Without timing: cheaper to record.
    assert runtime.calls == [("streamCreateWithFlags", (1,)), ("eventCreateWithFlags", (2,))]


def test_the_name(gpu, runtime):
    assert gpu.name() == "Fake GPU"
    assert runtime.calls == [("getDeviceProperties", (0,))]


def test_copies(gpu, runtime):
    stream, address = gpu.new_stream(), gpu.allocate(8)
    (_, send), (target, receive) = memory(1.5, 2.5), memory(0, 0)
    before = len(runtime.calls)
    gpu.copy_from_host(address, send, 8, stream)
    gpu.copy_to_host(receive, address, 8, stream)
    assert runtime.calls[before:] == [
        ("memcpyAsync", (address, send, 8, 1, stream)),
        ("memcpyAsync", (receive, address, 8, 2, stream)),
    ]
    assert target.tolist() == [0, 0]
    gpu.synchronize(stream)
    assert target.tolist() == [1.5, 2.5]


def test_a_mark_is_passed_when_the_work_before_it_is_done(gpu, runtime):
    stream, event = gpu.new_stream(), gpu.new_event()
    assert gpu.has_passed(event)  # it was never set
    gpu.record(event, stream)
    assert runtime.calls[-1] == ("eventRecord", (event, stream))
    assert not gpu.has_passed(event)
    gpu.synchronize(stream)
    assert gpu.has_passed(event)
    gpu.record(event, stream)
    assert not gpu.has_passed(event)


def test_an_error_is_not_a_mark_still_ahead(gpu, runtime):
    """CuPy gives the code of cudaEventQuery back, and raises nothing."""
    event = gpu.new_event()
    runtime.code = ILLEGAL_ADDRESS
    with pytest.raises(BindingError, match="cudaEventQuery failed: cudaErrorIllegalAddress: an il"):
        gpu.has_passed(event)


@pytest.mark.parametrize(
    "use, function, reported",
    (
        (lambda gpu: gpu.name(), "getDeviceProperties", "cudaGetDeviceProperties"),
        (lambda gpu: gpu.new_stream(), "streamCreateWithFlags", "cudaStreamCreate"),
        (lambda gpu: gpu.synchronize(0), "streamSynchronize", "cudaStreamSynchronize"),
        (lambda gpu: gpu.new_event(), "eventCreateWithFlags", "cudaEventCreate"),
        (lambda gpu: gpu.record(1, 0), "eventRecord", "cudaEventRecord"),
        (lambda gpu: gpu.has_passed(1), "eventQuery", "cudaEventQuery"),
        (lambda gpu: gpu.allocate(4), "malloc", "cudaMalloc"),
        (lambda gpu: gpu.copy_to_host(0, 0, 0, 0), "memcpyAsync", "cudaMemcpyAsync"),
        (lambda gpu: gpu.copy_from_host(0, 0, 0, 0), "memcpyAsync", "cudaMemcpyAsync"),
    ),
)
def test_errors_of_cuda(gpu, runtime, use, function, reported):
    runtime.failing[function] = "cudaErrorUnknown: unknown error"
    with pytest.raises(BindingError) as error:
        use(gpu)
    assert str(error.value) == f"{reported} failed: cudaErrorUnknown: unknown error."


@pytest.mark.parametrize(
    "use, function, reported",
    (
        (lambda nccl: nccl.new_id(), "get_unique_id", "ncclGetUniqueId"),
        (lambda nccl: nccl.connect(1, bytes(128), 0), "NcclCommunicator", "ncclCommInitRank"),
        (lambda nccl: nccl.connect(1, bytes(128), 0).split(0, 0), "commSplit", "ncclCommSplit"),
    ),
)
def test_errors_of_nccl(nccl, use, function, reported):
    nccl.failing[function] = "NCCL_ERROR_SYSTEM_ERROR: unhandled system error"
    with pytest.raises(BindingError) as error:
        use(Nccl(nccl))
    text = "NCCL_ERROR_SYSTEM_ERROR: unhandled system error"
    assert str(error.value) == f"{reported} failed: {text}."


# What is loaded


@pytest.fixture
def installed(monkeypatch, runtime, nccl):
    """The fakes in the place of CuPy."""
    package, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    package.cuda, cuda.runtime, cuda.nccl = cuda, runtime, nccl
    monkeypatch.setitem(sys.modules, "cupy", package)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)


def test_loading(installed, runtime):
    assert load_gpu().name() == "Fake GPU"
    assert load_nccl().version == (2, 32, 3)


def test_a_gpu_that_is_not_the_first_is_told_to_each_thread(installed, runtime):
    gpu = load_gpu(2)
    # NCCL connects the GPU of the calling thread, and what is made belongs to it.
    assert runtime.calls[-1] == ("setDevice", (2,))
    for make in (gpu.new_stream, gpu.new_event, lambda: gpu.allocate(8)):
        make()
        assert runtime.calls[-2] == ("setDevice", (2,))
    gpu.name()
    assert runtime.calls[-1] == ("getDeviceProperties", (2,))


def test_the_oldest_version_that_serves(installed, nccl):
    nccl.version = 21800
    assert load_nccl().version == (*cupy_binding.OLDEST_NCCL, 0)


def test_no_gpu(installed, runtime, monkeypatch):
    runtime.failing["getDeviceCount"] = "cudaErrorInsufficientDriver: too old"
    with pytest.raises(MissingBindingError, match=r"finds no GPU \(cudaErrorInsufficientDriver"):
        load_gpu()
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(MissingBindingError, match="CUDA finds no GPU"):
        load_gpu()
