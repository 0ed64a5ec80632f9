"""A call site of a collective, and its execution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import CollectiveMismatchError, TransferError
from sciml_par.parallel.native.host_group import DifferentRequestError, SharedTransfer
from sciml_par.parallel.requests.request import (
    Allreduce,
    Announcement,
    Kind,
    Reducescatter,
    Request,
)
from sciml_par.parallel.requests.signature import IN_INPUT_PIPELINE
from sciml_par.parallel.tensors.buffer_pool import result_memory

if TYPE_CHECKING:
    from sciml_par.parallel.groups.communicator import Communicator
    from sciml_par.parallel.transports.transport import Transport


_LONG_BYTES = 1 << 20

_MOST_ENQUEUED = 512
"""After how many collectives the ranks meet although GPUs carry them, so that `join` can tell a
late rank all that it has missed. Less than `Progress.history` holds."""


class PreparedCall:
    """A request that a transport carries out."""

    def __init__(self, communicator: Communicator, request: Request, transport: Transport) -> None:
        self._communicator = communicator
        self.request = request
        self.signature = replace(request.signature, transport=transport.name)
        transfer = transport.prepare(request)
        self.shared = transfer if isinstance(transfer, SharedTransfer) else None
        self._transfer = transfer
        self._returns_early = transport.returns_early
        self._progress = communicator.progress
        self._bytes = request.count * request.element.size
        # MPI would abort if long ones differed in length, and a comparison takes a small share.
        same_everywhere = isinstance(request, Allreduce | Reducescatter)
        is_long = same_everywhere and self._bytes > _LONG_BYTES
        # In an input pipeline, its place in the order may vary.
        self._is_compared_always = (request.name or "").endswith(IN_INPUT_PIPELINE) or (
            self.shared is None
            and (not request.is_meeting or (is_long and not transport.returns_early))
        )
        self.announcement = Announcement(Kind.TRANSFER, self.signature, request)
        self._ledger = communicator.progress.ledger
        self._agreed_in = -1  # the generation of the ledger in which the signature was found

    def execute(self, *where: Any) -> None:
        """Carry out the request (collective)."""
        self._progress.begin(self.announcement)
        self._carry(where)

    def resume(self, *where: Any) -> None:
        """Carry out what machine code has begun, and notify the observers (collective)."""
        self._progress.resume(self.announcement)
        self._carry(where)

    def fail(self, *_: Any) -> None:
        """Raise the error that machine code has met (collective where the ranks differ)."""
        assert self.shared is not None
        try:
            self.shared.fail()
        except DifferentRequestError:
            raise self._difference() from None

    def _carry(self, where: tuple[Any, ...]) -> None:
        progress = self._progress
        try:
            meets = self._returns_early and progress.sequence % _MOST_ENQUEUED == 0
            new = meets or self._agreed_in != self._ledger.generation
            if new:
                new = self._agree(meets)
            if self._returns_early:
                progress.enqueued = progress.sequence
            self._transfer(*where)
        except DifferentRequestError:
            raise self._difference() from None
        except RuntimeError as error:
            if type(error).__module__.startswith("mpi4py"):
                raise TransferError(
                    f"MPI could not carry {self.signature} of «{self._communicator.name}»: "
                    f"{error}. Run with SCIML_PAR_CHECK=always, which compares what the ranks ask "
                    f"for at every call."
                ) from error
            raise
        finally:
            progress.end()
        if progress.observers:
            progress.tell_ended(self.signature, self._bytes, new, self._returns_early)

    def _difference(self) -> Exception:
        """Return an error with each rank's request, where all have seen a difference."""
        try:
            self._communicator.agree(self.signature, expected=True)
        except CollectiveMismatchError as error:
            return error
        return TransferError(
            f"The ranks of «{self._communicator.name}» asked for {self.signature} with different "
            f"numbers of elements."
        )

    def _agree(self, always: bool) -> bool:
        """Compare the signature, unless the ranks have agreed on it; return whether they did."""
        always = always or self._communicator.check_always or self._is_compared_always
        digest = self.signature.digest
        new = always or digest not in self._ledger
        if new:
            self._communicator.agree(self.signature)
            self._ledger.add(digest)
        if not always:
            self._agreed_in = self._ledger.generation
            if self.shared is not None:
                self.shared.agreed_in(self._agreed_in)
        return new


class CallSite:
    """A call site: what a collective asks for, and how each transport carries it out."""

    def __init__(self, communicator: Communicator, request: Request) -> None:
        self.communicator = communicator
        self.request = request
        self._prepared: dict[str, PreparedCall] = {}

    def prepared(self, transport: Transport) -> PreparedCall:
        """Return the call that `transport` executes."""
        call = self._prepared.get(transport.name)
        if call is None:
            call = self._prepared[transport.name] = PreparedCall(
                self.communicator, self.request, transport
            )
        return call

    @cached_property
    def carry(self) -> Callable[[int], np.ndarray]:
        """A function of an address in host memory, which returns the result (collective)."""
        call, memory = self.prepared(self.communicator.mpi_transport), result_memory().array
        shape, dtype, nbytes = self.request.receive_shape, self.request.element.numpy, self.nbytes

        def carry(address: int) -> np.ndarray:
            result, target = memory(shape, dtype, nbytes)
            call.execute(address, target)
            return result

        return carry

    @property
    def nbytes(self) -> int:
        """The bytes of the result."""
        return math.prod(self.request.receive_shape) * self.request.element.size

    @cached_property
    def receive_shape(self) -> Any:
        """Return the result's shape as a tensor in host memory, which is slow to make."""
        with tf.init_scope(), tf.device("/CPU:0"):
            shape = self.request.receive_shape
            return tf.constant(shape, tf.int32, shape=[len(shape)])  # [0] for a scalar's
