"""The shared memory of MPI: room for it, and its names, which go while its ranks still live."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator

_FOLDER = "/dev/shm"
_FILES = ("/dev/shm/mpich_shm_", "/dev/shm/sm_segment.")
"""How the names begin that MPICH and Open MPI 5 give."""

_BYTES_OF_A_RANK = 1_061_440
"""What MPICH takes there for one rank; for P ranks 4 KiB and P times 4 KiB less than that."""


def check_room(environment: Mapping[str, str]) -> None:
    """Raise `InputError` where MPICH would end by SIGBUS, as it finds no shared memory.

    Of a host's ranks the first speaks. The others leave, and look at the size of the whole: MPI of
    a rank that came earlier may have taken its share of the room.
    """
    ranks = int(environment.get("MPI_LOCALNRANKS", "0"))
    # Open MPI's launcher has other variables, and that library reports it itself.
    if ranks == 0 or not os.path.isdir(_FOLDER):
        return
    first, room = environment.get("MPI_LOCALRANKID") == "0", os.statvfs(_FOLDER)
    free = (room.f_bavail if first else room.f_blocks) * room.f_frsize
    if free >= ranks * _BYTES_OF_A_RANK or not room.f_blocks:  # none where there is no limit
        return
    if not first:
        raise SystemExit(1)
    raise InputError(
        f"init: expected 1 MiB in {_FOLDER} for each of the {ranks} ranks on this host, where MPI "
        f"shares memory between them; got {free >> 10} KiB. In a container, start it with more "
        f"(docker run --shm-size=1g); elsewhere, remove what killed jobs have left (rm "
        f"{_FOLDER}/mpich_shm_*), or enlarge it (mount -o remount,size=1g {_FOLDER})."
    )


def unlink_shared_memory(host: Communicator) -> None:
    """Take away the names of MPI's shared memory, which all ranks of this host have (collective).

    MPICH removes the file when it is finalized. A rank that is killed never comes to that, and
    its job would leave some megabytes of the host's memory in use until somebody finds them. Open
    MPI's launcher removes its own; but a killed launcher leaves one of 16 MiB for each rank, and
    without a launcher even a process that ends in order leaves one. The memory itself lasts as
    long as a process has it, as unlink(2) says.
    """
    host.control.barrier()  # or a rank might not have opened it yet
    if host.rank == 0:
        unlink_mapped_files()


def unlink_mapped_files(process: int | str = "self") -> None:
    """Take away the names of what a process shares by MPI."""
    for path in mapped_files(process):
        with contextlib.suppress(OSError):
            os.unlink(path)


def mapped_files(process: int | str = "self") -> list[str]:
    """The files in which MPI shares memory between the ranks of a host, as a rank has them."""
    try:
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    except OSError:
        return []  # no Linux
    # The name is the sixth column, and may be followed by " (deleted)".
    names = {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}
    return sorted(name for name in names if name.startswith(_FILES) and " " not in name)
