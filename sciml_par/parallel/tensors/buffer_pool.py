"""Host memory for the results of eager collectives, reused once they are dropped.

Fresh memory is slow: the operating system provides its pages one by one at the first write, which
takes a quarter of the time of a transfer of 1 MiB between two ranks of a host.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

KEPT_BYTES = 128 << 20
"""The most memory that is kept for later results, that of live tensors included."""

_ALIGNMENT = 64
"""TensorFlow copies memory of a smaller alignment."""

_SIZES_KEPT = 64
_BUFFERS_OF_A_SIZE = 4


class _Buffer:
    """Memory for one result at a time.

    Every array on it, NumPy's or TensorFlow's, holds a reference to `memory`: the buffer is idle
    when there are as few as at its creation.
    """

    __slots__ = ("_offset", "address", "idle", "memory")

    def __init__(self, nbytes: int) -> None:
        self.memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = self.memory.ctypes.data
        self._offset = -start % _ALIGNMENT
        self.address = start + self._offset
        self.idle = getrefcount(self.memory)

    def array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        return np.ndarray(shape, dtype, self.memory, self._offset)


class ResultMemory:
    """Provides memory for results, first that of dropped results (thread-safe)."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self.kept = 0  # bytes
        self._by_size: OrderedDict[int, list[_Buffer]] = OrderedDict()
        self._lock = threading.Lock()

    def array(
        self, shape: Sequence[int], dtype: np.dtype[Any], nbytes: int
    ) -> tuple[np.ndarray, int]:
        """Return (array, address); nobody else uses the memory while a reference to it lives."""
        with self._lock:
            buffers = self._by_size.get(nbytes)
            if buffers is not None:
                self._by_size.move_to_end(nbytes)
                for buffer in buffers:
                    if getrefcount(buffer.memory) == buffer.idle:
                        return buffer.array(shape, dtype), buffer.address
            buffer = _Buffer(nbytes)
            self._keep(buffer, nbytes)
            return buffer.array(shape, dtype), buffer.address

    def _keep(self, buffer: _Buffer, nbytes: int) -> None:
        if nbytes > self._kept_bytes:
            return
        buffers = self._by_size.setdefault(nbytes, [])
        if len(buffers) == _BUFFERS_OF_A_SIZE:  # all in use
            self.kept -= nbytes
            del buffers[0]
        buffers.append(buffer)
        self.kept += nbytes
        while self.kept > self._kept_bytes or len(self._by_size) > _SIZES_KEPT:
            oldest, buffers = next(iter(self._by_size.items()))
            self.kept -= oldest
            del buffers[0]
            if not buffers:
                del self._by_size[oldest]


@lru_cache(maxsize=1)
def result_memory() -> ResultMemory:
    """Return the pool of this process."""
    return ResultMemory()
