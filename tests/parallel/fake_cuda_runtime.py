"""A fake of `cupy.cuda.runtime`: streams, events and copies in host memory."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

NOT_READY, INVALID_HANDLE, ILLEGAL_ADDRESS = 600, 400, 700
ERRORS = {
    INVALID_HANDLE: "cudaErrorInvalidResourceHandle: invalid resource handle",
    NOT_READY: "cudaErrorNotReady: device not ready",
    ILLEGAL_ADDRESS: "cudaErrorIllegalAddress: an illegal memory access was encountered",
}

Work = Callable[[], object]


class FakeError(RuntimeError):
    """What the fakes raise in the place of CuPy's CUDARuntimeError and NcclError."""


class Recorder:
    """Notes calls, and lets them fail on demand.

    Attributes
    ----------
    calls : (name, arguments) of each call.
    failing : {name: text} of functions that are to raise an error.
    """

    def __init__(self, calls: list[tuple[str, tuple]] | None = None) -> None:
        self.calls = [] if calls is None else calls
        self.failing: dict[str, str] = {}

    def record(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, arguments))
        if name in self.failing:
            raise FakeError(self.failing[name])

    def names(self) -> list[str]:
        """The names of the calls so far."""
        return [name for name, _ in self.calls]


class FakeRuntime(Recorder):
    """A fake of `cupy.cuda.runtime` with one GPU.

    Attributes
    ----------
    looks_until_done : how often a mark must be looked at before the GPU has come to it.
    code : what looking at a mark answers instead, where it is not 0; 700 is an illegal address.
    """

    memcpyHostToDevice = 1
    memcpyDeviceToHost = 2

    def __init__(self, calls: list[tuple[str, tuple]] | None = None) -> None:
        super().__init__(calls)
        self.looks_until_done = math.inf
        self.code = 0
        self._handles = itertools.count(1000)
        self._streams: dict[int, list[Work]] = {0: []}
        self._ahead: dict[int, object] = {}  # the marks that the GPU has not come to
        self._events: set[int] = set()
        self._memory: dict[int, np.ndarray] = {}

    def getDeviceCount(self) -> int:
        self.record("getDeviceCount")
        return 1

    def getDeviceProperties(self, device: int) -> dict[str, Any]:
        self.record("getDeviceProperties", device)
        return {"name": b"Fake GPU"}

    def setDevice(self, device: int) -> None:
        self.record("setDevice", device)

    def malloc(self, size: int) -> int:
        self.record("malloc", size)
        memory = np.full(size, 0xAB, np.uint8)
        self._memory[memory.ctypes.data] = memory
        return memory.ctypes.data

    def memcpyAsync(self, dst: int, src: int, size: int, kind: int, stream: int) -> None:
        self.record("memcpyAsync", dst, src, size, kind, stream)
        sides = {self.memcpyHostToDevice: (True, False), self.memcpyDeviceToHost: (False, True)}
        if size and (self._holds(dst), self._holds(src)) != sides[kind]:
            raise FakeError(ERRORS[ILLEGAL_ADDRESS])
        self.enqueue(stream, lambda: ctypes.memmove(dst, src, size))

    def streamCreateWithFlags(self, flags: int) -> int:
        self.record("streamCreateWithFlags", flags)
        stream = next(self._handles)
        self._streams[stream] = []
        return stream

    def streamSynchronize(self, stream: int) -> None:
        self.record("streamSynchronize", stream)
        self._work_off(stream)

    def eventCreateWithFlags(self, flags: int) -> int:
        self.record("eventCreateWithFlags", flags)
        event = next(self._handles)
        self._events.add(event)
        return event

    def eventRecord(self, event: int, stream: int) -> None:
        self.record("eventRecord", event, stream)
        if event not in self._events:
            raise FakeError(ERRORS[INVALID_HANDLE])
        mark = self._ahead[event] = object()  # it moves if it was set before

        def pass_it() -> None:
            if self._ahead.get(event) is mark:
                del self._ahead[event]

        self.enqueue(stream, pass_it)

    def eventQuery(self, event: int) -> int:
        self.record("eventQuery", event)
        if self.code or event not in self._events:
            return self.code or INVALID_HANDLE
        if event not in self._ahead:
            return 0
        self.looks_until_done -= 1
        if self.looks_until_done < 0:
            for stream in self._streams:
                self._work_off(stream)
        return NOT_READY if event in self._ahead else 0

    def check_status(self, status: int) -> None:
        if status:
            raise FakeError(ERRORS[status])

    def enqueue(self, stream: int, work: Work) -> None:
        """Put work on a stream; for `FakeNccl`, no function of CuPy's."""
        if stream not in self._streams:
            raise FakeError(ERRORS[INVALID_HANDLE])
        self._streams[stream].append(work)

    def _work_off(self, stream: int) -> None:
        work, self._streams[stream] = self._streams[stream], []
        for each in work:
            each()

    def _holds(self, address: int) -> bool:
        return any(0 <= address - start < m.size for start, m in self._memory.items())
