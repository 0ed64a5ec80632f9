"""Where collectives are run from: the ways there are, and programs made of collectives.

The checks and measurements know this interface only. `AddressArena` is complete in itself: it
calls the transport on plain addresses. The arenas of JAX and TensorFlow add their ways to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu.device import Device
from gpu.probe import Probe
from sciml_par.parallel.requests.reduce_op import Min
from sciml_par.parallel.requests.request import Allreduce, Request, Transfer
from sciml_par.parallel.transports.transport import Transport

ADDRESSES, EAGER, GRAPH, COMPILED = "addresses", "eager", "graph", "compiled"

Once = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""Carries out several requests, one on each array."""


class Program(ABC):
    """Some collectives that are started together."""

    @abstractmethod
    def load(self, x: np.ndarray) -> None:
        """Bring the input to where it is needed, and wait."""

    @abstractmethod
    def start(self) -> None:
        """Have it all done; returns as early as this way of running does."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until it is done."""

    @abstractmethod
    def result(self) -> np.ndarray:
        """The output, as the host sees it."""


class AddressArena:
    """The transport alone, on addresses.

    Parameters
    ----------
    transport : NCCLCommunicator, or MPICommunicator in the rehearsal. It is watched from here on.
    stream : of the transport; None where there are no streams.

    Attributes
    ----------
    name : what else takes part.
    ways : how this arena can run collectives.
    computing : those ways in which computations can stand between them.
    asynchronous : those ways in which the host need not wait, by design.
    """

    name = "CuPy"
    ways: tuple[str, ...] = (ADDRESSES,)
    computing: tuple[str, ...] = ()
    asynchronous: tuple[str, ...] = (ADDRESSES,)

    def __init__(self, transport: Any, device: Device, stream: int | None) -> None:
        self.rank: int = transport.rank
        self.size: int = transport.size
        self.device = device
        self.stream = stream
        self.probe = Probe(device)
        self.transport: Transport = self.probe.watch(transport)

    def carries(self, way: str, request: Request) -> bool:
        """Whether it can be carried in this way, by whatever transport."""
        return self.transport.carries(request)

    def once(self, way: str, requests: Sequence[Request]) -> Once:
        """A function that carries out each request on its array, in this order."""
        assert way == ADDRESSES
        transfers = [request.prepared_by(self.transport) for request in requests]

        def run(xs: Sequence[np.ndarray]) -> list[np.ndarray]:
            each = zip(transfers, requests, xs, strict=True)
            return [self._carried(transfer, request, x) for transfer, request, x in each]

        return run

    def loop(
        self,
        way: str,
        requests: Sequence[Request],
        steps: int,
        *,
        computes: bool = False,
        unrolled: bool = False,
    ) -> Program:
        """`steps` times the requests in a row, each taking the result of the one before.

        Parameters
        ----------
        computes : do `cases.stepped` before each; only in the ways of `computing`.
        unrolled : without a loop in the program, where it is compiled.
        """
        assert way == ADDRESSES and not computes and len(requests) == 1
        return _AddressProgram(self, requests[0], steps)

    def meet(self) -> None:
        """Wait for all ranks (collective)."""
        self.transport.barrier()

    def all(self, flag: bool) -> bool:
        """Whether all ranks say yes (collective)."""
        if self.size == 1:
            return flag
        request = Allreduce("int32", (1,), Min)
        return bool(self.once(ADDRESSES, [request])([np.array([flag], np.int32)])[0][0])

    def finish(self) -> None:
        """Wait for everything (local)."""
        self.device.synchronize()

    def where(self) -> tuple[int, ...]:
        """What a transfer takes beside the addresses."""
        return () if self.stream is None else (self.stream,)

    def _carried(self, transfer: Transfer, request: Request, x: np.ndarray) -> np.ndarray:
        out = np.empty(request.receive_shape, request.element.numpy)
        send, receive = self.device.allocate(x.nbytes), self.device.allocate(out.nbytes)
        try:
            self.device.put(send, np.ascontiguousarray(x))
            transfer(send, receive, *self.where())
            self.device.synchronize()
            self.device.get(out, receive)
        finally:
            self.device.release(send)
            self.device.release(receive)
        return out


class _AddressProgram(Program):
    """The same transfer again and again, always from one place to another."""

    def __init__(self, arena: AddressArena, request: Request, steps: int) -> None:
        self._arena = arena
        self._request = request
        self._transfer = request.prepared_by(arena.transport)
        self._steps = steps
        nbytes = request.count * request.element.size
        self._send = arena.device.allocate(nbytes)
        self._receive = arena.device.allocate(nbytes)

    def __del__(self) -> None:
        self._arena.device.release(self._send)
        self._arena.device.release(self._receive)

    def load(self, x: np.ndarray) -> None:
        self._arena.device.put(self._send, x)

    def start(self) -> None:
        transfer, send, receive = self._transfer, self._send, self._receive
        where = self._arena.where()
        for _ in range(self._steps):
            transfer(send, receive, *where)

    def wait(self) -> None:
        self._arena.device.synchronize()

    def result(self) -> np.ndarray:
        self.wait()
        out = np.empty(self._request.receive_shape, self._request.element.numpy)
        self._arena.device.get(out, self._receive)
        return out
