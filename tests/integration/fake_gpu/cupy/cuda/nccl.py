"""A fake of cupy.cuda.nccl for one rank or two, which talk by a socket.

Faults, by the environment variable FAKE_NCCL_FAULT: "waits" (calls return when all is done),
"drops" (an allreduce of 16-bit floats does nothing), "hangs" (a broadcast never returns), "crashes"
(a broadcast ends the process; of two ranks, that of rank 1).
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener

import ml_dtypes
import numpy as np

from cupy.cuda import runtime

available = True
NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_BFLOAT16 = range(6, 10)
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)

_NAMES = ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16)
_DTYPES = tuple(np.dtype(name) for name in _NAMES)
_FAULT = os.environ.get("FAKE_NCCL_FAULT", "")
_KEY = b"fake"
_group: list[Callable[[], None]] = []


def get_version() -> int:
    return int(os.environ.get("FAKE_NCCL_VERSION", "22809"))


def get_unique_id() -> bytes:
    return os.path.join(tempfile.mkdtemp(), "nccl").encode().ljust(128, b"\0")


def groupStart() -> None:
    _group.clear()


def groupEnd() -> None:
    """The sends and receives of a group; other calls need no group here."""
    for work in _group[:1]:
        work()


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes, rank: int) -> None:
        assert ndev in (1, 2) and rank < ndev and len(commId) == 128
        self._size, self._rank = ndev, rank
        self._peer = _connected(commId.rstrip(b"\0").decode(), rank) if ndev == 2 else None
        self._sent: list[tuple[int, int, int]] = []
        self._received: list[tuple[int, int, int]] = []

    def allReduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int
    ) -> None:
        if _FAULT != "drops" or _DTYPES[datatype].itemsize != 2:
            self._reduced(sendbuf, recvbuf, count, datatype, op, stream, slice(None))

    def reduce(
        self,
        sendbuf: int,
        recvbuf: int,
        count: int,
        datatype: int,
        op: int,
        root: int,
        stream: int,
    ) -> None:
        part = slice(None) if root == self._rank else slice(0)
        self._reduced(sendbuf, recvbuf, count, datatype, op, stream, part)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        if _FAULT == "hangs":
            time.sleep(1e6)
        if _FAULT == "crashes" and self._rank == self._size - 1:
            os.abort()
        nbytes = count * _DTYPES[datatype].itemsize

        def work() -> None:
            mine = ctypes.string_at(sendbuff, nbytes) if root == self._rank else b""
            _write(recvbuff, self._all(mine)[root])

        self._enqueue(stream, work)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        nbytes = count * _DTYPES[datatype].itemsize

        def work() -> None:
            _write(recvbuf, b"".join(self._all(ctypes.string_at(sendbuf, nbytes))))

        self._enqueue(stream, work)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        part = slice(self._rank * recvcount, (self._rank + 1) * recvcount)
        self._reduced(sendbuf, recvbuf, self._size * recvcount, datatype, op, stream, part)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._sent.append((peer, sendbuf, count * _DTYPES[datatype].itemsize))
        _group.append(lambda: self._exchange(stream))

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._received.append((peer, recvbuf, count * _DTYPES[datatype].itemsize))
        _group.append(lambda: self._exchange(stream))

    def check_async_error(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def _exchange(self, stream: int) -> None:
        sent, received = self._sent, self._received
        self._sent, self._received = [], []

        def to(peer: int) -> bytes:
            return b"".join(ctypes.string_at(a, n) for p, a, n in sent if p == peer)

        def work() -> None:
            arrived = {self._rank: to(self._rank)}
            other = 1 - self._rank
            if any(peer == other for peer, _, _ in sent + received):
                arrived[other] = self._all(to(other))[other]
            for peer, address, n in received:
                _write(address, arrived[peer][:n])

        self._enqueue(stream, work)

    def _reduced(
        self, send: int, receive: int, count: int, datatype: int, op: int, stream: int, part: slice
    ) -> None:
        dtype = _DTYPES[datatype]

        def work() -> None:
            given = self._all(ctypes.string_at(send, count * dtype.itemsize))
            x = np.stack([np.frombuffer(each, dtype) for each in given])
            reductions = (np.sum, np.prod, np.max, np.min, np.mean)
            y = reductions[op](x, axis=0) if len(given) > 1 else x[0]
            _write(receive, y.astype(dtype)[part].tobytes())

        self._enqueue(stream, work)

    def _all(self, mine: bytes) -> list[bytes]:
        """What each rank gives; the ranks take turns, or both would wait to be heard."""
        if self._peer is None:
            return [mine]
        if self._rank == 0:
            self._peer.send_bytes(mine)
            return [mine, self._peer.recv_bytes()]
        first = self._peer.recv_bytes()
        self._peer.send_bytes(mine)
        return [first, mine]

    def _enqueue(self, stream: int, work: Callable[[], None]) -> None:
        runtime.enqueue(stream, work)
        if _FAULT == "waits":
            runtime.streamSynchronize(stream)


def _write(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


def _connected(path: str, rank: int) -> Connection:
    if rank == 0:
        with Listener(path, "AF_UNIX", authkey=_KEY) as listener:
            return listener.accept()
    while not os.path.exists(path):
        time.sleep(0.01)
    return Client(path, "AF_UNIX", authkey=_KEY)
