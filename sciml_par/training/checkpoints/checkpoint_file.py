"""The format of a checkpoint: an .npz file of arrays and texts that vouches for itself."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._text import one_line
from sciml_par.errors import InputError

FORMAT = 1
"""The version of the format that is written; older ones can be read, newer ones are refused."""

_MARK = b"sciml_par checkpoint, format "
_DIGEST_BYTES = 32
# A zip archive ends in a comment, whose length stands in its last record.
_COMMENT = "sciml_par checkpoint, format {format:04d}, blake2b {digest}"
_LENGTH = len(_COMMENT.format(format=0, digest="0" * 2 * _DIGEST_BYTES))
_ZIP = b"PK"
_TEXTS = "texts.json"


@dataclass(frozen=True)
class Content:
    """What a file holds: what JSON can hold, and arrays of numbers by name."""

    texts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def to_bytes(content: Content) -> bytes:
    """Return the content as the bytes of a file.

    It is a zip archive of .npy files, as NumPy's `savez` makes it, without pickled objects. The
    archive's comment holds the version of the format, and the digest (BLAKE2b, RFC 7693) of that
    and of all bytes before it.
    """
    texts = np.frombuffer(json.dumps(content.texts).encode(), np.uint8)
    buffer = io.BytesIO()
    arrays: Mapping[str, Any] = {**content.arrays, _TEXTS: texts}
    np.savez(buffer, allow_pickle=False, **arrays)
    # The last two bytes of an archive without a comment are its length, 0.
    archive = buffer.getvalue()[:-2] + _LENGTH.to_bytes(2, "little")
    return archive + _COMMENT.format(format=FORMAT, digest=_digest(archive, FORMAT)).encode()


def from_bytes(raw: bytes, path: Path) -> Content:
    """Return the content of a file's bytes."""
    archive, comment = raw[:-_LENGTH], raw[-_LENGTH:]
    if not comment.startswith(_MARK):
        if not raw:
            raise InputError(_damaged_text(path, "it is empty"))
        if raw.startswith(_ZIP):
            why = "its end is missing, or another program has written it"
            raise InputError(_damaged_text(path, why))
        raise InputError(
            f"train: {path} is not a checkpoint of sciml_par. Name the folder of the training that "
            f"continues, or move the file away to start anew."
        )
    version, _, digest = comment[len(_MARK) :].partition(b", blake2b ")
    if version.isdigit() and int(version) > FORMAT:
        raise InputError(
            f"train: {path} is a checkpoint of format {int(version)}, and this sciml_par reads "
            f"formats up to {FORMAT}. Use the version of sciml_par that wrote it, or a newer one."
        )
    if not version.isdigit() or digest != _digest(archive, int(version)).encode():
        raise InputError(_damaged_text(path, "its checksum does not fit its content"))
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        texts = json.loads(arrays.pop(_TEXTS).tobytes())
    except Exception as error:  # whatever zipfile and NumPy raise at what they cannot read
        raise InputError(_damaged_text(path, one_line(error))) from None
    return Content(texts, arrays)


def write(content: Content, path: Path) -> None:
    """Put the file in place in one piece: at any moment it is the old one or the new one."""
    draft = path.with_name(f".{path.stem}.{socket.gethostname()}-{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            file.write(to_bytes(content))
            file.flush()
            # Else a machine that fails may have the new name without the new content.
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some file systems have no way to make the new name last
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Path) -> Content:
    """Return the content of a file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"train: cannot read the checkpoint {path}: {reason}.") from None
    return from_bytes(raw, path)


def remove_drafts(folder: Path, name: str) -> None:
    """Remove what killed runs have left of files that were not complete."""
    for draft in folder.glob(f".{name}*.part"):
        with contextlib.suppress(OSError):
            draft.unlink()


def _digest(archive: bytes, version: int) -> str:
    return hashlib.blake2b(archive + b"%d" % version, digest_size=_DIGEST_BYTES).hexdigest()


def _damaged_text(path: Path, what: str) -> str:
    return (
        f"train: the checkpoint {path} is damaged: {what}. Restore it from a copy, or move it away "
        f"to start anew."
    )
