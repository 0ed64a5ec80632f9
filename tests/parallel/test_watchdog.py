"""The watchdog, on made-up ranks: when it ends the job, why, and with how many messages."""

from __future__ import annotations

import os

import pytest
from simulated import MINE, OTHER, Ended, Job, make_group

from sciml_par.parallel.groups.mailbox import Left, Waiting
from sciml_par.parallel.requests.request import Announcement, Kind
from sciml_par.parallel.startup import init
from sciml_par.parallel.supervision import waiting_ranks, watchdog

pytestmark = pytest.mark.ranks(most=1, reason="the ranks are made up")

MANY = 32


@pytest.fixture
def warned(monkeypatch):
    lines = []
    monkeypatch.setattr(watchdog, "write_error", lines.append)
    return lines


def waiting_job(size, ranks, **patience):
    job = Job(size, **patience)
    for rank in ranks:
        job.wait(rank)
    return job


def test_says_nothing_outside_a_collective(warned):
    job = Job(3)
    job.leave(1)
    assert job.run(100).sent == 2 and job.ended is None and warned == []


def test_says_nothing_where_ranks_do_not_wait_long(warned):
    job = Job(3)
    for sequence in range(20):
        for rank in range(3):
            job.wait(rank, sequence=sequence)
        job.run(0.5)
    assert job.sent == 0


def test_is_calm_where_others_wait_for_the_same(warned):
    assert waiting_job(3, [0, 1]).run(59).ended is None
    assert warned == []


@pytest.mark.parametrize("size", (2, 3, MANY))
def test_another_collective_at_the_same_place_ends_the_job(size):
    job = waiting_job(size, range(size - 1))
    job.wait(size - 1, OTHER)
    rank, message = job.run(3).ended
    assert rank == 0
    assert f"rank {size - 1}: barrier()" in message and f": {MINE}" in message


def test_ranks_that_compare_are_left_to_it_until_the_last_one_comes(warned):
    """All of them get an error then, from which their program can go on."""
    job = Job(4)
    for rank in (0, 1, 2):
        job.wait(rank, OTHER if rank == 1 else MINE, comparing=True)
    assert job.run(70).ended is None
    (warning,) = warned
    assert "rank 3 did not come" in warning and "rank 1: barrier()" in warning
    # The last one does not compare: it has agreed on this before, and transfers alone.
    job.wait(3)
    assert "ranks 0, 2 and 3" in job.run(100).ended[1]


def test_a_contradiction_is_told_by_one_rank(monkeypatch):
    """The speaker's end takes a while; the others leave it to it."""
    job = waiting_job(16, range(16))
    job.wait(7, OTHER)
    told = []
    monkeypatch.setattr(job, "_end", lambda rank, message: told.append(rank))
    assert not job.run(3).silent and set(told) == {0}
    job.run(2)
    assert len(told) > 1 and set(told) == set(range(len(set(told))))


def test_the_lowest_that_waits_speaks_although_the_keeper_of_the_list_does_not_wait():
    job = waiting_job(4, [1, 2])
    job.wait(3, OTHER)
    rank, message = job.run(3).ended
    assert rank == 1 and "rank 3: barrier()" in message


def test_another_place_is_no_contradiction():
    job = waiting_job(3, [0])
    job.wait(1, OTHER, sequence=4)
    for rank in range(3):
        job.groups[rank].append(make_group(rank, range(3), name="world", identity=(0, 1)))
    job.wait(2, OTHER, group=1)
    assert job.run(50).ended is None


@pytest.mark.parametrize("comparing", (False, True))
def test_a_rank_that_is_further_is_asked_what_it_began_here(comparing):
    """It is told of the mismatch as soon as it compares where the others do."""
    job = waiting_job(3, [0, 1])
    if comparing:
        for rank in (0, 1):
            job.wait(rank, comparing=True)
    progress = job.groups[2][0].progress
    progress.history.append((5, Announcement(Kind.AGREEMENT, OTHER)))
    progress.sequence, progress.comparing = 6, comparing
    ended = job.run(20).ended
    if comparing:
        assert ended is None
    else:
        assert ended[0] == 0 and "rank 2: barrier()" in ended[1]
        assert f"ranks 0 and 1: {MINE}" in ended[1]


