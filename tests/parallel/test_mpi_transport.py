"""What the transport by MPI has alone: how long its calls are, and where its buffers lie."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import pytest
from transports import Driver, array, world_mpi

import sciml_par.parallel as sp
from sciml_par.parallel.execution.tensor_bundle_call import TensorBundleCall
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
)
from sciml_par.parallel.transports.mpi import MPITransport

LONGEST = 64
ROWS = 40
"""Of three int16: several times the longest, and no multiple of it."""


class Watched:
    """A communicator of mpi4py's, and the largest number that its collectives were given."""

    def __init__(self, comm):
        self._comm = comm
        self.largest = 0
        self.calls = []

    def __getattr__(self, name):
        function = getattr(self._comm, name)
        if not callable(function) or name.startswith("Get_"):
            return function

        def watched(*arguments, **options):
            self.calls.append(name)
            self.largest = max([self.largest, *_numbers(arguments)])
            return function(*arguments, **options)

        return watched


def _numbers(value):
    if isinstance(value, Integral):
        yield int(value)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)


@pytest.fixture
def watched():
    transport = MPITransport(world_mpi(), longest=LONGEST)
    transport.comm = Watched(transport.comm)
    return Driver(transport)


def uneven_rows(rank):
    return ROWS * (rank + 1) - rank


def requests(dtype="int16"):
    """One of each kind, all of them longer than the longest."""
    size, rank = sp.size(), sp.rank()
    counts = tuple(map(uneven_rows, range(size)))
    return {
        "allreduce": Allreduce(dtype, (ROWS, 3), sp.Sum),
        "broadcast": Broadcast(dtype, (ROWS, 3), size - 1),
        "allgather": Allgather(dtype, (counts[rank], 3), counts),
        "reducescatter": Reducescatter(dtype, (sum(counts), 3), sp.Sum, counts, rank),
        "alltoall": Alltoall(
            dtype, (size * counts[rank], 3), (counts[rank],) * size, tuple(counts)
        ),
    }


@pytest.mark.parametrize("kind", requests())
@pytest.mark.parametrize("dtype", ("int16", "float16", "complex64"))
def test_no_call_is_longer_than_allowed(watched, kind, dtype):
    request = requests(dtype)[kind]
    x = array(sp.rank(), request.shape, dtype)
    expected = Driver(MPITransport(world_mpi())).run(request, x)
    np.testing.assert_array_equal(watched.run(request, x), expected)
    # One rank has nobody to exchange halves with.
    assert watched.transport.comm.calls or (sp.size() == 1 and dtype == "float16")
    assert watched.transport.comm.largest <= LONGEST


def test_offsets_count_as_well_as_lengths(watched):
    """Parts that are short, behind one that is long: one rank's affair, of which no other knows."""
    size, rank = sp.size(), sp.rank()
    sent = (3 * LONGEST, *(1,) * (size - 1)) if rank == size - 1 else (1,) * size
    received = (*(1,) * (size - 1), 3 * LONGEST if rank == 0 else 1)
    request = Alltoall("int8", (sum(sent),), sent, received)
    x = (np.arange(sum(sent)) % 50 + rank).astype(np.int8)
    y = watched.run(request, x)
    expected = []
    for giver, n in enumerate(received):
        first = rank if giver < size - 1 or rank == 0 else 3 * LONGEST + rank - 1
        expected.append(np.arange(first, first + n) % 50 + giver)
    np.testing.assert_array_equal(y, np.concatenate(expected))
    assert watched.transport.comm.largest <= LONGEST


def test_no_rows_may_lie_where_the_result_does():
    """An empty tensor has no memory of its own: its address may be any."""
    size, rank = sp.size(), sp.rank()
    rows = tuple(0 if r == 0 else 2 for r in range(size))
    one = (0,) * (size - 1)
    sent, received = (
        ((0,) * size, (0, *(2,) * (size - 1))) if rank == 0 else ((2, *one), (0,) * size)
    )
    requests = (
        (Allgather("float64", (rows[rank],), rows), np.repeat(np.arange(size), rows)),
        (Alltoall("float64", (sum(sent),), sent, received), np.repeat(np.arange(size), received)),
    )
    for longest in (LONGEST, 1 << 30):
        transport = MPITransport(world_mpi(), longest=longest)
        for request, expected in requests:
            x = np.full(request.shape, float(rank))
            y = np.full(request.receive_shape, -1.0)
            source = x if x.size else y
            transport.prepare(request)(source.ctypes.data, y.ctypes.data)
            np.testing.assert_array_equal(y, expected)


def test_nothing_at_all_at_one_address():
    """Neither sent nor received, on any rank."""
    size, rank = sp.size(), sp.rank()
    none, here = (0,) * size, np.zeros(1).ctypes.data
    for request in (
        Allreduce("float32", (0, 2), sp.Average),
        Broadcast("float32", (0,), 0),
        Allgather("float32", (0,), none),
        Reducescatter("float32", (0,), sp.Average, none, rank),
        Alltoall("float32", (0,), none, none),
    ):
        MPITransport(world_mpi()).prepare(request)(here, here)


MORE_THAN_MPI_HAS_COMMUNICATORS = 3000


def addresses_of(arrays):
    return np.array([x.ctypes.data for x in arrays], np.uint64).tobytes()


@pytest.mark.ranks(least=2, most=2, reason="the limit is that of one rank")
def test_more_call_sites_than_mpi_has_communicators():
    group = sp.current_world().communicator.split(0)
    request = Allreduce("float32", (5,), sp.Sum)
    calls = [
        TensorBundleCall(group, request, [(2,), (3,)])
        for _ in range(MORE_THAN_MPI_HAS_COMMUNICATORS)
    ]
    for call in (calls[0], calls[-1]):
        arrays = [np.full(n, n + sp.rank(), np.float32) for n in (2, 3)]
        call.execute(addresses_of(arrays))
        for n, x in zip((2, 3), arrays, strict=True):
            assert x.tolist() == [sum(n + rank for rank in range(sp.size()))] * n
    group.free()
