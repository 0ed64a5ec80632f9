"""Fakes of the two modules of CuPy that sciml_par uses, for machines without a GPU.

`FakeRuntime` stands for `cupy.cuda.runtime`, `FakeNccl` for `cupy.cuda.nccl`. "GPU memory" is the
host's, and what NCCL does between GPUs is done by MPI between the ranks of the test run.

As on a GPU, a call only puts work on a stream. The work is done when somebody waits for the
stream, or after the mark behind it was looked at `looks_until_done` times: so what reads a result
too early reads what was there before. Every call is recorded in `calls` as (name, arguments).

The fakes refuse what NCCL forbids, or would answer with wrong numbers or with waiting for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_cuda_runtime import FakeError, FakeRuntime, Recorder, Work
from fake_transfers import (
    AVG,
    DTYPES,
    Elements,
    Operation,
    agree,
    do,
    everyones,
    give,
    reduced,
    take,
)
from mpi4py import MPI

from sciml_par.parallel.transports.cupy_binding import Gpu, Nccl
from sciml_par.parallel.transports.nccl import NCCLTransport

_INVALID = "NCCL_ERROR_INVALID_ARGUMENT: invalid argument"


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
        self._group: list[tuple[FakeNcclCommunicator, int, Operation]] = []

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
                self._enqueue(stream, [(c, operation) for c, s, operation in group if s == stream])

    def add(self, owner: FakeNcclCommunicator, stream: int, operation: Operation) -> None:
        """Put an operation on a stream, at once or at the end of the group; not CuPy's."""
        if self.depth:
            self._group.append((owner, stream, operation))
        else:
            self._enqueue(stream, [(owner, operation)])

    def _enqueue(
        self, stream: int, operations: list[tuple[FakeNcclCommunicator, Operation]]
    ) -> None:
        def work() -> None:
            do([operation for _, operation in operations])
            for owner, _ in operations:
                owner.at_work -= 1

        self.runtime.enqueue(stream, work)
        for owner, _ in operations:
            owner.at_work += 1


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
        source, target = _elements(sendbuf, recvbuf, count, count, datatype, in_place=recvbuf)
        _check_operation(op, datatype)

        def work() -> None:
            target.array[:] = reduced(everyones(self._mpi, source), op)

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
        writes = count if self._mpi.rank == root else 0
        source, target = _elements(sendbuf, recvbuf, count, writes, datatype, in_place=recvbuf)
        _check_operation(op, datatype)
        self._check_rank(root)

        def work() -> None:
            result = reduced(everyones(self._mpi, source), op)
            target.array[:] = result[: target.count]

        self._collective(stream, work, "reduce", count, datatype, op, root)

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None:
        self._record("broadcast", sendbuff, recvbuff, count, datatype, root, stream)
        reads = count if self._mpi.rank == root else 0
        source, target = _elements(sendbuff, recvbuff, reads, count, datatype, in_place=recvbuff)
        self._check_rank(root)

        def work() -> None:
            whole = source.bytes.copy() if reads else np.empty(target.nbytes, np.uint8)
            self._mpi.Bcast(whole, root)
            target.bytes[:] = whole

        self._collective(stream, work, "broadcast", count, datatype, root)

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None:
        self._record("allGather", sendbuf, recvbuf, count, datatype, stream)
        own = recvbuf + self._mpi.rank * Elements(sendbuf, count, datatype).nbytes
        whole = count * self._mpi.size
        source, target = _elements(sendbuf, recvbuf, count, whole, datatype, in_place=own)

        def work() -> None:
            target.array[:] = everyones(self._mpi, source).reshape(-1)

        self._collective(stream, work, "allGather", count, datatype)

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None:
        self._record("reduceScatter", sendbuf, recvbuf, recvcount, datatype, op, stream)
        before = self._mpi.rank * recvcount
        own = recvbuf - self._mpi.rank * Elements(recvbuf, recvcount, datatype).nbytes
        whole = recvcount * self._mpi.size
        source, target = _elements(sendbuf, recvbuf, whole, recvcount, datatype, in_place=own)
        _check_operation(op, datatype)

        def work() -> None:
            result = reduced(everyones(self._mpi, source), op)
            target.array[:] = result[before : before + recvcount]

        self._collective(stream, work, "reduceScatter", recvcount, datatype, op)

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._record("send", sendbuf, count, datatype, peer, stream)
        self._check_peer(peer)
        self._nccl.add(self, stream, give(self._mpi, Elements(sendbuf, count, datatype), peer))

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._record("recv", recvbuf, count, datatype, peer, stream)
        self._check_peer(peer)
        self._nccl.add(self, stream, take(self._mpi, Elements(recvbuf, count, datatype), peer))

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
        def begin() -> None:
            agree(self._mpi, str(asked))
            work()

        self._nccl.add(self, stream, Operation(begin))

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self._mpi.size:
            raise FakeError(_INVALID)

    def _check_peer(self, peer: int) -> None:
        self._check_rank(peer)
        if not self._nccl.depth:
            raise FakeError("NCCL would hang: outside a group, each waits for the other's call")


def _elements(
    send: int, receive: int, sent: int, received: int, datatype: int, *, in_place: int
) -> tuple[Elements, Elements]:
    """The two sides of a call. They may overlap only where `send` is `in_place`."""
    source, target = Elements(send, sent, datatype), Elements(receive, received, datatype)
    if source.overlap(target) and send != in_place:
        raise FakeError("NCCL would write over what it reads")
    return source, target


def _check_operation(op: int, datatype: int) -> None:
    integer = DTYPES[datatype].kind in "iu"
    if not 0 <= op <= AVG or (op == AVG and integer):
        raise FakeError(_INVALID)


def fake_nccl_communicator(mpi: MPI.Comm) -> tuple[NCCLTransport, FakeNccl, FakeRuntime]:
    """The real transport of the ranks of `mpi` over the fakes (collective)."""
    runtime = FakeRuntime()
    nccl = FakeNccl(mpi, runtime)
    transport = NCCLTransport.connect(Nccl(nccl), Gpu(runtime), mpi.rank, mpi.size, mpi.bcast)
    return transport, nccl, runtime
