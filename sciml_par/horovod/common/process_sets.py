"""Process sets: groups of ranks with a number."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from sciml_par.errors import InputError
from sciml_par.horovod.common.exceptions import invalid_arguments
from sciml_par.parallel import Communicator, current_world, is_initialized

if TYPE_CHECKING:
    from mpi4py import MPI


_GLOBAL_ID = 0


class ProcessSet:
    """Some of the ranks, to be registered by `init` or `add_process_set`.

    Parameters
    ----------
    ranks_or_comm : the members' ranks, or an MPI communicator of them (a part of that of `init`).

    Attributes
    ----------
    process_set_id : its number while it is registered, otherwise None.
    ranks : the members in ascending order; with a communicator, only once registered.
    mpi_comm : the communicator, or None.
    """

    def __init__(self, ranks_or_comm: Sequence[int] | MPI.Comm) -> None:
        self.process_set_id: int | None = None
        self._communicator: Communicator | None = None
        self.mpi_comm: Any = None
        self.ranks: list[int] | None = None
        if hasattr(ranks_or_comm, "Get_group"):
            self.mpi_comm = ranks_or_comm
        else:
            ranks = list(ranks_or_comm)
            if not all(isinstance(rank, Integral) for rank in ranks):
                raise InputError(
                    f"ProcessSet: expected ranks, or an MPI communicator; got {ranks_or_comm!r}."
                )
            self.ranks = sorted(map(int, ranks))

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    def _is_registered(self) -> bool:
        if not is_initialized() or self.process_set_id is None:
            return False
        return current_world().process_sets.get(self.process_set_id) is self

    def _members(self) -> list[int]:
        return list(self.ranks or ())

    def size(self) -> int | None:
        """Return the number of members; None if the set is not registered."""
        return len(self._members()) if self._is_registered() else None

    def rank(self) -> int | None:
        """Return this process's number among the members; None if the set is not registered.

        `root_rank` of a collective is still a rank of the whole job.

        Raises
        ------
        InputError
            This process is not a member.
        """
        return communicator_of(self).rank if self._is_registered() else None

    def included(self) -> bool | None:
        """Return whether this process is a member; None if the set is not registered."""
        return self._communicator is not None if self._is_registered() else None


class _AllRanks(ProcessSet):
    """The set of all ranks, which is registered from `init` to `shutdown`."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = _GLOBAL_ID

    def __repr__(self) -> str:
        return "global_process_set"

    def _is_registered(self) -> bool:
        return is_initialized()

    def _members(self) -> list[int]:
        return list(range(current_world().communicator.size))

    def included(self) -> bool | None:
        return True if is_initialized() else None


global_process_set: ProcessSet = _AllRanks()


def communicator_of(process_set: ProcessSet) -> Communicator:
    """Return the communicator of a process set."""
    group = group_of(process_set)
    if group is None:
        with invalid_arguments():
            raise InputError(
                f"rank {current_world().communicator.rank} is not in {process_set!r}: only members "
                f"may call its collectives. Check process_set.included() first."
            )
    return group


def group_of(process_set: ProcessSet) -> Communicator | None:
    """Return the communicator of a registered set, or None if this rank is not a member."""
    if process_set is global_process_set:
        return current_world().communicator
    if not isinstance(process_set, ProcessSet):
        raise InputError(f"process_set: expected a ProcessSet; got {process_set!r}.")
    if not process_set._is_registered():
        raise InputError(
            f"{process_set!r} is not registered: give it to init(process_sets=[...]) or to "
            f"add_process_set() on all ranks first."
        )
    return process_set._communicator


def root_in(process_set: ProcessSet, root_rank: int) -> int:
    """Return the number within the set of rank `root_rank` of the whole job."""
    members = communicator_of(process_set).world_ranks
    if root_rank not in members:
        raise InputError(
            f"root_rank: expected a rank of the whole job that is in {process_set!r}, one of "
            f"{members}; got {root_rank!r}."
        )
    return members.index(root_rank)


