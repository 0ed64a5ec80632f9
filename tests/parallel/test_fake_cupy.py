"""The fakes of CuPy beside the real one, where there is one; and what they refuse."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from fake_cuda_runtime import ERRORS, NOT_READY, FakeError, FakeRuntime
from fake_cupy import FakeNccl, FakeNcclCommunicator

import sciml_par.parallel as sp
from sciml_par.parallel.transports import cupy_binding

pytestmark = pytest.mark.ranks(most=2, reason="two ranks are enough to differ")

FLOAT32, INT32, SUM, AVG = 7, 2, 0, 4


def memory(*values):
    """(array, address) of float32 values; the array keeps them."""
    array = np.array(values, np.float32)
    return array, array.ctypes.data


@pytest.fixture
def runtime():
    return FakeRuntime()


# The fakes beside the real CuPy


def parameters_of_cython(function) -> list[str]:
    """The names of the parameters without a default, from the text that Cython leaves."""
    text = re.search(r"\((.*?)\)", function.__doc__.splitlines()[0])[1]
    parameters = [p.split() for p in text.split(", ") if p and "=" not in p]
    return [words[-1] for words in parameters if words[-1] != "self"]


def parameters_of_python(function) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    return [name for name in needed if name != "self"]


def calls_of(fake: type) -> list[str]:
    """The public functions that a fake has for CuPy's."""
    own = {"add", "enqueue", "record", "names"}
    functions = inspect.getmembers(fake, inspect.isfunction)
    return [name for name, _ in functions if not name.startswith("_") and name not in own]


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed: nothing to compare with")


def test_the_fakes_have_the_interface_of_cupy(cupy):
    from cupy.cuda import nccl, runtime

    for fake, real in (
        (FakeRuntime, runtime),
        (FakeNccl, nccl),
        (FakeNcclCommunicator, nccl.NcclCommunicator),
    ):
        for name in calls_of(fake):
            theirs = parameters_of_cython(getattr(real, name))
            assert parameters_of_python(getattr(fake, name)) == theirs, name


def test_the_fakes_have_the_numbers_of_cupy(cupy):
    from cupy.cuda import nccl, runtime

    for fake, real in ((FakeRuntime, runtime), (FakeNccl, nccl)):
        numbers = {name: value for name, value in vars(fake).items() if type(value) is int}
        assert numbers == {name: getattr(real, name) for name in numbers}
    assert runtime.streamNonBlocking == cupy_binding._NON_BLOCKING
    assert runtime.eventDisableTiming == cupy_binding._NO_TIMING
    assert cupy_binding._NOT_READY == NOT_READY
    for code, text in ERRORS.items():
        assert str(runtime.CUDARuntimeError(code)) == text


def test_cupy_gives_the_code_of_an_event_back(cupy):
    """Event 0 is none, and there may be no driver; neither raises here."""
    from cupy.cuda import runtime

    assert runtime.eventQuery(0) not in (0, NOT_READY)


# What the fake refuses, so that the tests that use it can fail


@pytest.fixture
def together(runtime):
    """A fake communicator of all ranks of the test run."""
    mpi = sp.current_world().communicator.mpi
    shared_id = mpi.bcast(bytes(128))
    return FakeNccl(mpi, runtime).NcclCommunicator(mpi.size, shared_id, mpi.rank)


def test_the_fake_refuses_an_average_of_integers(together):
    address = memory(*range(8))[1]
    with pytest.raises(FakeError, match="INVALID_ARGUMENT"):
        together.allReduce(address, address, 1, INT32, AVG, 0)


@pytest.mark.parametrize("datatype", (-1, 10))
def test_the_fake_refuses_unknown_element_types(together, datatype):
    address = memory(1)[1]
    with pytest.raises(FakeError, match="INVALID_ARGUMENT"):
        together.broadcast(address, address, 1, datatype, 0, 0)


def test_the_fake_refuses_a_message_outside_a_group(together):
    with pytest.raises(FakeError, match="would hang"):
        together.send(memory(1)[1], 1, FLOAT32, 0, 0)


def test_the_fake_refuses_what_overlaps(together):
    values, address = memory(*range(100))
    with pytest.raises(FakeError, match="write over"):
        together.allReduce(address, address + 4, 2, FLOAT32, SUM, 0)
    own = address + 8 * sp.rank()
    together.allGather(own, address, 2, FLOAT32, 0)  # in place, as NCCL has it
    with pytest.raises(FakeError, match="write over"):
        together.allGather(own + 4, address, 2, FLOAT32, 0)


needs_ranks = pytest.mark.ranks(least=2, reason="one rank cannot differ from others")


@needs_ranks
def test_the_fake_refuses_counts_that_differ(together, runtime):
    (_, send), (_, receive) = memory(*range(8)), memory(*range(32))
    together.allGather(send, receive, 1 + (sp.rank() == 0), FLOAT32, 0)
    with pytest.raises(FakeError, match="the ranks call NCCL differently"):
        runtime.streamSynchronize(0)


@needs_ranks
def test_the_fake_refuses_messages_of_another_length(together, runtime):
    nccl = together._nccl
    right, left = (sp.rank() + 1) % sp.size(), (sp.rank() - 1) % sp.size()
    (_, send), (_, receive) = memory(1, 2, 3), memory(0, 0, 0)
    nccl.groupStart()
    together.send(send, 2, FLOAT32, right, 0)
    together.recv(receive, 3, FLOAT32, left, 0)
    nccl.groupEnd()
    with pytest.raises(FakeError, match=f"rank {left} sends 2 elements .* takes 3"):
        runtime.streamSynchronize(0)
