"""Where and when the state of a training is written to files, for resuming it."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par._files import checked_path
from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.stored.folder import CHECKPOINT

AUTO = "auto"


@dataclass(frozen=True)
class Checkpoint(ByName):
    """Write files from which an interrupted training can continue.

    `train` writes them at multiples of `every` steps, at its end, and if it is stopped by a signal,
    its wall time or a callback. Rank 0 of the ranks that train a model writes checkpoint.npz in
    mode "data", and checkpoint-group-0.npz, checkpoint-group-1.npz, … in ensembles. A file is
    replaced in one piece, so an interruption leaves either the old file or the new one.

    Parameters
    ----------
    folder : created if it does not exist.
    every : steps between files; by default there are none before the end. It changes no result.
    overwrite : delete the checkpoints in the folder if a training starts from the beginning.
    """

    folder: str | os.PathLike[str]
    _: KW_ONLY
    every: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        checked_path(self.folder, "Checkpoint: folder")
        if self.every is not None:
            every = checked_integer(self.every, "Checkpoint: every", least=1)
            object.__setattr__(self, "every", every)

    def file(self, *, mode: str, group: int) -> Path:
        """Return the file of a group of ranks (local)."""
        name = CHECKPOINT if mode == "data" else f"{CHECKPOINT}-group-{group}"
        return Path(self.folder) / f"{name}.npz"

    def files(self) -> list[Path]:
        """Return all checkpoints that the folder holds (local)."""
        return sorted(Path(self.folder).glob(f"{CHECKPOINT}*.npz"))


def _check(checkpoint: Any, resume: Any) -> None:
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise InputError(
            f"train: expected checkpoint=Checkpoint(folder, every=1000) of sciml_par.training, or "
            f"None; got {checkpoint!r}."
        )
    if not isinstance(resume, bool) and not (isinstance(resume, str) and resume == AUTO):
        raise InputError(
            f"train: expected resume to be True, False or 'auto', which starts anew without a "
            f"checkpoint; got {resume!r}. The folder is that of checkpoint=Checkpoint(folder)."
        )
    if resume and checkpoint is None:
        raise InputError(
            f"train: resume={resume!r} needs checkpoint=Checkpoint(folder) with the folder of the "
            f"training that continues."
        )


def compare_checkpoints(checkpoint: Any, resume: Any, world: Communicator) -> None:
    """Check that both can be used, and are the same on all ranks (collective)."""
    world.attempt(lambda: _check(checkpoint, resume))
    everyone = world.allgather_object(f"checkpoint={checkpoint!r}, resume={resume!r}")
    for rank, theirs in enumerate(everyone):
        if theirs != everyone[0]:
            raise InputError(
                f"train: expected the same checkpoint and resume on every rank; got {everyone[0]} "
                f"on rank 0, and {theirs} on rank {rank}."
            )
