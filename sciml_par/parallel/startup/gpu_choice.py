"""One GPU for each rank, chosen before TensorFlow or CuPy look for devices."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

_MASK = "CUDA_VISIBLE_DEVICES"
SHARE = "SCIML_PAR_SHARE_GPUS"
_DEVICE = re.compile(r"\d+|(GPU|MIG)-.+", re.ASCII)


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU that a process may use.

    Attributes
    ----------
    entry : the entry in CUDA_VISIBLE_DEVICES: a number, a UUID or the name of a MIG slice.
    identity : the same for all processes of a host. A number is not: if a scheduler shows each
        process one GPU, its number is always 0.
    """

    entry: str
    identity: str


def visible_gpus(environment: Mapping[str, str], root: Path = Path("/")) -> list[VisibleGpu]:
    """Return the GPUs that this process may use, in CUDA's order."""
    there = _addresses(root)
    mask = environment.get(_MASK)
    if mask is None:
        return [VisibleGpu(str(i), address) for i, address in enumerate(there)]
    # CUDA ignores all entries from the first one on that is not a device. For no GPU, schedulers
    # write -1, nothing, or a word ("NoDevFiles").
    stripped = (entry.strip() for entry in mask.split(","))
    entries = itertools.takewhile(_DEVICE.fullmatch, stripped)
    by_number = {str(number): address for number, address in enumerate(there)}
    return [
        VisibleGpu(entry, by_number.get(str(int(entry)) if entry.isdecimal() else entry, entry))
        for entry in entries
    ]


def _addresses(root: Path) -> list[str]:
    """Return the PCI addresses of the GPUs that NVIDIA's driver lists and this process may open."""
    listed = root / "proc" / "driver" / "nvidia" / "gpus"
    if not listed.is_dir():
        # Some containers hide the list, but not the device files.
        files = [file for file in (root / "dev").glob("nvidia*") if file.name[6:].isdecimal()]
        files.sort(key=lambda file: int(file.name[6:]))
        return [file.name for file in files if _can_open(file)]
    found = []
    for directory in sorted(listed.iterdir()):
        text = ""
        with contextlib.suppress(OSError):
            text = (directory / "information").read_text()
        minor = re.search(r"^Device Minor:\s*(\S+)", text, re.MULTILINE)
        if minor is None or _can_open(root / "dev" / f"nvidia{minor[1]}"):
            found.append(directory.name)
    return found


def _can_open(device: Path) -> bool:
    """Return whether this process may open a device; schedulers hide the others so."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return device.exists()
    return True


def choose_gpus(
    visible: Sequence[Sequence[VisibleGpu]], *, host: str, share: bool
) -> list[VisibleGpu | None]:
    """Return the GPU of each rank of a host; None for a rank that sees none."""
    chosen: list[VisibleGpu | None] = []
    used: Counter[str] = Counter()
    for gpus in visible:
        gpu = min(gpus, key=lambda gpu: used[gpu.identity], default=None)
        chosen.append(gpu)
        if gpu is not None:
            used[gpu.identity] += 1
    if not share and any(n > 1 for n in used.values()):
        shown = {gpu.identity: gpu.entry for gpus in visible for gpu in gpus}
        crowded, n = used.most_common(1)[0]
        raise InputError(
            f"{used.total()} ranks run on host {host}, which shows them {len(shown)} GPU(s) "
            f"({', '.join(shown.values())}), so that {n} of them would share GPU "
            f"{shown[crowded]}. Start at most one rank per GPU, or set {SHARE}=1 to let ranks "
            f"share GPUs, or {_MASK}= (empty) to compute on the CPU."
        )
    return chosen


def pin(gpu: VisibleGpu | None, *, hide_others: bool = True) -> None:
    """Hide all GPUs but `gpu` from this process; do nothing without one."""
    if gpu is None:
        return
    if hide_others:
        os.environ[_MASK] = gpu.entry
    # Otherwise TensorFlow takes all memory of the GPU and leaves none for NCCL.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def choose_in_tensorflow(index: int) -> None:
    """Let TensorFlow compute on one of the visible GPUs."""
    gpus = tf.config.list_physical_devices("GPU")
    with contextlib.suppress(RuntimeError):
        tf.config.set_visible_devices(gpus[index : index + 1], "GPU")
