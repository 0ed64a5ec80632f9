"""Min and Max: a NaN on any rank wins, by every transport."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from ranks import EAGER_FIRST, FLOATS, numpy_type
from transports import Driver, world_mpi

import sciml_par.parallel as sp
from sciml_par.parallel.native import machine_code
from sciml_par.parallel.requests.request import Allreduce, Reducescatter
from sciml_par.parallel.transports.mpi import MPITransport

EXTREMES = {sp.Min: np.min, sp.Max: np.max}
MACHINE_CODE = pytest.param(
    machine_code.combine_by_machine_code,
    id="machine code",
    marks=pytest.mark.skipif(machine_code.obstacle() != "", reason="there is no machine code"),
)


def with_nan(rank: int, count: int, dtype: str) -> np.ndarray:
    """Rank r alone has a NaN at r, r + P + 2, …; all have one at P, and none at P + 1.

    At every other one of these places the other ranks have what would be the extreme.
    """
    size = sp.size()
    place = np.arange(count) % (size + 2)
    values = np.where(np.arange(count) // (size + 2) % 2, np.inf, -1.0) * (rank + 1)
    values[(place == rank) | (place == size)] = -np.nan if rank % 2 else np.nan
    return values.astype(numpy_type(dtype))


def everyones(count: int, dtype: str) -> np.ndarray:
    return np.stack([with_nan(rank, count, dtype) for rank in range(sp.size())]).astype("float64")


def assert_extremes(found, op: sp.ReduceOp, dtype: str, count: int) -> None:
    expected = EXTREMES[op](everyones(count, dtype), axis=0)
    assert np.isnan(expected).any() and not np.isnan(expected).all()
    np.testing.assert_array_equal(np.asarray(found, "float64"), expected, f"{op} of {dtype}")


@pytest.mark.parametrize("context", EAGER_FIRST)
def test_every_type_in_every_context(context):
    cases, count = [(dtype, op) for dtype in FLOATS for op in EXTREMES], 4 * (sp.size() + 2)
    run = context(lambda *xs: [sp.allreduce(x, op) for x, (_, op) in zip(xs, cases, strict=True)])
    results = run(*[tf.constant(with_nan(sp.rank(), count, dtype)) for dtype, _ in cases])
    for result, (dtype, op) in zip(results, cases, strict=True):
        assert_extremes(result.numpy(), op, dtype, count)


@pytest.mark.ranks(least=2, reason="one rank exchanges nothing")
@pytest.mark.parametrize("code", (None, MACHINE_CODE))
def test_by_mpi(code):
    """As short as can be, in shares, and in several pieces of them; and the rows of a part."""
    driver = Driver(MPITransport(world_mpi(), machine_code=code))
    cases = list(itertools.product((1003, 100_003), FLOATS, EXTREMES))
    for count, dtype, op in [*cases, (3_000_001, "float16", sp.Max)]:
        x = with_nan(sp.rank(), count, dtype)
        assert_extremes(driver.run(Allreduce(dtype, (count,), op), x), op, dtype, count)
    rows = tuple(5 * rank + 1 for rank in range(sp.size()))
    count, first = sum(rows), sum(rows[: sp.rank()])
    for dtype in FLOATS:
        for op in EXTREMES:
            x = with_nan(sp.rank(), count, dtype)
            request = Reducescatter(dtype, (count,), op, rows, sp.rank())
            expected = EXTREMES[op](everyones(count, dtype), axis=0)
            found = driver.run(request, x).astype("float64")
            np.testing.assert_array_equal(found, expected[first : first + rows[sp.rank()]])


@pytest.mark.ranks(least=2, reason="one rank exchanges nothing")
def test_by_nccl_which_drops_a_nan(all_with_fakes):
    (group, nccl), count = all_with_fakes, 4 * (sp.size() + 2)
    nccl.calls.clear()
    for dtype, op in itertools.product(FLOATS, EXTREMES):
        x = tf.constant(with_nan(sp.rank(), count, dtype))
        rows = sp.reducescatter(x, op, communicator=group)
        whole = sp.allreduce(x, op, communicator=group)
        for result in (whole, sp.allgather(rows, communicator=group)):
            assert_extremes(result.numpy(), op, dtype, count)
    assert "allReduce" in nccl.names()
