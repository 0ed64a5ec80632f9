"""One test run on all ranks: all run the same tests, rank 0 reports, and all fail together.

`python -m pytest` runs on one rank, `mpirun -np 3 python -m pytest tests/parallel` on three.
"""

from __future__ import annotations

import collections
import functools
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import selection

import sciml_par
import sciml_par.parallel as sp
from sciml_par.parallel import current_world
from sciml_par.parallel.startup.launcher_environment import launched_rank
from sciml_par.parallel.supervision import end_job, error_report, watchdog

# Of the programs there, many solve problems that tests solve.
sys.path.append(str(Path(__file__).parents[1] / "examples"))

_GRACE_SECONDS = 60.0
"""How long a rank on which a test has failed waits for the others to finish that test. They may be
compiling on a machine that is busy."""

_OUTCOMES = ("passed", "skipped", "failed")

_SECONDS_TO_LAUNCH = 3600
"""For a test that starts programs, each of which has a limit of its own; see launch.py."""

_COMMUNICATOR = pytest.StashKey[sp.Communicator]()
_JOB_END = pytest.StashKey[end_job.JobEnd]()
_OUTCOMES_TRAVEL_BY = pytest.StashKey[Any]()  # a communicator of mpi4py
_collection_errors: list[str] = []
_cases: collections.Counter[Any] = collections.Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    selection.add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Below pytest's limit for a test, since this one says which rank is missing; above what a rank
    # that compiles on a busy machine keeps the others waiting.
    os.environ.setdefault("SCIML_PAR_STALL_LIMIT", "480")
    sciml_par.init()
    # A test may take the world away; the ranks go on to meet here.
    communicator = config.stash[_COMMUNICATOR] = current_world().communicator
    config.stash[_JOB_END] = current_world().job_end
    # What a rank says that has failed must not meet what a test on another one sends.
    config.stash[_OUTCOMES_TRAVEL_BY] = communicator.control.Dup()
    # What ends the job is said past pytest's capture, which would take it along.
    terminal = os.dup(2)
    for module in (end_job, error_report, watchdog):
        module.write_error = functools.partial(_tell, terminal)
    if sciml_par.rank() > 0:
        # pytest makes its reporter after this, on what it finds here.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def pytest_itemcollected(item: pytest.Item) -> None:
    """Add the marks of ``long_after(n)`` and ``all_after(n)``, and ``repeated``."""
    if selection.is_repeated(item):
        item.add_marker(pytest.mark.repeated)
    test = (item.path, getattr(item, "originalname", item.name))
    _cases[test] += 1
    for name, other in (("long_after", pytest.mark.long), ("all_after", pytest.mark.all)):
        mark = item.get_closest_marker(name)
        if mark is not None and _cases[test] > mark.args[0]:
            item.add_marker(other)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not for this number of ranks, and check that all run the same tests."""
    here = [item for item in items if selection.runs_here(item, sciml_par.size())]
    config.hook.pytest_deselected(items=sorted(set(items) - set(here), key=items.index))
    items[:] = here
    for item in items:
        if item.get_closest_marker("launches"):
            item.add_marker(pytest.mark.timeout(_SECONDS_TO_LAUNCH))
    _check_that_all_collected_the_same(config, items)
    # What a launcher leaves in the environment would confuse an MPI program started from here.
    if launched_rank(os.environ) is not None:
        skip = pytest.mark.skip(reason="starts processes of its own: not under a launcher")
        for item in items:
            if item.get_closest_marker("launches"):
                item.add_marker(skip)


def _check_that_all_collected_the_same(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = [item.nodeid for item in items]
    everyone = config.stash[_COMMUNICATOR].allgather_object((names, _collection_errors))
    for rank, (theirs, errors) in enumerate(everyone):
        if theirs != everyone[0][0] or bool(errors) != bool(everyone[0][1]):
            problem = "\n".join(errors) or f"{len(theirs)} tests, rank 0: {len(everyone[0][0])}"
            pytest.exit(f"rank {rank} collected other tests than rank 0: {problem}", returncode=3)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _collection_errors.append(str(report.longrepr))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Agree on the outcome of a test and of its teardown, so that the ranks stay in step.

    Ranks on which the setup failed, or skipped the test, meet the others at the end of the test.
    """
    report = yield
    if report.when == "setup" and report.passed:
        return report
    mine = (report.outcome, str(report.longrepr or ""))
    if _all_alike(item.config, f"{item.nodeid} ({report.when})", mine):
        return report
    everyone = item.config.stash[_OUTCOMES_TRAVEL_BY].allgather(mine)
    texts = [
        f"rank {rank} of {len(everyone)} {outcome}:\n{text}"
        for rank, (outcome, text) in enumerate(everyone)
        if outcome != "passed"
    ]
    report.outcome = "failed"
    report.longrepr = "\n\n".join(texts)
    return report


def _all_alike(config: pytest.Config, where: str, mine: tuple[str, str]) -> bool:
    """Return whether all ranks have the same outcome; a failed one stops waiting (collective)."""
    from mpi4py import MPI  # which starts MPI, what `init` is to do

    code = _OUTCOMES.index(mine[0])
    both, extremes = np.array([code, -code], np.int32), np.empty(2, np.int32)
    arrived = config.stash[_OUTCOMES_TRAVEL_BY].Iallreduce(both, extremes, MPI.MAX)
    began = time.monotonic()
    while not arrived.Test():
        waited = time.monotonic() - began
        if mine[0] == "failed" and waited > _GRACE_SECONDS:
            rank = config.stash[_COMMUNICATOR].rank
            config.stash[_JOB_END].with_message(
                f"rank {rank} failed in {where}; others hang in it.\n{mine[1]}"
            )
        # Most tests end on all ranks at almost the same time; the others need the cores.
        time.sleep(0 if waited < 0.001 else min(waited / 4, 0.01))
    return bool(extremes[0] == -extremes[1])


def _tell(terminal: int, message: str) -> None:
    os.write(terminal, f"sciml_par: {message}\n".encode())
