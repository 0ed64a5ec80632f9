"""The rank and size that mpirun, srun or horovodrun gives to a process, before MPI starts."""

from __future__ import annotations

from collections.abc import Mapping

from sciml_par._stderr import write_error

_SLURM_RANK = "SLURM_PROCID"
_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", _SLURM_RANK)
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "SLURM_STEP_NUM_TASKS")


def launched_rank(environment: Mapping[str, str]) -> int | None:
    """Return the rank that a launcher gave this process; None if none has started it."""
    for variable in _RANKS:
        number = environment.get(variable, "")
        # Slurm gives 0 to the shell of a batch job as well, and that may call mpirun.
        if number.isdigit() and (variable, number) != (_SLURM_RANK, "0"):
            return int(number)
    return None


def launched_size(environment: Mapping[str, str]) -> int | None:
    """Return how many processes the launcher has started, if it says so."""
    for variable in _SIZES:
        if environment.get(variable, "").isdigit():
            return int(environment[variable])
    return None


def launched_apart(ranks: int, launched: int | None) -> bool:
    """Return whether a launcher has started more processes than the `ranks` that MPI has."""
    return ranks < (launched or 1)


def warn_of_copies(environment: Mapping[str, str]) -> None:
    """Warn if the processes of a launcher are separate jobs, in the first of them alone."""
    from mpi4py import MPI

    ranks, launched = MPI.COMM_WORLD.Get_size(), launched_size(environment)
    if not launched_apart(ranks, launched) or launched_rank(environment):
        return
    variable = next(name for name in _SIZES if environment.get(name, "").isdigit())
    write_error(
        f"warning: {variable} says that {launched} processes were started together, but MPI "
        f"connects {ranks} of them. They are separate jobs and overwrite each other's files. Start "
        f"the program with the mpirun of the MPI that mpi4py uses (sciml-par info names it), or "
        f"with srun --mpi=pmi2 or --mpi=pmix."
    )
