"""Fixtures for tests of collectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sciml_par.parallel as sp
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


@pytest.fixture(scope="session")
def all_with_fakes() -> tuple[Any, Any]:
    """Return all ranks as a group with GPUs that are fakes, and its NCCL (collective)."""
    from transports import with_fake_gpus

    return with_fake_gpus(sp.current_world().communicator.mpi)[:2]


@pytest.fixture
def fakes(all_with_fakes: tuple[Any, Any]) -> Any:
    """Return that group, which has agreed on nothing yet."""
    group, _ = all_with_fakes
    group.call_sites.clear()
    group.progress.ledger.clear()
    return group


@pytest.fixture(scope="session")
def group(request: pytest.FixtureRequest) -> sp.Communicator:
    """Return all ranks as a group by one of `transports.TRANSPORTS`, or the world (collective)."""
    from transports import group_by

    return group_by(request.param, request.config)


@pytest.fixture
def carried(group: sp.Communicator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return by what each collective of this rank was carried by the group, in order."""
    from real_gpus import fill_results_before
    from transports import transports_from_now_on

    if group.nccl_transport is not None:
        fill_results_before(monkeypatch, group.nccl_transport)
    return transports_from_now_on(monkeypatch)


@pytest.fixture
def by_mpi() -> Iterator[sp.Communicator]:
    """Return all ranks as a group whose collectives all travel by MPI (collective)."""
    from ranks import group_without_shared_memory

    group = group_without_shared_memory()
    assert group.shared is None
    yield group
    group.free()
