"""The points of several members as those of one computation."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import RankFeed, StackedFeed, make_feed
from feeds import batch_at

from sciml_par.errors import InputError
from sciml_par.problems import Box, Dirichlet, Interval, Observations, Problem, Residual, laplacian
from sciml_par.training import Points
from sciml_par.training.points.division import bootstrap_counts

pytestmark = pytest.mark.ranks(most=1, reason="makes the feeds of several ranks itself")


def equation(u: Any, x: Any, f: Any) -> Any:
    return laplacian(u, x) - f


def one(x: Any) -> Any:
    return np.sin(x[:, :1])


def another(x: Any) -> Any:
    return np.cos(x[:, :1])


def left(x: Any) -> Any:
    return x[:, 0] == 0


walls = {weight: Dirichlet(0.0, where=left, weight=weight) for weight in (1.0, 2.0, 3.0)}


@cache
def problem(data: Any = one, weight: float = 1.0) -> Problem:
    conditions = [walls[weight]]
    return Problem(Box([0, 0], [1, 2]), Residual(equation, data=data), conditions=conditions)


def feed(points: Any, *, rank: int = 0, size: int = 1, seed: int = 0, **more: Any) -> RankFeed:
    which = {name: more.pop(name) for name in ("data", "weight") if name in more}
    return make_feed(
        problem(**which), points, rank=rank, size=size, seed=seed, dtype="float64", **more
    )


def member(batch: Any, stacked: Any, j: int) -> Any:
    return tf.nest.map_structure(lambda leaf, flag: leaf[j] if flag else leaf, batch, stacked)


def assert_members(made: StackedFeed, feeds: Sequence[RankFeed]) -> None:
    """Slices of the stacked batches are the members' batches."""
    for step in (0, 7):
        batch, whole = batch_at(made, step), made.whole(step)
        for j, each in enumerate(feeds):
            expected = batch_at(each, step)
            for got, want in ((batch, expected), (whole, each.whole(step))):
                for rows, ours in zip(member(got, made.stacked, j), want, strict=True):
                    np.testing.assert_allclose(rows.weights, ours.weights, rtol=1e-14)
                    for a, b in zip(rows.arrays, ours.arrays, strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-14)


KINDS = {
    "grid": Points(30),
    "sobol": Points(30, method="sobol"),
    "batches": Points(30, batch_size={"interior": 7, "dirichlet": 2}),
    "random batches": Points(30, method="uniform", batch_size=7),
    "drawn anew": Points(30, method="lhs", resample_every=3),
    "batches, drawn anew": Points(30, method="lhs", resample_every=3, batch_size=7),
}
MEMBERS = {
    "alike": [{}, {}, {}],
    "other seeds": [{"seed": 0}, {"seed": 1}, {"seed": 2}],
    "other data": [{"data": one}, {"data": another}],
    "other weights": [{"weight": 1.0}, {"weight": 2.0}],
    "all other": [{"seed": 0}, {"seed": 1, "data": another, "weight": 3.0}],
}


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("kind", KINDS)
def test_stacked_batches_are_those_of_the_members(kind: str, members: str) -> None:
    feeds = [feed(KINDS[kind], rank=1, size=2, **each) for each in MEMBERS[members]]
    assert len({each.shape_key for each in feeds}) == 1
    made = StackedFeed(feeds)
    assert_members(made, feeds)
    assert made.steps_per_epoch == feeds[0].steps_per_epoch


def test_what_members_share_is_there_once() -> None:
    def flags(kind: str, members: str) -> Any:
        return StackedFeed([feed(KINDS[kind], **each) for each in MEMBERS[members]]).stacked

    for kind in KINDS:
        assert not any(tf.nest.flatten(flags(kind, "alike"))), kind
        if "anew" in kind:
            continue  # of other problems, all redrawn points are stacked
        (weights, arrays), _ = flags(kind, "other data")
        assert (weights, arrays) == (False, (False, True)), kind
        (weights, arrays), (condition, _) = flags(kind, "other weights")
        assert (weights, arrays, condition) == (False, (False, False), True), kind
    (weights, arrays), (_, boundary) = flags("sobol", "other seeds")
    assert (weights, arrays) == (False, (True, True)) and boundary == (True, False, False)
    assert flags("grid", "other seeds") == flags("grid", "alike")


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("points", [Points(30), Points(30, batch_size=7)])
def test_a_bootstrap_counts_points_the_same_on_any_number_of_ranks(
    points: Points, size: int
) -> None:
    alone = feed(points, bootstrap=11)
    counts = alone.totals[0] * np.asarray(alone.whole(0)[0].weights)
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-12)
    assert counts.sum() == pytest.approx(len(counts)) and counts.max() >= 2 and counts.min() == 0
    feeds = [feed(points, rank=rank, size=size, bootstrap=11) for rank in range(size)]
    for step in (0, 3):
        for made in (lambda f, s: f.whole(s), batch_at):
            found = [made(each, step)[0] for each in feeds]
            rows = np.concatenate([np.c_[r.weights, r.arrays[0]] for r in found])
            serial = made(alone, step)[0]
            expected = np.c_[serial.weights, serial.arrays[0]]
            for table in (rows, expected):
                table[:] = table[np.lexsort(table.T)]
            np.testing.assert_allclose(rows, expected, rtol=1e-14)
    assert feeds[0].whole(0)[1].weights.shape == [], "conditions keep all of their points"


