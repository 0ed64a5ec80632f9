"""Looks at a transport's transfers as they happen, wherever they are called from.

The handlers of compiled programs are called by XLA. What they do can only be seen from within:
how long each keeps the host, how long the GPU is at its collective, and whether the host is ahead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu.device import Device
from sciml_par.parallel.requests.request import Request, Transfer
from sciml_par.parallel.transports.transport import Transport

_KINDS = ("allreduce", "broadcast", "allgather", "reducescatter", "alltoall")
_POISON = 0xFF  # a NaN in every floating-point type, the largest or -1 in integers

C = TypeVar("C", bound=Transport)


@dataclass
class Watched:
    """What was seen of some transfers.

    Attributes
    ----------
    host_seconds : how long each kept the host.
    gpu_seconds : how long each took on its stream.
    busy_seconds : how long the stream was kept busy in front of the first.
    ahead : how many had returned before that work in front was done.
    """

    host_seconds: list[float] = field(default_factory=list)
    gpu_seconds: list[float] = field(default_factory=list)
    busy_seconds: float = 0.0
    ahead: int = 0


class Probe:
    """Stands around every transfer of one transport.

    Attributes
    ----------
    poison : fill each result with NaNs before the transfer.
    failing : raise an error with this text in place of the transfer, if not empty.
    front : puts work on the stream in front of the next transfer; once.
    stream : the stream to use in place of the caller's; None for the caller's.
    """

    def __init__(self, device: Device) -> None:
        self.poison = False
        self.failing = ""
        self.front: Callable[[int], None] | None = None
        self.stream: int | None = None
        self._device = device
        self._events: list[tuple[int, int]] = []
        self._watched: Watched | None = None
        self._used = self._marks = 0
        self._front_marks: tuple[int, int] | None = None

    def watch(self, transport: C) -> C:
        """Stand around what `transport` prepares from now on; the transport itself."""
        for kind in _KINDS:
            setattr(transport, kind, self._around(getattr(transport, kind)))
        return transport

    def begin(self, marks: int = 0) -> None:
        """Watch what follows, the first `marks` transfers with marks on their stream."""
        while len(self._events) < marks:
            self._events.append((self._device.event(), self._device.event()))
        self._watched, self._used, self._marks = Watched(), 0, marks
        self._front_marks = None

    def end(self) -> Watched:
        """What was seen since `begin`; waits for the marks."""
        watched = self._watched
        assert watched is not None
        self._watched = None
        watched.gpu_seconds = [self._device.seconds(*m) for m in self._events[: self._used]]
        if self._front_marks is not None:
            watched.busy_seconds = self._device.seconds(*self._front_marks)
        return watched

    def _around(self, prepare: Callable[[Any], Transfer]) -> Callable[[Any], Transfer]:
        def prepared(request: Request) -> Transfer:
            transfer = prepare(request)
            nbytes = math.prod(request.receive_shape) * request.element.size

            def probed(send: int, receive: int, *where: int) -> None:
                if self.failing:
                    raise RuntimeError(self.failing)
                stream = where[0] if where else 0
                if self.front is not None:
                    self._put_in_front(stream)
                if self.poison and nbytes and send != receive:
                    self._device.fill(receive, _POISON, nbytes, stream)
                if where and self.stream is not None:
                    where = (self.stream,)
                if self._watched is None:
                    transfer(send, receive, *where)
                else:
                    self._timed(self._watched, transfer, (send, receive, *where), stream)

            return probed

        return prepared

    def _put_in_front(self, stream: int) -> None:
        front, self.front = self.front, None
        assert front is not None
        self._front_marks = (self._device.event(), self._device.event())
        self._device.record(self._front_marks[0], stream)
        front(stream)
        self._device.record(self._front_marks[1], stream)

    def _timed(
        self, watched: Watched, transfer: Transfer, arguments: tuple[int, ...], stream: int
    ) -> None:
        marked = self._used < self._marks
        first, last = self._events[self._used] if marked else (0, 0)
        if marked:
            self._device.record(first, stream)
        began = time.perf_counter_ns()
        transfer(*arguments)
        watched.host_seconds.append((time.perf_counter_ns() - began) * 1e-9)
        if marked:
            self._device.record(last, stream)
            self._used += 1
        if self._front_marks is not None and not self._device.passed(self._front_marks[1]):
            watched.ahead += 1
