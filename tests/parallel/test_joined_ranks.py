"""Who tells joined ranks of what: on made-up ranks, whatever the order in which they join."""

from __future__ import annotations

import random

import pytest
from simulated import Job

from sciml_par.parallel.groups.joined_ranks import (
    end_meeting,
    join_in,
    joined_ranks,
    observer_of,
    tell_who_joined,
)
from sciml_par.parallel.requests.request import Announcement, Kind
from sciml_par.parallel.requests.signature import Signature

pytestmark = pytest.mark.ranks(most=1, reason="the ranks are made up")

MANY = 64


def collective(number: int) -> Announcement:
    return Announcement(Kind.AGREEMENT, Signature(f"collective {number}"))


class Uneven(Job):
    """Ranks with collectives of their own before they join, in steps of a made-up program.

    A collective is a broadcast by rank 0: the others need it to have begun, and nobody else.
    """

    def __init__(self, counts) -> None:
        super().__init__(len(counts))
        self.counts = counts
        self.joined: set[int] = set()

    def step(self, rank: int) -> None:
        group, mailbox = self.groups[rank][0], self.mailboxes[rank]
        mailbox.poll()
        tell_who_joined(group, mailbox)
        if rank in self.joined:
            announcement = mailbox.next_asked(group.identity, group.progress.sequence + 1)
            if announcement is not None:
                assert announcement == collective(group.progress.sequence + 1)
                group.progress.begin(announcement)
                group.progress.end()
        elif group.progress.sequence < self.counts[rank]:
            group.progress.begin(collective(group.progress.sequence + 1))
            group.progress.end()
        else:
            join_in(group, mailbox)
            self.joined.add(rank)

    def is_over(self, rank: int) -> bool:
        group = self.groups[rank][0]
        joined = joined_ranks(group, self.mailboxes[rank])
        begun = [each.begun for each in joined.values()]
        return len(joined) == len(self.counts) - 1 and max(begun) <= group.progress.sequence


@pytest.mark.parametrize(
    "seed", [s if s < 4 else pytest.param(s, marks=pytest.mark.long) for s in range(30)]
)
def test_all_are_told_of_all_whatever_the_order(seed):
    rng = random.Random(seed)
    size = rng.randint(2, 6)
    job = Uneven([rng.randint(0, 30) for _ in range(size)])
    for meeting in range(3):
        most = max(job.counts)
        for _ in range(4000):
            # One rank may be asleep for long, with its watchdog.
            job.step(rng.choice([rng.randrange(size), meeting % size]))
        assert [group.progress.sequence for (group,) in job.groups] == [most] * size
        assert all(job.is_over(rank) for rank in range(size))
        for rank, (group,) in enumerate(job.groups):
            end_meeting(group, job.mailboxes[rank])
            assert observer_of(group) is None and group.progress.meetings == meeting + 1
        job.joined.clear()
        job.counts = [most + rng.randint(0, 30) for _ in range(size)]


def test_one_rank_tells_of_each_collective():
    job = Uneven([10] * (MANY // 2) + [0] * (MANY // 2))
    for rank in range(MANY // 2, MANY):
        job.step(rank)
    before = job.sent
    for _ in range(10):
        for rank in range(MANY // 2):
            job.step(rank)
    assert job.sent - before == 10 * (MANY // 2)


def test_an_old_meeting_is_over():
    """What is still on its way when the ranks have met counts for nothing at their next meeting."""
    job = Uneven([1, 0])
    for rank in (1, 0, 0, 1, 1):
        job.step(rank)
    assert all(job.is_over(rank) for rank in (0, 1))
    for rank in (0, 1):
        end_meeting(job.groups[rank][0], job.mailboxes[rank])
    for rank in (0, 1):
        tell_who_joined(job.groups[rank][0], job.mailboxes[rank])
        assert observer_of(job.groups[rank][0]) is None and not job.is_over(rank)
