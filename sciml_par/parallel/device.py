"""One GPU for each rank, chosen before TensorFlow or CuPy look for devices."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path

from sciml_par.errors import InputError

_MASK = "CUDA_VISIBLE_DEVICES"
_SHARE = "SCIML_PAR_SHARE_GPUS"


def gpus_of_this_host(environment: Mapping[str, str], proc: Path = Path("/proc")) -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES would name them.

    A mask that the scheduler or the user has set is respected, whatever its entries are: numbers,
    UUIDs or the names of MIG slices.
    """
    mask = environment.get(_MASK)
    if mask is not None:
        # As CUDA reads it: what follows the first entry that is no device does not count.
        entries = (entry.strip() for entry in mask.split(","))
        return list(itertools.takewhile(lambda entry: entry not in ("", "-1"), entries))
    driver = proc / "driver" / "nvidia" / "gpus"
    count = len(list(driver.iterdir())) if driver.is_dir() else 0
    return [str(i) for i in range(count)]


def choose_gpu(gpus: list[str], local_rank: int, local_size: int, *, share: bool) -> str | None:
    """The entry of `gpus` for the rank number `local_rank` of a host, None without a GPU.

    One visible GPU per rank means that the scheduler has pinned already: a mask of one entry is
    taken as it is when each rank has its own.

    Raises
    ------
    InputError
        Where a host has more ranks than GPUs, unless `share` allows it.
    """
    if not gpus:
        return None
    if local_size > len(gpus) and not share:
        raise InputError(
            f"{local_size} ranks run on this host, which shows {len(gpus)} GPU(s) "
            f"({', '.join(gpus)}). Start at most one rank per GPU, or set {_SHARE}=1 to let "
            f"ranks share GPUs, or {_MASK}= (empty) to compute on the CPU."
        )
    return gpus[local_rank % len(gpus)]


def pin_gpu(local_rank: int, masks: list[str | None]) -> str | None:
    """Let this process see its own GPU only; a no-op without one (local).

    Parameters
    ----------
    local_rank : this rank's number on its host.
    masks : CUDA_VISIBLE_DEVICES as each rank of the host has found it.

    Returns
    -------
    The entry of CUDA_VISIBLE_DEVICES that was chosen, or None.
    """
    gpus = gpus_of_this_host(os.environ)
    pinned_already = len(gpus) == 1 and len(set(masks)) == len(masks) > 1
    share = os.environ.get(_SHARE, "0") not in ("", "0") or pinned_already
    gpu = choose_gpu(gpus, local_rank, len(masks), share=share)
    if gpu is not None:
        os.environ[_MASK] = gpu
        # Without it TensorFlow takes all memory of the GPU and leaves none for NCCL.
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    return gpu
