"""Uneven numbers of steps: ranks that are done take part in the collectives of the others.

A rank that joins tells the others how many collectives it has begun. From then on they announce
each of theirs to it, starting with those that it has missed, and it contributes zeros or no rows.
Without joined ranks this costs one test per collective.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sciml_par._tensorflow import hidden_from_autograph, tf
from sciml_par._text import rank_list
from sciml_par.errors import InputError, SciMLParError
from sciml_par.parallel.execution.eager import run_eagerly
from sciml_par.parallel.groups.call_site import CallSite
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.joined_ranks import (
    end_meeting,
    join_in,
    joined_ranks,
    tell_who_joined,
)
from sciml_par.parallel.groups.mailbox import Mailbox
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.requests.reduce_op import Max, Min, Product, ReduceOp
from sciml_par.parallel.requests.request import (
    Allgather,
    Alltoall,
    Announcement,
    Broadcast,
    Kind,
    Reducescatter,
    Request,
)
from sciml_par.parallel.supervision.forked_child import refuse

_POLL_SECONDS = 0.0002


@hidden_from_autograph
def join(*, communicator: Communicator | None = None) -> int:
    """Wait until every rank has joined, and take part in the others' collectives until then.

    A rank without more data calls it (collective, but at any time). It contributes zeros to sums
    and averages, neutral elements to Min, Max and Product, and no rows to allgather, alltoall and
    reducescatter; it drops the results.

    Parameters
    ----------
    communicator : the ranks that meet; all by default.

    Returns
    -------
    The last rank to join, the same on all ranks: the highest of those that have begun the most
    collectives.

    Raises
    ------
    InputError
        MPI was started without MPI_THREAD_MULTIPLE.
    SciMLParError
        The others need data of this rank (a broadcast from it, objects, an alltoall in a function
        that was traced before, Adasum), or one of them ended the program.

    Notes
    -----
    An Average divides by the number of all ranks, with or without data, as in Horovod. For the mean
    over the ranks with data, sum a 1 from each as well, and divide.

    The first collective after a rank has joined waits up to a quarter of a second; later ones do
    not.
    """
    world = current_world()
    if world.process != os.getpid():
        refuse()
    group = communicator or world.communicator
    if group.size == 1:
        return 0
    if world.watchdog is None:
        raise InputError(
            "join: expected an MPI started with MPI_THREAD_MULTIPLE. Give all ranks the same "
            "number of steps: allreduce it with Min."
        )
    return _Join(group, world.mailbox).last_rank()


@dataclass
class _Join:
    """One rank's stay in `join`."""

    group: Communicator
    mailbox: Mailbox
    rows: tuple[int, ...] | None = None
    """The number of rows that each rank has for this one in the next alltoall."""

    def last_rank(self) -> int:
        group = self.group
        begun = group.progress.sequence
        join_in(group, self.mailbox)
        while (announcement := self._next()) is not None:
            self._take_part(announcement)
        end_meeting(group, self.mailbox)
        counts = group.control.allgather(begun)
        return max(range(group.size), key=lambda rank: (counts[rank], rank))

    def _next(self) -> Announcement | None:
        """Return the others' next collective; None once all have joined and nothing is left."""
        group, mailbox = self.group, self.mailbox
        while True:
            mailbox.poll()
            announcement = mailbox.next_asked(group.identity, group.progress.sequence + 1)
            if announcement is not None:
                return announcement
            tell_who_joined(group, mailbox)
            joined = joined_ranks(group, mailbox)
            begun = [each.begun for each in joined.values()]
            if len(joined) == group.size - 1 and max(begun) <= group.progress.sequence:
                return None
            self._check_still_there(joined)
            time.sleep(_POLL_SECONDS)

    def _check_still_there(self, joined: Iterable[int]) -> None:
        gone = set(self.mailbox.left) & set(self.group.world_ranks) - set(joined)
        if gone:
            numbers = sorted(self.group.world_ranks.index(rank) for rank in gone)
            raise SciMLParError(
                f"{rank_list(numbers).capitalize()} ended the program while rank "
                f"{self.group.rank} waits in join. Call join on every rank."
            )

    def _take_part(self, announcement: Announcement) -> None:
        if announcement.kind is Kind.TRANSFER and announcement.request is not None:
            self._carry(announcement, announcement.request)
        elif announcement.kind is Kind.AGREEMENT:
            self.group.gather_rows(0, signature=announcement.signature)
        elif announcement.kind is Kind.ROWS:
            none = [0] * self.group.size
            self.rows = tuple(self.group.exchange_rows(none, signature=announcement.signature))
        else:
            raise self._cannot(announcement, "objects cannot be made up")

    def _carry(self, announcement: Announcement, asked: Request) -> None:
        request = self._without_data(announcement, asked)
        device = "/GPU:0" if announcement.signature.transport == "NCCL" else "/CPU:0"
        with tf.init_scope(), tf.device(device):
            x = tf.fill(request.shape, neutral(request.reduction, request.dtype))
            run_eagerly(CallSite(self.group, request), x)

    def _without_data(self, announcement: Announcement, request: Request) -> Request:
        """Return this rank's counterpart of another rank's `request`."""
        group = self.group
        if isinstance(request, Broadcast) and request.root == group.rank:
            raise self._cannot(announcement, "it is the one to give")
        if isinstance(request, Allgather):
            # In a function that was traced before, this rank's rows are part of the program.
            return replace(request, shape=(request.rows[group.rank], *request.shape[1:]))
        if isinstance(request, Reducescatter):
            return replace(request, rank=group.rank)
        if isinstance(request, Alltoall):
            if self.rows is None:
                raise self._cannot(
                    announcement, "it needs rows of this rank (in Adasum, or as traced)"
                )
            received, self.rows = self.rows, None
            none = (0,) * group.size
            return replace(request, shape=(0, *request.shape[1:]), sent=none, received=received)
        return request

    def _cannot(self, announcement: Announcement, reason: str) -> SciMLParError:
        return SciMLParError(
            f"Rank {self.group.rank} has joined and cannot take part in "
            f"{announcement.signature}: {reason}."
        )


def neutral(op: ReduceOp | None, dtype: str) -> Any:
    """Return the neutral element of `op`, as a scalar."""
    kind = tf.as_dtype(dtype)
    if kind.is_bool:
        return tf.constant(op in (Min, Product))
    if op not in (Min, Max):
        return tf.constant(1 if op is Product else 0, kind)
    value = kind.max if op is Min else kind.min
    if kind.is_floating:
        value = math.inf if op is Min else -math.inf
    return tf.constant(value, kind)
