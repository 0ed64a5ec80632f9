"""The handlers of collectives in programs compiled for a GPU, on fakes of CuPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ranks import all_values, values
from transports import fake_nccl_communicator

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.parallel.execution.xla_call_sites import gpu_handler, on_copies
from sciml_par.parallel.groups.call_site import CallSite, PreparedCall
from sciml_par.parallel.requests.request import Allgather, Allreduce, Reducescatter

pytestmark = pytest.mark.ranks(most=2, reason="it is about the memory of a rank")

MPI_IS_AT_WORK = ("MPI", ())
COPY, WAIT = "memcpyAsync", "streamSynchronize"


class Fakes:
    """A group with fake GPUs; `calls` has the calls of CUDA and MPI."""

    def __init__(self, mpi, monkeypatch):
        self.group = sp.Communicator(mpi, name="fake GPUs")
        self.group.nccl_transport, self.nccl, self.runtime = fake_nccl_communicator(mpi)
        self.group.gpu = self.group.nccl_transport.gpu
        self.calls = self.runtime.calls
        execute = PreparedCall.execute

        def recording(call, *arguments):
            if call.signature.transport == "MPI":
                self.calls.append(MPI_IS_AT_WORK)
            execute(call, *arguments)

        monkeypatch.setattr(PreparedCall, "execute", recording)
        self.stream = self.group.gpu.new_stream()

    def run(self, request, x, *, on_host=False):
        """Return (result, calls) of the handler, on memory of the GPU."""
        handler = gpu_handler(CallSite(self.group, request), on_host=on_host)
        send, receive = self.on_gpu(x), self.on_gpu(np.zeros(request.receive_shape, x.dtype))
        self.calls.clear()
        handler(send, receive, self.stream)
        calls = list(self.calls)
        self.group.gpu.synchronize(self.stream)
        return self.from_gpu(receive, request.receive_shape, x.dtype), calls

    def on_gpu(self, x):
        address = self.runtime.malloc(x.nbytes)
        ctypes.memmove(address, x.ctypes.data, x.nbytes)
        return address

    def from_gpu(self, address, shape, dtype):
        y = np.empty(shape, dtype)
        ctypes.memmove(y.ctypes.data, address, y.nbytes)
        return y


@pytest.fixture
def fakes(monkeypatch):
    return Fakes(sp.current_world().communicator.mpi, monkeypatch)


def test_by_nccl_on_the_programs_stream(fakes):
    request = Allreduce("float32", (3,), sp.Sum)
    y, calls = fakes.run(request, values(sp.rank(), (3,), "float32"))
    np.testing.assert_array_equal(y, all_values((3,), "float32").sum(0))
    ((name, arguments),) = [c for c in fakes.nccl.calls if c[0] != "NcclCommunicator"][-1:]
    assert (
        name == "allReduce" and arguments[-1] == fakes.stream != fakes.group.nccl_transport.stream
    )
    # A mark for the watchdog, and nobody waits.
    assert [name for name, _ in calls] == ["eventRecord"]


@pytest.mark.parametrize("way", ("a type that NCCL lacks", "on_host", "no NCCL"))
def test_through_the_host(fakes, way):
    dtype = "int16" if way == "a type that NCCL lacks" else "float32"
    if way == "no NCCL":
        fakes.group.nccl_transport = None
    x = values(sp.rank(), (2, 3), dtype)
    y, calls = fakes.run(Allreduce(dtype, (2, 3), sp.Sum), x, on_host=way == "on_host")
    np.testing.assert_array_equal(y, all_values((2, 3), dtype).sum(0))
    assert [name for name, _ in calls] == [COPY, WAIT, "MPI", COPY, WAIT]
    (to_host, wait, _, from_host, wait_again) = [arguments for _, arguments in calls]
    assert to_host[2:] == (x.nbytes, 2, fakes.stream) and wait == (fakes.stream,)
    assert from_host[2:] == (x.nbytes, 1, fakes.stream) and wait_again == (fakes.stream,)
    assert not {"allReduce", "broadcast"} & set(fakes.nccl.names())


def test_input_and_output_of_other_lengths_through_the_host(fakes):
    rows = tuple(r + 1 for r in range(sp.size()))
    for request in (
        Allgather("int16", (sp.rank() + 1, 2), rows),
        Reducescatter("int16", (sum(rows), 2), sp.Sum, rows, sp.rank()),
        Allgather("int16", (0, 3), (0,) * sp.size()),
    ):
        x = values(sp.rank(), request.shape, "int16")
        y, _ = fakes.run(request, x)
        expected = np.zeros(request.receive_shape, np.int16)
        CallSite(fakes.group, request).prepared(fakes.group.mpi_transport).execute(
            x.ctypes.data, expected.ctypes.data
        )
        np.testing.assert_array_equal(y, expected, err_msg=str(request))


def test_a_function_on_copies_of_several_tensors(fakes):
    xs, shapes = [np.arange(6.0), np.arange(3.0)], [(2,), (3,)]

    def act(given, wanted):
        a, b = (fakes.from_gpu(at, x.shape, x.dtype) for at, x in zip(given, xs, strict=True))
        for at, y in zip(wanted, (a[:2] + 1, b * 2), strict=True):
            ctypes.memmove(at, y.ctypes.data, y.nbytes)

    run = on_copies(fakes.group.gpu, act, [x.nbytes for x in xs], [8 * n for (n,) in shapes])
    for _ in range(2):
        results = [fakes.on_gpu(np.zeros(shape)) for shape in shapes]
        run([fakes.on_gpu(x) for x in xs], results, fakes.stream)
        a, b = (fakes.from_gpu(*each, np.float64) for each in zip(results, shapes, strict=True))
        assert a.tolist() == [1.0, 2.0] and b.tolist() == [0.0, 2.0, 4.0]


def test_without_cupy_there_is_a_remedy(fakes):
    fakes.group.nccl_transport = fakes.group.gpu = None
    handler = gpu_handler(CallSite(fakes.group, Allreduce("float32", (1,), sp.Sum)))
    with pytest.raises(InputError, match=r"needs CuPy: pip install 'sciml-par\[gpu\]', or leave"):
        handler(0, 0, 0)
