"""Which points a rank trains on, for each term of the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.domain import Box
from sciml_par.problems.problem import Problem
from sciml_par.problems.term import Term
from sciml_par.training.fingerprint import of_array

FloatArray = npt.NDArray[np.float64]
Points = int | tuple[int, ...] | FloatArray


@dataclass(frozen=True)
class RankPoints:
    """This rank's part of the points of every term of the loss.

    Attributes
    ----------
    terms : the terms of the loss, interior first.
    arrays : for each term x: [n, d] and what else it needs there; n may be 0.
    sub_domain : where the interior points lie, if they were chosen by sub-domain.
    digests : for each term that of the points of all ranks, of which this is a part; None where
        each rank makes its own.
    """

    terms: tuple[Term, ...]
    arrays: tuple[tuple[FloatArray, ...], ...]
    sub_domain: Box | None
    digests: tuple[str | None, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """n, for each term."""
        return tuple(len(arrays[0]) for arrays in self.arrays)

    @property
    def interior(self) -> FloatArray:
        """The interior points of this rank, x: [n, d]."""
        return self.arrays[0][0]


def points_of_rank(
    problem: Problem, points: Points, *, boundary_points: int | None, rank: int, size: int
) -> RankPoints:
    """The points of rank `rank` among `size` ranks that train one model (local).

    Parameters
    ----------
    problem : the same on every rank of the group.
    points : how many equispaced points each rank has in its slab of the domain, both ends
        included; or all points x: [N, d] of the group, which are dealt out in contiguous pieces.
    boundary_points : about how many points the conditions have on the whole boundary.
    """
    given = isinstance(points, np.ndarray)
    part = None if given else problem.domain.split(size)[rank]
    on_boundary = boundary_points
    if on_boundary is None:
        on_boundary = _default_boundary_points(problem.domain, points, size)
    found: list[tuple[FloatArray, ...]] = []
    digests: list[str | None] = []
    for i, term in enumerate(problem.terms):
        if i >= len(problem.residuals):
            arrays = term.points(on_boundary)
            digests.append(", ".join(map(of_array, arrays)))
            found.append(_deal(arrays, rank, size))
        elif part is not None:
            digests.append(None)
            found.append(problem.residuals[i].points(part, points))  # type: ignore[arg-type]
        else:
            every = _checked_points(points, problem.domain)
            digests.append(of_array(every))
            x = _deal((every,), rank, size)[0]
            found.append(problem.residuals[i].payload(x))
    return RankPoints(problem.terms, tuple(found), part, tuple(digests))


def count_points(rank_points: RankPoints, communicator: Communicator) -> tuple[int, ...]:
    """N for each term, the points of all ranks of the group together (collective).

    Raises
    ------
    InputError
        On all ranks, where a term has no point on any of them.
    """
    counts = communicator.allgather_object(rank_points.counts)
    totals = tuple(sum(per_rank) for per_rank in zip(*counts, strict=True))
    for term, total in zip(rank_points.terms, totals, strict=True):
        if total == 0:
            raise InputError(f"train: the term {term.name!r} of the loss has no points.")
    return totals


def _deal(arrays: tuple[FloatArray, ...], rank: int, size: int) -> tuple[FloatArray, ...]:
    """The rank's contiguous piece of every array; the first ranks get one row more."""
    return tuple(np.array_split(array, size)[rank] for array in arrays)


def _default_boundary_points(domain: Box, points: Points, size: int) -> int:
    """As dense on the boundary as in the interior: 2d N^((d−1)/d)."""
    given = isinstance(points, np.ndarray)
    total = len(points) if given else size * int(np.prod(points))  # type: ignore[arg-type]
    d = domain.dimension
    return max(2 * d, round(2 * d * total ** ((d - 1) / d)))


def _checked_points(points: Points, domain: Box) -> FloatArray:
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != domain.dimension or len(x) == 0:
        raise InputError(
            f"train: expected points of shape [n, {domain.dimension}] with n ≥ 1; got {x.shape}."
        )
    outside = ~domain.contains(x)
    if outside.any():
        first = int(np.argmax(outside))
        raise InputError(
            f"train: {int(outside.sum())} of {len(x)} points lie outside {domain}, the first of "
            f"them number {first}: {x[first]}."
        )
    return x
