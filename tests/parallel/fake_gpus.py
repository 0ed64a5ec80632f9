"""A group of ranks whose GPUs are fakes, and by what its collectives are carried."""

from __future__ import annotations

from typing import Any

from fake_cuda_runtime import FakeRuntime
from fake_cupy import FakeNccl, fake_nccl_communicator
from mpi4py import MPI

from sciml_par.parallel.groups.call_site import PreparedCall
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.tensors.memory import HOST_MEMORY


def with_fake_gpus(mpi: MPI.Comm) -> tuple[Communicator, FakeNccl, FakeRuntime]:
    """A group of the ranks of `mpi` whose NCCL reads the host's memory (collective).

    It is not among the groups that the watchdog of the test run looks at.
    """
    group = Communicator(mpi, name="fake GPUs")
    group.nccl_transport, nccl, runtime = fake_nccl_communicator(mpi)
    group.nccl_transport.memory = HOST_MEMORY
    group.gpu = group.nccl_transport.gpu
    return group, nccl, runtime


def transports_from_now_on(monkeypatch: Any) -> list[str]:
    """Grows by the name of the transport of each collective that this rank executes."""
    by: list[str] = []
    execute = PreparedCall.execute

    def recording(self: PreparedCall, *arguments: int) -> None:
        by.append(self.signature.transport)
        execute(self, *arguments)

    # What machine code carries would not be noted.
    monkeypatch.setattr(PreparedCall, "serve_by_machine_code", lambda *_: None)
    monkeypatch.setattr(PreparedCall, "execute", recording)
    # What machine code carries out would not be seen here.
    monkeypatch.setattr(PreparedCall, "serve_by_machine_code", lambda *_: None)
    return by
