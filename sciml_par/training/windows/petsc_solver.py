"""The normal equations of windows, solved by PETSc, whose direct solvers divide them over ranks."""

from __future__ import annotations

import atexit
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError, TrainingError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.training.windows.exchange import summed
from sciml_par.training.windows.strip_layout import Layout, Strips

Array = npt.NDArray[np.float64]

_PREFIX = "windows_"
_PARALLEL = "mumps"
"""The direct solver of several ranks; without it, each rank solves for all."""


def load_petsc() -> Any:
    """Return `petsc4py.PETSc`, initialized; raise if it cannot be used here (local)."""
    from mpi4py import MPI

    try:
        import petsc4py

        # Its handlers would print a stack of C where this package names the rank that failed.
        petsc4py.init(["", "-no_signal_handler"])
        from petsc4py import PETSc
    except ImportError as error:
        raise InputError(
            f"LeastSquares(solver='petsc'): petsc4py cannot be imported ({error}); "
            f"pip install 'sciml-par[petsc]' builds it, or load your cluster's PETSc."
        ) from error
    if PETSc.COMM_WORLD.getSize() != MPI.COMM_WORLD.size:
        raise InputError(
            f"LeastSquares(solver='petsc'): PETSc sees {PETSc.COMM_WORLD.getSize()} of "
            f"{MPI.COMM_WORLD.size} ranks. It was built with another MPI than mpi4py uses."
        )
    atexit.unregister(_finalize)
    atexit.register(_finalize, PETSc, os.getpid())
    if PETSc.ScalarType is not np.float64:
        raise InputError(
            f"LeastSquares(solver='petsc'): expected a PETSc of real numbers in double precision; "
            f"this one has {PETSc.ScalarType.__name__}."
        )
    return PETSc


def _finalize(petsc: Any, process: int) -> None:
    """Finalize PETSc before this package finalizes MPI, and not in a forked child."""
    if os.getpid() == process:
        petsc._finalize()


class PetscSolver:
    """Solves N y = g by PETSc.

    The Cholesky factors of MUMPS where PETSc has it; options of PETSc with the prefix "windows_"
    choose another solver. `blocks` has N_kl for the windows k of this rank and l before them, and
    is emptied. A rank has the rows of its strips.
    """

    def __init__(
        self, strips: Strips, layout: Layout, blocks: dict[Any, Array], ranks: Communicator
    ) -> None:
        petsc = ranks.attempt(load_petsc)
        self._ranks, own = ranks, strips.owner_of_window
        mine = strips.of_rank(ranks.rank)
        places = [layout.place(j) for j in mine]
        self._here = slice(places[0].start, places[-1].stop) if places else slice(0, 0)
        near: dict[int, set[int]] = {k: {k} for k in layout.windows}
        for k, other in set().union(*ranks.allgather_object(list(blocks))):
            near[k].add(other)
            near[other].add(k)
        counts = [np.zeros(self._here.stop - self._here.start, np.int32) for _ in range(2)]
        for k in layout.windows:
            if own[k] == ranks.rank:
                at = layout.window(k)
                rows = slice(at.start - self._here.start, at.stop - self._here.start)
                for other in near[k]:
                    columns = layout.window(other)
                    counts[int(own[other] != ranks.rank)][rows] += columns.stop - columns.start
        size = (len(counts[0]), layout.size)
        matrix = petsc.Mat().createAIJ((size, size), nnz=tuple(counts), comm=ranks.mpi)
        for (k, other), block in blocks.items():
            i, j = (_indices(layout.window(each)) for each in (k, other))
            matrix.setValues(i, j, block)
            if k != other:
                matrix.setValues(j, i, np.ascontiguousarray(block.T))
        blocks.clear()
        matrix.assemble()
        matrix.setOption(petsc.Mat.Option.SPD, True)
        self._ksp = petsc.KSP().create(ranks.mpi)
        self._ksp.setOperators(matrix)
        self._ksp.setOptionsPrefix(_PREFIX)
        self._ksp.setType(petsc.KSP.Type.PREONLY)
        factors = self._ksp.getPC()
        if petsc.Sys.hasExternalPackage(_PARALLEL):
            factors.setType(petsc.PC.Type.CHOLESKY)
            factors.setFactorSolverType(_PARALLEL)
        elif ranks.size > 1:
            factors.setType(petsc.PC.Type.REDUNDANT)
        else:
            factors.setType(petsc.PC.Type.CHOLESKY)
        self._ksp.setFromOptions()
        self._matrix = matrix
        self._right, self._answer = matrix.createVecs()
        self._error = petsc.Error
        self._attempt(self._ksp.setUp)

    def solve(self, right: Array) -> Array:
        """Return N⁻¹ g for g: [n, k], the same on all ranks (collective)."""
        answer = np.zeros_like(right)
        for j in range(right.shape[1]):
            self._right.setArray(right[self._here, j])
            self._attempt(lambda: self._ksp.solve(self._right, self._answer))
            reason = self._ksp.getConvergedReason()
            if reason < 0:
                raise TrainingError(
                    f"LeastSquares(solver='petsc'): PETSc did not solve the equations of the "
                    f"windows (KSPConvergedReason {reason}, after {self._ksp.getIterationNumber()} "
                    f"iterations); see PETSC_OPTIONS='-windows_ksp_monitor -windows_ksp_view'."
                )
            answer[self._here, j] = self._answer.getArray()
        return summed(answer, self._ranks)

    def free(self) -> None:
        """Free the matrix and its factors (collective); petsc4py keeps those of several ranks."""
        for each in (self._ksp, self._matrix, self._right, self._answer):
            each.destroy()

    def _attempt(self, call: Any) -> None:
        try:
            call()
        except self._error as error:
            raise TrainingError(f"LeastSquares(solver='petsc'): {error}") from error


def _indices(place: slice) -> npt.NDArray[np.int32]:
    return np.arange(place.start, place.stop, dtype=np.int32)
