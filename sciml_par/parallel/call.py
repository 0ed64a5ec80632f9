"""One place in a program where a collective stands, and its execution."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.parallel.ask import Ask, Kind
from sciml_par.parallel.request import Request, Shape

if TYPE_CHECKING:
    from sciml_par.parallel.carrier import Carrier
    from sciml_par.parallel.communicator import Communicator


class Call:
    """A request in the hands of a carrier.

    The first execution agrees with the other ranks on the signature; later ones only transfer.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        carrier: Carrier,
        *,
        agreed: bool = False,
    ) -> None:
        self._communicator = communicator
        self.request = request
        self.signature = replace(request.signature, by=carrier.name)
        self._transfer = request.prepared_by(carrier)
        self._returns_early = carrier.returns_early
        self._bytes = request.count * request.element.size
        self._agreed = agreed
        self._agreed_at = 0
        self._joins = communicator.joins
        self._asks = {agreeing: self._ask(agreeing) for agreeing in (True, False)}

    def execute(self, send: int, receive: int, *where: Any) -> None:
        """Carry it out (collective).

        Parameters
        ----------
        send, receive : addresses of the input and of the output; the same twice means in place.
        where : what else the carrier needs to know: NCCL, the stream.
        """
        communicator = self._communicator
        recorder = communicator.recorder
        begun = 0 if recorder is None else recorder.now()
        if self._joins != communicator.joins:
            self._look_back()
        first = not self._agreed
        communicator.begin(self._asks[first])
        try:
            if first:
                communicator.agree(self.signature)
                self._agreed = not communicator.check_always
                self._agreed_at = communicator.sequence
            if self._returns_early:
                communicator.enqueued = communicator.sequence
            self._transfer(send, receive, *where)
        finally:
            communicator.pending = None
        if recorder is not None:
            recorder.note(
                communicator, self.signature, begun, self._bytes, first, self._returns_early
            )

    def _look_back(self) -> None:
        """Forget an agreement that a rank in `join` took part in: it was at no place of its own."""
        self._joins = self._communicator.joins
        if any(first < self._agreed_at <= last for first, last in self._communicator.joined_spans):
            self._agreed = False

    def _ask(self, agreeing: bool) -> Ask:
        return Ask(Kind.TRANSFER, self.signature, self.request, agreeing)


class Site:
    """Where a collective stands in a program: what it asks for, and its call by each carrier.

    Parameters
    ----------
    agreed : whether the ranks have compared their requests already.
    """

    def __init__(
        self, communicator: Communicator, request: Request, *, agreed: bool = False
    ) -> None:
        self._agreed = agreed
        self.communicator = communicator
        self.request = request
        self._calls: dict[str, Call] = {}

    def by(self, carrier: Carrier) -> Call:
        """The call that `carrier` executes."""
        call = self._calls.get(carrier.name)
        if call is None:
            call = self._calls[carrier.name] = Call(
                self.communicator, self.request, carrier, agreed=self._agreed
            )
        return call

    @cached_property
    def result(self) -> tuple[Shape, np.dtype[Any], int]:
        """The result's shape, its type for NumPy, and its bytes."""
        shape, element = self.request.receive_shape, self.request.element
        return shape, element.numpy, math.prod(shape) * element.size

    @cached_property
    def receive_shape(self) -> Any:
        """The result's shape as a tensor in host memory, which is slow to make."""
        with tf.init_scope(), tf.device("/CPU:0"):
            shape = self.request.receive_shape
            return tf.constant(shape, tf.int32, shape=[len(shape)])  # [0] for a scalar's
