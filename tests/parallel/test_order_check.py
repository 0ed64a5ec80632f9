"""Ranks that do not do the same, though each of it was agreed on, are found in the background."""

from __future__ import annotations

import pytest
import tensorflow as tf

import sciml_par.parallel as sp
from sciml_par.parallel.groups.mailbox import OrderDigest
from sciml_par.parallel.supervision.order_check import OrderCheck

pytestmark = pytest.mark.ranks(least=2, reason="one rank has nobody to differ from")


class FakeMailbox:
    """Keeps what is sent; a fake."""

    def __init__(self):
        self.sent = []
        self.order_digests = {}

    def send(self, message, *, to):
        self.sent.append((message, list(to)))


@pytest.fixture
def group(by_mpi):
    """By MPI, in which what was agreed on pairs in silence."""
    by_mpi.all_groups.remove(by_mpi)  # out of the sight of the ranks' own watchdogs
    for op in (sp.Sum, sp.Product):
        sp.allreduce(tf.ones(3), op, communicator=by_mpi)
    yield by_mpi
    by_mpi.all_groups.append(by_mpi)


def compared(group, steps, *, differ_at=None):
    """What each rank says after so many collectives, of which one differs on the last rank."""
    mailbox, last = FakeMailbox(), group.rank == group.size - 1
    check = OrderCheck(mailbox)
    for step in range(steps):
        op = sp.Product if last and step == differ_at else sp.Sum
        sp.allreduce(tf.ones(3), op, communicator=group)
    said = check.look(group, now=0.0)
    (sent,) = group.control.bcast(mailbox.sent if group.rank == 0 else None)
    message, receivers = sent
    assert receivers == group.world_ranks[1:]
    mailbox.order_digests[group.identity] = message
    said = check.look(group, now=0.5)
    assert group.rank == 0 or group.identity not in mailbox.order_digests
    return said


def test_ranks_that_do_the_same(group):
    assert compared(group, 40) is None


def test_one_rank_that_does_not(group):
    said = compared(group, 40, differ_at=7)
    if group.rank == group.size - 1:
        assert f"Ranks 0 and {group.rank} of «{group.name}»" in said
        assert "SCIML_PAR_CHECK=always" in said
    else:
        assert said is None
    with pytest.raises(Exception, match="results since then are wrong"):
        group.barrier()  # which tells all, and lets the group go on
    assert group.progress.recoveries == 1 and compared(group, 20) is None


def test_what_is_not_known_any_more_or_not_yet(group):
    mailbox = FakeMailbox()
    check = OrderCheck(mailbox)
    if group.rank > 0:
        for number, waits in ((group.progress.sequence + 16, True), (0, False)):
            mailbox.order_digests[group.identity] = OrderDigest(group.identity, 0, number, 12345)
            assert check.look(group, now=0.0) is None
            assert (group.identity in mailbox.order_digests) == waits
