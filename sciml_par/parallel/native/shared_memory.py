"""Memory that the ranks of a host share, without a name in the file system.

The first rank creates a file in memory, and the others open it through /proc. So nothing is left
behind when ranks are killed, and no limit of /dev/shm applies.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

_NAME = "sciml_par"
_TOKEN_BYTES = 16


class SharedMemory:
    """Memory that other processes see, with the lifetime of this object."""

    def __init__(self, file: int, nbytes: int) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = (
            ctypes.c_void_p,
            ctypes.c_size_t,
            *[ctypes.c_int] * 3,
            ctypes.c_long,
        )
        library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = library.mmap(None, nbytes, protection, mmap.MAP_SHARED, file, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.address: int = address
        weakref.finalize(self, library.munmap, address, nbytes).atexit = False


def shared_between(control: MPI.Comm, nbytes: int) -> SharedMemory | None:
    """Return `nbytes` zeros that all ranks of a group see, or None (collective)."""
    first = control.Get_rank() == 0
    made = _made(nbytes) if first else None
    identity = control.bcast((os.getpid(), made) if first else None)
    file, memory = made, None
    if not first and identity[1] is not None:
        with contextlib.suppress(OSError):
            file = _opened(identity[0], identity[1], nbytes)
    if file is not None:
        with contextlib.suppress(OSError):
            memory = SharedMemory(file, nbytes)
    # The ranks close the file after all have opened it. They compare its contents: in another
    # container, the process number may be a stranger's.
    token = os.urandom(_TOKEN_BYTES)
    if first and memory is not None:
        ctypes.memmove(memory.address, token, _TOKEN_BYTES)
    token = control.bcast(token)
    sees = memory is not None and ctypes.string_at(memory.address, _TOKEN_BYTES) == token
    everyone = all(control.allgather(sees))
    if file is not None:
        os.close(file)
    if not everyone or memory is None:
        return None
    if first:
        ctypes.memset(memory.address, 0, _TOKEN_BYTES)
    control.Barrier()
    return memory


def _made(nbytes: int) -> int | None:
    with contextlib.suppress(OSError):
        file = os.memfd_create(_NAME, os.MFD_CLOEXEC)
        os.ftruncate(file, nbytes)
        return file
    return None


def _opened(process: int, number: int, nbytes: int) -> int | None:
    path = f"/proc/{process}/fd/{number}"
    if not os.readlink(path).startswith(f"/memfd:{_NAME}") or os.stat(path).st_size != nbytes:
        return None
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)
