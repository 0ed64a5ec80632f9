"""A file with an array in JSON that grows and is complete all the time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sciml_par.errors import OutputError

_END = b"\n]\n"
_PIECE_BYTES = 1 << 18


class TraceFile:
    """An array of JSON values, one or more a line.

    Each addition is one write that begins where the closing bracket was and ends with a new one,
    so a program that is killed leaves a complete array behind.

    Parameters
    ----------
    path : the file; it must not be there unless `overwrite` is true.
    overwrite : replace a file that is there.

    Raises
    ------
    OutputError
        It is there already, or cannot be written.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        mode = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
        try:
            self._file = os.open(path, mode, 0o666)
        except FileExistsError:
            raise OutputError(
                f"the timeline {path} is there already; remove it, choose another name or allow "
                f"it to be overwritten."
            ) from None
        except OSError as error:
            raise self._cannot_write(error) from None
        self._length = 0
        self._count = 0
        self._write(b"[\n")

    def append(self, values: Iterable[str]) -> None:
        """Add values, each given as its JSON."""
        piece: list[str] = []
        size = 0
        for value in values:
            piece.append(value)
            size += len(value)
            if size >= _PIECE_BYTES:
                self._append_piece(piece)
                piece, size = [], 0
        if piece:
            self._append_piece(piece)

    def close(self) -> None:
        """Let it go as it is."""
        os.close(self._file)

    def _append_piece(self, values: list[str]) -> None:
        comma = ",\n" if self._count else ""
        self._write((comma + ",\n".join(values)).encode())
        self._count += len(values)

    def _write(self, text: bytes) -> None:
        """Put `text` in the place of the end, and the end behind it."""
        data = text + _END
        try:
            written = os.pwrite(self._file, data, self._length)
            if written < len(data):
                # The rest would not fit either; what was complete shall remain so.
                os.ftruncate(self._file, self._length)
                os.pwrite(self._file, _END, self._length)
                raise OSError("no space left on the device")
        except OSError as error:
            raise self._cannot_write(error) from None
        self._length += len(text)

    def _cannot_write(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write the timeline {self.path}: {error.strerror or error}.")
