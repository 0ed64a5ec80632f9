"""The lines of other ranks' files, given to rank 0 by MPI: hosts need not share a file system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

_TAG = 20999
_BYTES_A_MESSAGE = 1 << 18


def serve_lines(control: MPI.Comm, file: IO[bytes]) -> None:
    """Give rank 0 the lines of the file as it asks for them, until it wants no more."""
    while control.recv(source=0, tag=_TAG):
        control.send(file.readlines(_BYTES_A_MESSAGE), dest=0, tag=_TAG)


def lines_of(control: MPI.Comm, rank: int) -> Iterator[bytes]:
    """Yield the lines that `rank` serves, on rank 0."""
    while True:
        control.send(True, dest=rank, tag=_TAG)
        lines = control.recv(source=rank, tag=_TAG)
        if not lines:
            return
        yield from lines


def end_service(control: MPI.Comm) -> None:
    """Let all other ranks go on from `serve_lines`, on rank 0."""
    for rank in range(1, control.Get_size()):
        control.send(False, dest=rank, tag=_TAG)