@pytest.mark.parametrize(("begun", "digest"), ((4, 0), (5, 1)))
def test_a_rank_that_has_left_before_or_after_other_collectives_ends_the_job(begun, digest):
    job = waiting_job(3, [0, 1])
    progress = job.groups[2][0].progress
    progress.sequence, progress.order_digest = begun, digest
    job.leave(2)
    rank, message = job.run(3).ended
    assert rank == 0 and message.startswith("Rank 2 ended the program while rank 0 waits in allre")


@pytest.mark.parametrize("size", (2, 3, MANY))
def test_the_keeper_of_the_list_has_left(size):
    """Whether before the others wait, or after they have told it."""
    for moment in (0, 1, 10) if size < MANY else (1,):
        job = Job(size)
        job.groups[0][0].progress.sequence = 4
        if moment == 0:
            job.leave(0)
        for rank in range(1, size):
            job.wait(rank)
        job.run(moment)
        if moment:
            job.leave(0)
        rank, message = job.run(4).ended
        assert rank == 1 and message.startswith("Rank 0 ended the program while rank 1 waits")


@pytest.mark.parametrize("begun", (5, 9))
def test_a_rank_that_has_done_its_part_may_leave(begun):
    """It may be the root of a broadcast, or simply the first to go on."""
    for gone in (0, 2):
        job = waiting_job(3, {0, 1, 2} - {gone})
        job.groups[gone][0].progress.sequence = begun
        job.leave(gone)
        assert job.run(50).ended is None


def test_the_keeper_leaves_after_its_part_and_the_others_still_find_each_other():
    job = waiting_job(4, [1])
    job.groups[0][0].progress.sequence = 5
    job.run(1)
    job.leave(0)
    job.run(1)
    job.wait(2, OTHER)
    assert "rank 2: barrier()" in job.run(3).ended[1]


@pytest.mark.parametrize("silent", ({0}, {0, 1}, {0, 1, 3, 7}))
def test_ranks_that_do_not_answer_are_passed_over(silent, warned):
    """Their watchdog's thread does not get to run: they compute, and hold Python's lock."""
    others = sorted(set(range(16)) - silent)
    job = waiting_job(16, others)
    job.silent |= silent
    job.wait(others[-1], OTHER)
    assert f"rank {others[-1]}: barrier()" in job.run(12).ended[1]


def test_two_that_have_told_different_ranks_find_each_other():
    """Rank 0 falls silent after it has heard of rank 1, and comes to itself again."""
    job = waiting_job(4, [1])
    job.run(1)
    job.silent.add(0)
    job.wait(2, OTHER)
    job.run(5)
    job.silent.clear()
    assert "rank 2: barrier()" in job.run(20).ended[1]


def test_a_rank_that_goes_on_meanwhile_does_not_end_the_job():
    """The program runs beside the watchdog: what it read first may be over."""
    job = waiting_job(2, [0])
    job.wait(1, OTHER)
    job.run(1)  # all is told, but the answer
    for rank in (0, 1):
        job.wait(rank, sequence=6)
    assert job.run(50).ended is None


def test_a_rank_of_another_group_may_leave():
    job = waiting_job(3, [0])
    for rank in (0, 1):
        job.groups[rank] = [make_group(rank, [0, 1], identity=(0, 1))]
    job.wait(0)
    job.leave(2)
    assert job.run(50).ended is None


@pytest.mark.parametrize("size", (2, 3, MANY))
@pytest.mark.parametrize("missing", ("first", "last"))
def test_a_long_wait_is_reported_once(size, missing, warned):
    gone = 0 if missing == "first" else size - 1
    job = waiting_job(size, set(range(size)) - {gone}, warn_after=60.0)
    job.run(60, step=2.0)
    assert warned == []
    job.run(10, step=1.0)
    (warning,) = warned
    assert f"rank {gone} did not come" in warning and "waited 6" in warning


