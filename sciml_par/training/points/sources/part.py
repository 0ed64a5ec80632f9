"""One set of points on one rank: its rows, its source, and what other ranks compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par._rounding import coarse_rounding
from sciml_par.errors import InputError
from sciml_par.problems.terms.term import Term
from sciml_par.training.identity.fingerprint import of_array
from sciml_par.training.points.adapting import Adapting
from sciml_par.training.points.division import own_rows, piece
from sciml_par.training.points.generators import bootstrap_counts
from sciml_par.training.points.point_sets import Arrays, InteriorSet, PointSet, check_pointwise
from sciml_par.training.points.sources.adaptive import Adaptive
from sciml_par.training.points.sources.order import Order
from sciml_par.training.points.sources.pool import Pool, Redrawn, Share
from sciml_par.training.points.sources.source import ENDLESS, Source

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """Which rank among those that share a model, and what its random numbers depend on.

    Attributes
    ----------
    rank, size : in the group of ranks.
    axis : along which the ranks' points lie one after the other.
    seed : of points and batches.
    dtype : of the tensors.
    names : of the coordinates.
    bootstrap : the seed of the member's sample of these points; None for all as they are.
    """

    rank: int
    size: int
    axis: int
    seed: int
    dtype: str
    names: tuple[str, ...]
    bootstrap: int | None


@dataclass(frozen=True)
class Part:
    """A set of points on one rank.

    Attributes
    ----------
    source : from which the steps take it.
    columns : which arrays each term takes.
    arrays : this rank's points before the first step.
    total : the number of points of all ranks.
    rows_of_ranks : how many points each rank has in a step, [P].
    digests : for each array a text that tells the points of all ranks from others.
    remarks : sentences for the user.
    """

    source: Source
    columns: tuple[tuple[int, ...], ...]
    arrays: Arrays
    total: int
    rows_of_ranks: tuple[int, ...]
    digests: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def make_part(
    point_set: PointSet,
    terms: Sequence[Term],
    place: Place,
    *,
    number: int,
    batch_size: int | None,
    resample_every: int | None,
) -> Part:
    """This rank's part of a set of points."""
    every_row = point_set.complete(point_set.points(0))
    total = len(every_row[0])
    _check(total, terms, batch_size)
    remarks = remarks_on_rounding(every_row[0], terms, place)
    axis = None if point_set.given else place.axis
    rows = own_rows(every_row[0], axis, rank=place.rank, size=place.size)
    own = tuple(array[rows] for array in every_row)
    redrawn = None
    if point_set.redrawn and resample_every is not None:
        _check_redrawn(point_set, place)
        redrawn = Redrawn(point_set, resample_every, total, axis, place.rank, place.size)
    counts = None
    if place.bootstrap is not None:
        counts = bootstrap_counts(total, place.bootstrap, number)
    weights = weights_of(terms, total, None if counts is None else counts[rows])
    if batch_size is None:
        source = Pool([Share(own, weights, redrawn=redrawn)], [], place.dtype)
    else:
        of_batches = weights_of(terms, batch_size, counts)
        period = ENDLESS if redrawn is None else redrawn.every
        order = Order(place.seed, number, total, batch_size, place.rank, place.size, period)
        share = Share(own, weights, every_row, of_batches, redrawn)
        source = Pool([share], [order], place.dtype)
    pieces = (piece(batch_size or total, rank, place.size) for rank in range(place.size))
    rows_of_ranks = tuple(end - first for first, end in pieces)
    digests = tuple(map(of_array, every_row))
    return Part(source, point_set.columns, own, total, rows_of_ranks, digests, remarks)


def make_adaptive_part(
    interior: InteriorSet, terms: Sequence[Term], place: Place, adapting: Adapting
) -> Part:
    """This rank's part of interior points that follow the residual."""
    if place.bootstrap is not None:
        raise InputError(
            f"train: bootstrap gives every member a sample of the same points, and "
            f"{type(adapting).__name__} chooses others. Leave out one of the two."
        )
    check_pointwise(interior)
    every_row = interior.complete(interior.points(0))
    _check(len(every_row[0]), terms, None)
    remarks = remarks_on_rounding(every_row[0], terms, place)
    source = Adaptive(
        [interior],
        adapting,
        [[term.weight for term in terms]],
        rank=place.rank,
        size=place.size,
        seed=place.seed,
        dtype=place.dtype,
    )
    capacity = source.capacity
    pieces = (piece(capacity, rank, place.size) for rank in range(place.size))
    rows_of_ranks = tuple(end - first for first, end in pieces)
    arrays = tuple(source.rows()[1])
    digests = tuple(map(of_array, every_row))
    return Part(source, interior.columns, arrays, capacity, rows_of_ranks, digests, remarks)


def remarks_on_rounding(x: FloatArray, terms: Sequence[Term], place: Place) -> tuple[str, ...]:
    """Return a sentence if the precision is coarse for the points x: [n, d]."""
    found = coarse_rounding(x, place.dtype)
    if found is None:
        return ()
    text = found.text(place.dtype, f"the points of term {terms[0].name!r}", place.names)
    if found.coincide:
        raise InputError(f"train: {text}")
    return (text,)


def weights_of(
    terms: Sequence[Term], total: int, counts: FloatArray | None = None
) -> list[npt.NDArray[np.float64]]:
    """w/N for each term; times how often each point counts, where that is given."""
    scalars = [np.asarray(term.weight / total) for term in terms]
    return scalars if counts is None else [scalar * counts for scalar in scalars]


def _check_redrawn(point_set: PointSet, place: Place) -> None:
    if place.bootstrap is not None:
        raise InputError(
            "train: bootstrap gives every member a sample of the same points, and resample_every "
            "draws other points. Leave out one of the two."
        )
    check_pointwise(point_set)


def _check(total: int, terms: Sequence[Term], batch_size: int | None) -> None:
    name = terms[0].name
    if total == 0:
        raise InputError(f"train: the term {name!r} of the loss has no points.")
    if batch_size is not None and batch_size > total:
        raise InputError(
            f"train: batch_size {batch_size} is larger than the {total} points of all ranks that "
            f"the term {name!r} has. Take at most {total}, or None for all points at every step."
        )
