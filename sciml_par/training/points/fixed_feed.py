"""All points in every step."""

# ruff: noqa
# mypy: ignore-errors
from __future__ import annotations

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.training.points.feed import Rows


class FixedFeed:
    steps_per_epoch = 1

    def __init__(self, rank_points, totals, dtype):
        self.rank_points = rank_points
        self._rows = tuple(
            Rows(np.asarray(t.weight / n, dtype), tuple(np.asarray(a, dtype) for a in arrays))
            for t, arrays, n in zip(rank_points.terms, rank_points.arrays, totals, strict=True)
        )
        self.stacked = tuple((False, tuple(False for _ in r.arrays)) for r in self._rows)
        self.shape_key = tuple(tuple(a.shape for a in r.arrays) for r in self._rows)
        self.key = "fixed"
        self._data = None

    def longest_chunk(self, step):
        return 2**31 - 1

    def chunk(self, step):
        if self._data is None:
            self._data = tf.nest.map_structure(tf.constant, self._rows)
        return self._data

    def batch(self, data, step):
        return data

    def whole(self, step):
        return self.chunk(step)


def join_feeds(feeds):
    if len(feeds) == 1:
        return feeds[0]
    joined = FixedFeed.__new__(FixedFeed)
    first = feeds[0]
    rows, flags = [], []
    for i, row in enumerate(first._rows):
        leaves = [(f._rows[i].weights, *f._rows[i].arrays) for f in feeds]
        out, fl = [], []
        for column in zip(*leaves, strict=True):
            same = all(np.array_equal(column[0], c) for c in column)
            out.append(column[0] if same else np.stack(column))
            fl.append(not same)
        # weights [M] of a scalar become [M] leaf: a scalar for each member
        rows.append(Rows(out[0], tuple(out[1:])))
        flags.append((fl[0], tuple(fl[1:])))
    joined.rank_points = first.rank_points
    joined._rows, joined.stacked = tuple(rows), tuple(flags)
    joined.shape_key, joined.key, joined._data = first.shape_key, "fixed", None
    return joined
