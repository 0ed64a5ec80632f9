"""A rank's process in the kernel: its end, and signals to it alone."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import struct
import time

_EXITING = 0x4  # PF_EXITING, among the flags in /proc/<pid>/stat

# Linux 6.15 tells the end of a process that its parent has asked for already: <linux/pidfd.h>.
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii")  # the mask first, the wait status last


class RankProcess:
    """A process, opened while it still runs.

    Attributes
    ----------
    descriptor : of the process (pidfd), which no other process can have; or None.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor: int | None = None
        self._by_number = False
        self._stat: int | None = None
        with contextlib.suppress(OSError):
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            self.descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError) as error:
            # A kernel before Linux 5.3, another system, or a container that forbids it.
            self._by_number = getattr(error, "errno", None) in (None, errno.ENOSYS, errno.EPERM)

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (self._stat, self.descriptor):
            if descriptor is not None:
                os.close(descriptor)

    def has_ended(self, seconds: float) -> bool:
        """Return whether it ends within that time; True if unknown."""
        if self.descriptor is None:
            return True
        return bool(select.select([self.descriptor], [], [], max(seconds, 0.0))[0])

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs; never to another process with its number."""
        with contextlib.suppress(OSError):
            if self.descriptor is not None:
                signal.pidfd_send_signal(self.descriptor, number)
            elif self._by_number:
                os.kill(self.pid, number)

    def wait_status(self) -> int | None:
        """Return the wait status as from `os.wait`; -1 if the process runs; None if unknown.

        The kernel has it from the begin of the end until the parent has asked; a new kernel also
        afterwards.
        """
        for pause in (0.0, 0.05):
            time.sleep(pause)
            fields = self._state()
            if fields is None:
                return self._status_after_all()
            if fields[0] in "ZX" or int(fields[6]) & _EXITING:
                return int(fields[49])
        return -1

    def _status_after_all(self) -> int | None:
        info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *12 * [0], 0))
        try:
            fcntl.ioctl(-1 if self.descriptor is None else self.descriptor, _PIDFD_GET_INFO, info)
        except (OSError, ValueError):
            return None
        mask, *_, status = _PIDFD_INFO.unpack(info)
        return int(status) if mask & _PIDFD_INFO_EXIT else None

    def _state(self) -> list[str] | None:
        if self._stat is None:
            return None
        try:
            return os.pread(self._stat, 4096, 0).decode().rpartition(")")[2].split()
        except OSError:
            return None
