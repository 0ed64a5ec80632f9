"""Fakes of the two modules of CuPy that sciml_par uses, for machines without a GPU.

`FakeRuntime` stands for `cupy.cuda.runtime`, `FakeNccl` for `cupy.cuda.nccl`. "GPU memory" is the
host's, and MPI carries the tensors between the ranks of the test run.

As on a GPU, a call only puts work on a stream. The work is done at a wait for the stream, or after
`looks_until_done` looks at the mark behind it: code that reads a result too early reads the old
memory. Every call is recorded in `calls` as (name, arguments). The fakes refuse calls that NCCL
forbids, or would answer with wrong numbers or a hang.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  tells NumPy the name bfloat16
import numpy as np
from mpi4py import MPI

NOT_READY, INVALID_HANDLE, ILLEGAL_ADDRESS = 600, 400, 700
ERRORS = {
    INVALID_HANDLE: "cudaErrorInvalidResourceHandle: invalid resource handle",
    NOT_READY: "cudaErrorNotReady: device not ready",
    ILLEGAL_ADDRESS: "cudaErrorIllegalAddress: an illegal memory access was encountered",
}
_INVALID = "NCCL_ERROR_INVALID_ARGUMENT: invalid argument"

_DTYPES = [np.dtype(f"{sign}int{bits}") for bits in (8, 32, 64) for sign in ("", "u")]
_DTYPES += [np.dtype(name) for name in ("float16", "float32", "float64", "bfloat16")]
"""The element types by NCCL's numbers."""

_SUM, _PROD, _MAX, _MIN, _AVG = range(5)
_FUNCTIONS = {_SUM: np.add, _PROD: np.multiply, _MAX: np.fmax, _MIN: np.fmin, _AVG: np.add}

Work = Callable[[], object]


class FakeError(RuntimeError):
    """Stands for CuPy's CUDARuntimeError and NcclError."""


class Recorder:
    """Notes `calls`; those in `failing` raise an error with this text."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple]] = []
        self.failing: dict[str, str] = {}

    def record(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, arguments))
        if name in self.failing:
            raise FakeError(self.failing[name])

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class FakeRuntime(Recorder):
    """A fake of `cupy.cuda.runtime` with one GPU.

    Attributes
    ----------
    looks_until_done : the number of looks at a mark before the GPU passes it.
    code : the answer of a look at a mark if it is not 0; 700 is an illegal address.
    """

    memcpyHostToDevice = 1
    memcpyDeviceToHost = 2

    def __init__(self) -> None:
        super().__init__()
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
        """Put work on a stream; not CuPy's."""
        if stream not in self._streams:
            raise FakeError(ERRORS[INVALID_HANDLE])
        self._streams[stream].append(work)

    def _work_off(self, stream: int) -> None:
        work, self._streams[stream] = self._streams[stream], []
        for each in work:
            each()

    def _holds(self, address: int) -> bool:
        return any(0 <= address - start < m.size for start, m in self._memory.items())


class FakeNccl(Recorder):
    """A fake of `cupy.cuda.nccl`, over `mpi`, on the streams of `runtime`."""

    available = True
    NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
    NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_BFLOAT16 = range(6, 10)
    NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)

    def __init__(self, mpi: MPI.Comm, runtime: FakeRuntime, *, version: int = 23203) -> None:
        super().__init__()
        self.runtime = runtime
        self.version = version
        self.depth = 0
        self._mpi = mpi
        self._group: list[tuple[FakeNcclCommunicator, int, Callable[[], Work]]] = []

    def get_version(self) -> int:
        return self.version

    def get_unique_id(self) -> bytes:
        self.record("get_unique_id")
        return np.random.default_rng().bytes(128)

    def NcclCommunicator(self, ndev: int, commId: bytes, rank: int) -> FakeNcclCommunicator:
        self.record("NcclCommunicator", ndev, commId, rank)
        joined = self._mpi.allgather((ndev, commId, rank))
        if len(commId) != 128 or joined != [(self._mpi.size, commId, r) for r in range(ndev)]:
            raise FakeError(_INVALID)
        return FakeNcclCommunicator(self, self._mpi.Dup())

    def groupStart(self) -> None:
        self.record("groupStart")
        self.depth += 1

    def groupEnd(self) -> None:
        self.record("groupEnd")
        self.depth -= 1
        if self.depth == 0:
            group, self._group = self._group, []
            for stream in {stream for _, stream, _ in group}:
                self._enqueue(stream, [(c, begin) for c, s, begin in group if s == stream])

    def add(self, owner: FakeNcclCommunicator, stream: int, begin: Callable[[], Work]) -> None:
        """Put an operation on a stream, at once or at the end of the group; not CuPy's.

        `begin` starts it and returns the function that ends it; all of a group begin before one
        ends.
        """
        owner.at_work += 1
        if self.depth:
            self._group.append((owner, stream, begin))
        else:
            self._enqueue(stream, [(owner, begin)])

    def _enqueue(
        self, stream: int, group: list[tuple[FakeNcclCommunicator, Callable[[], Work]]]
    ) -> None:
        def work() -> None:
            ends = [begin() for _, begin in group]
            for end in reversed(ends):  # sends wait for the receives, which are last
                end()
            for owner, _ in group:
                owner.at_work -= 1

        self.runtime.enqueue(stream, work)


