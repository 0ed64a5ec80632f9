"""Long allreduces by MPI, of which each rank reduces a share, and what their pieces are."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import numpy_type
from transports import Driver, world_mpi

import sciml_par.parallel as sp
from sciml_par.parallel.requests.request import Allreduce, Reducescatter
from sciml_par.parallel.transports import mpi
from sciml_par.parallel.transports.mpi import MPITransport

pytestmark = pytest.mark.ranks(least=2, reason="one rank has nobody to share with")

COUNTS = (64, 65, 203, 1000 * 7 + 5)
"""Of one block a rank on 2 and 4 ranks; of several pieces and a rest, which is no multiple of P."""

FUNCTIONS = {sp.Sum: np.sum, sp.Average: np.mean, sp.Min: np.min, sp.Max: np.max}


@pytest.fixture
def in_shares(monkeypatch):
    """All but the shortest go in shares, of at most 256 bytes a rank."""
    monkeypatch.setattr(mpi, "_SHARES_FROM_BYTES", 8)
    monkeypatch.setattr(mpi, "_PIECE_IN_SHARES_BYTES", 256)
    transport = MPITransport(world_mpi())
    transport.is_mpich = True  # Open MPI can do it as well
    return transport


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
