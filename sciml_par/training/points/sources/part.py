"""One set of points on one rank: its rows, its source, and what other ranks compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sciml_par._rounding import coarse_rounding
from sciml_par.errors import InputError
from sciml_par.parallel.requests.request import even_rows
from sciml_par.problems.terms.term import Term
from sciml_par.training.identity.described import of_array
from sciml_par.training.points.adapting import Adapting
from sciml_par.training.points.division import Place, bootstrap_counts
from sciml_par.training.points.point_sets import PointSet, check_pointwise
from sciml_par.training.points.sources.adaptive import Adaptive
from sciml_par.training.points.sources.pool import Order, Pool, Redrawn, Share
from sciml_par.training.points.sources.source import ENDLESS, Arrays, Source

FloatArray = npt.NDArray[np.float64]


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
    adapting: Adapting | None = None,
) -> Part:
    """Return this rank's part of a set of points."""
    every_row = point_set.complete(point_set.points(0))
    total = len(every_row[0])
    _check(total, terms, batch_size)
    every = point_set.every
    if every is not None or adapting is not None:
        if place.bootstrap is not None:
            raise InputError(
                "train: bootstrap gives every member a sample of the same points, which "
                "resample_every and adapt replace by others. Leave out one of the two."
            )
        check_pointwise(point_set)
    digests = tuple(map(of_array, every_row))
    remarks = remarks_on_rounding(every_row[0], terms, place)
    if adapting is not None:
        source = Adaptive([point_set], adapting, [[term.weight for term in terms]], place)
        total, own = source.capacity, tuple(source.rows()[1])
        rows = even_rows(total, place.size)
        return Part(source, point_set.columns, own, total, rows, digests, remarks)
    rows_here = place.own_rows(every_row[0], along_axis=not point_set.given)
    counts = None
    if place.bootstrap is not None:
        if place.block > total:
            raise InputError(
                f"train: the blocks of the bootstrap have {place.block} rows, and the term "
                f"{terms[0].name!r} has {total}. Take blocks that are much shorter than the data."
            )
        counts = bootstrap_counts(total, place.bootstrap, number, place.block)
    if point_set.weights is not None:
        factors = point_set.weights(every_row[0])
        counts = factors if counts is None else factors * counts
    share = Share(
        tuple(array[rows_here] for array in every_row),
        weights_of(terms, total, None if counts is None else counts[rows_here]),
        redrawn=None if every is None else Redrawn(point_set, every, total, place),
    )
    orders = []
    if batch_size is not None:
        share = replace(
            share, everyone=every_row, batch_weights=weights_of(terms, batch_size, counts)
        )
        period = ENDLESS if share.redrawn is None else share.redrawn.every
        orders = [Order(place.seed, number, total, batch_size, place.rank, place.size, period)]
    pool, rows = Pool([share], orders, place.dtype), even_rows(batch_size or total, place.size)
    return Part(pool, point_set.columns, share.own, total, rows, digests, remarks)


def remarks_on_rounding(x: FloatArray, terms: Sequence[Term], place: Place) -> tuple[str, ...]:
    """Return a sentence if the precision is coarse for the points x: [n, d]."""
    found = coarse_rounding(x, place.dtype)
    if found is None:
        return ()
    names = place.problem.domain.names
    text = found.text(place.dtype, f"the points of term {terms[0].name!r}", names)
    if found.coincide:
        raise InputError(f"train: {text}")
    return (text,)


def weights_of(
    terms: Sequence[Term], total: int, counts: FloatArray | None = None
) -> list[npt.NDArray[np.float64]]:
    """Return w/N for each term, times how often each point counts if that is given."""
    scalars = [np.asarray(term.weight / total) for term in terms]
    return scalars if counts is None else [scalar * counts for scalar in scalars]


def _check(total: int, terms: Sequence[Term], batch_size: int | None) -> None:
    name = terms[0].name
    if total == 0:
        raise InputError(f"train: the term {name!r} of the loss has no points.")
    if batch_size is not None and batch_size > total:
        raise InputError(
            f"train: batch_size {batch_size} is larger than the {total} points of all ranks that "
            f"the term {name!r} has. Take at most {total}, or None for all points at every step."
        )
