"""A group of ranks: its members, and exchanges of objects and numbers between them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import hidden_from_autograph
from sciml_par._text import rank_list
from sciml_par.errors import CollectiveMismatchError, InputError, SciMLParError
from sciml_par.parallel.groups.agreement import compare
from sciml_par.parallel.groups.progress import Progress
from sciml_par.parallel.native.job import NativeJob, host_group, settle_native
from sciml_par.parallel.native.machine_code import combine_by_machine_code
from sciml_par.parallel.requests.request import Kind
from sciml_par.parallel.requests.signature import Signature
from sciml_par.parallel.transports.mpi import MPITransport

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel.requests.request import Request
    from sciml_par.parallel.transports.cupy_binding import Gpu
    from sciml_par.parallel.transports.nccl import NCCLTransport

T = TypeVar("T")
Array = npt.NDArray[Any]

_LONG_BYTES = 1 << 20
"""The shortest array of an object that travels by itself."""

_PART_BYTES = 1 << 26
"""The longest part of it in one transfer; some MPIs are slower with longer ones."""


class Communicator:
    """A group of ranks that exchange tensors: by MPI from host memory, by NCCL between GPUs.

    A communicator of size 1 is an ordinary one.

    Parameters
    ----------
    mpi : mpi4py's communicator. It is duplicated twice, so that messages are never mixed with those
        of the program or of another library.
    name : the group's name in messages.
    world : the group of all ranks; this group by default.
    check_always : compare requests at every collective, not only at the first with a signature.

    Attributes
    ----------
    rank, size : this process's number in the group, 0 ≤ rank < size.
    mpi : the duplicate for tensors.
    control : the duplicate for agreements and the watchdog's messages.
    native : the job's machine code for collectives.
    shared : the shared memory for short tensors, if all ranks are on one host; or None.
    mpi_transport : carries tensors between host memory.
    nccl_transport : carries tensors between GPUs; None without NCCL or a GPU for each rank.
    gpu : this rank's GPU in CuPy, or None.
    progress : this rank's progress in the group's collectives.
    world_ranks : the members' numbers in the world, [P].
    identity : unique among all groups of the job, unlike the name.
    all_groups : the world and all groups made of it.
    call_sites : the call sites that eager calls with equal requests share, by request.
    calls_at_once : the checked eager allreduces; see `eager.py`.
    mismatch_error : the error if the ranks' requests differ; the world's by default.
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
        of_world = self._world.mpi.Get_group()
        self.world_ranks = list(self.mpi.Get_group().Translate_ranks(None, of_world))
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
        self.progress = Progress(f"Rank {self.rank} of «{name}»", self.shared)
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
        """Whether the ranks compare every collective; change it on all ranks together."""
        return self._check_always

    @check_always.setter
    def check_always(self, always: bool) -> None:
        self._check_always = always
        self.progress.ledger.clear()  # or call sites that have agreed would not ask

    @hidden_from_autograph
    def split(self, color: int) -> Communicator:
        """Return the group of the ranks that give the same `color` (collective)."""
        self._splits += 1
        return self._part(color, f"{self.name}/{self._splits}.{color}")

    def _part(self, color: int, name: str) -> Communicator:
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
        """Return a group of some of this group's ranks (collective over this group).

        Parameters
        ----------
        ranks : the members' numbers in this group; the new group numbers them in ascending order.
        name : the group's name in messages.

        Returns
        -------
        The group, or None on the other ranks.

        Raises
        ------
        InputError
            No ranks, an unknown rank, a rank named twice, or ranks that differ between processes.
        """
        members = self._same_members(ranks)
        self._splits += 1
        is_member = self.rank in members
        group = self._part(
            int(is_member), name or f"{self.name}/{self._splits}.{rank_list(members)}"
        )
        if is_member:
            return group
        group.free()
        return None

    def _same_members(self, ranks: Iterable[int]) -> list[int]:
        """Return `ranks` in order, if all ranks give the same (collective)."""
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
        """Free a group that is not needed any more (collective over this group).

        Functions traced with it must not run again.
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
        """Why short tensors do not use shared memory; empty if they do (local)."""
        if self.shared is not None or self.native.obstacle:
            return self.native.obstacle
        if len({self.native.hosts[rank] for rank in self.world_ranks}) > 1:
            return "the ranks are on several hosts"
        return "the ranks cannot share memory (do they run in separate containers?)"

    def take_gpus_from(self, whole: Communicator, color: int) -> None:
        """Connect the GPUs of this part of `whole`; all its ranks give `color` (collective)."""
        self.gpu = whole.gpu
        if whole.nccl_transport is not None:
            self.nccl_transport = whole.nccl_transport.split(color, self.rank, self.size)

    def agree(self, signature: Signature, number: int = 0, *, expected: bool = False) -> list[int]:
        """Compare the ranks' requests until here, and exchange a number (collective).

        Parameters
        ----------
        expected : ranks that wait in shared memory know of the comparison already.

        Returns
        -------
        Every rank's `number`, [P].

        Raises
        ------
        CollectiveMismatchError
            On all ranks alike, with each rank's request. The group can be used again.
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
        """Return the number and signature of the collective in progress, or None (local).

        A collective by NCCL is in progress until the GPU has done it.
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
        """Wait until every rank has reached this call (collective)."""
        with self.progress.exchange(Signature("barrier")) as signature:
            self.agree(signature)

    def gather_rows(self, rows: int, *, signature: Signature) -> list[int]:
        """Return every rank's number of rows, [P], after comparing `signature` (collective)."""
        with self.progress.exchange(signature):
            return self.agree(signature, rows)

    def exchange_rows(self, rows: Sequence[int], *, signature: Signature) -> list[int]:
        """Return each rank's number of rows for this one, [P]; `rows` are this rank's for them.

        The ranks compare `signature` as well (collective).
        """
        with self.progress.exchange(signature, Kind.ROWS):
            self.agree(signature)
            received = np.empty(self.size, np.int64)
            self.control.Alltoall(np.asarray(rows, np.int64), received)
            return received.tolist()

    @hidden_from_autograph
    def allgather_object(self, value: T) -> list[T]:
        """Return every rank's picklable `value`, in the order of ranks (collective)."""
        pickled, arrays = _pickled(value)
        with self.progress.exchange(Signature("allgather of objects"), Kind.OBJECTS) as signature:
            self.agree(signature)
            sizes = [each.nbytes for each in arrays]
            everyone = self.control.allgather((pickled, sizes))
            parts = [self._arrays_of(rank, n, arrays) for rank, (_, n) in enumerate(everyone)]
            parts[self.rank] = [each.copy() for each in arrays]
        return _unpickled({rank: text for rank, (text, _) in enumerate(everyone)}, parts)

    @hidden_from_autograph
    def exchange_objects(self, values: Sequence[T | None]) -> list[T | None]:
        """Send `values[r]` to each rank r, and return what each has sent here (collective).

        Picklable objects go from rank to rank directly. None is not sent, so that ranks with
        nothing for each other exchange one number.
        """
        pickled = [b"" if value is None else _pickled(value, apart=False)[0] for value in values]
        signature = Signature("exchange of objects")
        failed = self.allgather_object(next((p for p in pickled if isinstance(p, str)), None))
        _unpickled({rank: text for rank, text in enumerate(failed) if text is not None})
        sizes = self.exchange_rows([len(each) for each in pickled], signature=signature)
        received = [bytearray(size) for size in sizes]
        with self.progress.exchange(signature, Kind.OBJECTS):
            self.agree(signature)
            # Not by `control`, on which ranks that wait send messages of their own accord.
            waiting = [self.mpi.Irecv(b, r) for r, b in enumerate(received) if b]
            waiting += [self.mpi.Isend(b, r) for r, b in enumerate(pickled) if b]
            for each in waiting:
                each.Wait()
        return [pickle.loads(each) if each else None for each in received]

    @hidden_from_autograph
    def broadcast_object(self, value: T, *, root: int = 0) -> T:
        """Return the picklable `value` of rank `root`, on every rank (collective)."""
        pickled, arrays = _pickled(value if self.rank == root else None)
        signature = Signature("broadcast of an object", root=root)
        with self.progress.exchange(signature, Kind.OBJECTS):
            self.agree(signature)
            sizes = [each.nbytes for each in arrays]
            given, sizes = self.control.bcast((pickled, sizes), root=root)
            parts = [self._arrays_of(root, sizes, arrays)]
        if self.rank == root and not isinstance(given, str):
            return value
        (found,) = _unpickled({root: given}, parts)
        return found

    def _arrays_of(self, root: int, sizes: Sequence[int], arrays: Sequence[Array]) -> list[Array]:
        """Return the long arrays in the object of rank `root` (collective)."""
        received = [np.empty(n, np.uint8) for n in sizes] if self.rank != root else list(arrays)
        for each in received:
            for begin in range(0, each.nbytes, _PART_BYTES):
                self.control.Bcast(each[begin : begin + _PART_BYTES], root=root)
        return received

    @hidden_from_autograph
    def on_root(self, action: Callable[[], T], *, root: int = 0) -> T:
        """Do `action` on rank `root` alone; every rank gets its result or its error (collective).

        Only a `SciMLParError` is shared. Any other error is raised on `root` and ends the job.
        """
        outcome = _outcome(action) if self.rank == root else (None, None)
        result, failure = self.broadcast_object(outcome, root=root)
        if failure is not None:
            raise failure
        return result  # type: ignore[return-value]

    @hidden_from_autograph
    def attempt(self, action: Callable[[], T]) -> T:
        """Do `action` on every rank; if it fails on one, fail on all (collective).

        `action` must not communicate. Every rank raises the lowest rank's `SciMLParError`; another
        error is raised on its rank alone.
        """
        result, failure = _outcome(action)
        for each in self.allgather_object(failure):
            if each is not None:
                raise each
        return result  # type: ignore[return-value]


