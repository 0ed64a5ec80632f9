"""A group of ranks whose GPUs are fakes, and by what its collectives are carried."""

from __future__ import annotations

from typing import Any

from fake_cuda_runtime import FakeRuntime
from fake_cupy import FakeNccl, fake_nccl_communicator
from mpi4py import MPI

from sciml_par.parallel.groups.call_site import Call
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.tensors.memory import HOST_MEMORY


def with_fake_gpus(mpi: MPI.Comm) -> tuple[Communicator, FakeNccl, FakeRuntime]:
    """A group of the ranks of `mpi` whose NCCL reads the host's memory (collective).

    It is not among the groups that the watchdog of the test run looks at.
    """
    group = Communicator(mpi, name="fake GPUs")
    group.by_nccl, nccl, runtime = fake_nccl_communicator(mpi)
    group.by_nccl.memory = HOST_MEMORY
    group.gpu = group.by_nccl.gpu
    return group, nccl, runtime


def carriers_from_now_on(monkeypatch: Any) -> list[str]:
    """Grows by the name of the carrier of each collective that this rank executes."""
    by: list[str] = []
    execute = Call.execute

    def recording(self: Call, *arguments: int) -> None:
        by.append(self.signature.by)
        execute(self, *arguments)

    monkeypatch.setattr(Call, "execute", recording)
    return by
