"""The rank and size that mpirun or srun gives to a process, before MPI starts."""

from __future__ import annotations

from collections.abc import Mapping

_SLURM_RANK = "SLURM_PROCID"
_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", _SLURM_RANK)
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")

PREFIXES = ("PMI_", "PMIX_", "OMPI_COMM_", "HYDI_", "MPI_LOCAL", _SLURM_RANK)
"""Prefixes of the variables that MPICH, Open MPI and Slurm give to each process."""


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
