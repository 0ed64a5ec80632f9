"""Helpers of tests on a GPU, without TensorFlow and MPI."""

from __future__ import annotations

import pytest


def leave_out(config: pytest.Config, reason: str) -> None:
    """Skip a test that finds no GPU; end a run of the tests marked gpu alone (`pytest -m gpu`).

    Such a run must not succeed if all tests are skipped.
    """
    if config.option.markexpr == "gpu":
        pytest.exit(f"No test has run on a GPU: {reason}", returncode=1)
    pytest.skip(reason)


class Busy:
    """Work that keeps a stream busy for some tenths of a second: memory is filled again and again.

    It needs nothing but CUDA's runtime. A stream's queue holds about a thousand calls; when it is
    full, the host waits.
    """

    _ROUNDS = 400
    _BYTES = 2 << 30

    def __init__(self) -> None:
        from cupy.cuda import runtime

        self._cuda = runtime
        self._nbytes = min(self._BYTES, runtime.memGetInfo()[0] // 4)
        self._address = runtime.malloc(self._nbytes)
        self._mark = runtime.eventCreate()

    def put_on(self, stream: int) -> None:
        """Enqueue it; returns at once."""
        for _ in range(self._ROUNDS):
            self._cuda.memsetAsync(self._address, 0, self._nbytes, stream)
        self._cuda.eventRecord(self._mark, stream)

    def is_done(self) -> bool:
        """Return whether the GPU has done it."""
        return int(self._cuda.eventQuery(self._mark)) == 0

    def release(self) -> None:
        """Wait for it, and give the memory back."""
        self._cuda.deviceSynchronize()
        self._cuda.free(self._address)
