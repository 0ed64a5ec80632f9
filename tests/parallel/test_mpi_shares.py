"""Long allreduces by MPI, of which each rank reduces a share, and what their pieces are."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import numpy_type
from transports import Driver, world_mpi

import sciml_par.parallel as sp
from sciml_par.parallel.requests.request import Allreduce, Reducescatter
from sciml_par.parallel.transports import mpi
from sciml_par.parallel.transports.host_levels import have_levels
from sciml_par.parallel.transports.mpi import MPITransport

pytestmark = pytest.mark.ranks(least=2, reason="one rank has nobody to share with")

COUNTS = (64, 65, 203, 1000 * 7 + 5)
"""Of one block a rank on 2 and 4 ranks; of several pieces and a rest, which is no multiple of P."""

FUNCTIONS = {sp.Sum: np.sum, sp.Average: np.mean, sp.Min: np.min, sp.Max: np.max}


def one_host():
    return [0] * sp.size()


def two_hosts():
    """As many ranks on each as there can be, of which the ranks take turns."""
    return [rank % 2 for rank in range(sp.size())]


@pytest.fixture(params=(one_host, two_hosts))
def in_shares(monkeypatch, request):
    """All but the shortest go in shares, of at most 256 bytes a rank."""
    hosts = request.param()
    if request.param is two_hosts and sp.size() != 4:
        pytest.skip("two hosts with two ranks each take four")
    monkeypatch.setattr(mpi, "_SHARES_FROM_BYTES", 8)
    monkeypatch.setattr(mpi, "_PIECE_IN_SHARES_BYTES", 256)
    transport = MPITransport(world_mpi(), hosts=hosts)
    assert (transport.levels is not None) == (request.param is two_hosts)
    transport.is_mpich = True  # Open MPI can do it as well
    yield transport
    transport.free()


def mine(count, dtype, rank):
    values = np.random.default_rng([count, rank]).integers(-40, 40, count)
    return values.astype(numpy_type(dtype))


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16", "int64"))
@pytest.mark.parametrize("op", FUNCTIONS)
def test_each_rank_has_the_whole_result(in_shares, dtype, op):
    if dtype == "int64" and op is sp.Average:
        pytest.skip("an average of integers is refused before")
    for count in COUNTS:
        request, x = Allreduce(dtype, (count,), op), mine(count, dtype, sp.rank())
        everyone = [mine(count, dtype, rank).astype("float64") for rank in range(sp.size())]
        expected = FUNCTIONS[op](everyone, axis=0)
        exact = op is not sp.Average or dtype in ("float32", "float64")
        found = Driver(in_shares).run(request, x)
        np.testing.assert_allclose(found.astype("float64"), expected, 1e-6 if exact else 1e-2)
        in_place = x.copy()
        in_shares.prepare(request)(in_place.ctypes.data, in_place.ctypes.data)
        np.testing.assert_array_equal(in_place, found)


def test_what_is_rounded_is_the_same_on_all_ranks(in_shares):
    x = np.random.default_rng(sp.rank()).standard_normal(1003).astype("float32")
    found = Driver(in_shares).run(Allreduce("float32", (1003,), sp.Average), x)
    whole = sp.current_world().communicator.allgather_object(found.tobytes())
    assert len(set(whole)) == 1
    everyone = sp.current_world().communicator.allgather_object(x)
    np.testing.assert_allclose(found, np.mean(everyone, axis=0), atol=1e-6)


def test_only_long_ones_go_in_shares():
    calls = []

    class Watched:
        def __init__(self, comm):
            self._comm = comm

        def __getattr__(self, name):
            if name in ("Allreduce", "Reduce_scatter_block", "Allgather"):
                calls.append(name)
            return getattr(self._comm, name)

    transport = MPITransport(world_mpi())
    transport.comm = Watched(transport.comm)
    transport.is_mpich = True
    for count, expected in (
        ((1 << 18), {"Allreduce"}),
        ((1 << 18) + 8, {"Reduce_scatter_block", "Allgather"}),
    ):
        Driver(transport).run(Allreduce("float32", (count,), sp.Sum), np.zeros(count, "float32"))
        assert set(calls) == expected
        calls.clear()


@pytest.mark.parametrize("uneven", (False, True))
def test_rows_of_a_reducescatter_that_are_equal_and_that_are_not(uneven):
    size, rank = sp.size(), sp.rank()
    rows = tuple(5 + (uneven and r == 0) for r in range(size))
    request = Reducescatter("float32", (sum(rows), 3), sp.Average, rows, rank)
    x = np.arange(3.0 * sum(rows), dtype="float32").reshape(-1, 3) * (1 + rank)
    found = Driver(MPITransport(world_mpi())).run(request, x)
    whole = np.arange(3.0 * sum(rows)).reshape(-1, 3) * (size + 1) / 2
    first = sum(rows[:rank])
    np.testing.assert_allclose(found, whole[first : first + rows[rank]], rtol=1e-6)


def test_a_call_site_that_is_new_after_a_mismatch_meets_the_older_ones(in_shares):
    """By then the tensors go by another communicator, also those of call sites that are older."""
    request, x = Allreduce("float32", (203,), sp.Sum), np.ones(203, "float32")
    older = in_shares.prepare(request)
    in_shares.go_by(in_shares.comm.Dup())
    transfer = in_shares.prepare(request) if sp.rank() == 0 else older
    y = np.zeros_like(x)
    transfer(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, float(sp.size()))


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ((), False),
        ((0, 0, 0, 0), False),
        ((0, 1, 2, 3), False),
        ((0, 0, 0, 3), False),
        ((0, 1, 0, 1), True),
        ((0, 0, 2, 2), True),
    ],
)
def test_which_hosts_have_levels(hosts, found):
    assert have_levels(hosts) == found
