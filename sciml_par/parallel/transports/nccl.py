"""Collectives between GPU memory, by NCCL, enqueued on a stream."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    Request,
)
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.transports.cupy_binding import BindingError, Gpu, Link, Nccl
from sciml_par.parallel.transports.transport import Transfer, Transport

_POLL_SECONDS = 0.01
CUDA_MEMORY = 2
"""DLPack's number for the memory of a CUDA GPU."""


class NCCLTransport(Transport):
    """Carries the element types of NCCL, bfloat16 among them, without touching the host.

    Complex numbers travel as two real ones each, but for their product. NCCL counts elements in 64
    bits, so that a tensor of any length is one call.

    A transfer is `transfer(send, receive, stream)`. It returns when the work is enqueued; read the
    result on the same stream, or after `Gpu.synchronize`. Sums of 16-bit types are rounded to 16
    bits on the way.

    Attributes
    ----------
    stream : for tensors outside compiled programs.
    memory : DLPack's number for the memory that it reads and writes.
    """

    name = "NCCL"
    returns_early = True
    memory = CUDA_MEMORY

    def __init__(self, nccl: Nccl, gpu: Gpu, link: Link, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.gpu = gpu
        self.stream = gpu.new_stream()
        self._nccl = nccl
        self._link = link
        self._mark = gpu.new_event()
        self._last: Signature | None = None
        self._aborted = False

    @classmethod
    def connect(
        cls, nccl: Nccl, gpu: Gpu, rank: int, size: int, share: Callable[[bytes], bytes]
    ) -> NCCLTransport:
        """Join `size` ranks (collective)."""
        shared_id = share(nccl.new_id() if rank == 0 else b"")
        return cls(nccl, gpu, nccl.connect(size, shared_id, rank), rank, size)

    def split(self, color: int, rank: int, size: int) -> NCCLTransport:
        """Return the transport of the ranks with the same color (collective)."""
        self.finish()  # NCCL may hang where it is split at work
        link = self._link.split(color, rank)
        return type(self)(self._nccl, self.gpu, link, rank, size)

    def carries(self, request: Request) -> bool:
        """Return whether NCCL has the element type."""
        return self._nccl.datatype(request.in_reals.element) is not None

    def prepare(self, request: Request) -> Transfer:
        enqueue = super().prepare(request)
        signature = replace(request.signature, transport=self.name)

        def transfer(send: int, receive: int, stream: int) -> None:
            try:
                enqueue(send, receive, stream)
            except Exception as error:
                raise BindingError(
                    f"NCCL refused {signature} on rank {self.rank}: {error}. NCCL_DEBUG=INFO lets "
                    f"it say more."
                ) from error
            # A mark behind it, by which the watchdog sees its end.
            self._last = signature
            self.gpu.record(self._mark, stream)

        return transfer

    def allreduce(self, request: Allreduce) -> Transfer:
        what = request.count, self._datatype(request), self._nccl.operation(request.op)
        return lambda send, receive, stream: self._link.allreduce(send, receive, *what, stream)

    def broadcast(self, request: Broadcast) -> Transfer:
        what = request.count, self._datatype(request), request.root
        return lambda send, receive, stream: self._link.broadcast(send, receive, *what, stream)

    def allgather(self, request: Allgather) -> Transfer:
        datatype, counts = self._datatype(request), request.elements(request.rows)
        if len(set(counts)) == 1:
            what = counts[0], datatype
            return lambda send, receive, stream: self._link.allgather(send, receive, *what, stream)
        parts = _parts(counts, request.element.size)

        def broadcast_each(send: int, receive: int, stream: int) -> None:
            with self._link.group():
                for root, count, offset in parts:
                    # Only the root's input is read, and elsewhere it is too short.
                    source = send if root == self.rank else receive + offset
                    self._link.broadcast(source, receive + offset, count, datatype, root, stream)

        return broadcast_each

    def reducescatter(self, request: Reducescatter) -> Transfer:
        datatype, op = self._datatype(request), self._nccl.operation(request.op)
        counts = request.elements(request.rows)
        if len(set(counts)) == 1:
            what = counts[0], datatype, op
            return lambda send, to, stream: self._link.reducescatter(send, to, *what, stream)
        parts = _parts(counts, request.element.size)

        def reduce_each(send: int, receive: int, stream: int) -> None:
            with self._link.group():
                for root, count, offset in parts:
                    self._link.reduce(send + offset, receive, count, datatype, op, root, stream)

        return reduce_each

    def alltoall(self, request: Alltoall) -> Transfer:
        datatype, size = self._datatype(request), request.element.size
        sent = _parts(request.elements(request.sent), size)
        received = _parts(request.elements(request.received), size)

        def exchange(send: int, receive: int, stream: int) -> None:
            with self._link.group():
                for peer, count, offset in sent:
                    self._link.send(send + offset, count, datatype, peer, stream)
                for peer, count, offset in received:
                    self._link.receive(receive + offset, count, datatype, peer, stream)

        return exchange

    def in_flight(self) -> Signature | None:
        """Return the last enqueued collective, if it is not done (for the watchdog)."""
        # Read first: one that is enqueued in between is then reported at the next look.
        last = self._last
        if last is None or self._aborted:
            return None
        try:
            return None if self.gpu.has_passed(self._mark) else last
        except BindingError:
            return last

    def error(self) -> str | None:
        """Return the error of CUDA or NCCL in enqueued work, or None.

        After `abort` it is None, since the abort is an error to NCCL.
        """
        if self._aborted:
            return None
        try:
            self.gpu.has_passed(self._mark)
        except BindingError as error:
            return str(error).removesuffix(".")
        return self._link.error()

    def finish(self) -> None:
        """Wait for the end of all enqueued work, or for an error."""
        while self.in_flight() is not None and self.error() is None:
            time.sleep(_POLL_SECONDS)

    def wait(self) -> None:
        """Wait until all enqueued work of its stream is done; forever, if it was aborted.

        What was aborted counts as done, with wrong numbers. They must reach no thread, since any
        thread may print or save them before the process ends.
        """
        self.gpu.synchronize(self.stream)
        if self._aborted:
            threading.Event().wait()

    def abort(self) -> None:
        """End the communicator at once; it cannot be used again.

        Unlike ncclCommDestroy, this does not wait for other ranks, which may be gone.
        """
        if not self._aborted:  # two threads may want to end it
            self._aborted = True
            self._link.abort()

    def _datatype(self, request: Request) -> int:
        datatype = self._nccl.datatype(request.element)
        assert datatype is not None, f"NCCL does not carry {request.dtype}"
        return datatype


def _parts(counts: Sequence[int], element_size: int) -> list[tuple[int, int, int]]:
    """Return (rank, elements, offset in bytes) of each part that is not empty."""
    ends = itertools.accumulate(n * element_size for n in counts)
    return [
        (r, n, end - n * element_size)
        for r, (n, end) in enumerate(zip(counts, ends, strict=True))
        if n
    ]
