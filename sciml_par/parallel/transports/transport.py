"""The contract of whatever carries tensors between the ranks of a group."""

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
"""What a transport makes of a request: `transfer(send, receive, *where)` between two addresses."""


class Shortcut(Protocol):
    """Carries some of a transport's requests faster; which ones, is the same on all ranks."""

    def carries(self, request: Request) -> bool:
        """Return whether a request takes it, in which no rank is done before all have begun."""

    def transfer(self, request: Request) -> Transfer:
        """Return what carries out such a request."""


class Transport(ABC):
    """Carries requests between memory of one kind.

    Each of the five methods prepares a request once (without communication) and returns
    what carries it out as often as wanted (collective): `transfer(send, receive, *where)`, where
    `send` and `receive` are addresses of this rank's input and output. Averages are divided, and
    what the transport's arithmetic does not have, it makes up for itself.

    Attributes
    ----------
    name : as messages call it.
    returns_early : whether a transfer returns before it is done.
    """

    name: str
    returns_early = False

    @abstractmethod
    def carries(self, request: Request) -> bool:
        """Return whether the element type and the arithmetic are among its own."""

    def prepare(self, request: Request) -> Transfer:
        """What carries out a request."""
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
        """y = x_0 ∘ x_1 ∘ … on every rank."""

    @abstractmethod
    def broadcast(self, request: Broadcast) -> Transfer:
        """y = x_root on every rank."""

    @abstractmethod
    def allgather(self, request: Allgather) -> Transfer:
        """y = (x_0; x_1; …) on every rank."""

    @abstractmethod
    def reducescatter(self, request: Reducescatter) -> Transfer:
        """y = rows of x_0 ∘ x_1 ∘ …, others on each rank."""

    @abstractmethod
    def alltoall(self, request: Alltoall) -> Transfer:
        """y = the parts of all x that are meant for this rank."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every rank has come here (collective)."""
