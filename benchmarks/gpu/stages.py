"""What is started, on which GPUs: the stages of the check."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu import machine
from gpu.report import Row

_SHARING_SECONDS = 60.0
_SEVERAL_SECONDS = 75.0
_SHARING_NCCL = (2, 30)


@dataclass(frozen=True)
class Stage:
    """Ranks that are started together.

    Attributes
    ----------
    obstacle : why it cannot be done here; empty if it can.
    seconds : its limit.
    environment : of each rank, one by one.
    """

    name: str
    task: str
    ranks: int = 1
    obstacle: str = ""
    seconds: float = float("inf")
    environment: Sequence[Mapping[str, str]] = field(default_factory=lambda: [{}])


def rehearsal() -> list[Stage]:
    """One rank and two, without a GPU."""
    on_cpu = [{"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}]
    obstacle = "" if machine.mpirun() else "there is no mpirun"
    return [
        Stage("one rank, rehearsal", "full", environment=on_cpu),
        Stage("two ranks, rehearsal", "sharing", 2, obstacle, _SHARING_SECONDS, on_cpu * 2),
    ]


def gpu_stages(found: Sequence[Row], arena: str) -> list[Stage]:
    """What can be done with the GPUs of this machine."""
    cupy = machine.facts_of(found, "CuPy")
    gpus = visible(os.environ, cupy["gpus"])
    no_mpirun = "there is no mpirun" if arena == "tensorflow" and not machine.mpirun() else ""
    too_old = ""
    if tuple(cupy["nccl"][:2]) < _SHARING_NCCL:
        too_old = f"NCCL {'.'.join(map(str, cupy['nccl']))} cannot; 2.30 is the first that can"
    alone = "there is one GPU only" if len(gpus) == 1 else ""
    sharing, several = "two ranks on one GPU", "a rank per GPU"
    one = {"CUDA_VISIBLE_DEVICES": gpus[0]}
    share = {
        **one,
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_MAX_CTAS": "1",
        "SCIML_PAR_SHARE_GPUS": "1",
    }
    # sciml_par's `init` shares the GPUs out by itself; without it each process is shown its own.
    by_init = arena == "tensorflow"
    each = [{"CUDA_VISIBLE_DEVICES": ",".join(gpus) if by_init else gpu} for gpu in gpus]
    return [
        Stage("one rank", "full", environment=[one]),
        Stage(sharing, "sharing", 2, too_old or no_mpirun, _SHARING_SECONDS, [share] * 2),
        Stage(several, "full", len(gpus), alone or no_mpirun, _SEVERAL_SECONDS, each),
    ]


def visible(environment: Mapping[str, str], count: int) -> list[str]:
    """The `count` GPUs that CUDA sees, as CUDA_VISIBLE_DEVICES names them."""
    mask = environment.get("CUDA_VISIBLE_DEVICES")
    names = [entry.strip() for entry in mask.split(",")] if mask else []
    return names[:count] if len(names) >= count else [str(i) for i in range(count)]
