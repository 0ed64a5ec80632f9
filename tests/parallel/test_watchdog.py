"""The watchdog, given a made-up communicator and mailbox: when it ends the job, and why."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from sciml_par.parallel import watchdog
from sciml_par.parallel.communicator import Communicator
from sciml_par.parallel.mailbox import Left, Waiting
from sciml_par.parallel.signature import Signature
from sciml_par.parallel.watchdog import Patience, Watchdog

QUICK = {"announce_after": 0.0, "interval": 0.001}
MINE = Signature("allreduce", "float32", (2,))


class Ended(Exception):
    """The job would have ended with this message."""


class Group(SimpleNamespace):
    """A made-up communicator without GPUs."""

    by_nccl = None
    standing = Communicator.standing


@pytest.fixture
def rank_0(monkeypatch):
    """Rank 0 of 3, in its fifth collective; and what it hears and says."""
    said, warned = [], []
    mailbox = SimpleNamespace(waiting={}, failed={}, left={}, send=said.append, poll=lambda: None)
    group = Group(name="world", rank=0, size=3, world_ranks=[0, 1, 2], sequence=5, pending=MINE)
    monkeypatch.setattr(watchdog, "write_error", warned.append)
    return SimpleNamespace(mailbox=mailbox, group=group, said=said, warned=warned)


def look(rank, **patience):
    """Two looks, a moment apart."""

    def end_job(message):
        raise Ended(message)

    dog = Watchdog(rank.mailbox, lambda: [rank.group], end_job, Patience(**{**QUICK, **patience}))
    for _ in range(2):
        for group in dog._communicators():
            dog._look_at(group)
        time.sleep(0.01)
    for group in dog._communicators():
        dog._look_at(group)


def test_says_once_where_it_waits(rank_0):
    look(rank_0)
    assert rank_0.said == [Waiting("world", 5, str(MINE))]


def test_says_nothing_outside_a_collective(rank_0):
    rank_0.group.pending = None
    rank_0.mailbox.left[1] = Left({"world": 4})
    look(rank_0)
    assert rank_0.said == []


def test_is_calm_where_others_wait_for_the_same(rank_0):
    rank_0.mailbox.waiting = {1: Waiting("world", 5, str(MINE))}
    look(rank_0)
    assert rank_0.warned == []


@pytest.mark.parametrize(
    "elsewhere", (Waiting("world", 4, "barrier()"), Waiting("a group", 5, "barrier()"))
)
def test_another_place_is_no_contradiction(rank_0, elsewhere):
    rank_0.mailbox.waiting = {1: elsewhere}
    look(rank_0)


def test_another_collective_at_the_same_place_ends_the_job(rank_0):
    rank_0.mailbox.waiting = {2: Waiting("world", 5, "barrier()")}
    with pytest.raises(Ended) as end:
        look(rank_0)
    assert f"rank 0: {MINE}" in str(end.value) and "rank 2: barrier()" in str(end.value)


def test_a_rank_that_has_left_ends_the_job(rank_0):
    rank_0.mailbox.left[2] = Left({"world": 4})
    with pytest.raises(Ended, match="Rank 2 ended the program while rank 0 waits in allreduce"):
        look(rank_0)


def test_a_rank_that_has_done_its_part_may_leave(rank_0):
    """It may be the root of a broadcast, or simply the first to go on."""
    rank_0.mailbox.left[2] = Left({"world": 5})
    look(rank_0)
    rank_0.mailbox.left[2] = Left({"world": 9})
    look(rank_0)


def test_a_rank_that_goes_on_meanwhile_does_not_end_the_job(rank_0):
    """The program runs beside the watchdog: what it read first may be over."""

    class GoesOn(Group):
        looks = 0

        @property
        def pending(self):
            self.looks += 1
            if self.looks == self.goes_on_at:
                self.sequence = 6
            return Signature("barrier") if self.sequence == 6 else MINE

    others = {1: Waiting("world", 5, "barrier()")}
    of_rank_0 = {k: v for k, v in vars(rank_0.group).items() if k != "pending"}
    # It reads three times before it ends the job; later is too late.
    for moment in (1, 2, 3):
        rank_0.group = GoesOn(**of_rank_0, goes_on_at=moment)
        rank_0.mailbox.waiting = dict(others)
        look(rank_0)
    rank_0.group = GoesOn(**of_rank_0, goes_on_at=4)
    with pytest.raises(Ended):
        look(rank_0)


def test_a_rank_of_another_group_may_leave(rank_0):
    rank_0.group.world_ranks = [0, 1]
    rank_0.mailbox.left[2] = Left({"world": 4})
    look(rank_0)


def test_a_long_wait_is_reported_once(rank_0):
    rank_0.mailbox.waiting = {1: Waiting("world", 5, str(MINE))}
    look(rank_0, warn_after=0.001)
    (warning,) = rank_0.warned
    assert "Ranks 0 and 1 of «world» waited" in warning and "rank 2 did not come" in warning


def test_the_limit_ends_the_job(rank_0):
    rank_0.mailbox.waiting = {r: Waiting("world", 5, str(MINE)) for r in (1, 2)}
    with pytest.raises(Ended, match="all ranks are there"):
        look(rank_0, end_after=0.001)