@pytest.mark.parametrize("told", ("", "main.py:12, in solve()"))
def test_all_that_are_missing_are_named_with_where_they_are(told, warned, monkeypatch):
    monkeypatch.setattr(waiting_ranks, "place_of_program", lambda: told)
    job = waiting_job(MANY, set(range(MANY)) - {0, 17, MANY - 1})
    job.run(70, step=2.0)
    (warning,) = warned
    missing = f"ranks 0, 17 and {MANY - 1}"
    assert warning.endswith(f"{missing} did not come{told and f' ({missing} at {told})'}.")


def test_the_limit_ends_the_job():
    rank, message = waiting_job(3, range(3), end_after=10.0).run(12).ended
    assert rank == 0 and "all ranks are there" in message


@pytest.mark.parametrize("late", (0, 100))
def test_messages_grow_with_the_ranks_and_not_with_their_square(late, warned):
    """Within two minutes, one rank missing; it told every other one before."""
    for size in (16, MANY):
        job = waiting_job(size, set(range(size)) - {late % size})
        job.run(120, step=2.0)
        assert len(warned) == 1 and not warned.clear()
        assert job.sent <= 10 * size


def test_messages_where_ranks_come_one_after_another(warned):
    job = Job(MANY)
    for rank in range(MANY):
        job.wait(rank)
        job.run(0.5, step=0.5)
    assert job.sent <= 10 * MANY and job.ended is None


def test_a_name_that_is_used_again_does_not_meet_old_messages():
    """Rank 2 has waited in a group; it is freed, and another one gets its name and its place."""
    job = Job(3)
    for number in (1, 2):
        for rank in range(3):
            job.groups[rank][1:] = [make_group(rank, range(3), name="again", identity=(0, number))]
        if number == 1:
            job.wait(2, OTHER, sequence=1, group=1)
            job.run(1)
            job.groups[2][1].progress._current = None
    job.wait(1, MINE, sequence=1, group=1)
    assert job.run(50).ended is None
    for mailbox in job.mailboxes:
        assert (0, 1) not in {*mailbox.waiting, *mailbox.present}


def test_messages_of_a_group_that_this_rank_is_yet_to_make_are_kept():
    job = Job(2)
    mailbox = job.mailboxes[0]
    mailbox._take_in(1, Waiting((0, 7), 1, "barrier()", 1))
    mailbox.forget_gone([(0, 0), (0, 6)])
    assert (0, 7) in mailbox.waiting
    mailbox.forget_gone([(0, 0), (0, 8)])
    assert (0, 7) not in mailbox.waiting


def test_an_error_in_the_watchdog_is_told_once_and_the_watch_goes_on(warned, monkeypatch):
    job = waiting_job(2, [0, 1])
    bad = make_group(0, [0, 1], identity=(0, 3))
    bad.in_progress = lambda: 1 / 0
    job.groups[0].insert(0, bad)
    job.run(3)
    (line,) = warned
    assert "the watchdog of rank 0 met ZeroDivisionError: division by zero" in line
    assert __file__ in line
    # Whatever is wrong with one group or one message, others are looked at.
    monkeypatch.setattr(job.mailboxes[0], "poll", lambda: {}[0])
    job.mailboxes[0].left[1] = Left({(0, 0): (4, 0)})
    with pytest.raises(Ended):
        for _ in range(3):
            job.now += 0.25
            job.dogs[0].look()
    assert len(warned) == 2 and "KeyError" in warned[1]


def test_a_closed_standard_error_does_not_keep_a_job_from_ending(monkeypatch):
    def write(descriptor, data):
        raise OSError("bad file descriptor")

    monkeypatch.setattr(os, "write", write)
    # tests/conftest.py has put another one in the watchdog's place.
    init.write_error("the job ends")
