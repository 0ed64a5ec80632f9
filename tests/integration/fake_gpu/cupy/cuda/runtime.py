"""A fake of cupy.cuda.runtime.

With FAKE_GPU_BUSY=seconds in the environment, filling a megabyte takes that long at least, and as
long as nobody waits for it: so whoever does not wait is ahead of the GPU, however slow the machine.
The first fillings are fast, from which the time of the later ones is guessed.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable

import numpy as np

memcpyHostToDevice, memcpyDeviceToHost = 1, 2
_FREE = 64 << 20
_NOT_READY = 600
_LARGE = 1 << 20
_FAST_ONES = 6
_BUSY = float(os.environ.get("FAKE_GPU_BUSY", "0"))
_fillings = itertools.count()
_somebody_waits = threading.Event()


class _Stream:
    def __init__(self) -> None:
        self.work: queue.Queue[Callable[[], None]] = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.work.get()()
            self.work.task_done()


class _Event:
    def __init__(self) -> None:
        self.passed = threading.Event()
        self.passed.set()
        self.time = 0.0


_streams: list[_Stream] = [_Stream()]  # 0 is the default stream
_events: list[_Event] = []
_memory: dict[int, np.ndarray] = {}


def enqueue(stream: int, work: Callable[[], None]) -> None:
    """Not CuPy's: put work on a stream."""
    _streams[stream].work.put(work)


def getDeviceCount() -> int:
    return 1


def getDeviceProperties(device: int) -> dict[str, bytes]:
    return {"name": b"Fake GPU"}


def runtimeGetVersion() -> int:
    return 13000


def driverGetVersion() -> int:
    return 13000


def memGetInfo() -> tuple[int, int]:
    return _FREE, 2 * _FREE


def malloc(size: int) -> int:
    memory = np.full(size, 0xA5, np.uint8)
    _memory[memory.ctypes.data] = memory
    return memory.ctypes.data


def free(ptr: int) -> None:
    del _memory[ptr]


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    assert kind in (memcpyHostToDevice, memcpyDeviceToHost)
    ctypes.memmove(dst, src, size)


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    slow = _BUSY and size >= _LARGE and next(_fillings) == _FAST_ONES
    if slow:
        _somebody_waits.clear()

    def fill() -> None:
        if slow:
            _somebody_waits.wait()
            time.sleep(_BUSY)
        ctypes.memset(ptr, value, size)

    enqueue(stream, fill)


def streamCreateWithFlags(flags: int) -> int:
    _streams.append(_Stream())
    return len(_streams) - 1


def streamSynchronize(stream: int) -> None:
    _somebody_waits.set()
    _streams[stream].work.join()


def deviceSynchronize() -> None:
    _somebody_waits.set()
    for stream in _streams:
        stream.work.join()


def eventCreate() -> int:
    _events.append(_Event())
    return len(_events) - 1


def eventCreateWithFlags(flags: int) -> int:
    return eventCreate()


def eventRecord(event: int, stream: int) -> None:
    mark = _events[event]
    mark.passed.clear()

    def pass_it() -> None:
        mark.time = time.perf_counter()
        mark.passed.set()

    enqueue(stream, pass_it)


def eventQuery(event: int) -> int:
    return 0 if _events[event].passed.is_set() else _NOT_READY


def eventSynchronize(event: int) -> None:
    _somebody_waits.set()
    _events[event].passed.wait()


def eventElapsedTime(start: int, end: int) -> float:
    assert not eventQuery(start) and not eventQuery(end), "cudaErrorNotReady"
    return 1e3 * (_events[end].time - _events[start].time)
