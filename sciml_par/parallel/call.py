"""One place in a program where a collective stands, and its execution."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sciml_par._tensorflow import tf
from sciml_par.parallel.request import Request

if TYPE_CHECKING:
    from sciml_par.parallel.carrier import Carrier
    from sciml_par.parallel.communicator import Communicator


class Call:
    """A request in the hands of a carrier.

    The first execution agrees with the other ranks on the signature; later ones only transfer.
    """

    def __init__(self, communicator: Communicator, request: Request, carrier: Carrier) -> None:
        self._communicator = communicator
        self.request = request
        self.signature = replace(request.signature, by=carrier.name)
        self._transfer = request.prepared_by(carrier)
        self._returns_early = carrier.returns_early
        self._agreed = False

    def execute(self, send: int, receive: int, *where: Any) -> None:
        """Carry it out (collective).

        Parameters
        ----------
        send, receive : addresses of the input and of the output; the same twice means in place.
        where : what else the carrier needs to know: NCCL, the stream.
        """
        communicator = self._communicator
        # The watchdog reads these two: a number that stands still with a wish pending is a stall.
        communicator.sequence += 1
        communicator.pending = self.signature
        try:
            if not self._agreed:
                communicator.agree(self.signature)
                self._agreed = not communicator.check_always
            if self._returns_early:
                communicator.enqueued = communicator.sequence
            self._transfer(send, receive, *where)
        finally:
            communicator.pending = None


class Site:
    """Where a collective stands in a program: what it asks for, and its call by each carrier."""

    def __init__(self, communicator: Communicator, request: Request) -> None:
        self.communicator = communicator
        self.request = request
        self._calls: dict[str, Call] = {}

    def by(self, carrier: Carrier) -> Call:
        """The call that `carrier` executes."""
        call = self._calls.get(carrier.name)
        if call is None:
            call = self._calls[carrier.name] = Call(self.communicator, self.request, carrier)
        return call

    @cached_property
    def receive_bytes(self) -> int:
        """How long the result is."""
        return math.prod(self.request.receive_shape) * self.request.element.size

    @cached_property
    def receive_shape(self) -> Any:
        """The result's shape as a tensor in host memory, which is slow to make."""
        with tf.init_scope(), tf.device("/CPU:0"):
            shape = self.request.receive_shape
            return tf.constant(shape, tf.int32, shape=[len(shape)])  # [0] for a scalar's
