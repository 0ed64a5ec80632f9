"""The transports as tests drive them: arrays in, arrays out, without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fake_cupy import FakeNccl, FakeRuntime
from mpi4py import MPI
from ranks import group_without_shared_memory, numpy_type, values
from real_gpus import require_gpu

import sciml_par.parallel as sp
from sciml_par.parallel.groups.call_site import PreparedCall
from sciml_par.parallel.native.host_group import SharedTransfer
from sciml_par.parallel.requests.request import Request
from sciml_par.parallel.tensors.memory import HOST_MEMORY
from sciml_par.parallel.transports.cupy_binding import Gpu, Nccl
from sciml_par.parallel.transports.mpi import MPITransport
from sciml_par.parallel.transports.nccl import NCCLTransport

TRANSPORTS = ("MPI", "MPI in parts", "NCCL", pytest.param("NCCL on GPUs", marks=pytest.mark.gpu))
"""Parameters of `group_by`; NCCL is a fake but on GPUs."""


OnArrays = Callable[[np.ndarray, np.ndarray], object]
"""Takes the input and the array for the result."""


def array(rank, shape, dtype, tag=""):
    return np.asarray(values(rank, shape, dtype, tag))


def world_mpi():
    return sp.current_world().communicator.mpi


@dataclass
class Driver:
    """A transport, and how its transfers are called."""

    transport: Any
    where: tuple[int, ...] = ()
    kept: list[np.ndarray] = field(default_factory=list)

    def carries(self, request: Request) -> bool:
        return self.transport.carries(request)

    def prepared(self, request: Request) -> OnArrays:
        """Return a function that carries a request out."""
        transfer = self.transport.prepare(request)
        return lambda x, y: transfer(x.ctypes.data, y.ctypes.data, *self.where)

    def start(self, request: Request, x: np.ndarray) -> np.ndarray:
        """Return the memory of the result after the transfer has returned."""
        assert x.shape == request.shape and x.dtype == numpy_type(request.dtype)
        y = np.frombuffer(
            bytearray(b"U" * (math.prod(request.receive_shape) * x.itemsize)), x.dtype
        )
        y = y.reshape(request.receive_shape)
        self.kept += [x, y]  # as a GPU may read and write them later
        self.prepared(request)(x, y)
        return y

    def run(self, request: Request, x: np.ndarray) -> np.ndarray:
        """Return the result, and check that the input is unchanged."""
        before = x.copy()
        y = self.start(request, x)
        self.finish()
        assert x.tobytes() == before.tobytes()
        return y

    def finish(self) -> None:
        if self.where:
            self.transport.gpu.synchronize(*self.where)
        self.kept.clear()


@dataclass
class FakedDriver(Driver):
    """The transport over the fakes, and these."""

    nccl: Any = None
    runtime: Any = None

    def since(self) -> list[str]:
        """The names of NCCL's calls since the last time."""
        names = self.nccl.names()
        self.nccl.calls.clear()
        return names


def driver_of_nccl() -> FakedDriver:
    """Of all ranks, by NCCL over its fake (collective)."""
    transport, nccl, runtime = fake_nccl_communicator(world_mpi())
    return FakedDriver(transport, (transport.stream,), nccl=nccl, runtime=runtime)


def fake_nccl_communicator(mpi: MPI.Comm) -> tuple[NCCLTransport, FakeNccl, FakeRuntime]:
    """Return the real transport of the ranks of `mpi` over the fakes (collective)."""
    runtime = FakeRuntime()
    nccl = FakeNccl(mpi, runtime)
    transport = NCCLTransport.connect(Nccl(nccl), Gpu(runtime), mpi.rank, mpi.size, mpi.bcast)
    return transport, nccl, runtime


def group_by(transport: str, config: pytest.Config) -> sp.Communicator:
    """Return all ranks as a group whose tensors travel by one of `TRANSPORTS` (collective)."""
    world = sp.current_world().communicator
    if transport == "NCCL on GPUs":
        require_gpu(config)
    if transport in ("NCCL on GPUs", "world"):
        return world
    if transport == "NCCL":
        return with_fake_gpus(world.mpi)[0]
    group = group_without_shared_memory()
    if transport == "MPI in parts":  # of an odd number of bytes
        group.mpi_transport = MPITransport(group.mpi, longest=9973)
    return group


def device_of(group: sp.Communicator) -> Any:
    """Return the context of computations whose results the group's NCCL can read, if it has one."""
    nccl = group.nccl_transport
    return tf.device("/CPU:0" if nccl is None or nccl.memory == HOST_MEMORY else "/GPU:0")


def with_fake_gpus(mpi: MPI.Comm) -> tuple[sp.Communicator, FakeNccl, FakeRuntime]:
    """Return a group of the ranks of `mpi` whose NCCL reads the host's memory (collective).

    It is not among the groups that the watchdog of the test run looks at.
    """
    group = sp.Communicator(mpi, name="fake GPUs")
    group.nccl_transport, nccl, runtime = fake_nccl_communicator(mpi)
    group.nccl_transport.memory = HOST_MEMORY
    group.gpu = group.nccl_transport.gpu
    return group, nccl, runtime


def transports_from_now_on(monkeypatch: Any) -> list[str]:
    """Return a list that grows by the transport of each collective that this rank executes."""
    by: list[str] = []
    execute = PreparedCall.execute

    def recording(self: PreparedCall, *arguments: int) -> None:
        by.append(self.signature.transport)
        execute(self, *arguments)

    # Transfers of machine code would not be noted.
    monkeypatch.setattr(SharedTransfer, "enter", lambda *_: None)
    monkeypatch.setattr(PreparedCall, "execute", recording)
    return by
