"""The transport by NCCL over the fake: calls, streams, errors, parts of the ranks."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from ranks import COMPLEX, MOVED
from transports import driver_of_nccl

import sciml_par.parallel as sp
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
)
from sciml_par.parallel.transports.cupy_binding import BindingError

NOT_OF_NCCL = ("bool", "int16", "uint16")


@pytest.fixture(scope="module")
def for_all_tests():
    return driver_of_nccl()


@pytest.fixture
def nccl_transport(for_all_tests):
    for_all_tests.runtime.looks_until_done = math.inf
    for_all_tests.nccl.calls.clear()
    return for_all_tests


def test_the_element_types_of_nccl(nccl_transport):
    for dtype in MOVED:
        assert nccl_transport.carries(Broadcast(dtype, (1,), 0)) == (dtype not in NOT_OF_NCCL), (
            dtype
        )
    for dtype in COMPLEX:  # as real numbers, of which NCCL would take another product
        assert nccl_transport.carries(Allreduce(dtype, (1,), sp.Average))
        assert not nccl_transport.carries(Allreduce(dtype, (1,), sp.Product))


PART_CALLS = {
    "even": ([2] * sp.size(), ["allGather"], ["reduceScatter"]),
    "growing": (range(1, sp.size() + 1), ["broadcast"] * sp.size(), ["reduce"] * sp.size()),
    "only the last": ([0] * (sp.size() - 1) + [3], ["broadcast"], ["reduce"]),
}


@pytest.mark.ranks(least=2, reason="one rank's parts are as long as each other")
@pytest.mark.parametrize("rows", PART_CALLS)
def test_parts_are_one_call_or_one_group_without_the_empty_ones(nccl_transport, rows):
    counts, *calls_of = map(tuple, PART_CALLS[rows])
    mine, whole = counts[sp.rank()], sum(counts)
    requests = (
        Allgather("float32", (mine,), counts),
        Reducescatter("float32", (whole,), sp.Sum, counts, sp.rank()),
    )
    for request, calls in zip(requests, map(list, calls_of), strict=True):
        nccl_transport.run(request, np.ones(request.shape, np.float32))
        group = [] if rows == "even" else [["groupStart"], ["groupEnd"]]
        assert nccl_transport.since() == sum([*group[:1], calls, *group[1:]], [])
    to_itself = tuple(mine if r == sp.rank() else 0 for r in range(sp.size()))
    nccl_transport.run(Alltoall("float32", (mine,), to_itself, to_itself), ones(mine))
    assert nccl_transport.since() == ["groupStart", *(["send", "recv"] if mine else []), "groupEnd"]


X = Allreduce("float32", (2,), sp.Sum)
SAID = "allreduce(float32 [2], Sum) by NCCL"


def ones(n=2):
    return np.ones(n, np.float32)


def test_a_transfer_only_enqueues(nccl_transport):
    x = ones()
    z = nccl_transport.start(Broadcast("float32", (2,), 0), x)
    y = nccl_transport.start(X, x)
    assert y.view(np.uint8).tolist() == z.view(np.uint8).tolist() == [0x55] * 8
    assert str(nccl_transport.transport.in_flight()) == SAID  # the last
    nccl_transport.finish()
    assert y.tolist() == [sp.size()] * 2 and z.tolist() == [1, 1]
    assert nccl_transport.transport.in_flight() is None


def test_finish_waits_until_the_gpu_is_done(nccl_transport):
    nccl_transport.runtime.looks_until_done = 3
    x = ones()
    y = nccl_transport.start(X, x)
    nccl_transport.transport.finish()
    assert y.tolist() == [sp.size()] * 2
    assert nccl_transport.runtime.names().count("eventQuery") > 3


@pytest.fixture
def broken():
    """A separate transport, for tests that break it."""
    return driver_of_nccl()


def test_an_error_of_nccl(broken):
    assert broken.transport.error() is None
    x = ones()
    broken.start(X, x)
    assert broken.transport.error() is None  # not yet done is none
    broken.transport._link._communicator.async_error = "NCCL_ERROR_REMOTE_ERROR: a rank is gone"
    assert broken.transport.error() == "NCCL_ERROR_REMOTE_ERROR: a rank is gone"
    broken.transport.finish()  # does not wait for what never ends
    broken.finish()


def test_an_aborted_communicator(broken):
    x = ones()
    broken.start(X, x)
    broken.transport.abort()
    broken.transport.abort()
    assert broken.nccl.names().count("abort") == 1
    # The watchdog may still look while the program ends, and is not to speak of the abort.
    assert broken.transport.error() is None and broken.transport.in_flight() is None
    broken.transport.finish()
    with pytest.raises(BindingError, match="INVALID_ARGUMENT"):
        broken.start(X, x)


def test_the_result_of_an_aborted_call_reaches_no_thread(broken):
    """To CUDA it is done, and its memory holds wrong numbers."""
    broken.start(X, ones())
    broken.transport.abort()
    waiting = threading.Thread(target=broken.transport.wait, daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()


def test_a_communicator_is_split_when_its_work_is_done(nccl_transport):
    nccl_transport.runtime.looks_until_done = 2
    x = ones()
    y = nccl_transport.start(X, x)
    nccl_transport.transport.split(0, sp.rank(), sp.size())
    assert y.tolist() == [sp.size()] * 2
