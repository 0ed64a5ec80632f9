"""Helpers of tests on a GPU: its presence, and its memory.

CuPy is imported where it is used, because most machines that run the tests have none.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from gpu_work import leave_out
from mpi4py import MPI
from transports import Driver, OnArrays

import sciml_par.parallel as sp
from sciml_par.parallel.groups.call_site import PreparedCall
from sciml_par.parallel.requests.request import Request
from sciml_par.parallel.tensors.memory import HOST_MEMORY, has_gpus
from sciml_par.parallel.transports.cupy_binding import MissingBindingError, load_gpu, load_nccl
from sciml_par.parallel.transports.nccl import NCCLTransport

NOT_A_NUMBER = 0xFF
"""Bytes of these are a NaN in every floating-point type, and -1 or the largest integer."""


def require_gpu(config: pytest.Config, *, tensorflow: bool = True) -> None:
    """Leave the test out unless every rank has a GPU that can be used (collective).

    Parameters
    ----------
    tensorflow : whether TensorFlow has to compute on it.
    """
    world = sp.current_world()
    obstacles = world.communicator.allgather_object(_obstacle(tensorflow=tensorflow))
    lacking = [f"rank {rank}: {text}" for rank, text in enumerate(obstacles) if text]
    if sp.size() > 1 and not lacking and world.communicator.nccl_transport is None:
        lacking = [f"the ranks do not use NCCL: {world.transport.obstacle}"]
    if lacking:
        leave_out(config, "; ".join(lacking))


def _obstacle(*, tensorflow: bool) -> str:
    """Why this rank has no GPU for tests; empty if it has (local)."""
    if sp.current_world().gpu is None:
        return "there is no GPU"
    try:
        load_gpu()
        load_nccl()
    except MissingBindingError as missing:
        return str(missing)
    return "TensorFlow sees no GPU" if tensorflow and not has_gpus() else ""


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


@dataclass
class GpuDriver(Driver):
    """NCCL between addresses in the memory of GPUs."""

    _allocated: list[int] = field(default_factory=list)

    def prepared(self, request: Request) -> OnArrays:
        from cupy.cuda import runtime

        transfer = self.transport.prepare(request)

        def on_arrays(x: np.ndarray, y: np.ndarray) -> None:
            send = self._copied(x)
            receive = send if y is x else self._copied(y)
            transfer(send, receive, *self.where)
            self.transport.gpu.synchronize(*self.where)
            runtime.memcpy(y.ctypes.data, receive, y.nbytes, runtime.memcpyDeviceToHost)

        return on_arrays

    def finish(self) -> None:
        from cupy.cuda import runtime

        while self._allocated:
            runtime.free(self._allocated.pop())

    def _copied(self, x: np.ndarray) -> int:
        from cupy.cuda import runtime

        address = int(runtime.malloc(max(x.nbytes, 1)))
        self._allocated.append(address)
        runtime.memcpy(address, x.ctypes.data, x.nbytes, runtime.memcpyHostToDevice)
        runtime.deviceSynchronize()  # the last of pageable memory may still be on its way
        return address


def driver_of_gpus(config: pytest.Config) -> GpuDriver:
    """Return NCCL's driver, of all ranks or of this rank alone (collective)."""
    require_gpu(config, tensorflow=False)
    nccl = sp.current_world().communicator.nccl_transport or nccl_of_this_rank()
    return GpuDriver(nccl, (nccl.stream,))