class FakeNcclCommunicator:
    """A fake of `cupy.cuda.nccl.NcclCommunicator`; its parameters have the names of the real ones.

    Attributes
    ----------
    async_error : the error that NCCL has found in the meantime; empty if none.
    at_work : the number of its unfinished operations.
    """

    def __init__(self, nccl: FakeNccl, mpi: MPI.Comm) -> None:
        self.async_error = ""
        self.at_work = 0
        self._nccl = nccl
        self._mpi = mpi
        self._aborted = False

    def allReduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int
    ) -> None:
        x, y = _both(sendbuf, count, recvbuf, count, datatype, in_place=recvbuf)
        asked = ("allReduce", count, datatype, op)
        self._collective(asked, (sendbuf, recvbuf, stream), lambda: self._reduced(x, op), y)

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int
    ) -> None:
        n = count if self._mpi.rank == root else 0
        x, y = _both(sendbuf, count, recvbuf, n, datatype, in_place=recvbuf)
        asked = ("reduce", count, datatype, op, root)
        self._collective(asked, (sendbuf, recvbuf, stream), lambda: self._reduced(x, op)[:n], y)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        n = count if self._mpi.rank == root else 0
        x, y = _both(sendbuff, n, recvbuff, count, datatype, in_place=recvbuff)
        asked, where = ("broadcast", count, datatype, root), (sendbuff, recvbuff, stream)
        self._collective(asked, where, lambda: self._mpi.bcast(x.copy(), root), y)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        own = recvbuf + self._mpi.rank * count * _DTYPES[datatype].itemsize
        x, y = _both(sendbuf, count, recvbuf, count * self._mpi.size, datatype, in_place=own)
        asked, where = ("allGather", count, datatype), (sendbuf, recvbuf, stream)
        self._collective(asked, where, lambda: np.concatenate(self._mpi.allgather(x)), y)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        first = self._mpi.rank * recvcount
        own, whole = recvbuf - first * _DTYPES[datatype].itemsize, recvcount * self._mpi.size
        x, y = _both(sendbuf, whole, recvbuf, recvcount, datatype, in_place=own)
        asked, where = ("reduceScatter", recvcount, datatype, op), (sendbuf, recvbuf, stream)
        self._collective(asked, where, lambda: self._reduced(x, op)[first : first + recvcount], y)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        source = self._in_group("send", sendbuf, count, datatype, peer, stream)
        self._nccl.add(self, stream, lambda: self._mpi.isend(source.copy(), peer).wait)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        target = self._in_group("recv", recvbuf, count, datatype, peer, stream)

        def end() -> None:
            given = self._mpi.recv(source=peer)
            if (given.size, given.dtype) != (target.size, target.dtype):
                raise FakeError(f"rank {peer} sends {given.size} elements, not {target.size}")
            target[:] = given

        self._nccl.add(self, stream, lambda: end)

    def commSplit(self, color: int, key: int, config: object = None) -> FakeNcclCommunicator:
        self._record("commSplit", color, key)
        if self.at_work:
            raise FakeError("NCCL may hang: it is split while it is at work")
        return FakeNcclCommunicator(self._nccl, self._mpi.Split(color, key))

    def check_async_error(self) -> None:
        self._record("check_async_error")
        if self.async_error:
            raise FakeError(self.async_error)

    def abort(self) -> None:
        self._nccl.record("abort")
        self._aborted = True

    def _record(self, name: str, *arguments: Any) -> None:
        self._nccl.record(name, *arguments)
        if self._aborted:
            raise FakeError(_INVALID)

    def _collective(
        self, asked: tuple, where: tuple, result: Callable[[], np.ndarray], target: np.ndarray
    ) -> None:
        """Enqueue a collective; it fails where NCCL would hang, if the ranks ask differently."""
        self._record(asked[0], *asked[1:], *where)

        def begin() -> Work:
            everyone = self._mpi.allgather(asked)
            if everyone != [asked] * len(everyone):
                raise FakeError(f"the ranks call NCCL differently: {everyone}")
            target[:] = result()
            return lambda: None

        self._nccl.add(self, where[-1], begin)

    def _reduced(self, source: np.ndarray, op: int) -> np.ndarray:
        """Combine in the order of ranks, in their own type; an average multiplies first."""
        parts = self._mpi.allgather(source)
        if op == _AVG and source.dtype.kind in "iu":
            raise FakeError(_INVALID)
        with np.errstate(all="ignore"):
            if op == _AVG:
                parts = [part * part.dtype.type(1 / len(parts)) for part in parts]
            return functools.reduce(_FUNCTIONS[op], parts)

    def _in_group(
        self, name: str, address: int, count: int, datatype: int, peer: int, stream: int
    ) -> np.ndarray:
        self._record(name, address, count, datatype, peer, stream)
        if not self._nccl.depth:
            raise FakeError("NCCL would hang: outside a group, each waits for the other's call")
        return _array(address, count, datatype)


def _array(address: int, count: int, datatype: int) -> np.ndarray:
    """[count], in place."""
    if not 0 <= datatype < len(_DTYPES) or count < 0 or (count and not address):
        raise FakeError(_INVALID)
    dtype = _DTYPES[datatype]
    if not count:
        return np.empty(0, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype)


def _both(
    send: int, sent: int, receive: int, received: int, datatype: int, *, in_place: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides of a call. They may overlap only if `send` is `in_place`."""
    source, target = _array(send, sent, datatype), _array(receive, received, datatype)
    if np.may_share_memory(source, target) and send != in_place:
        raise FakeError("NCCL would write over what it reads")
    return source, target
