"""Helpers of tests on a GPU: its presence, and its memory.

CuPy is imported where it is used, because most machines that run the tests have none.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import pytest
from mpi4py import MPI

import sciml_par.parallel as sp
from sciml_par.parallel.groups.call_site import PreparedCall
from sciml_par.parallel.tensors.memory import HOST_MEMORY, has_gpus
from sciml_par.parallel.transports.cupy_binding import MissingBindingError, load_gpu, load_nccl
from sciml_par.parallel.transports.nccl import NCCLTransport

NOT_A_NUMBER = 0xFF
"""Bytes of these are a NaN in every floating-point type, and -1 or the largest integer."""


def leave_out(config: pytest.Config, reason: str) -> None:
    """Skip a test that finds no GPU; end a run of the tests marked gpu alone (`pytest -m gpu`).

    Such a run must not succeed if all tests are skipped.
    """
    if config.option.markexpr == "gpu":
        pytest.exit(f"No test has run on a GPU: {reason}", returncode=1)
    pytest.skip(reason)


def require_gpu(config: pytest.Config) -> None:
    """Leave the test out unless TensorFlow has a GPU on every rank (collective)."""
    world = sp.current_world()
    obstacles = world.communicator.allgather_object(_obstacle())
    lacking = [f"rank {rank}: {text}" for rank, text in enumerate(obstacles) if text]
    if sp.size() > 1 and not lacking and world.communicator.nccl_transport is None:
        lacking = [f"the ranks do not use NCCL: {world.transport.obstacle}"]
    if lacking:
        leave_out(config, "; ".join(lacking))


def _obstacle() -> str:
    """Why this rank has no GPU for tests; empty if it has (local)."""
    if sp.current_world().gpu is None:
        return "there is no GPU"
    try:
        load_gpu()
        load_nccl()
    except MissingBindingError as missing:
        return str(missing)
    return "" if has_gpus() else "TensorFlow sees no GPU"


def nccl_of_this_rank() -> NCCLTransport:
    """An NCCL of one rank (local)."""
    return NCCLTransport.connect(load_nccl(), load_gpu(), 0, 1, lambda shared: shared)


def group_of_this_rank(nccl: NCCLTransport) -> sp.Communicator:
    """This rank alone, whose collectives are carried out all the same (local).

    They move nothing to others, but they launch kernels, whose streams and addresses count.
    """
    group: Any = sp.Communicator(MPI.COMM_SELF, name="one GPU")
    group.nccl_transport, group.gpu = nccl, nccl.gpu
    # A collective of one rank would be left out, and nobody is there to agree with.
    group.size = 2
    group.agree = lambda signature, number=0: [number]
    return group


def fill_results_before(monkeypatch: Any, nccl: NCCLTransport) -> None:
    """Fill each result's memory with NaNs before NCCL writes there, from now on (local).

    Otherwise memory with the right values could hide work that NCCL left undone.
    """
    execute = PreparedCall.execute

    def filling(self: PreparedCall, *where: Any) -> None:
        if self.signature.transport == nccl.name and where[0] != where[1]:
            nbytes = math.prod(self.request.receive_shape) * self.request.element.size
            fill(where[1], nbytes, where[2])
        execute(self, *where)

    def fill(address: int, nbytes: int, stream: int) -> None:
        if nccl.memory == HOST_MEMORY:
            ctypes.memset(address, NOT_A_NUMBER, nbytes)
        elif nbytes:
            from cupy.cuda import runtime

            runtime.memsetAsync(address, NOT_A_NUMBER, nbytes, stream)

    monkeypatch.setattr(PreparedCall, "execute", filling)


class Busy:
    """Work that keeps a stream busy for some tenths of a second: memory is filled again and again.

    It needs nothing but CUDA's runtime. A stream's queue holds about a thousand calls; when it is
    full, the host waits.
    """

    _ROUNDS = 400
    _BYTES = 2 << 30

    def __init__(self) -> None:
        from cupy.cuda import runtime

        self._cuda = runtime
        self._nbytes = min(self._BYTES, runtime.memGetInfo()[0] // 4)
        self._address = runtime.malloc(self._nbytes)
        self._mark = runtime.eventCreate()

    def put_on(self, stream: int) -> None:
        """Enqueue it; returns at once."""
        for _ in range(self._ROUNDS):
            self._cuda.memsetAsync(self._address, 0, self._nbytes, stream)
        self._cuda.eventRecord(self._mark, stream)

    def is_done(self) -> bool:
        """Return whether the GPU has done it."""
        return int(self._cuda.eventQuery(self._mark)) == 0

    def release(self) -> None:
        """Wait for it, and give the memory back."""
        self._cuda.deviceSynchronize()
        self._cuda.free(self._address)
