"""A rank's process as the kernel shows it: how it ended, and signals that meet no other."""

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
    """What the kernel knows of a process; it is opened here, before it is too late.

    Attributes
    ----------
    descriptor : of the process (pidfd), by the number of which no other can be meant; or None.
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
        """Give up the descriptors."""
        for descriptor in (self._stat, self.descriptor):
            if descriptor is not None:
                os.close(descriptor)

    def has_ended(self, seconds: float) -> bool:
        """Return whether it ends within that time; True where that cannot be seen."""
        if self.descriptor is None:
            return True
        return bool(select.select([self.descriptor], [], [], max(seconds, 0.0))[0])

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it is still there; never another process of its number."""
        with contextlib.suppress(OSError):
            if self.descriptor is not None:
                signal.pidfd_send_signal(self.descriptor, number)
            elif self._by_number:
                os.kill(self.pid, number)

    def wait_status(self) -> int | None:
        """How the process ends, as `os.wait` gives it; -1 if it goes on; None if unknown.

        The kernel shows it from the moment the process begins to end until its parent has asked;
        a new one shows it afterwards as well.
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
