"""Ranks on two hosts: what they find, and how the job ends when a host is lost.

The hosts are network namespaces of this machine; see hosts.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from hosts import Hosts, two_hosts

pytestmark = [pytest.mark.launches, pytest.mark.timeout(900)]

FINDS = Path(__file__).with_name("several_hosts_program.py")
SECONDS = 300.0
"""How long ranks may take to begin on a slow and busy machine."""

SILENCE = 5.0
"""How long a host may be silent here."""

LOOP = """
import os, sys, time
from pathlib import Path
from mpi4py import MPI
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.supervision.end_job import JobEnd
from sciml_par.parallel.supervision.sentinel_client import start_sentinel

everyone = Communicator(MPI.COMM_WORLD)
by_host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
host = Communicator(by_host, name="host", world=everyone)
job_end = JobEnd(everyone)
end = lambda: job_end.with_code(1)
seconds = float(sys.argv[1])
job_end.sentinel = start_sentinel(everyone, host, os.environ, end, host_timeout=seconds)
os.write(1, f"rank {everyone.rank} {os.getpid()}\\n".encode())
ends = Path("end")
while not everyone.mpi.allreduce(ends.exists(), MPI.LOR):
    time.sleep(0.001)
job_end.sentinel.stop()
"""
"""Ranks that meet for ever, but for a file of this name; without TensorFlow, to begin at once."""


@pytest.fixture
def hosts(tmp_path):
    with two_hosts(tmp_path) as made:
        yield made


def test_what_ranks_on_two_hosts_find(hosts: Hosts, tmp_path: Path) -> None:
    hosts.start(FINDS).end(SECONDS).succeeded()
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(4)]
    assert [found["host"] for found in ranks] == ["hosta", "hosta", "hostb", "hostb"]
    places = [[rank, rank % 2, 2, rank // 2, 2] for rank in range(4)]
    assert [found["places"] for found in ranks] == places
    assert [found["gpu"] for found in ranks] == ["0", "1", "GPU-0f2a", "GPU-1f2a"]
    assert [found["of_the_host"] for found in ranks] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    mine = np.arange(3.0) + np.arange(4.0)[:, None]
    rows = np.concatenate([each[: rank + 1] for rank, each in enumerate(mine)])
    for found in ranks:
        assert found["homogeneous"] and found["hosts"] == [0, 0, 2, 2]
        assert found["sum"] == mine.sum(axis=0).tolist()
        assert found["compiled"] == mine.mean(axis=0).tolist()
        assert found["large"] == 4.0
        assert found["rows"] == rows.tolist()
        assert found["last"] == mine[3].tolist()
        assert found["longer"] == ranks[0]["longer"]
        # The second training goes on from the file of the first.
        assert found["longer"][: len(found["first"])] == found["first"]
        assert len(found["longer"]) > len(found["first"]) > 1
    check_clocks(json.loads((tmp_path / "timeline.json").read_text()))


def check_clocks(events: list[dict]) -> None:
    """Check that no rank leaves an allreduce before all have come, although clocks differ."""
    collectives: dict[int, list[dict]] = {}
    for event in events:
        if event.get("cat") == "collective" or "number" in event.get("args", {}):
            collectives.setdefault(event["args"]["number"], []).append(event)
    met = [each for each in collectives.values() if len({e["pid"] for e in each}) == 4]
    assert met
    for each in met:
        last, first = max(e["ts"] for e in each), min(e["ts"] + e["dur"] for e in each)
        assert last < first + 50_000.0, each  # in microseconds; they are known to a message's time


class Job:
    """The ranks of LOOP at work on both hosts."""

    def __init__(self, hosts: Hosts, folder: Path, silence: float = SILENCE, **variables: str):
        (folder / "loop.py").write_text(LOOP)
        self._hosts = hosts
        self.started = hosts.start(folder / "loop.py", str(silence), variables=variables)
        assert self.started.process.stdout is not None
        lines = [self.started.process.stdout.readline().split() for _ in range(4)]
        self.ranks = {int(rank): int(process) for _, rank, process in lines}
        self.sentinels = [self._sentinel(host) for host in (0, 1)]

    def ends_as_lost(self, *, within: float) -> str:
        """Return the messages of a job that ended with an error on both hosts."""
        began = time.monotonic()
        ended = self.started.end(within)
        assert self._hosts.wait_for_no_process(within - (time.monotonic() - began)) == []
        assert ended.code != 0
        return ended.err

    def _sentinel(self, host: int) -> int:
        """Return the process that watches the ranks of a host, once it has found them."""
        limit = time.monotonic() + SECONDS
        while time.monotonic() < limit:
            found = [each for each in self._hosts.processes(host) if is_sentinel(each)]
            if len(found) == 1 and ranks_in_view(found[0]) == 2:
                return found[0]
            time.sleep(0.02)
        raise AssertionError(f"no process watches over both ranks of host {host}")


def is_sentinel(process: int) -> bool:
    with contextlib.suppress(OSError):  # it has ended since it was listed
        return b"sentinel_process" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def ranks_in_view(process: int) -> int:
    """Count the processes of which this one holds a descriptor."""
    held = 0
    for file in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            held += "pidfd" in os.readlink(file)
    return held


@pytest.mark.all_after(1)
@pytest.mark.parametrize(
    ("what", "host"), [("packets", 0), ("link", 1), ("link", 0), ("packets", 1)]
)
def test_a_lost_link_ends_the_job_on_both_hosts(
    hosts: Hosts, tmp_path: Path, what: str, host: int
) -> None:
    """Cut it on either side, or in one direction."""
    job = Job(hosts, tmp_path)
    if what == "link":
        hosts.set_link(host, "down")
    else:
        hosts.drop_what_is_sent_by(host)
    said = job.ends_as_lost(within=SILENCE + 30.0)
    ours = [line for line in said.splitlines() if line.startswith("sciml_par: ")]
    first = f"sciml_par: host hostb (ranks 2–3) has not answered hosta for {SILENCE:g} s: it is "
    assert ours[0].startswith(first) and ours[1] == "sciml_par: the job ends.", said
    # The other host says what it sees, where that still arrives.
    assert len(ours) == 2 or ours[2].startswith("sciml_par: host hosta (ranks 0–1) has "), said


def test_a_rank_that_is_killed_on_the_other_host_is_named(hosts: Hosts, tmp_path: Path) -> None:
    job = Job(hosts, tmp_path)
    os.kill(job.ranks[3], signal.SIGKILL)
    said = job.ends_as_lost(within=30.0)
    assert said.count("sciml_par: rank 3 of 4 on hostb ") == 1, said
    assert said.count("sciml_par: ") == 2  # and that the job ends


@pytest.mark.long
def test_hosts_that_are_slow_are_not_lost(hosts: Hosts, tmp_path: Path) -> None:
    """A slow link, one that is gone for a moment, a sentinel that is stopped; and a clean end."""
    job = Job(hosts, tmp_path, silence=6.0)
    hosts.slow_down(1, "40kbit")
    os.kill(job.sentinels[1], signal.SIGSTOP)
    time.sleep(7.0)
    os.kill(job.sentinels[1], signal.SIGCONT)
    hosts.send_as_before(1)
    hosts.drop_what_is_sent_by(0)
    time.sleep(0.7)
    hosts.send_as_before(0)
    time.sleep(4.0)
    assert job.started.process.poll() is None
    (tmp_path / "end").touch()
    job.started.end(60.0).succeeded()
    assert hosts.wait_for_no_process(10.0) == []