def test_bootstraps_of_members_differ_and_share_the_points() -> None:
    for points in (Points(30), Points(30, batch_size=7)):
        feeds = [feed(points, bootstrap=seed) for seed in (1, 2)]
        made = StackedFeed(feeds)
        assert_members(made, feeds)
        (weights, arrays), (condition, _) = made.stacked
        assert (weights, arrays, condition) == (True, (False, False), False)
        assert not np.array_equal(*made.whole(0)[0].weights)


@pytest.mark.parametrize("size", [1, 3])
def test_a_bootstrap_draws_rows_of_observations_anew(size: int) -> None:
    x = np.random.default_rng(3).uniform(0, 1, (20, 2))
    measured = Problem(
        Box([0, 0], [1, 2]),
        laplacian,
        conditions=[Dirichlet(0.0, where=left), Observations(x, x[:, :1], weight=3.0)],
    )

    def counts(seed: int, term: int) -> Any:
        options = {"size": size, "seed": 0, "dtype": "float64", "bootstrap": seed}
        feeds = [make_feed(measured, 20, rank=rank, **options) for rank in range(size)]
        return np.concatenate([np.ravel(each.whole(0)[term].weights) for each in feeds])

    found = counts(5, 2) / 3.0 * 20
    np.testing.assert_allclose(found, bootstrap_counts(20, 5, 2))
    assert not np.array_equal(found, bootstrap_counts(20, 5)), "a sample for each set of points"
    assert not np.array_equal(found, counts(6, 2) / 3.0 * 20)
    assert len(set(counts(5, 1))) == 1, "other conditions keep all of their points"


def test_blocks_of_a_bootstrap_are_successive_rows() -> None:
    """Each row is in as many blocks of three of ten, fewer at the ends; counts rise by blocks."""
    blocks = [bootstrap_counts(10, seed, 1, block=3) for seed in range(300)]
    assert all(counts.sum() == 10 for counts in blocks)
    expected = np.convolve(np.ones(8) / 8, np.ones(3)) * 10 / 3
    np.testing.assert_allclose(np.mean(blocks, axis=0), expected, atol=0.3)
    np.testing.assert_array_equal(bootstrap_counts(10, 0, 1, block=10), np.ones(10))
    x = np.linspace(0, 1, 12)
    measured = Problem(Interval(0, 1), laplacian, conditions=[Observations(x, x)])
    options = {"rank": 0, "size": 1, "seed": 0, "dtype": "float64", "bootstrap": 5}
    made = make_feed(measured, 20, block=4, **options).whole(0)
    np.testing.assert_allclose(made[1].weights * 12, bootstrap_counts(12, 5, 1, block=4))
    assert made[0].weights.shape == [], "interior points are not data"
    with pytest.raises(InputError, match="have 13 rows, and the term 'observations' has 12"):
        make_feed(measured, 20, block=13, **options)


def test_bootstrap_counts_are_multinomial() -> None:
    counts = np.stack([bootstrap_counts(50, seed) for seed in range(400)])
    assert np.all(counts.sum(axis=1) == 50)
    assert abs(counts.var() - (1 - 1 / 50)) < 0.05
    assert abs(np.mean(counts == 0) - (1 - 1 / 50) ** 50) < 0.02


@pytest.mark.parametrize(
    ("points", "other"),
    [
        (Points(30), Points(40)),
        (Points(30, batch_size=3), Points(30, batch_size=4)),
        (Points(30, batch_size=3), Points(30)),
        (Points(30, method="lhs", resample_every=3), Points(30, method="lhs", resample_every=4)),
    ],
)
def test_feeds_that_cannot_be_stacked_have_other_keys(points: Points, other: Points) -> None:
    assert feed(points).shape_key != feed(other).shape_key
    assert feed(points).shape_key == feed(points, seed=1).shape_key


def test_a_compiled_loop_serves_feeds_with_equal_keys_and_keeps_no_points() -> None:
    for kind, points in KINDS.items():
        first, second = feed(points, seed=1), feed(points, seed=2)
        assert first.key == second.key and hash(first.key) == hash(second.key), kind
        batch, data = first.batch, second.chunk(0)
        alive = weakref.ref(first)
        del first
        gc.collect()
        assert alive() is None
        for mine, theirs in zip(
            tf.nest.flatten(batch(data, tf.constant(2))),
            tf.nest.flatten(second.batch(data, tf.constant(2))),
            strict=True,
        ):
            np.testing.assert_array_equal(mine, theirs)
    keys = [feed(points).key for points in KINDS.values()]
    assert len(set(keys)) == 5, "all but the first two of KINDS are programs of their own"
