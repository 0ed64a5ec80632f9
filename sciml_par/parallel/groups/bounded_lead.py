"""No rank gets further ahead of the others than `join` can tell.

A rank is done with a broadcast that it gives, or with rows that it only sends, before others have
begun. By a loop of those it could be thousands ahead, and a rank that joins late has to be told of
all that it has missed. So all ranks meet after every so many such collectives. An allreduce is a
meeting by itself: it costs nothing here.
"""

from __future__ import annotations

from typing import Any

from sciml_par.parallel.groups.progress import Group
from sciml_par.parallel.requests.request import Request
from sciml_par.parallel.transports.transport import Transfer, Transport

MOST_AHEAD = 512
"""Less than a group's `history` holds."""


def with_bounded_lead(
    group: Group, request: Request, transport: Transport, transfer: Transfer
) -> Transfer:
    """`transfer`, after which the ranks meet now and then if by itself it is no meeting.

    Whether it is one is the same on all ranks, and so is the count.
    """
    if transport.is_meeting(request):
        return transfer
    progress = group.progress

    def transfer_and_meet(*where: Any) -> None:
        transfer(*where)
        progress.without_meeting += 1
        if progress.without_meeting % MOST_AHEAD == 0:
            group.control.Barrier()

    return transfer_and_meet
