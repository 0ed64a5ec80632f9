"""Where the steps of a compiled loop take their points from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.problems.domains.domain import Domain
from sciml_par.training.points.sources.adaptive import Adaptive, stacked
from sciml_par.training.points.sources.part import Part
from sciml_par.training.points.sources.pool import Pool, TakeRows
from sciml_par.training.points.sources.source import Arrays, Source

Tensor = Any


class Rows(NamedTuple):
    """This rank's points of one term of the loss, as tensors, in one batch.

    Attributes
    ----------
    weights : what |r_i|² is multiplied by, w/N: a scalar [] for all points, or [n] for each; with
        an axis before, [M] or [M, n], where the M stacked members differ. Zero takes a point out.
    arrays : x: [n, d] and what else the term needs there; [M, n, …] where members differ.
    """

    weights: Tensor
    arrays: tuple[Tensor, ...]


Batch = tuple[Rows, ...]
"""`Rows` for every term of the loss. A term without points on this rank has rows of n = 0."""


@dataclass(frozen=True)
class View:
    """Where a term has its points: source, weight and arrays by their numbers."""

    source: int
    weight: int
    columns: tuple[int, ...]


@dataclass(frozen=True)
class BatchOf:
    """Make the batch of a step from a chunk's data: what a feed traces into the loop.

    It holds no points, and equal ones compute the same of data of equal shapes.
    """

    takes: tuple[TakeRows, ...]
    views: tuple[View, ...]

    def __call__(self, data: Any, step: Tensor) -> Batch:
        """Return the batch of the update after `step` updates of the run."""
        return self.rows([take(part, step) for take, part in zip(self.takes, data, strict=True)])

    def rows(self, parts: Sequence[tuple[Any, Any]]) -> tuple[Rows, ...]:
        """Return the rows of the terms, from the weights and arrays of all sources."""
        found = []
        for view in self.views:
            weights, arrays = parts[view.source]
            found.append(Rows(weights[view.weight], tuple(arrays[i] for i in view.columns)))
        return tuple(found)


class Feed:
    """The points of M stacked members on this rank, step for step.

    A feed depends on the number of the step alone, never on how steps are cut into chunks, so that
    a training that was interrupted continues with the same points.

    Parameters
    ----------
    sources : the sets of points.
    views : of the terms, in the order of the loss.
    rows_of_ranks : how many points each rank has in a step, for each term: [T][P].

    Attributes
    ----------
    batch : (data of a chunk, step) -> the batch of the update after `step` updates.
    stacked : for every term, whether its weights and each of its arrays have an axis for the
        members: a nest of booleans of the structure of a batch.
    steps_per_epoch : how many steps see every point once; 1 where every step uses all.
    same_points : whether all steps have the same batch.
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
        self.stacked: tuple[Any, ...] = self.batch.rows([each.stacked for each in self.sources])
        self.steps_per_epoch = max(source.steps_per_epoch for source in self.sources)
        self.same_points = all(isinstance(each, Pool) and each.fixed for each in self.sources)
        self.key: Hashable = (self.batch, self.steps_per_epoch, self.stacked)

    @property
    def adaptive(self) -> Adaptive | None:
        """The interior points, where they follow the residual."""
        first = self.sources[0]
        return first if isinstance(first, Adaptive) else None

    def candidates(self, arrays: Sequence[Arrays], dtype: str) -> Batch:
        """Return candidates of the interior points as rows of the equations, with weights w."""
        source = self.adaptive
        assert source is not None
        tensors = [tf.constant(array, dtype) for array in stacked(arrays)]
        weights = [tf.constant(weight, dtype) for weight in source.term_weights]
        of_interior = tuple(view for view in self.batch.views if view.source == 0)
        return replace(self.batch, views=of_interior).rows([(weights, tensors)])

    def longest_chunk(self, step: int) -> int:
        """Return how many steps a chunk may have at most that begins after `step` updates."""
        return min(source.longest_chunk(step) for source in self.sources)

    def chunk(self, step: int) -> Any:
        """Return the data of a chunk that begins after `step` updates: a nest of tensors.

        Shapes and types are the same for every chunk.
        """
        return tuple(source.chunk(step) for source in self.sources)

    def whole(self, step: int) -> Batch:
        """Return all of this rank's points as they are after `step` updates."""
        return self.batch.rows([source.whole(step) for source in self.sources])


class RankFeed(Feed):
    """The points of one model, or of members with the same points, on one rank.

    Attributes
    ----------
    arrays : this rank's points of every term, as they are before the first step: x: [n, d] and
        what else the term needs there; n may be 0.
    totals : for each term the number of points of all ranks.
    sub_domain : a box around this rank's interior points that none of the others' lie in; None
        where there is no such box, as with points given as an array, and with batches.
    description : what the ranks that share a model must have in common: names, and short texts.
    remarks : sentences for the user.
    """

    def __init__(
        self, parts: Sequence[Part], *, sub_domain: Domain | None, description: dict[str, str]
    ) -> None:
        views = [(p, View(i, j, c)) for i, p in enumerate(parts) for j, c in enumerate(p.columns)]
        super().__init__(
            [part.source for part in parts],
            [view for _, view in views],
            [part.rows_of_ranks for part, _ in views],
        )
        self.arrays = tuple(tuple(part.arrays[k] for k in view.columns) for part, view in views)
        self.totals = tuple(part.total for part, _ in views)
        self.sub_domain, self.description = sub_domain, description
        self.remarks = tuple(remark for part in parts for remark in part.remarks)

    @property
    def interior(self) -> npt.NDArray[np.float64]:
        """The interior points of this rank, x: [n, d]."""
        return self.arrays[0][0]

    @property
    def shape_key(self) -> Hashable:
        """Equal for members whose feeds can be stacked."""
        shapes = tuple(tuple(array.shape for array in arrays) for arrays in self.arrays)
        forms = tuple(source.form for source in self.sources)
        return (shapes, self.batch.views, forms, self.rows_of_ranks)


class StackedFeed(Feed):
    """The points of M members of one `shape_key`; arrays that all members share come once."""

    def __init__(self, feeds: Sequence[RankFeed]) -> None:
        sources = zip(*(feed.sources for feed in feeds), strict=True)
        joined = [each[0].stack(each) for each in sources]
        super().__init__(joined, feeds[0].batch.views, feeds[0].rows_of_ranks)


class DividedFeed:
    """The points of each part of a `DividedLoop`, with the methods of a `Feed`.

    Attributes
    ----------
    adaptive : None; points that follow the residual are of one computation.
    """

    def __init__(self, parts: Sequence[Feed]) -> None:
        self._parts = tuple(parts)
        self.steps_per_epoch = parts[0].steps_per_epoch
        self.adaptive: Any = None

    def longest_chunk(self, step: int) -> int:
        """Return how many steps a chunk may have at most that begins after `step` updates."""
        return min(part.longest_chunk(step) for part in self._parts)

    def chunk(self, step: int) -> tuple[Any, ...]:
        """Return the data of a chunk of each part."""
        return tuple(part.chunk(step) for part in self._parts)

    def whole(self, step: int) -> tuple[Any, ...]:
        """Return all points of each part."""
        return tuple(part.whole(step) for part in self._parts)