def process_set_of(process_set_id: int) -> ProcessSet:
    """Return the registered set with a number."""
    if process_set_id == _GLOBAL_ID:  # before `init` as well
        return global_process_set
    sets = _all_sets()
    if process_set_id not in sets:
        raise InputError(f"process_set_id: expected one of {[*sets]}; got {process_set_id!r}.")
    return sets[process_set_id]


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Register a set of ranks (collective over all ranks, members or not).

    Parameters
    ----------
    process_set : the ranks, in any order, or a set of them. A set of an MPI communicator that is
        part of a split registers all parts.

    Returns
    -------
    This rank's set, with its number.

    Raises
    ------
    InputError
        On all ranks: the ranks do not exist, or a set of the same ranks is registered.
    """
    given = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    everyone = current_world().communicator
    mine = everyone.attempt(lambda: _ranks_given(given, everyone))
    groups = _agreed_groups(everyone.allgather_object(mine))
    everyone.attempt(lambda: _check_new(given, groups))
    own = next((ranks for ranks in groups if everyone.rank in ranks), groups[0])
    for ranks in groups:
        process_set = given if ranks == own else ProcessSet(ranks)
        number = 1 + max(_all_sets())
        process_set._communicator = everyone.subset(ranks, name=f"process set {number}")
        process_set.ranks, process_set.process_set_id = ranks, number
        current_world().process_sets[number] = process_set
    return given


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a set (collective over all ranks).

    Returns
    -------
    Whether it was registered. The set of all ranks cannot be removed and gives False.
    """
    if process_set is global_process_set or not process_set._is_registered():
        return False
    assert process_set.process_set_id is not None
    everyone = current_world().communicator
    everyone.barrier()  # no member may be in one of its collectives
    if process_set._communicator is not None:
        process_set._communicator.free()
    del current_world().process_sets[process_set.process_set_id]
    forget(process_set)
    return True


def forget(process_set: ProcessSet) -> None:
    """Make a set unregistered."""
    process_set.process_set_id = None
    process_set._communicator = None


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Return all registered sets: {number: ranks}."""
    return {number: each._members() for number, each in _all_sets().items()}


def _all_sets() -> dict[int, ProcessSet]:
    return {_GLOBAL_ID: global_process_set, **current_world().process_sets}


def _check_new(given: ProcessSet, groups: list[list[int]]) -> None:
    """Raise `InputError` if a group is already registered."""
    if given is global_process_set or given._is_registered():
        raise InputError(f"{given!r} is registered already.")
    for other in _all_sets().values():
        if other._members() in groups:
            raise InputError(
                f"A process set of the ranks {other._members()} is registered already: {other}."
            )


def _ranks_given(given: ProcessSet, everyone: Communicator) -> tuple[bool, list[int] | None]:
    """Return whether this rank gives a communicator, and its ranks of the job."""
    comm = given.mpi_comm
    if comm is None:
        return False, given.ranks
    if not comm:  # MPI.COMM_NULL
        return True, None
    members = sorted(comm.Get_group().Translate_ranks(None, everyone.mpi.Get_group()))
    if members[0] < 0:  # MPI.UNDEFINED
        raise InputError(
            "A process set: expected a communicator of ranks of this job; got one with others."
        )
    return True, members


def _agreed_groups(given: list[tuple[bool, list[int] | None]]) -> list[list[int]]:
    """Return the groups that all ranks together ask for, by their lowest rank."""
    parts = [part for _, part in given]
    groups = sorted({tuple(part) for part in parts if part is not None})
    if not all(by_communicator for by_communicator, _ in given):
        if len(groups) > 1 or None in parts:
            raise InputError(
                f"A process set: expected the same ranks on every rank; got {parts[0]} on rank 0, "
                f"and elsewhere {[part for part in parts if part != parts[0]]}."
            )
    elif not groups or any(parts[r] != list(ranks) for ranks in groups for r in ranks):
        raise InputError(
            f"A process set: expected the same communicator on all its members, and MPI.COMM_NULL "
            f"elsewhere, or the parts of a split; got communicators of the ranks {parts}."
        )
    return [list(ranks) for ranks in groups]
