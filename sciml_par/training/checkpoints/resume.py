"""Start a training where a checkpoint left it."""

from __future__ import annotations

from pathlib import Path

from sciml_par._text import listed
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.results.growth import Growth
from sciml_par.results.stored.folder import CHECKPOINT, claim_folder
from sciml_par.training.checkpoints import checkpoint_file
from sciml_par.training.checkpoints.checkpoint import Checkpoint
from sciml_par.training.checkpoints.checkpoint_content import (
    check_identity,
    difference,
    restore,
    stored_terms,
)
from sciml_par.training.checkpoints.checkpoint_file import Content
from sciml_par.training.checkpoints.checkpoint_watcher import CheckpointWatcher
from sciml_par.training.preparation.preparation import Preparation
from sciml_par.training.run.meeting import Meeting


def points_before(
    checkpoint: Checkpoint | None, resume: bool | str, world: Communicator
) -> tuple[bool | None, tuple[Growth, ...]]:
    """Return of a training that is resumed what decides its points (collective).

    That is whether they are of Sobol's sequence, as its phases decided, and there may be others
    now; and how they have grown. None and () if the training starts anew.
    """
    if checkpoint is None or not resume:
        return None, ()

    def find() -> tuple[bool | None, tuple[Growth, ...]]:
        files = checkpoint.files() if world.rank == 0 else []
        texts = checkpoint_file.read(files[0]).texts if files else {}
        return texts.get("scattered"), tuple(Growth(*each) for each in texts.get("growths", ()))

    found: tuple[bool | None, tuple[Growth, ...]] = world.broadcast_object(world.attempt(find))
    return found


def begin_from(
    checkpoint: Checkpoint | None,
    resume: bool | str,
    meeting: Meeting,
    ready: Preparation,
    world: Communicator,
) -> list[CheckpointWatcher]:
    """Resume from a checkpoint if that is asked for, and return what writes them (collective)."""
    if checkpoint is None:
        return []
    world.on_root(lambda: _claim(checkpoint, resume))
    path = checkpoint.file(mode=ready.settings.mode, group=ready.group_number)
    resumed = bool(resume) and _resume(meeting, ready, checkpoint, path, world)
    return [
        CheckpointWatcher(
            path,
            checkpoint.every,
            ready.identity,
            take_apart=ready.take_apart,
            writes=ready.group.rank == 0,
            resumed=tuple(course.step for course in meeting.courses) if resumed else None,
        )
    ]


def _claim(checkpoint: Checkpoint, resume: bool | str) -> None:
    folder, files = Path(checkpoint.folder), checkpoint.files()
    if resume is True and not files:
        raise InputError(
            f"train: there is no checkpoint in {folder} (in {Path.cwd()}) to resume from. Name the "
            f"folder of another training, or write resume='auto', which starts anew without one."
        )
    if not resume and files and not checkpoint.overwrite:
        raise InputError(
            f"train: {folder} holds {listed([file.name for file in files[:3]])} of another "
            f"training, which would be lost. Continue it with resume=True, name another folder, "
            f"or allow Checkpoint(…, overwrite=True)."
        )
    claim_folder(folder, overwrite=True)
    checkpoint_file.remove_drafts(folder, CHECKPOINT)
    if not resume:
        for file in files:
            file.unlink(missing_ok=True)


def _resume(
    meeting: Meeting, ready: Preparation, checkpoint: Checkpoint, path: Path, world: Communicator
) -> bool:
    """Bring this group's courses to where its file left them, if it exists (collective).

    Rank 0 of each group reads. A group that was killed before its first file starts anew.
    """

    def find() -> Content | None:
        if ready.group.rank > 0:
            return None
        if not path.exists():
            _refuse_other_names(checkpoint, path)
            return None
        content = checkpoint_file.read(path)
        check_identity(content, ready.identity, path)
        return content

    content = ready.group.broadcast_object(world.attempt(find))
    world.attempt(lambda: None if content is None else restore(content, meeting, path))
    # The terms are computed by all ranks of the group, outside of `attempt`.
    stored = {} if content is None else stored_terms(content)
    said = [difference(meeting.courses[i], stored[i], ready.take_apart, path) for i in stored]

    def refuse() -> None:
        for text in said:
            if text is not None:
                raise InputError(text)

    world.attempt(refuse)
    if content is not None:
        for course in meeting.courses:
            course.go_on(reopen=content.texts["stop"] != ready.identity.stop)
    return content is not None


def _refuse_other_names(checkpoint: Checkpoint, path: Path) -> None:
    """Check that the folder has no checkpoints of the other mode."""
    of_ensemble = path.stem != CHECKPOINT
    others = [file.name for file in checkpoint.files()]
    if others and (of_ensemble == (f"{CHECKPOINT}.npz" in others)):
        raise InputError(
            f"train: {path.parent} holds {others[0]}, of a training in mode "
            f"{'data' if of_ensemble else 'ensemble'!r}, and this one is in mode "
            f"{'ensemble' if of_ensemble else 'data'!r}. Resume in the same mode, or start anew in "
            f"another folder."
        )
