"""A rank's points of all terms of the loss, step for step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.terms.term import Term
from sciml_par.training.points.feed import Batch, Rows
from sciml_par.training.points.sources.adaptive import Adaptive
from sciml_par.training.points.sources.pool import Pool
from sciml_par.training.points.sources.source import Source, Take

Tensor = Any
FloatArray = npt.NDArray[np.float64]
Arrays = tuple[FloatArray, ...]


@dataclass(frozen=True)
class View:
    """Where a term has its points: source, weight and arrays by their numbers."""

    source: int
    weight: int
    columns: tuple[int, ...]


@dataclass(frozen=True)
class BatchOf:
    """The batch of a step, from a chunk's data: what a feed traces into the loop.

    It holds no points, and equal ones compute the same of data of equal shapes.
    """

    takes: tuple[Take, ...]
    views: tuple[View, ...]

    def __call__(self, data: Any, step: Tensor) -> Batch:
        """See `Feed`."""
        parts = [take(part, step) for take, part in zip(self.takes, data, strict=True)]
        return self.rows(parts)

    def rows(self, parts: Sequence[tuple[Any, Any]]) -> tuple[Rows, ...]:
        """What the terms have of the weights and arrays of all sources."""
        found = []
        for view in self.views:
            weights, arrays = parts[view.source]
            found.append(Rows(weights[view.weight], tuple(arrays[i] for i in view.columns)))
        return tuple(found)


class SourcesFeed:
    """Several sources as a feed; see `sciml_par.training.points.feed.Feed`.

    Parameters
    ----------
    sources : the sets of points.
    views : of the terms, in the order of the loss.
    rows_of_ranks : how many points each rank has in a step, for each term: [T][P].

    Attributes
    ----------
    batch : as that of a feed; it keeps no points alive.
    key : equal for feeds that one compiled loop can serve, if their data have equal shapes.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        views: Sequence[View],
        rows_of_ranks: Sequence[tuple[int, ...]],
    ) -> None:
        self.sources, self.rows_of_ranks = tuple(sources), tuple(rows_of_ranks)
        self.batch = BatchOf(tuple(source.take for source in sources), tuple(views))
        self.stacked = self.batch.rows([source.stacked for source in self.sources])
        self.steps_per_epoch = max(source.steps_per_epoch for source in self.sources)
        self.same_points = all(isinstance(each, Pool) and each.fixed for each in self.sources)
        self.key: Hashable = (self.batch, self.steps_per_epoch, self.stacked)

    @property
    def adaptive(self) -> Adaptive | None:
        """The interior points, where they follow the residual."""
        first = self.sources[0]
        return first if isinstance(first, Adaptive) else None

    def candidates(self, arrays: Sequence[Arrays], dtype: str) -> Batch:
        """Candidates of the interior points as rows of the equations, with the weights w."""
        source = self.adaptive
        assert source is not None
        joined = [np.stack(each) for each in zip(*arrays, strict=True)]
        if len(arrays) == 1:
            joined = [array[0] for array in joined]
        tensors = [tf.constant(array, dtype) for array in joined]
        weights = [tf.constant(weight, dtype) for weight in source.term_weights]
        return tuple(
            Rows(weights[view.weight], tuple(tensors[i] for i in view.columns))
            for view in self.batch.views
            if view.source == 0
        )

    def longest_chunk(self, step: int) -> int:
        """See `Feed`."""
        return min(source.longest_chunk(step) for source in self.sources)

    def chunk(self, step: int) -> Any:
        """See `Feed`."""
        return tuple(source.chunk(step) for source in self.sources)

    def whole(self, step: int) -> Batch:
        """See `Feed`."""
        return self.batch.rows([source.whole(step) for source in self.sources])


class RankFeed(SourcesFeed):
    """The points of one model, or of members with the same points, on one rank.

    See `sciml_par.training.points.feed.Feed` for what the loop needs of it.

    Attributes
    ----------
    terms : the terms of the loss, interior first.
    arrays : this rank's points of every term, as they are before the first step: x: [n, d] and
        what else the term needs there; n may be 0.
    totals : for each term the number of points of all ranks.
    rows_of_ranks : see `SourcesFeed`.
    sub_domain : a box around this rank's interior points that none of the others' lie in; None
        where there is no such box, as with points given as an array, and with batches.
    description : what the ranks that share a model must have in common: names, and short texts.
    remarks : sentences for the user.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        views: Sequence[View],
        *,
        terms: Sequence[Term],
        arrays: Sequence[Arrays],
        totals: Sequence[int],
        rows_of_ranks: Sequence[tuple[int, ...]],
        sub_domain: Domain | None,
        description: dict[str, str],
        remarks: Sequence[str] = (),
    ) -> None:
        super().__init__(sources, views, rows_of_ranks)
        self.remarks = tuple(remarks)
        self.terms, self.arrays, self.totals = tuple(terms), tuple(arrays), tuple(totals)
        self.sub_domain, self.description = sub_domain, description

    @property
    def interior(self) -> FloatArray:
        """The interior points of this rank, x: [n, d]."""
        return self.arrays[0][0]

    @property
    def shape_key(self) -> Hashable:
        """Equal for members whose feeds can be stacked."""
        shapes = tuple(tuple(array.shape for array in arrays) for arrays in self.arrays)
        forms = tuple(source.form for source in self.sources)
        return (shapes, self.batch.views, forms, self.rows_of_ranks)

    @property
    def counts(self) -> tuple[int, ...]:
        """For each term the number of this rank's points."""
        return tuple(len(arrays[0]) for arrays in self.arrays)


class StackedFeed(SourcesFeed):
    """The points of M stacked members as one `Feed`; arrays that all members share come once."""

    def __init__(self, feeds: Sequence[RankFeed]) -> None:
        fault = difference(feeds)
        if fault is not None:
            raise InputError(f"train: members cannot be stacked, as they differ in {fault}.")
        sources = zip(*(feed.sources for feed in feeds), strict=True)
        joined = [each[0].stack(each) for each in sources]
        super().__init__(joined, feeds[0].batch.views, feeds[0].rows_of_ranks)


def difference(feeds: Sequence[RankFeed]) -> str | None:
    """What keeps members from being stacked, in words; None where they can be."""
    first = feeds[0]
    for other in feeds[1:]:
        if len(other.terms) != len(first.terms):
            return "the number of terms of the loss"
        if other.batch.views != first.batch.views:
            return "which residuals have data"
        for term, mine, theirs in zip(first.terms, first.arrays, other.arrays, strict=True):
            if [a.shape for a in mine] != [a.shape for a in theirs]:
                return f"the points of term {term.name!r}"
        if other.shape_key != first.shape_key:
            return "batch_size or resample_every"
    return None


def count_points(feed: RankFeed, communicator: Communicator) -> tuple[int, ...]:
    """N for each term, the points of all ranks of the group together (collective)."""
    counts = communicator.allgather_object(feed.counts)
    totals = tuple(sum(per_rank) for per_rank in zip(*counts, strict=True))
    for term, total in zip(feed.terms, totals, strict=True):
        if total == 0:
            raise InputError(f"train: the term {term.name!r} of the loss has no points.")
    return totals
