"""How far the clocks of other hosts are from that of rank 0."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

_TAG = 20998
_ROUNDS = 20


def clock_offsets(control: MPI.Comm, clocks: Sequence[object]) -> list[int]:
    """What to add to each rank's `time.monotonic_ns` to have rank 0's (collective).

    Parameters
    ----------
    control : all ranks; nobody else may send messages there meanwhile with this module's tag.
    clocks : which clock each rank has, [P]. Those who share rank 0's need no message.

    Returns
    -------
    In nanoseconds on rank 0, [P]; zeros elsewhere.
    """
    offsets = [0] * len(clocks)
    for rank, clock in enumerate(clocks):
        if clock == clocks[0]:
            continue
        if control.Get_rank() == 0:
            offsets[rank] = measure(control, rank)[0]
        elif control.Get_rank() == rank:
            answer(control)
    return offsets


def measure(control: MPI.Comm, rank: int) -> tuple[int, int]:
    """Return the offset of `rank`'s clock and the time of a message there and back, in nanoseconds.

    Of several such messages the fastest counts; the offset is then known to half its time.

    References
    ----------
    F. Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989) 146–158.
    """
    found = []
    for _ in range(_ROUNDS):
        sent = time.monotonic_ns()
        theirs = control.sendrecv(None, dest=rank, sendtag=_TAG, source=rank, recvtag=_TAG)
        round_trip = time.monotonic_ns() - sent
        found.append((round_trip, sent + round_trip // 2 - theirs))
    round_trip, offset = min(found)
    return offset, round_trip


def answer(control: MPI.Comm) -> None:
    """The other side of `measure`, on the rank that is asked by rank 0."""
    for _ in range(_ROUNDS):
        control.recv(source=0, tag=_TAG)
        control.send(time.monotonic_ns(), dest=0, tag=_TAG)
