"""A group of ranks: who they are, and the host-side exchanges that everything else rests on."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sciml_par.errors import CollectiveMismatchError, InputError, SciMLParError
from sciml_par.parallel.groups.agreement import compare
from sciml_par.parallel.groups.ledger import Ledger
from sciml_par.parallel.requests.announcement import Announcement, Kind
from sciml_par.parallel.requests.mismatch import rank_list
from sciml_par.parallel.requests.signature import KEY_MASK, Signature
from sciml_par.parallel.transports.mpi import MPITransport

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.groups.call_site import CallSite
    from sciml_par.parallel.groups.joined_ranks import JoinedRanks
    from sciml_par.parallel.requests.request import Request
    from sciml_par.parallel.supervision.sentinel_client import Sentinel
    from sciml_par.parallel.timeline.recorder import Recorder
    from sciml_par.parallel.transports.cupy_binding import Gpu
    from sciml_par.parallel.transports.nccl import NCCLTransport

T = TypeVar("T")

_HISTORY = 1024

_TRAIL_STEP, _TRAILS_KEPT = 16, 8192
"""Every how many collectives the trail is kept for the watchdogs to compare, and how many of them:
more than ranks do in a second."""


class Communicator:
    """A group of ranks that exchange tensors: by MPI from host memory, by NCCL between GPUs.

    A communicator of size 1 is an ordinary one.

    Parameters
    ----------
    mpi : the group as mpi4py knows it. It is duplicated twice, so that neither the transfers nor
        the control messages can meet those of the program or of another library.
    name : how messages call the group.
    world : the group of all ranks, of which this one is a part; itself by default.
    check_always : agree on the signature at every execution of a collective, not at the first with
        that signature.

    Attributes
    ----------
    rank, size : this process's number in the group, 0 ≤ rank < size.
    mpi : the duplicate that carries tensors.
    control : the duplicate that carries agreements and the watchdog's messages.
    mpi_transport : carries tensors between host memory.
    nccl_transport : carries tensors between GPUs; None where the ranks do not have one each, or no
        NCCL.
    gpu : this rank's GPU as CuPy sees it, or None.
    sequence : how many collectives this rank has begun.
    enqueued : which of them was the last that a GPU was given.
    pending : what this rank waits for, or None.
    comparing : whether it is still comparing that with the others.
    world_ranks : the members' numbers in the world, [P].
    identity : no other group of the job has had or will have the same; a name may be used again.
    loose : how many collectives have been carried that a rank may finish before others begin.
    all_groups : the world and all groups made of it.
    history : the last collectives that this rank has begun, with their numbers.
    audience : the ranks that have joined, or None.
    joins : how often the ranks have met in `join`.
    trail : a number that all collectives so far, in their order, have made: it differs where the
        signatures of two ranks, or their order, have differed.
    recoveries : how often ranks did not ask for the same, were told so, and could go on.
    ledger : the signatures that the ranks have agreed on.
    mismatch_error : what is raised where the ranks do not ask for the same; the world's by default.
    recorder : notes the collectives for the timeline, or None.
    sentinel : of the world: the process that names this rank if it is lost; else None.
    """

    def __init__(
        self,
        mpi: MPI.Comm,
        *,
        name: str = "world",
        world: Communicator | None = None,
        check_always: bool = False,
    ) -> None:
        self.mpi: MPI.Comm = mpi.Dup()
        self.control: MPI.Comm = mpi.Dup()
        self.name = name
        self._check_always = check_always
        self.rank: int = mpi.Get_rank()
        self.size: int = mpi.Get_size()
        self.mpi_transport = MPITransport(self.mpi)
        self.nccl_transport: NCCLTransport | None = None
        self.gpu: Gpu | None = None
        self.sequence = 0
        self.enqueued = 0
        self.pending: Signature | None = None
        self.comparing = False
        self.trail = 0
        self._trails: list[tuple[int, int] | None] = [None] * _TRAILS_KEPT
        self.recoveries = 0
        self.ledger = Ledger()
        turn = threading.Lock()
        self._take_turn: Callable[[bool], bool] = turn.acquire
        self._give_turn: Callable[[], None] = turn.release
        self._disordered: str | None = None
        self.eager_call_sites: dict[Request, CallSite] = {}
        self._world = world or self
        self.world_ranks = _translate(self.mpi, self._world.mpi)
        self._groups_made = 0
        self.identity: tuple[int, int] = self.control.bcast(
            (self._world.rank, self._world._groups_made)
        )
        self._world._groups_made += 1
        self.loose = 0
        # The watchdog of another thread reads it; groups are few, and live as long as the job.
        self.all_groups: list[Communicator] = self._world.all_groups if world else []
        self.all_groups.append(self)
        self._splits = 0
        # Ranks that join late hear of what they have missed; a rank can be ahead of others by the
        # broadcasts that it has given.
        self.history: deque[tuple[int, Announcement]] = deque(maxlen=_HISTORY)
        self.joined_ranks_observer: JoinedRanks | None = None
        self.joins = 0
        self.mismatch_error: type[CollectiveMismatchError] = (
            self._world.mismatch_error if world else CollectiveMismatchError
        )
        self.recorder: Recorder | None = self._world.recorder if world else None
        self.sentinel: Sentinel | None = None

    def __repr__(self) -> str:
        return f"Communicator({self.name!r}, rank {self.rank} of {self.size})"

    @property
    def check_always(self) -> bool:
        """Whether the ranks compare every collective; to be changed on all ranks together."""
        return self._check_always

    @check_always.setter
    def check_always(self, always: bool) -> None:
        self._check_always = always
        self.ledger.clear()  # or call sites that have agreed would not ask

    def split(self, color: int) -> Communicator:
        """The ranks that give the same `color`, as a group of their own (collective)."""
        self._splits += 1
        name = f"{self.name}/{self._splits}.{color}"
        part = self.mpi.Split(color, self.rank)
        try:
            group = Communicator(part, name=name, world=self._world, check_always=self.check_always)
        finally:
            part.Free()
        group.take_gpus_from(self, color)
        return group

    def subset(self, ranks: Iterable[int], *, name: str | None = None) -> Communicator | None:
        """Some of this group's ranks, as a group of their own (collective over this group).

        Parameters
        ----------
        ranks : the members, by their number in this group; in the new one they are numbered in
            ascending order.
        name : how messages call it.

        Returns
        -------
        The group, or None on a rank that is not in it.

        Raises
        ------
        InputError
            No ranks, a rank that does not exist or is named twice, or other ranks than elsewhere.
        """
        members = self._same_members(ranks)
        self._splits += 1
        mpi = self.mpi.Create(self.mpi.Get_group().Incl(members))
        if self.rank not in members:
            return None
        try:
            listed = name or f"{self.name}/{self._splits}.{rank_list(members)}"
            group = Communicator(
                mpi, name=listed, world=self._world, check_always=self.check_always
            )
        finally:
            mpi.Free()
        group.gpu = self.gpu
        if self.nccl_transport is not None:
            group.nccl_transport = self.nccl_transport.connected_anew(
                group.rank, group.size, group.control.bcast
            )
        return group

    def _same_members(self, ranks: Iterable[int]) -> list[int]:
        """`ranks` in order, if they are what all ranks give (collective)."""
        given = list(ranks)
        everyone = self.allgather_object(given)
        for rank, theirs in enumerate(everyone):
            if sorted(set(theirs)) != sorted(set(everyone[0])):
                raise InputError(
                    f"A group of ranks: expected the same ranks on every rank; got {everyone[0]} "
                    f"on rank 0 and {theirs} on rank {rank}."
                )
        if (
            not given
            or sorted(set(given)) != sorted(given)
            or not set(given) <= set(range(self.size))
        ):
            raise InputError(
                f"A group of ranks: expected different ranks among 0..{self.size - 1}, at least "
                f"one; got {given}."
            )
        return sorted(given)

    def free(self) -> None:
        """Give up a group that is not needed any more (collective over this group).

        Functions that were traced with it must not run again.
        """
        if self is self._world:
            raise InputError("The group of all ranks cannot be freed.")
        self.barrier()
        self.all_groups.remove(self)
        if self.nccl_transport is not None:
            self.nccl_transport.finish()
            self.nccl_transport.abort()
        self.eager_call_sites.clear()
        self.mpi_transport.free_itself()
        self.mpi.Free()
        self.control.Free()

    def take_gpus_from(self, whole: Communicator, color: int) -> None:
        """Reach the GPUs of this part of `whole`, whose ranks alone give `color` (collective)."""
        self.gpu = whole.gpu
        if whole.nccl_transport is not None:
            self.nccl_transport = whole.nccl_transport.split(color, self.rank, self.size)

    def agree(self, signature: Signature, number: int = 0) -> list[int]:
        """Compare what the ranks ask for, and exchange a number on the way (collective).

        What they have asked for until here is compared as well: what was agreed on before is not
        compared each time, and ranks that did other things may have gone unnoticed.

        Returns
        -------
        Every rank's `number`, [P].

        Raises
        ------
        CollectiveMismatchError
            On all ranks alike, with what each of them asked for. The group can be used again.
        """
        self.comparing = True
        try:
            return compare(self, signature, number)
        except CollectiveMismatchError:
            self._recover()
            raise
        finally:
            self.comparing = False

    def _recover(self) -> None:
        """Go on together after a mismatch: all ranks are here and have been told (collective)."""
        self.sequence = max(self.control.allgather(self.sequence))
        self.trail = 0
        self._trails = [None] * _TRAILS_KEPT
        self.recoveries += 1
        self.history.clear()

    def newest_trail(self) -> tuple[int, int] | None:
        """The number of a collective not long ago, and the trail after it (local)."""
        return self._trails[_place(self.sequence)]

    def trail_at(self, number: int) -> int | None:
        """The trail after the collective `number`; None if it is not kept any more (local)."""
        kept = self._trails[_place(number)]
        return None if kept is None or kept[0] != number else kept[1]

    def standing(self) -> tuple[int, Signature] | None:
        """The collective that is under way: its number and what it is (local; for the watchdog).

        One that NCCL has been given counts until the GPU has done it.
        """
        signature = self.pending
        if signature is not None:
            # The number is read after the wish: if it is that of an earlier look, so is the wish.
            return self.sequence, signature
        signature = self.nccl_transport.in_flight() if self.nccl_transport is not None else None
        # By MPI, the host may have done later ones in the meantime.
        return None if signature is None else (self.enqueued, signature)

    def barrier(self) -> None:
        """Wait until every rank has come here (collective)."""
        with self.waiting_for(Signature("barrier")) as signature:
            self.agree(signature)

    def gather_rows(self, rows: int, *, signature: Signature | None = None) -> list[int]:
        """Every rank's number of rows, [P]; they agree on `signature` as well (collective)."""
        with self.waiting_for(signature or Signature("exchange of numbers of rows")) as signature:
            return self.agree(signature, rows)

    def exchange_rows(self, rows: Sequence[int], *, signature: Signature) -> list[int]:
        """How many rows each rank has for this one, [P], where this one has `rows` for them.

        They agree on `signature` as well (collective).
        """
        with self.waiting_for(signature, Kind.ROWS) as signature:
            self.agree(signature)
            received = np.empty(self.size, np.int64)
            self.control.Alltoall(np.asarray(rows, np.int64), received)
            return received.tolist()

    def allgather_object(self, value: T) -> list[T]:
        """Every rank's picklable `value`, in the order of ranks (collective)."""
        with self.waiting_for(Signature("allgather of objects"), Kind.OBJECTS) as signature:
            self.agree(signature)
            return self.control.allgather(value)

    def broadcast_object(self, value: T, *, root: int = 0) -> T:
        """The picklable `value` of rank `root`, on every rank (collective)."""
        signature = Signature("broadcast of an object", root=root)
        with self.waiting_for(signature, Kind.OBJECTS) as signature:
            self.agree(signature)
            return self.control.bcast(value, root=root)

    def begin(self, announcement: Announcement) -> None:
        """Note that this rank begins its next collective (local); `end` must follow.

        Raises
        ------
        InputError
            Another one is in progress on this rank, in another thread.
        """
        if not self._take_turn(False):
            raise self._disorder(announcement)
        # The watchdog reads these two: a number that stands still with a wish pending is a stall.
        number = self.sequence = self.sequence + 1
        self.pending = announcement.signature
        # Odd, so that no difference is lost; and all numbers are those that Python is fast at.
        self.trail = (3 * self.trail + announcement.key) & KEY_MASK
        if not number % _TRAIL_STEP:
            self._trails[_place(number)] = number, self.trail
        self.history.append((number, announcement))
        if self.joined_ranks_observer is not None:
            self.joined_ranks_observer.tell(number, announcement)

    def end(self) -> None:
        """Note that the collective which this rank has begun is over, or has failed (local)."""
        self.pending = None
        self._give_turn()

    def _disorder(self, announcement: Announcement) -> InputError:
        """The error of two collectives at once, which all later ones get, too.

        Which of the two the other ranks begin first is not known, so nothing that this group does
        from here on can be trusted.
        """
        if self._disordered is None:
            self._give_turn = lambda: None
            self._disordered = (
                f"Rank {self.rank} of «{self.name}» was asked for {announcement.signature} while "
                f"{self.pending or 'another collective'} was in progress in another thread. The "
                f"order in which threads call collectives is not the same on all ranks. Call them "
                f"from one thread (Dataset.map without num_parallel_calls, no prefetch behind it), "
                f"or give each thread a group of its own, made by Communicator.split(0)."
            )
        return InputError(self._disordered)

    @contextlib.contextmanager
    def waiting_for(self, signature: Signature, kind: Kind = Kind.AGREEMENT) -> Iterator[Signature]:
        """Let the watchdog, and ranks that have joined, see an exchange that is no tensor's."""
        recorder = self.recorder
        begun = 0 if recorder is None else recorder.now()
        self.begin(Announcement(kind, signature))
        try:
            yield signature
        finally:
            self.end()
        if recorder is not None:
            recorder.note(self, signature, begun)

    def on_root(self, action: Callable[[], T], *, root: int = 0) -> T:
        """Do `action` on rank `root` alone; every rank gets its result or its error (collective).

        Only errors of sciml_par's own kind are shared. Any other leaves `root` as it came, and so
        ends the job.
        """
        outcome: tuple[T | None, SciMLParError | None] = (None, None)
        if self.rank == root:
            try:
                outcome = (action(), None)
            except SciMLParError as error:
                outcome = (None, error)
        result, failure = self.broadcast_object(outcome, root=root)
        if failure is not None:
            raise failure
        return result  # type: ignore[return-value]

    def attempt(self, action: Callable[[], T]) -> T:
        """Do `action` on every rank; if it fails on any, fail on all (collective).

        `action` must not communicate. Errors of sciml_par's own kind are shared, and the lowest
        rank's is raised everywhere; others leave as they came.
        """
        result: T | None = None
        failure: SciMLParError | None = None
        try:
            result = action()
        except SciMLParError as error:
            failure = error
        for each in self.allgather_object(failure):
            if each is not None:
                raise each
        return result  # type: ignore[return-value]


def _place(number: int) -> int:
    """Where the trail of a collective is kept."""
    return number // _TRAIL_STEP % _TRAILS_KEPT


def _translate(part: MPI.Comm, whole: MPI.Comm) -> list[int]:
    """The numbers that the ranks of `part` have in `whole`."""
    return list(part.Get_group().Translate_ranks(None, whole.Get_group()))
