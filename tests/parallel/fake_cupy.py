"""Fakes of the two modules of CuPy that sciml_par uses, for machines without a GPU.

`FakeRuntime` stands for `cupy.cuda.runtime`, `FakeNccl` for `cupy.cuda.nccl`. "GPU memory" is the
host's, and what NCCL does between GPUs is done by MPI between the ranks of the test run.

As on a GPU, a call only puts work on a stream. The work is done when somebody waits for the
stream, or after the mark behind it was looked at `looks_until_done` times: so what reads a result
too early reads what was there before. Every call is recorded in `calls` as (name, arguments).

The fakes refuse what NCCL forbids, or would answer with wrong numbers or with waiting for ever.
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
    """What the fakes raise in the place of CuPy's CUDARuntimeError and NcclError."""


class Recorder:
    """Notes calls, and lets them fail on demand.

    Attributes
    ----------
    calls : (name, arguments) of each call.
    failing : {name: text} of functions that are to raise an error.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple]] = []
        self.failing: dict[str, str] = {}

    def record(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, arguments))
        if name in self.failing:
            raise FakeError(self.failing[name])

    def names(self) -> list[str]:
        """Return the names of the calls so far."""
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
        """Put work on a stream; for `FakeNccl`, not a function of CuPy's."""
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
    """A fake of `cupy.cuda.nccl`.

    Parameters
    ----------
    mpi : what its communicators move their elements over.
    runtime : whose streams they work on.
    version : as NCCL's get_version gives it.
    """

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

        begin : starts it and returns what ends it; all of a group begin before one ends.
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
            for end in reversed(ends):  # receives, which stand last: what is sent waits for them
                end()
            for owner, _ in group:
                owner.at_work -= 1

        self.runtime.enqueue(stream, work)


class FakeNcclCommunicator:
    """A fake of `cupy.cuda.nccl.NcclCommunicator`; its parameters have the names of the real ones.

    Attributes
    ----------
    async_error : what NCCL has found wrong in the meantime; empty if nothing.
    at_work : how many of its operations are not done.
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
        self._record("allReduce", sendbuf, recvbuf, count, datatype, op, stream)
        _check_operation(op, datatype)
        source, target = _both(sendbuf, count, recvbuf, count, datatype, in_place=recvbuf)

        def work() -> None:
            target[:] = self._reduced(source, op)

        self._collective(stream, work, "allReduce", count, datatype, op)

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
        self._record("reduce", sendbuf, recvbuf, count, datatype, op, root, stream)
        _check_operation(op, datatype)
        written = count if self._mpi.rank == root else 0
        source, target = _both(sendbuf, count, recvbuf, written, datatype, in_place=recvbuf)

        def work() -> None:
            target[:] = self._reduced(source, op)[:written]

        self._collective(stream, work, "reduce", count, datatype, op, root)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        self._record("broadcast", sendbuff, recvbuff, count, datatype, root, stream)
        read = count if self._mpi.rank == root else 0
        source, target = _both(sendbuff, read, recvbuff, count, datatype, in_place=recvbuff)

        def work() -> None:
            target[:] = self._mpi.bcast(source.copy(), root)

        self._collective(stream, work, "broadcast", count, datatype, root)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        self._record("allGather", sendbuf, recvbuf, count, datatype, stream)
        own = recvbuf + self._mpi.rank * _array(sendbuf, count, datatype).nbytes
        whole = count * self._mpi.size
        source, target = _both(sendbuf, count, recvbuf, whole, datatype, in_place=own)

        def work() -> None:
            target[:] = np.concatenate(self._mpi.allgather(source))

        self._collective(stream, work, "allGather", count, datatype)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        self._record("reduceScatter", sendbuf, recvbuf, recvcount, datatype, op, stream)
        _check_operation(op, datatype)
        rank, whole = self._mpi.rank, recvcount * self._mpi.size
        own = recvbuf - rank * _array(recvbuf, recvcount, datatype).nbytes
        source, target = _both(sendbuf, whole, recvbuf, recvcount, datatype, in_place=own)

        def work() -> None:
            target[:] = self._reduced(source, op)[rank * recvcount : (rank + 1) * recvcount]

        self._collective(stream, work, "reduceScatter", recvcount, datatype, op)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._record("send", sendbuf, count, datatype, peer, stream)
        self._check_group()
        source = _array(sendbuf, count, datatype)
        self._nccl.add(self, stream, lambda: self._mpi.isend(source.copy(), peer).wait)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._record("recv", recvbuf, count, datatype, peer, stream)
        self._check_group()
        target = _array(recvbuf, count, datatype)

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

    def _collective(self, stream: int, work: Work, *asked: Any) -> None:
        """Refuse a collective for which the ranks do not all ask: NCCL would hang."""

        def begin() -> Work:
            everyone = self._mpi.allgather(asked)
            if everyone != [asked] * len(everyone):
                raise FakeError(f"the ranks call NCCL differently: {everyone}")
            work()
            return lambda: None

        self._nccl.add(self, stream, begin)

    def _reduced(self, source: np.ndarray, op: int) -> np.ndarray:
        """Combine in the order of ranks, in their own type; an average multiplies first."""
        parts = self._mpi.allgather(source)
        with np.errstate(all="ignore"):
            if op == _AVG:
                parts = [part * part.dtype.type(1 / len(parts)) for part in parts]
            return functools.reduce(_FUNCTIONS[op], parts)

    def _check_group(self) -> None:
        if not self._nccl.depth:
            raise FakeError("NCCL would hang: outside a group, each waits for the other's call")


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
    """The two sides of a call. They may overlap only where `send` is `in_place`."""
    source, target = _array(send, sent, datatype), _array(receive, received, datatype)
    if np.may_share_memory(source, target) and send != in_place:
        raise FakeError("NCCL would write over what it reads")
    return source, target


def _check_operation(op: int, datatype: int) -> None:
    if not 0 <= op <= _AVG or (op == _AVG and _DTYPES[datatype].kind in "iu"):
        raise FakeError(_INVALID)
