"""What tests of collectives observe."""

from __future__ import annotations

import pytest

from sciml_par.parallel.groups.call_site import PreparedCall
from sciml_par.parallel.requests.request import Request


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Return a list that grows by the request of each transfer that Python makes on this rank."""
    made: list[Request] = []
    execute = PreparedCall.execute

    def noting(self: PreparedCall, *addresses: int) -> None:
        made.append(self.request)
        execute(self, *addresses)

    monkeypatch.setattr(PreparedCall, "execute", noting)
    return made