def _outcome(action: Callable[[], T]) -> tuple[T | None, SciMLParError | None]:
    try:
        return action(), None
    except SciMLParError as error:
        return None, error


def _pickled(value: Any, *, apart: bool = True) -> tuple[bytes | str, list[Array]]:
    """Return the pickled `value`, or the reason why that fails, before others wait for it.

    apart : whether long arrays are left out and returned as bytes, so that nothing copies them.
    """
    arrays: list[Array] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        """Return whether the buffer stays in the text."""
        try:
            array = np.frombuffer(buffer.raw(), np.uint8)
        except BufferError:  # not contiguous
            return True
        if array.nbytes < _LONG_BYTES:
            return True
        arrays.append(array)
        return False

    options: dict[str, Any] = {"buffer_callback": keep} if apart else {}
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL, **options), arrays
    except Exception as error:
        reason = f"an object of type {type(value).__name__} ({type(error).__name__}: {error})"
    try:  # functions and classes that no module defines
        arrays.clear()
        cloudpickle = import_module("cloudpickle")
        return cloudpickle.dumps(value, pickle.HIGHEST_PROTOCOL, **options), arrays
    except Exception:
        return reason, []


def _unpickled(
    given: Mapping[int, bytes | str], arrays: Sequence[Sequence[Array]] = ()
) -> list[Any]:
    """Return the objects, or raise the same `InputError` on all ranks."""
    failed = {rank: text for rank, text in given.items() if isinstance(text, str)}
    if failed:
        raise InputError(
            f"An exchange of objects: expected objects that pickle can write; got "
            f"{failed[min(failed)]} on {rank_list(list(failed))}. Give data, or functions and "
            f"classes that a module defines by name; with cloudpickle installed, any function."
        )
    texts = [each for each in given.values() if isinstance(each, bytes)]
    parts = arrays or [()] * len(texts)
    return [pickle.loads(text, buffers=part) for text, part in zip(texts, parts, strict=True)]
