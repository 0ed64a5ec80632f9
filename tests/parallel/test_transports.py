"""Both transports behind one contract: MPI, also in parts, and NCCL, over its fake and on GPUs."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from inside import Allgather, Allreduce, Alltoall, Broadcast, Reducescatter
from ranks import COMPLEX, FLOATS, all_values
from real_gpus import driver_of_gpus
from reductions import reduced
from selection import pairwise
from transports import (
    ROWS,
    array,
    driver_of_mpi,
    driver_of_mpi_in_parts,
    driver_of_nccl,
    sizes,
)

import sciml_par.parallel as sp

DRIVERS = {
    "MPI": driver_of_mpi,
    "MPI in parts": driver_of_mpi_in_parts,
    "NCCL": driver_of_nccl,
    "NCCL on GPUs": driver_of_gpus,
}
TRANSPORTS = (
    "MPI",
    "MPI in parts",
    "NCCL",
    pytest.param("NCCL on GPUs", marks=pytest.mark.gpu),
)
OPERATIONS = (sp.Sum, sp.Average, sp.Min, sp.Max, sp.Product)


@pytest.fixture(
    scope="module",
    params=TRANSPORTS,
)
def transport(request):
    make = DRIVERS[request.param]
    return make(request.config) if make is driver_of_gpus else make()


def types_of(transport, op=None):
    """The element types that it carries; with an operation, those for which it has a meaning."""
    request = Broadcast("float32", (1,), 0) if op is None else Allreduce("float32", (1,), op)
    types = [t for t in transport.types if transport.carries(replace(request, dtype=t))]
    if op is sp.Average:
        return [t for t in types if t in (*FLOATS, *COMPLEX)]
    if op in (sp.Min, sp.Max):
        return [t for t in types if t not in COMPLEX]
    return [t for t in types if (t, op) != ("bool", sp.Sum)]


def assert_result(got: np.ndarray, expected: np.ndarray, op: sp.ReduceOp) -> None:
    """Equal; where x·(1/P) was summed, to its rounding: P + 1 of them, of numbers up to 2."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if op is sp.Average:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        error = np.abs(got.astype(wide) - expected.astype(wide))
        bound = (sp.size() + 1) * float(ml_dtypes.finfo(got.dtype).eps)
        assert error.size == 0 or error.max() <= bound
    else:
        np.testing.assert_array_equal(got, expected)


@pairwise(["transport"], transport=TRANSPORTS, op=OPERATIONS, shape=((), (7,), (3, 0), (700, 3)))
def test_allreduce(transport, op, shape):
    for dtype in types_of(transport, op):
        y = transport.run(Allreduce(dtype, shape, op), array(sp.rank(), shape, dtype))
        assert_result(y, reduced(all_values(shape, dtype), op), op)


def test_allreduce_in_place(transport):
    x = array(sp.rank(), (5,), "float32")
    transport.prepared(Allreduce("float32", (5,), sp.Sum))(x, x)
    transport.finish()
    np.testing.assert_array_equal(x, all_values((5,), "float32").sum(0))


@pytest.mark.parametrize("shape", ((), (2, 3), (0,)))
def test_broadcast(transport, shape):
    for dtype in types_of(transport):
        for root in range(sp.size()):
            tag = f"from {root}"
            y = transport.run(Broadcast(dtype, shape, root), array(sp.rank(), shape, dtype, tag))
            np.testing.assert_array_equal(y, array(root, shape, dtype, tag), err_msg=dtype)


@pairwise(["transport"], transport=TRANSPORTS, rows=ROWS, trailing=((), (2, 3), (0,)))
def test_allgather(transport, rows, trailing):
    counts = sizes(ROWS[rows])
    for dtype in types_of(transport):
        request = Allgather(dtype, (counts[sp.rank()], *trailing), counts)
        y = transport.run(request, array(sp.rank(), request.shape, dtype))
        everyone = [array(rank, (n, *trailing), dtype) for rank, n in enumerate(counts)]
        np.testing.assert_array_equal(y, np.concatenate(everyone), err_msg=dtype)


@pairwise(["transport"], transport=TRANSPORTS, op=OPERATIONS, rows=ROWS)
def test_reducescatter(transport, op, rows):
    counts = sizes(ROWS[rows])
    shape, first = (sum(counts), 2), sum(counts[: sp.rank()])
    for dtype in types_of(transport, op):
        request = Reducescatter(dtype, shape, op, counts, sp.rank())
        y = transport.run(request, array(sp.rank(), shape, dtype))
        whole = reduced(all_values(shape, dtype), op)
        assert_result(y, whole[first : first + counts[sp.rank()]], op)


# How many rows rank s sends to rank r.
SENT = {
    "the same to each": lambda s, r: 2,
    "another number to each": lambda s, r: (s + 2 * r) % 4,
    "to oneself only": lambda s, r: 3 if s == r else 0,
    "to the others only": lambda s, r: s + 1 if s != r else 0,
    "all to the last": lambda s, r: 2 if r == sp.size() - 1 else 0,
    "nothing": lambda s, r: 0,
}


@pairwise(["transport"], transport=TRANSPORTS, rows=SENT, trailing=((), (3,)))
def test_alltoall(transport, rows, trailing):
    number, mine, everyone = SENT[rows], sp.rank(), range(sp.size())
    sent = tuple(number(mine, r) for r in everyone)
    received = tuple(number(s, mine) for s in everyone)

    def part(s, r, dtype):
        """The rows that s sends to r, out of all that it sends."""
        counts = [number(s, q) for q in everyone]
        outgoing = array(s, (sum(counts), *trailing), dtype)
        return outgoing[sum(counts[:r]) : sum(counts[: r + 1])]

    for dtype in types_of(transport):
        request = Alltoall(dtype, (sum(sent), *trailing), sent, received)
        y = transport.run(request, array(mine, request.shape, dtype))
        expected = np.concatenate([part(s, mine, dtype) for s in everyone])
        np.testing.assert_array_equal(y, expected, err_msg=dtype)


def test_long_messages(transport):
    """Longer than what MPI sends before somebody takes it."""
    n, size = 100_000, sp.size()
    request = Alltoall("float64", (n * size,), (n,) * size, (n,) * size)
    y = transport.run(request, np.arange(n * size, dtype=np.float64) + 1e7 * sp.rank())
    mine = np.arange(n * sp.rank(), n * (sp.rank() + 1), dtype=np.float64)
    np.testing.assert_array_equal(y, np.concatenate([mine + 1e7 * r for r in range(size)]))


def test_a_request_is_prepared_once_and_carried_out_often(transport):
    counts = sizes(ROWS["growing"])
    x, y = np.zeros(counts[sp.rank()]), np.empty(sum(counts))
    on_arrays = transport.prepared(Allgather("float64", x.shape, counts))
    for step in range(3):
        x[:] = 10 * step + sp.rank()
        on_arrays(x, y)
        transport.finish()
        expected = np.repeat(10 * step + np.arange(sp.size()), counts)
        np.testing.assert_array_equal(y, expected)


def test_barrier(transport):
    transport.transport.barrier()
    transport.transport.barrier()
