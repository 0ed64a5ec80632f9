"""Batches of feeds as tables, and the points of several ranks together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sciml_par.training.points.feed import RankFeed


def tables(batch: Any) -> list[np.ndarray]:
    """Return each term's weights and arrays, a row a point."""
    found = []
    for weights, arrays in batch:
        n = len(arrays[0])
        columns = [np.reshape(array, [n, int(np.prod(array.shape[1:]))]) for array in arrays]
        weight = np.broadcast_to(np.asarray(weights), [n])[:, None]
        found.append(np.concatenate([weight, *columns], axis=1))
    return found


def batch_at(made: Any, step: int) -> Any:
    return made.batch(made.chunk(step), tf.constant(step))


def at(made: RankFeed, step: int) -> list[np.ndarray]:
    return tables(batch_at(made, step))


def counts_of(made: RankFeed) -> tuple[int, ...]:
    """Return for each term the number of this rank's points."""
    return tuple(len(arrays[0]) for arrays in made.arrays)


def joined(of_ranks: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the rows of all ranks, sorted."""
    found = [np.concatenate(each) for each in zip(*of_ranks, strict=True)]
    return [table[np.lexsort(table.T[::-1])] for table in found]


def assert_ranks_have_together_what_one_has(
    feed_of: Callable[[int, int], RankFeed], steps: Sequence[int]
) -> None:
    alone = feed_of(0, 1)
    for size in (2, 3, 4):
        feeds = [feed_of(rank, size) for rank in range(size)]
        assert {each.totals for each in feeds} == {alone.totals}
        assert all(each.description == alone.description for each in feeds)
        counts = np.array([counts_of(each) for each in feeds])
        assert counts.sum(axis=0).tolist() == list(alone.totals)
        assert np.all(np.ptp(counts, axis=0) <= 1)
        for step in steps:
            for of in (at, lambda made, step: tables(made.whole(step))):
                together = joined([of(each, step) for each in feeds])
                for mine, theirs in zip(together, joined([of(alone, step)]), strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=1e-13)
