"""What the checks need of a GPU beside collectives: memory, marks on streams, and work to do.

`HostDevice` has the same methods for the rehearsal on a machine without a GPU: its memory is the
host's, and everything is done when a call returns.
"""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

_BUSY_BYTES = 8 << 30
_MOST_ROUNDS = 400  # a GPU's queue holds about a thousand calls; when it is full the host waits
_SMALLEST = 256
_HOST_BYTES = 64 << 20


class Device(ABC):
    """Addresses, streams and events are plain integers."""

    @abstractmethod
    def free_bytes(self) -> int:
        """The memory that can still be had."""

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """The address of new memory."""

    @abstractmethod
    def release(self, address: int) -> None:
        """Give it back."""

    @abstractmethod
    def put(self, address: int, array: np.ndarray) -> None:
        """Copy an array there, and wait until it is there."""

    @abstractmethod
    def get(self, array: np.ndarray, address: int) -> None:
        """Copy from there into an array, and wait."""

    @abstractmethod
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes; on a stream."""

    @abstractmethod
    def event(self) -> int:
        """A mark that knows when it was passed."""

    @abstractmethod
    def record(self, event: int, stream: int) -> None:
        """Set the mark behind the work that is on the stream now."""

    @abstractmethod
    def passed(self, event: int) -> bool:
        """Whether the work before the mark is done."""

    @abstractmethod
    def seconds(self, first: int, last: int) -> float:
        """The time between two marks; waits until both are passed."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work on all streams."""


class CudaDevice(Device):
    """This process's GPU, by CuPy."""

    def __init__(self) -> None:
        from cupy.cuda import runtime

        self._cuda = runtime

    def free_bytes(self) -> int:
        return int(self._cuda.memGetInfo()[0])

    def allocate(self, nbytes: int) -> int:
        return int(self._cuda.malloc(max(nbytes, _SMALLEST)))

    def release(self, address: int) -> None:
        self._cuda.free(address)

    def put(self, address: int, array: np.ndarray) -> None:
        self._cuda.memcpy(address, array.ctypes.data, array.nbytes, self._cuda.memcpyHostToDevice)
        # From pageable memory the call may return while the last of it is on its way.
        self._cuda.deviceSynchronize()

    def get(self, array: np.ndarray, address: int) -> None:
        self._cuda.memcpy(array.ctypes.data, address, array.nbytes, self._cuda.memcpyDeviceToHost)

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        self._cuda.memsetAsync(address, byte, nbytes, stream)

    def event(self) -> int:
        return int(self._cuda.eventCreate())

    def record(self, event: int, stream: int) -> None:
        self._cuda.eventRecord(event, stream)

    def passed(self, event: int) -> bool:
        return int(self._cuda.eventQuery(event)) == 0

    def seconds(self, first: int, last: int) -> float:
        self._cuda.eventSynchronize(last)
        return float(self._cuda.eventElapsedTime(first, last)) * 1e-3

    def synchronize(self) -> None:
        self._cuda.deviceSynchronize()


class HostDevice(Device):
    """The host in a GPU's place; streams do not matter."""

    def __init__(self) -> None:
        self._memory: dict[int, np.ndarray] = {}
        self._times: dict[int, float] = {}

    def free_bytes(self) -> int:
        return _HOST_BYTES

    def allocate(self, nbytes: int) -> int:
        memory = np.empty(max(nbytes, _SMALLEST), np.uint8)
        self._memory[memory.ctypes.data] = memory
        return memory.ctypes.data

    def release(self, address: int) -> None:
        del self._memory[address]

    def put(self, address: int, array: np.ndarray) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def get(self, array: np.ndarray, address: int) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        ctypes.memset(address, byte, nbytes)

    def event(self) -> int:
        self._times[len(self._times)] = 0.0
        return len(self._times) - 1

    def record(self, event: int, stream: int) -> None:
        self._times[event] = time.perf_counter()

    def passed(self, event: int) -> bool:
        return True

    def seconds(self, first: int, last: int) -> float:
        return self._times[last] - self._times[first]

    def synchronize(self) -> None:
        pass


class Busy:
    """Work that keeps a stream busy for about `seconds` once it is enqueued.

    It fills memory again and again, which needs nothing but CUDA's runtime.
    """

    def __init__(self, device: Device, seconds: float, stream: int) -> None:
        self._device = device
        self._nbytes = min(_BUSY_BYTES, device.free_bytes() // 4)
        self._address = device.allocate(self._nbytes)
        self._enqueue(stream, 2)  # the first ones are slower
        each = self._timed(lambda: self._enqueue(stream, 4), stream) / 4
        self.rounds = max(1, min(_MOST_ROUNDS, round(seconds / max(each, 1e-9))))

    def __call__(self, stream: int) -> None:
        """Put the work on a stream; returns at once."""
        self._enqueue(stream, self.rounds)

    def release(self) -> None:
        """Give its memory back."""
        self._device.synchronize()
        self._device.release(self._address)

    def _enqueue(self, stream: int, rounds: int) -> None:
        for _ in range(rounds):
            self._device.fill(self._address, 0, self._nbytes, stream)

    def _timed(self, action: Callable[[], None], stream: int) -> float:
        first, last = self._device.event(), self._device.event()
        self._device.record(first, stream)
        action()
        self._device.record(last, stream)
        return self._device.seconds(first, last)
