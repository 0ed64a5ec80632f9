"""Interior points that follow the residual: RAD draws them anew, RAR adds some."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from engine import RankFeed, StackedFeed, make_feed
from trainings import quick

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.problems import Dirichlet, Interval, PointCloud, Problem, laplacian
from sciml_par.training import RAD, RAR, Ensemble, Points

local = pytest.mark.ranks(most=1, reason="concerns each rank by itself")
INTERVAL = Interval(0, 2)


def layer() -> Problem:
    """A right-hand side that is large near x = 0.5 only, and an equation that is not linear."""
    return Problem(
        INTERVAL,
        lambda u, x: laplacian(u, x) - u(x) ** 2 - 100 / (1 + (30 * (x - 0.5)) ** 2),
        conditions=[Dirichlet(0.1)],
    )


def feed_of(adapt: Any, *, rank: int = 0, size: int = 1, points: int = 20) -> RankFeed:
    return make_feed(
        layer(), Points(points, adapt=adapt), rank=rank, size=size, seed=3, dtype="float64"
    )


def adapted(feed: RankFeed, step: int, squares: Any) -> Any:
    """The rows of the equation after the points have followed |r|² = squares(x)."""
    source = feed.adaptive
    assert source is not None

    def at_all(arrays: Any) -> Any:
        """What all ranks have at all candidates; they draw the same."""
        number = sum(source.counts)
        alone = feed_of(source.adapting).adaptive
        assert alone is not None
        found: list[Any] = []
        alone.adapt(step, lambda every: found.append(every[0][0]) or np.zeros((1, number)))
        begin = sum(source.counts[: source.place.rank])
        np.testing.assert_array_equal(arrays[0][0], found[0][begin : begin + len(arrays[0][0])])
        return squares(found[0])[:, 0][None]

    source.adapt(step, at_all)
    return feed.whole(step)[0]


@local
def test_rad_draws_in_proportion_to_the_residual() -> None:
    feed = feed_of(RAD(10, k=2, c=0, candidates=20_000), points=1000)
    source = feed.adaptive
    assert source is not None
    # p ∝ |r|² = x on [0, 2]: the mean of x is 4/3, and its standard error here about 0.015.
    source.adapt(10, lambda arrays: arrays[0][0][:, 0][None])
    x = feed.whole(10)[0].arrays[0].numpy()
    assert x.shape == (1000, 1)
    assert len(np.unique(x)) == 1000
    assert abs(x.mean() - 4 / 3) < 0.06
    # A large c spreads them evenly.
    even = feed_of(RAD(10, k=2, c=1e6, candidates=20_000), points=1000)
    assert even.adaptive is not None
    even.adaptive.adapt(10, lambda arrays: arrays[0][0][:, 0][None])
    assert abs(even.whole(10)[0].arrays[0].numpy().mean() - 1) < 0.08


@local
@pytest.mark.parametrize("size", (1, 3))
def test_rar_adds_the_points_of_the_largest_residuals(size: int) -> None:
    feeds = [feed_of(RAR(10, add=3, most=25), rank=r, size=size) for r in range(size)]
    near = lambda x: -np.abs(x - 0.5)  # noqa: E731
    for step, number in ((10, 23), (20, 25)):
        rows = [adapted(feed, step, near) for feed in feeds]
        x = np.concatenate([each.arrays[0].numpy() for each in rows])[:, 0]
        weights = np.concatenate([each.weights.numpy() for each in rows])
        np.testing.assert_allclose(weights[:number], 1 / number)
        np.testing.assert_array_equal(weights[number:], 0)
        np.testing.assert_array_equal(x[:20], INTERVAL.grid(20)[:, 0])
        assert np.abs(x[20:number] - 0.5).max() < 0.05
    assert feeds[0].adaptive is not None
    assert not feeds[0].adaptive.due(30)  # there are as many as there may be


ANCHORS = np.array([[0.123], [1.789]])


@local
@pytest.mark.parametrize(
    ("points", "number"),
    [
        (Points(20, anchors=ANCHORS, adapt=RAD(10)), 22),
        (Points(20, anchors=ANCHORS, adapt=RAR(10, add=3)), 25),
        (Points(20, anchors=ANCHORS[:, 0], method="sobol", resample_every=10), 22),
    ],
    ids=str,
)
def test_anchors_stay_where_they_are(points: Points, number: int) -> None:
    feed = make_feed(layer(), points, rank=0, size=1, seed=3, dtype="float64")
    before = feed.whole(0)[0].arrays[0].numpy()
    if feed.adaptive is not None:
        feed.adaptive.adapt(10, lambda arrays: arrays[0][0][:, 0][None])
    rows = feed.whole(10)[0]
    after = rows.arrays[0].numpy()[:number]
    for x in (before, after):
        assert np.isin(ANCHORS, x).all()
    assert len(np.unique(before[:22])) == 22 and len(np.unique(after)) == number
    assert not np.isin(after, before).all()
    np.testing.assert_allclose(rows.weights.numpy().ravel()[:number], 1 / number)


@local
def test_a_training_with_anchors_counts_them() -> None:
    points = Points(20, anchors=ANCHORS, method="sobol", resample_every=2)
    result = quick(layer(), points=points, steps=5)
    assert result.members[0].points == 22


@local
def test_anchors_that_are_none() -> None:
    with pytest.raises(InputError, match="Add the anchors to that array"):
        Points([[0.5]], anchors=ANCHORS)
    with pytest.raises(InputError, match="anchors of the points: 1 of 1 lie outside"):
        quick(layer(), points=Points(9, anchors=[[3.0]]), steps=1)
    with pytest.raises(InputError, match="points_per_rank gives .*; got anchors as well"):
        quick(layer(), points=Points(anchors=ANCHORS), points_per_rank=9)


@local
def test_a_cloud_has_its_own_points_as_candidates_and_ranks_share_these() -> None:
    cloud = PointCloud(np.random.default_rng(0).uniform(size=(30, 2)))
    problem = Problem(cloud, laplacian)
    points = Points(12, method="sobol", adapt=RAD(10))
    shares, chosen = [], []
    for rank in range(3):
        feed = make_feed(problem, points, rank=rank, size=3, seed=3, dtype="float64")
        source = feed.adaptive
        assert source is not None

        def at_all(arrays: Any, *, source: Any = source) -> Any:
            assert source.counts == (10, 10, 10)
            shares.append(arrays[0][0])
            return np.ones((1, 30))

        source.adapt(10, at_all)
        chosen.append(feed.whole(10)[0].arrays[0].numpy())
    assert len(np.unique(np.concatenate(shares), axis=0)) == 30
    assert len(np.unique(np.concatenate(chosen), axis=0)) == 12


@local
@pytest.mark.parametrize("adapt", (RAD(10), RAR(10, add=3)), ids=("RAD", "RAR"))
def test_a_member_of_a_stack_chooses_what_it_would_choose_alone(adapt: Any) -> None:
    alone, stacked = feed_of(adapt), StackedFeed([feed_of(adapt) for _ in range(3)])
    sources = alone.adaptive, stacked.adaptive
    assert sources[0] is not None and sources[1] is not None
    sources[0].adapt(10, lambda arrays: np.stack([a[0][:, 0] for a in arrays]))
    sources[1].adapt(10, lambda arrays: np.stack([a[0][:, 0] for a in arrays]))
    mine, theirs = alone.whole(10)[0].arrays[0], stacked.whole(10)[0].arrays[0]
    assert theirs.shape == (3, *mine.shape)
    for member in theirs:
        np.testing.assert_array_equal(member, mine)


@local
def test_values_that_are_not_finite_choose_no_other_points_than_large_ones() -> None:
    squares = np.array([1.0, np.nan, 4.0, np.inf])
    candidates = np.arange(4.0)[:, None]
    rng = np.random.default_rng(0)
    chosen = RAR(1, add=3).next_points(np.empty((0, 1)), candidates, squares, capacity=3, rng=rng)
    np.testing.assert_array_equal(chosen[:, 0], [1, 2, 3])
    drawn = RAD(1, c=0).next_points(candidates, candidates, np.zeros(4), capacity=4, rng=rng)
    np.testing.assert_array_equal(drawn, candidates)


small = partial(quick, steps=45, log_every=5, precision="float64")


@pytest.mark.ranks(most=3, reason="two and three divide the points unevenly, as more would")
@pytest.mark.parametrize(
    "adapt", [RAD(20), pytest.param(RAR(20, add=7), marks=pytest.mark.all)], ids=("RAD", "RAR")
)
def test_any_number_of_ranks_and_stacked_members_have_the_same_points(adapt: Any) -> None:
    points = Points(23, adapt=adapt)
    together = small(layer(), points=points, mode="data")
    alone = small(layer(), points=points, mode="ensemble").members[0]
    np.testing.assert_allclose(together.members[0].losses, alone.losses, rtol=1e-7)
    stacked = small(layer(), points=points, mode=Ensemble(members_per_rank=2)).members[0]
    np.testing.assert_allclose(stacked.losses, alone.losses, rtol=1e-7)
    # The loss at the new points is that of other points.
    fixed = small(layer(), points=23, mode="ensemble").members[0]
    np.testing.assert_allclose(alone.losses[:4], fixed.losses[:4], rtol=1e-9)
    assert np.all(np.abs(alone.losses[5:] / fixed.losses[5:] - 1) > 1e-3)
    assert alone.best_step >= 40  # of the points that there were last


@local
@pytest.mark.parametrize(
    ("make", "message"),
    (
        (lambda: RAD(0), "RAD: every must be an integer of at least 1"),
        (lambda: RAD(10, k=-1), "RAD: k must be at least 0"),
        (lambda: RAD(10, k=0, c=0), "must not both be 0"),
        (lambda: RAR(10, add=0), "RAR: add must be an integer of at least 1"),
        (lambda: Points(10, adapt=RAD), r"adapt must be RAD\(every\) or RAR"),
        (lambda: Points(10, adapt=100), r"adapt must be RAD\(every\) or RAR"),
        (lambda: Points(np.ones((3, 1)), adapt=RAD(5)), "given as an array as well"),
        (lambda: Points(10, batch_size=5, adapt=RAD(5)), "batch_size for the interior points"),
        (
            lambda: Points(10, method="sobol", resample_every=5, adapt=RAD(5)),
            "got resample_every as well",
        ),
        (lambda: feed_of(RAR(5, most=10)), "most=10, and there are 20"),
        (lambda: feed_of(RAD(5, candidates=10)), "got 10 candidates for 20 points"),
    ),
)
def test_refuses_what_does_not_go_together(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_is_for_the_points_of_the_whole_job_and_no_bootstrap() -> None:
    with pytest.raises(InputError, match="got adapt as well"):
        small(layer(), points=Points(adapt=RAD(5)), points_per_rank=9)
    with pytest.raises(InputError, match="bootstrap gives every member a sample"):
        members = Ensemble(members=sp.size(), bootstrap=True)
        small(layer(), points=Points(adapt=RAD(5)), mode=members)
