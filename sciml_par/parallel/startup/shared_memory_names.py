"""The names of shared memory go while the ranks that use it still live."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sciml_par.parallel.groups.communicator import Communicator

_FILES = ("/dev/shm/mpich_shm_", "/dev/shm/sm_segment.")
"""How the names begin that MPICH and Open MPI 5 give."""


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
    """Take away the names of what a process shares by MPI (local)."""
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
