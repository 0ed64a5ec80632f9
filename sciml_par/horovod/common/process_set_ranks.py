"""The ranks of a process set, as all ranks of the job together give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sciml_par.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI

    from sciml_par.parallel import Communicator


def ranks_given(
    ranks: list[int] | None, comm: MPI.Comm | None, everyone: Communicator
) -> tuple[bool, list[int] | None]:
    """What this rank says of a set: whether by a communicator, and its ranks of the job.

    Parameters
    ----------
    ranks : the ranks, or None where the set was made of an MPI communicator.
    comm : the communicator. A rank that is not in it has MPI.COMM_NULL and gives no ranks.

    Raises
    ------
    InputError
        The communicator has ranks that are not of this job.
    """
    if comm is None:
        return False, ranks
    if not comm:  # MPI.COMM_NULL
        return True, None
    job = everyone.mpi.Get_group()
    members = sorted(comm.Get_group().Translate_ranks(None, job))
    if members[0] < 0:  # MPI.UNDEFINED
        raise InputError(
            "A process set: expected a communicator of ranks of this job; got one with others."
        )
    return True, members


def agreed_groups(said: list[tuple[bool, list[int] | None]]) -> list[list[int]]:
    """Return the groups of ranks that all ranks together ask for, by their lowest rank.

    Parameters
    ----------
    said : what `ranks_given` has returned on each rank.

    Returns
    -------
    One group, or the parts of a split, of which each rank has given its own.

    Raises
    ------
    InputError
        On all ranks: they have given other ranks.
    """
    parts = [part for _, part in said]
    groups = sorted({tuple(part) for part in parts if part is not None})
    if not all(by_communicator for by_communicator, _ in said):
        if len(groups) > 1 or None in parts:
            raise InputError(
                f"A process set: expected the same ranks on every rank; got {parts[0]} on rank 0, "
                f"and elsewhere {[part for part in parts if part != parts[0]]}."
            )
    elif not groups or any(parts[r] != list(ranks) for ranks in groups for r in ranks):
        raise InputError(
            f"A process set: expected one communicator, or the parts of a split, of which all "
            f"members give the same, and MPI.COMM_NULL elsewhere; got communicators of the ranks "
            f"{parts}."
        )
    return [list(ranks) for ranks in groups]
