"""A group of ranks: who they are, and the host-side exchanges that everything else rests on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sciml_par.errors import CollectiveMismatchError, SciMLParError
from sciml_par.parallel.mpi_communicator import MPICommunicator
from sciml_par.parallel.signature import Signature

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.call import Site
    from sciml_par.parallel.cupy_binding import Gpu
    from sciml_par.parallel.nccl_communicator import NCCLCommunicator
    from sciml_par.parallel.request import Request

T = TypeVar("T")

_LONGEST_LIST = 4


class Communicator:
    """A group of ranks that exchange tensors: by MPI from host memory, by NCCL between GPUs.

    A communicator of size 1 is an ordinary one.

    Parameters
    ----------
    mpi : the group as mpi4py knows it. It is duplicated twice, so that neither the transfers nor
        the control messages can meet those of the program or of another library.
    name : how messages call the group.
    world : the group of all ranks, of which this one is a part; itself by default.
    check_always : agree on the signature at every execution of a collective, not at the first.

    Attributes
    ----------
    rank, size : this process's number in the group, 0 ≤ rank < size.
    mpi : the duplicate that carries tensors.
    control : the duplicate that carries agreements and the watchdog's messages.
    by_mpi : carries tensors between host memory.
    by_nccl : carries tensors between GPUs; None where the ranks do not have one each, or no NCCL.
    gpu : this rank's GPU as CuPy sees it, or None.
    sequence : how many collectives this rank has begun.
    enqueued : which of them was the last that a GPU was given.
    pending : what this rank waits for, or None.
    world_ranks : the members' numbers in the world, [P].
    family : the world and all groups made of it.
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
        self.check_always = check_always
        self.rank: int = mpi.Get_rank()
        self.size: int = mpi.Get_size()
        self.by_mpi = MPICommunicator(self.mpi)
        self.by_nccl: NCCLCommunicator | None = None
        self.gpu: Gpu | None = None
        self.sequence = 0
        self.enqueued = 0
        self.pending: Signature | None = None
        self.eager_sites: dict[Request, Site] = {}
        self._world = world or self
        self.world_ranks = _translate(self.mpi, self._world.mpi)
        # The watchdog of another thread reads it; groups are few, and live as long as the job.
        self.family: list[Communicator] = self._world.family if world else []
        self.family.append(self)
        self._splits = 0

    def __repr__(self) -> str:
        return f"Communicator({self.name!r}, rank {self.rank} of {self.size})"

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

    def take_gpus_from(self, whole: Communicator, color: int) -> None:
        """Reach the GPUs of this part of `whole`, whose ranks alone give `color` (collective)."""
        self.gpu = whole.gpu
        if whole.by_nccl is not None:
            self.by_nccl = whole.by_nccl.split(color, self.rank, self.size)

    def agree(self, signature: Signature, number: int = 0) -> list[int]:
        """Compare what the ranks ask for, and exchange a number on the way (collective).

        How many collectives each rank has begun is compared as well: a rank that left a loop
        early may have paired its collectives with the others' in silence until here.

        Returns
        -------
        Every rank's `number`, [P].

        Raises
        ------
        CollectiveMismatchError
            On all ranks alike, with what each of them asked for.
        """
        counts = self.sequence.to_bytes(8, "little") + number.to_bytes(8, "little")
        mine = np.frombuffer(signature.digest + counts, np.uint8)
        everyone = np.empty((self.size, mine.size), np.uint8)
        self.control.Allgather(mine, everyone)
        if (everyone[:, :-8] == everyone[0, :-8]).all():
            return [int.from_bytes(each[-8:].tobytes(), "little") for each in everyone]
        self.pending = None
        asked = self.control.allgather((str(signature), self.sequence))
        in_step = len({place for _, place in asked}) == 1
        wishes = [w if in_step else f"{w}, its collective number {place}" for w, place in asked]
        raise CollectiveMismatchError(mismatch_message(self.name, dict(enumerate(wishes))))

    def standing(self) -> tuple[int, Signature] | None:
        """The collective that is under way: its number and what it is (local; for the watchdog).

        One that NCCL has been given counts until the GPU has done it.
        """
        wish = self.pending
        if wish is not None:
            # The number is read after the wish: if it is that of an earlier look, so is the wish.
            return self.sequence, wish
        wish = self.by_nccl.in_flight() if self.by_nccl is not None else None
        # By MPI, the host may have done later ones in the meantime.
        return None if wish is None else (self.enqueued, wish)

    def barrier(self) -> None:
        """Wait until every rank has come here (collective)."""
        with self.waiting_for(Signature("barrier")) as wish:
            self.agree(wish)

    def gather_rows(self, rows: int, *, signature: Signature | None = None) -> list[int]:
        """Every rank's number of rows, [P]; they agree on `signature` as well (collective)."""
        with self.waiting_for(signature or Signature("exchange of numbers of rows")) as wish:
            return self.agree(wish, rows)

    def exchange_rows(self, rows: Sequence[int], *, signature: Signature) -> list[int]:
        """How many rows each rank has for this one, [P], where this one has `rows` for them.

        They agree on `signature` as well (collective).
        """
        with self.waiting_for(signature) as wish:
            self.agree(wish)
            received = np.empty(self.size, np.int64)
            self.control.Alltoall(np.asarray(rows, np.int64), received)
            return received.tolist()

    def allgather_object(self, value: T) -> list[T]:
        """Every rank's picklable `value`, in the order of ranks (collective)."""
        with self.waiting_for(Signature("allgather of objects")) as wish:
            self.agree(wish)
            return self.control.allgather(value)

    def broadcast_object(self, value: T, *, root: int = 0) -> T:
        """The picklable `value` of rank `root`, on every rank (collective)."""
        with self.waiting_for(Signature("broadcast of an object", root=root)) as wish:
            self.agree(wish)
            return self.control.bcast(value, root=root)

    @contextlib.contextmanager
    def waiting_for(self, wish: Signature) -> Iterator[Signature]:
        """Let the watchdog see an exchange that is no tensor's."""
        self.sequence += 1
        self.pending = wish
        try:
            yield wish
        finally:
            self.pending = None

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


def _translate(part: MPI.Comm, whole: MPI.Comm) -> list[int]:
    """The numbers that the ranks of `part` have in `whole`."""
    return list(part.Get_group().Translate_ranks(None, whole.Get_group()))


def mismatch_message(group: str, asked: Mapping[int, str]) -> str:
    """What each rank {rank: wish} asked for, ranks with the same wish on one line."""
    wishes: dict[str, list[int]] = {}
    for rank, wish in asked.items():
        wishes.setdefault(wish, []).append(rank)
    lines = [f"  {rank_list(ranks)}: {wish}" for wish, ranks in wishes.items()]
    return (
        f"The ranks of «{group}» did not ask for the same collective:\n"
        + "\n".join(lines)
        + "\nEvery rank must call the same collectives in the same order, with the same type and "
        "shape. Look for a branch on rank(), or for data whose shape depends on it."
    )


def rank_list(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 2 and 5" or "ranks 0–63", of ascending numbers."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    parts: list[str] = []
    for _, run in itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in run]
        long = len(members) > _LONGEST_LIST
        parts += [f"{members[0]}–{members[-1]}"] if long else map(str, members)
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"ranks {listed}"
