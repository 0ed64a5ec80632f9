"""A group of ranks: who they are, and the host-side exchanges that everything else rests on."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sciml_par._tensorflow import hidden_from_autograph
from sciml_par._text import rank_list
from sciml_par.errors import CollectiveMismatchError, InputError, SciMLParError
from sciml_par.parallel.groups.agreement import compare
from sciml_par.parallel.groups.native_progress import NativeProgress
from sciml_par.parallel.groups.progress import Progress
from sciml_par.parallel.native.job import NativeJob, host_group, settle_native
from sciml_par.parallel.native.machine_code import combine_by_machine_code
from sciml_par.parallel.requests.announcement import Kind
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.transports.mpi import MPITransport

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.requests.request import Request
    from sciml_par.parallel.transports.cupy_binding import Gpu
    from sciml_par.parallel.transports.nccl import NCCLTransport

T = TypeVar("T")


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
    native : whether the job has machine code for collectives.
    shared : carries short tensors through shared memory where all ranks are on one host; or None.
    mpi_transport : carries tensors between host memory.
    nccl_transport : carries tensors between GPUs; None where the ranks do not have one each, or no
        NCCL.
    gpu : this rank's GPU as CuPy sees it, or None.
    progress : how far this rank is in the group's collectives.
    world_ranks : the members' numbers in the world, [P].
    identity : no other group of the job has had or will have the same; a name may be used again.
    all_groups : the world and all groups made of it.
    call_sites : the call sites that eager calls with equal requests share, by request.
    calls_at_once : what carries eager allreduces that have been checked; see `at_once.py`.
    mismatch_error : what is raised where the ranks do not ask for the same; the world's by default.
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
        self.nccl_transport: NCCLTransport | None = None
        self.gpu: Gpu | None = None
        self._world = world or self
        self.world_ranks = _translate(self.mpi, self._world.mpi)
        self.native: NativeJob = (
            world.native if world else settle_native(self.mpi, self.control, os.environ)
        )
        self.shared = host_group(self.native, self.control, self.world_ranks)
        machine_code = None if self.native.obstacle else combine_by_machine_code
        self.mpi_transport = MPITransport(self.mpi, shared=self.shared, machine_code=machine_code)
        self._groups_made = 0
        self.identity: tuple[int, int] = self.control.bcast(
            (self._world.rank, self._world._groups_made)
        )
        self._world._groups_made += 1
        self._splits = 0
        self.mismatch_error: type[CollectiveMismatchError] = (
            self._world.mismatch_error if world else CollectiveMismatchError
        )
        self.call_sites: dict[Request, Any] = {}
        self.calls_at_once: dict[Any, Any] = {}
        where = f"Rank {self.rank} of «{name}»"
        self.progress = NativeProgress(where, self.shared) if self.shared else Progress(where)
        inherited = self._world.progress.observers if world else ()
        for observer in filter(None, (each.for_new_group(self) for each in inherited)):
            self.progress.observe(observer)
        # The watchdog's thread reads it, and then looks at a group that is complete.
        self.all_groups: list[Communicator] = self._world.all_groups if world else []
        self.all_groups.append(self)

    def __repr__(self) -> str:
        return f"Communicator({self.name!r}, rank {self.rank} of {self.size})"

    @property
    def check_always(self) -> bool:
        """Whether the ranks compare every collective; to be changed on all ranks together."""
        return self._check_always

    @check_always.setter
    def check_always(self, always: bool) -> None:
        self._check_always = always
        self.progress.ledger.clear()  # or call sites that have agreed would not ask

    @hidden_from_autograph
    def split(self, color: int) -> Communicator:
        """Return the ranks that give the same `color`, as a group of their own (collective)."""
        self._splits += 1
        name = f"{self.name}/{self._splits}.{color}"
        # Objects: a rank that has joined would take part in the agreement, but not in the split.
        with self.progress.exchange(Signature("split"), Kind.OBJECTS) as signature:
            self.agree(signature)
            part = self.mpi.Split(color, self.rank)
        try:
            group = Communicator(part, name=name, world=self._world, check_always=self.check_always)
        finally:
            part.Free()
        group.take_gpus_from(self, color)
        return group

    @hidden_from_autograph
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

    @hidden_from_autograph
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
        self.call_sites.clear()
        self.calls_at_once.clear()
        if self.shared is not None:
            self.shared.close()
        self.mpi_transport.free()
        self.mpi.Free()
        self.control.Free()

    @property
    def obstacle_to_sharing(self) -> str:
        """Why short tensors do not go through shared memory; empty if they do (local)."""
        if self.shared is not None or self.native.obstacle:
            return self.native.obstacle
        if len({self.native.hosts[rank] for rank in self.world_ranks}) > 1:
            return "the ranks are on several hosts"
        return "the ranks cannot share memory (each in a container of its own?)"

    def take_gpus_from(self, whole: Communicator, color: int) -> None:
        """Reach the GPUs of this part of `whole`, whose ranks alone give `color` (collective)."""
        self.gpu = whole.gpu
        if whole.nccl_transport is not None:
            self.nccl_transport = whole.nccl_transport.split(color, self.rank, self.size)

    def agree(self, signature: Signature, number: int = 0, *, expected: bool = False) -> list[int]:
        """Compare what the ranks ask for, and exchange a number on the way (collective).

        What they have asked for until here is compared as well: what was agreed on before is not
        compared each time, and ranks that did other things may have gone unnoticed.

        Parameters
        ----------
        expected : whether ranks that wait in shared memory know of the comparison already.

        Returns
        -------
        Every rank's `number`, [P].

        Raises
        ------
        CollectiveMismatchError
            On all ranks alike, with what each of them asked for. The group can be used again.
        """
        self.progress.comparing = True
        if self.shared is not None and not expected:
            self.shared.announce_comparison()
        try:
            return compare(self, signature, number)
        except CollectiveMismatchError:
            # All ranks are here and have been told. No tensor is on its way: what a rank may finish
            # before others begin is compared each time.
            self.progress.recover(max(self.control.allgather(self.progress.sequence)))
            raise
        finally:
            self.progress.comparing = False

    def in_progress(self) -> tuple[int, Signature] | None:
        """The collective that is in progress: its number and what it is (local; for the watchdog).

        One that NCCL has been given counts until the GPU has done it.
        """
        signature = self.progress.in_progress
        if signature is not None:
            # The number is read last: if it is that of an earlier look, so is the signature.
            return self.progress.sequence, signature
        signature = self.nccl_transport.in_flight() if self.nccl_transport is not None else None
        # By MPI, the host may have done later ones in the meantime.
        return None if signature is None else (self.progress.enqueued, signature)

    @hidden_from_autograph
    def barrier(self) -> None:
        """Wait until every rank has come here (collective)."""
        with self.progress.exchange(Signature("barrier")) as signature:
            self.agree(signature)

    def gather_rows(self, rows: int, *, signature: Signature | None = None) -> list[int]:
        """Every rank's number of rows, [P]; they agree on `signature` as well (collective)."""
        asked = signature or Signature("exchange of numbers of rows")
        with self.progress.exchange(asked):
            return self.agree(asked, rows)

    def exchange_rows(self, rows: Sequence[int], *, signature: Signature) -> list[int]:
        """Return how many rows each rank has for this one, [P], where this one has `rows` for them.

        They agree on `signature` as well (collective).
        """
        with self.progress.exchange(signature, Kind.ROWS):
            self.agree(signature)
            received = np.empty(self.size, np.int64)
            self.control.Alltoall(np.asarray(rows, np.int64), received)
            return received.tolist()

    @hidden_from_autograph
    def allgather_object(self, value: T) -> list[T]:
        """Every rank's picklable `value`, in the order of ranks (collective)."""
        pickled = _pickled(value)
        with self.progress.exchange(Signature("allgather of objects"), Kind.OBJECTS) as signature:
            self.agree(signature)
            everyone = self.control.allgather(pickled)
        return _unpickled(dict(enumerate(everyone)))

    @hidden_from_autograph
    def broadcast_object(self, value: T, *, root: int = 0) -> T:
        """Return the picklable `value` of rank `root`, on every rank (collective)."""
        pickled = _pickled(value if self.rank == root else None)
        signature = Signature("broadcast of an object", root=root)
        with self.progress.exchange(signature, Kind.OBJECTS):
            self.agree(signature)
            given = self.control.bcast(pickled, root=root)
        (found,) = _unpickled({root: given})
        return value if self.rank == root else found

    @hidden_from_autograph
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

    @hidden_from_autograph
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


def _pickled(value: Any) -> bytes | str:
    """`value` as bytes, or why it has none, before others wait for it."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return f"an object of type {type(value).__name__} ({type(error).__name__}: {error})"


def _unpickled(given: Mapping[int, bytes | str]) -> list[Any]:
    """What ranks have given; or one `InputError`, the same on all ranks."""
    failed = {rank: text for rank, text in given.items() if isinstance(text, str)}
    if failed:
        raise InputError(
            f"An exchange of objects: expected objects that pickle can write; got "
            f"{failed[min(failed)]} on {rank_list(list(failed))}. Give data, or functions and "
            f"classes that a module defines by name."
        )
    return [pickle.loads(each) for each in given.values() if isinstance(each, bytes)]


def _translate(part: MPI.Comm, whole: MPI.Comm) -> list[int]:
    """Return the numbers that the ranks of `part` have in `whole`."""
    return list(part.Get_group().Translate_ranks(None, whole.Get_group()))
