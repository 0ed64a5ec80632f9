"""One test run on all ranks: every rank runs every test, rank 0 reports, and all fail together.

`python -m pytest` runs on one rank, `mpirun -np 3 python -m pytest tests/parallel` on three.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Generator

import pytest

import sciml_par
from sciml_par.parallel import current_world
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.supervision import end_job, error_report, watchdog
from sciml_par.programs.launcher_environment import launched_rank

_GRACE_SECONDS = 15.0
"""How long a rank on which a test has failed waits for the others to finish that test."""

_SECONDS_TO_LAUNCH = 3600
"""For a test that starts programs, each of which has a limit of its own; see launch.py."""

_COMMUNICATOR = pytest.StashKey[Communicator]()
_collection_errors: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("SCIML_PAR_STALL_LIMIT", "60")
    sciml_par.init()
    # A test may take the world away; the ranks go on to meet here.
    config.stash[_COMMUNICATOR] = current_world().communicator
    # What ends the job is said past pytest's capture, which would take it along.
    terminal = os.dup(2)
    for module in (end_job, error_report, watchdog):
        module.write_error = functools.partial(_tell, terminal)
    if sciml_par.rank() > 0:
        # pytest makes its reporter after this, on what it finds here.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check that all ranks are about to run the same tests."""
    for item in items:
        if item.get_closest_marker("launches"):
            item.add_marker(pytest.mark.timeout(_SECONDS_TO_LAUNCH))
    names = [item.nodeid for item in items]
    everyone = config.stash[_COMMUNICATOR].allgather_object((names, _collection_errors))
    for rank, (theirs, errors) in enumerate(everyone):
        if theirs != everyone[0][0] or bool(errors) != bool(everyone[0][1]):
            problem = "\n".join(errors) or f"{len(theirs)} tests, rank 0: {len(everyone[0][0])}"
            pytest.exit(f"rank {rank} collected other tests than rank 0: {problem}", returncode=3)
    # What a launcher leaves in the environment would confuse an MPI program started from here.
    if sciml_par.size() > 1 or launched_rank(os.environ) is not None:
        skip = pytest.mark.skip(reason="starts processes of its own: serial run only")
        for item in items:
            if item.get_closest_marker("launches"):
                item.add_marker(skip)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _collection_errors.append(str(report.longrepr))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Agree on the outcome of every phase of a test, so that the ranks stay in step."""
    report = yield
    mine = (report.outcome, str(report.longrepr or ""))
    communicator = item.config.stash[_COMMUNICATOR]
    everyone = _outcomes(communicator, f"{item.nodeid} ({report.when})", mine)
    if len({outcome for outcome, _ in everyone}) > 1:
        texts = [
            f"rank {rank} of {len(everyone)} {outcome}:\n{text}"
            for rank, (outcome, text) in enumerate(everyone)
            if outcome != "passed"
        ]
        report.outcome = "failed"
        report.longrepr = "\n\n".join(texts)
    return report


def _outcomes(
    communicator: Communicator, where: str, mine: tuple[str, str]
) -> list[tuple[str, str]]:
    """Every rank's outcome and error text; a failed rank does not wait for ever (collective)."""
    arrived = communicator.control.Ibarrier()
    deadline = time.monotonic() + _GRACE_SECONDS
    while not arrived.Test():
        if mine[0] == "failed" and time.monotonic() > deadline:
            end_job.JobEnd(communicator).with_message(
                f"rank {communicator.rank} failed in {where}; others hang in it.\n{mine[1]}"
            )
        time.sleep(0.0005)
    return communicator.control.allgather(mine)


def _tell(terminal: int, message: str) -> None:
    os.write(terminal, f"sciml_par: {message}\n".encode())
