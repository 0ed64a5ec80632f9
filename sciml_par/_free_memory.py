"""How much memory this machine has left for the processes of a job."""

from __future__ import annotations

import re
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_memory(meminfo: Path = _MEMINFO, group: Path = _GROUP) -> int | None:
    """Return the bytes that can be taken on this machine without swapping; None if unknown."""
    found = [each for each in (_available(meminfo), _left_in_group(group)) if each is not None]
    return min(found, default=None)


def _available(meminfo: Path) -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s*(\d+)", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _left_in_group(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return max(0, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else None
