"""The interface of a transport of tensors between the ranks of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sciml_par.parallel.requests.request import Request

Transfer = Callable[..., Any]
"""A prepared request: `transfer(send, receive, *where)` between two addresses."""


class Transport:
    """Carries requests between memory of one kind.

    The method with the name of a request's kind prepares it once (local) and returns its transfer,
    which can be repeated (collective): `transfer(send, receive, *where)` between the addresses of
    this rank's input and output. The transfer includes the division of an Average. The request has
    complex numbers as two reals each, but in a product.

    Attributes
    ----------
    name : in messages.
    returns_early : whether a transfer returns before it is done.
    """

    name: str
    returns_early = False

    def prepare(self, request: Request) -> Transfer:
        """Return the transfer of a request."""
        transfer: Transfer = getattr(self, request.kind)(request.in_reals)
        return transfer
