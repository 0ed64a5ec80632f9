"""The points of one rank: of a member, of stacked members, and of parts of a stack."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.terms.term import Term
from sciml_par.training.points.feed import Feed, View
from sciml_par.training.points.sources.part import Part


class RankFeed(Feed):
    """The points of one model, or of members with the same points, on one rank.

    Attributes
    ----------
    terms : the terms of the loss, interior first.
    arrays : this rank's points of every term, as they are before the first step: x: [n, d] and
        what else the term needs there; n may be 0.
    totals : for each term the number of points of all ranks.
    sub_domain : a box around this rank's interior points that none of the others' lie in; None
        where there is no such box, as with points given as an array, and with batches.
    description : what the ranks that share a model must have in common: names, and short texts.
    remarks : sentences for the user.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        terms: Sequence[Term],
        sub_domain: Domain | None,
        description: dict[str, str],
    ) -> None:
        views = [(p, View(i, j, c)) for i, p in enumerate(parts) for j, c in enumerate(p.columns)]
        super().__init__(
            [part.source for part in parts],
            [view for _, view in views],
            [part.rows_of_ranks for part, _ in views],
        )
        self.terms = tuple(terms)
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

    @property
    def counts(self) -> tuple[int, ...]:
        """For each term the number of this rank's points."""
        return tuple(len(arrays[0]) for arrays in self.arrays)


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
