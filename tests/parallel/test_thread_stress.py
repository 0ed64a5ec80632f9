"""The library's threads beside a program, with switches a thousand times as often as usual.

Python 3.11 has no race detector for threads under its lock, and ThreadSanitizer needs a Python that
was built for it. A thread that is switched at every step of the interpreter meets in a second
what otherwise takes months; what it does not meet is not shown to be impossible.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import threading
import time

import pytest
import tensorflow as tf
from simulated import MINE, Job, make_group

import sciml_par.parallel as sp
from sciml_par.parallel.groups.joined_ranks import end_meeting, join_in, tell_who_joined
from sciml_par.parallel.requests.request import Announcement, Kind
from sciml_par.parallel.supervision import watchdog
from sciml_par.parallel.supervision.watchdog import Patience, Watchdog

SECONDS = 1.0


@pytest.fixture(autouse=True)
def often_switched():
    """A hang shows where every thread is."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    faulthandler.dump_traceback_later(120)
    yield
    faulthandler.cancel_dump_traceback_later()
    sys.setswitchinterval(usual)


def together(*actions):
    """Repeat each action on a thread of its own for a while, without errors."""
    errors, counts, end = [], [0] * len(actions), time.monotonic() + SECONDS

    def repeat(number):
        try:
            while time.monotonic() < end:
                actions[number]()
                counts[number] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=[n], daemon=True) for n in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == [] and min(counts) > 3


@pytest.mark.ranks(most=1, reason="the ranks are made up")
@pytest.mark.long
def test_a_watchdog_and_a_program_of_many_groups(monkeypatch):
    told = []
    monkeypatch.setattr(watchdog, "write_error", told.append)
    job = Job(2)
    groups, mailbox = job.groups[0], job.mailboxes[0]
    for number in range(1, 40):
        groups.append(make_group(0, [0, 1], identity=(0, number)))

    def program():
        for group in groups:
            group.progress.begin(Announcement(Kind.AGREEMENT, MINE))
            group.progress.end()
            join_in(group, mailbox)
            tell_who_joined(group, mailbox)
            end_meeting(group, mailbox)

    def groups_come_and_go():
        number = groups[-1].identity[1] + 1
        job.groups[0] = [*job.groups[0][1:], make_group(0, [0, 1], identity=(0, number))]

    together(program, job.dogs[0].look, job.dogs[1].look, groups_come_and_go)
    assert told == [] and job.ended is None


@pytest.mark.ranks(least=2, most=3, reason="more ranks than cores take turns, not switches")
def test_collectives_beside_an_eager_watchdog_and_a_timeline(tmp_path, monkeypatch):
    """In all contexts, with a second watchdog that looks all the time."""
    told = []
    monkeypatch.setattr(watchdog, "write_error", told.append)
    world = sp.current_world()
    ended = []
    busy = Watchdog(
        world.mailbox,
        lambda: list(world.communicator.all_groups),
        ended.append,
        Patience(announce_after=0.01, interval=0.001),
    )
    compiled = tf.function(lambda x: sp.allreduce(x, sp.Sum), jit_compile=True)
    graph = tf.function(lambda x: sp.allreduce(x, sp.Sum))
    sp.start_timeline(world.communicator.broadcast_object(str(tmp_path / "timeline.json")))
    busy.start()
    try:
        for step in range(60):
            x = tf.constant([float(step), 1.0 + sp.rank()])
            expected = [step * sp.size(), sum(range(1, 1 + sp.size()))]
            for f in (compiled, graph, lambda x: sp.allreduce(x, sp.Sum)):
                assert f(x).numpy().tolist() == expected
            if step % 10 == 9:
                if sp.rank() == 0:
                    sp.allreduce(x, sp.Sum)
                sp.join()
    finally:
        busy.stop()
        sp.stop_timeline()
    assert told == [] and ended == []
    if sp.rank() == 0:
        events = json.loads((tmp_path / "timeline.json").read_text())
        named = [e for e in events if e.get("args", {}).get("bytes") == 8]
        assert len({(e["pid"], e["args"]["number"]) for e in named}) == len(named)
        assert len(named) == sp.size() * (60 * 3 + 6)
