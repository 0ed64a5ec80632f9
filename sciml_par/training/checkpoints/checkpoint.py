"""Where and when the state of a training is written to files, from which it can go on."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from sciml_par._checks import checked_integer
from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.results.stored.folder import CHECKPOINT

AUTO = "auto"


@dataclass(frozen=True)
class Checkpoint(ByName):
    """Write all that a training needs to go on to files in a folder.

    They are written when the training is stopped from outside (by a signal, its wall time or a
    callback), at its end, and at multiples of `every` steps. Rank 0 of the ranks that train a
    model writes its file: checkpoint.npz in mode "data", and checkpoint-group-0.npz,
    checkpoint-group-1.npz, … of ensembles. Each is at any moment the old one or the new one.

    Parameters
    ----------
    folder : is made if it is not there.
    every : steps between files; None for none on the way. It changes no result.
    overwrite : allow a training from the beginning where the folder holds checkpoints. These go.
    """

    folder: str | os.PathLike[str]
    _: KW_ONLY
    every: int | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise InputError(f"Checkpoint: expected the name of a folder; got {self.folder!r}.")
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


def check_checkpoint(checkpoint: Any, resume: Any) -> None:
    """Check that both can be used."""
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise InputError(
            f"train: expected checkpoint=Checkpoint(folder, every=1000) of sciml_par.training, or "
            f"None; got {checkpoint!r}."
        )
    if not isinstance(resume, bool) and not (isinstance(resume, str) and resume == AUTO):
        raise InputError(
            f"train: expected resume to be True, False or 'auto', which begins anew where there is "
            f"no checkpoint; got {resume!r}. The folder is that of checkpoint=Checkpoint(folder)."
        )
    if resume and checkpoint is None:
        raise InputError(
            f"train: resume={resume!r} needs checkpoint=Checkpoint(folder) with the folder of the "
            f"training that is to go on."
        )
