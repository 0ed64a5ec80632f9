"""File systems of a test's own: shared memory that nobody else uses, and a disk that is small.

They need Linux and the right to mount. Without it, what other programs put into /dev/shm meanwhile
is taken for the job's, a full disk cannot be had, and a folder is only made unwritable, which does
not stop root.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_DISK_BYTES = 4 << 20


def use_mounts_of_its_own() -> bool:
    """Give this process and its children separate mounts and shared memory (local).

    Returns
    -------
    Whether that could be had.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        return False
    return _mount("--make-rprivate", "/") and _mount("-t", "tmpfs", "tmpfs", "/dev/shm")


def can_forbid() -> bool:
    """Return whether a folder can be made unwritable to this user."""
    return os.geteuid() != 0


class Disk:
    """A small disk on a folder, if that can be mounted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_mounted = _mount("-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(folder))

    def fill(self) -> None:
        """Leave no byte free."""
        with contextlib.suppress(OSError), (self._folder / "filler").open("wb", 0) as file:
            for size in (1 << 16, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def forbid(self) -> None:
        """Let nobody write there any more."""
        if self.is_mounted:
            # A file that is open for writing forbids it for as long.
            while not _mount("-o", "remount,ro", str(self._folder)):
                pass
        else:
            self._folder.chmod(0o500)

    @staticmethod
    def remove(folder: Path) -> None:
        """Give it up, if there is one."""
        if os.path.ismount(folder):
            subprocess.run(["umount", "-l", str(folder)], check=False, stderr=subprocess.DEVNULL)
        elif folder.exists():
            folder.chmod(0o700)


def _mount(*arguments: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run(["mount", *arguments], check=False, stderr=-3).returncode == 0
    return False
