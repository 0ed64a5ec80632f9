"""The common decision of the ranks to carry tensors between GPUs by NCCL or by MPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sciml_par._text import rank_list, ranks_by
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import GpuTransport
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.transports.cupy_binding import (
    Gpu,
    MissingBindingError,
    Nccl,
    load_gpu,
    load_nccl,
)
from sciml_par.parallel.transports.nccl import NCCLTransport

VARIABLE = "SCIML_PAR_TRANSPORT"
_CHOICES = ("auto", "mpi", "nccl")
_SHARING_VARIABLE = "NCCL_MULTI_RANK_GPU_ENABLE"
_OLDEST_SHARING = (2, 30)


@dataclass(frozen=True)
class Report:
    """The facts of one rank; `obstacle`: the reason against NCCL, empty without one."""

    choice: str
    gpu: str | None
    obstacle: str
    may_share: bool = False


def requested_transport(environment: Mapping[str, str]) -> str:
    """Return SCIML_PAR_TRANSPORT: "auto", "mpi" or "nccl"."""
    choice = environment.get(VARIABLE, "") or "auto"
    if choice not in _CHOICES:
        raise InputError(f"{VARIABLE}: expected one of {', '.join(_CHOICES)}; got {choice!r}.")
    return choice


def set_up_transport(
    everyone: Communicator, gpu: str | None, environment: Mapping[str, str], index: int = 0
) -> GpuTransport:
    """Connect the ranks by NCCL if they can use it (collective)."""
    choice = everyone.attempt(lambda: requested_transport(environment))
    everyone.gpu, nccl, obstacle = _load(gpu, index)
    may_share = (
        nccl is not None
        and nccl.version >= _OLDEST_SHARING
        and environment.get(_SHARING_VARIABLE) == "1"
    )
    reports = everyone.allgather_object(Report(choice, gpu, obstacle, may_share))
    transport = decide(reports)
    if not transport.obstacle:
        assert nccl is not None and everyone.gpu is not None
        with everyone.progress.exchange(Signature("set-up of NCCL")):
            everyone.nccl_transport = NCCLTransport.connect(
                nccl, everyone.gpu, everyone.rank, everyone.size, everyone.control.bcast
            )
    return transport


def _load(gpu: str | None, index: int) -> tuple[Gpu | None, Nccl | None, str]:
    if gpu is None:
        return None, None, "no GPU"
    found = None
    try:
        found = load_gpu(index)
        return found, load_nccl(), ""
    except MissingBindingError as reason:
        return found, None, str(reason)


def decide(reports: Sequence[Report]) -> GpuTransport:
    """Return the transport for the reports of all ranks, the same on every rank."""
    choices = [report.choice for report in reports]
    if len(set(choices)) > 1:
        raise InputError(f"{VARIABLE} differs between the ranks: {', '.join(choices)}.")
    choice = choices[0]
    obstacle = _obstacle(reports)
    if choice == "nccl" and obstacle and len(reports) > 1:
        raise InputError(f"{VARIABLE}=nccl: tensors cannot be carried by NCCL. {obstacle}.")
    if choice == "mpi":
        return GpuTransport(f"{VARIABLE}=mpi asks for MPI", surprising=False)
    has_gpu = any(report.gpu is not None for report in reports)
    return GpuTransport(obstacle, surprising=bool(obstacle) and has_gpu and len(reports) > 1)


def _obstacle(reports: Sequence[Report]) -> str:
    lacking = ranks_by((r, report.obstacle) for r, report in enumerate(reports) if report.obstacle)
    if lacking:
        return "; ".join(f"{rank_list(ranks)}: {text}" for text, ranks in lacking.items())
    if len(reports) == 1:
        return "one rank has nobody to exchange tensors with"
    by_gpu = ranks_by(enumerate(report.gpu or "" for report in reports))
    sharing = [ranks for ranks in by_gpu.values() if len(ranks) > 1]
    if sharing and not all(report.may_share for report in reports):
        oldest = ".".join(map(str, _OLDEST_SHARING))
        return (
            f"{rank_list(sharing[0])} share a GPU, which takes NCCL {oldest} and "
            f"{_SHARING_VARIABLE}=1"
        )
    return ""
