"""The interface of a transport of tensors between the ranks of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    Request,
)

Transfer = Callable[..., Any]
"""A prepared request: `transfer(send, receive, *where)` between two addresses."""


class Shortcut(Protocol):
    """Carries some of a transport's requests faster, the same ones on all ranks."""

    def carries(self, request: Request) -> bool:
        """Return whether it carries a request; then no rank is done before all have begun."""

    def transfer(self, request: Request) -> Transfer:
        """Return the transfer of such a request."""


class Transport(ABC):
    """Carries requests between memory of one kind.

    Each of the five methods prepares a request once (local) and returns its transfer, which can be
    repeated (collective): `transfer(send, receive, *where)`, where `send` and `receive` are the
    addresses of this rank's input and output. The transfer includes the division of an Average.

    Attributes
    ----------
    name : in messages.
    returns_early : whether a transfer returns before it is done.
    """

    name: str
    returns_early = False

    @abstractmethod
    def carries(self, request: Request) -> bool:
        """Return whether it supports the element type and the reduction."""

    def prepare(self, request: Request) -> Transfer:
        """Return the transfer of a request."""
        match request:
            case Allreduce():
                return self.allreduce(request)
            case Broadcast():
                return self.broadcast(request)
            case Allgather():
                return self.allgather(request)
            case Reducescatter():
                return self.reducescatter(request)
            case Alltoall():
                return self.alltoall(request)
        raise TypeError(f"no collective: {request!r}")

    @abstractmethod
    def allreduce(self, request: Allreduce) -> Transfer:
        """Prepare y = x_0 ∘ x_1 ∘ … on every rank."""

    @abstractmethod
    def broadcast(self, request: Broadcast) -> Transfer:
        """Prepare y = x_root on every rank."""

    @abstractmethod
    def allgather(self, request: Allgather) -> Transfer:
        """Prepare y = (x_0; x_1; …) on every rank."""

    @abstractmethod
    def reducescatter(self, request: Reducescatter) -> Transfer:
        """Prepare y = this rank's rows of x_0 ∘ x_1 ∘ …"""

    @abstractmethod
    def alltoall(self, request: Alltoall) -> Transfer:
        """Prepare y = the parts of all x for this rank."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every rank has reached this call (collective)."""
