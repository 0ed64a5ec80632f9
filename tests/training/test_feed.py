"""Feeds: any number of ranks has the points and batches of one, step for step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import RankFeed, make_feed
from feeds import assert_ranks_have_together_what_one_has, at, batch_at, counts_of

from sciml_par.problems import Box, Dirichlet, Interval, Neumann, Problem, Residual, laplacian
from sciml_par.training import Points


def equation(u: Any, x: Any, f: Any) -> Any:
    return laplacian(u, x) - f


PLATE = Problem(
    Box([0, 0], [1, 2]),
    [
        Residual(equation, data=lambda x: np.sin(3 * x[:, :1]) * x[:, 1:]),
        Residual(lambda u, x: u(x), weight=0.1),
    ],
    conditions=[
        Dirichlet(0.3, where=lambda x: (x[:, 0] == 0) & (x[:, 1] < 1), weight=3.0),
        Neumann(0.1, where=lambda x: x[:, 1] == 2.0),
    ],
)
SCATTERED = PLATE.domain.sample(53, seed=4)

pytestmark = pytest.mark.ranks(most=1, reason="makes the feeds of several ranks itself")
WANTED = {
    "grid": Points(60),
    "per axis": Points((5, 9), boundary=30),
    "array": Points(SCATTERED),
    "sobol": Points(60, method="sobol", boundary=33),
    "fewer points than ranks": Points(3, method="uniform"),
    "batches": Points(60, batch_size=7),
    "batches of an array": Points(SCATTERED, batch_size={"interior": 10, "dirichlet": 3}),
    "smaller batches than ranks": Points(60, batch_size=2),
    "drawn anew": Points(30, boundary=40, method="lhs", resample_every=3),
    "batches, drawn anew": Points(
        30,
        boundary=40,
        method={"interior": "halton", "boundary": "uniform"},
        batch_size={"interior": 8, "neumann": 2},
        resample_every=3,
    ),
}
LOOPED = ("grid", "batches of an array", "drawn anew", "batches, drawn anew")
FULL = ["grid", "per axis", "array", "sobol", "fewer points than ranks", "drawn anew"]


def feed(points: Any, rank: int = 0, size: int = 1, *, seed: int = 5, **more: Any) -> RankFeed:
    return make_feed(PLATE, points, rank=rank, size=size, seed=seed, dtype="float64", **more)


@pytest.mark.parametrize("name", WANTED)
def test_the_ranks_have_together_what_one_rank_has(name: str) -> None:
    assert_ranks_have_together_what_one_has(partial(feed, WANTED[name]), (0, 3, 17))


@pytest.mark.parametrize("name", WANTED)
def test_weights_of_a_batch_are_those_of_the_terms(name: str) -> None:
    """Σ_i w_t/N_t over all rows is w_t, in every batch of any kind."""
    for step in (0, 5):
        tables = [at(feed(WANTED[name], rank, 3), step) for rank in range(3)]
        sums = [sum(table[:, 0].sum() for table in each) for each in zip(*tables, strict=True)]
        np.testing.assert_allclose(sums, [1.0, 0.1, 3.0, 1.0], rtol=1e-12)


@pytest.mark.parametrize("name", WANTED)
def test_data_and_equations_belong_to_the_points(name: str) -> None:
    made = feed(WANTED[name], 1, 3)
    for step in (0, 4):
        for batch in (batch_at(made, step), made.whole(step)):
            (x, f), (same,) = batch[0].arrays, batch[1].arrays
            np.testing.assert_allclose(f, np.sin(3 * x[:, :1]) * x[:, 1:], rtol=1e-12)
            np.testing.assert_array_equal(x, same)
            x, normals, _ = map(np.asarray, batch[3].arrays)
            assert np.all(x[:, 1] == 2.0) and np.all(normals == [0, 1])
            assert np.all(np.asarray(batch[2].arrays[0])[:, 1] < 1)


@pytest.mark.parametrize("name", FULL[:-1])
def test_all_points_at_every_step_cost_nothing(name: str) -> None:
    """Scalar weights, and the very same tensors at every step."""
    made = feed(WANTED[name])
    data = made.chunk(0)
    assert made.longest_chunk(123) > 10**9 and made.steps_per_epoch == 1
    first, later = made.batch(data, tf.constant(0)), batch_at(made, 99)
    for one, other in zip(tf.nest.flatten(first), tf.nest.flatten(later), strict=True):
        assert one is other
    assert all(weights.shape == [] for weights, _ in first)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in LOOPED else pytest.mark.all) for name in WANTED]
)
def test_chunks_may_begin_and_end_anywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled loop over all steps has the points that single steps of other feeds have."""
    for module in ("pool._MOST_BATCHES", "pool._MOST_STEPS"):
        monkeypatch.setattr(f"sciml_par.training.points.sources.{module}", 5)
    made = feed(WANTED[name], 1, 2)

    @tf.function(jit_compile=True)
    def run(data: Any, first: Any, end: Any, records: Any) -> Any:
        def step(i: Any, records: Any) -> Any:
            batch = made.batch(data, i)
            found = [tf.reduce_sum(w) + tf.reduce_sum(a[0]) for w, a in batch]
            return i + 1, tf.tensor_scatter_nd_update(records, [[i]], [tf.stack(found)])

        return tf.while_loop(lambda i, _: i < end, step, (first, records))[1]

    total, records, step = 23, tf.zeros([23, 4], tf.float64), 0
    lengths = iter([1, 4, 2, 9, 3, 100, 100, 100, 100, 100])
    while step < total:
        end = min(total, step + min(next(lengths), made.longest_chunk(step)))
        records = run(made.chunk(step), tf.constant(step), tf.constant(end), records)
        step = end
    assert run.experimental_get_tracing_count() == 1
    for step in (0, 4, 5, 6, 11, 15, 20, 22):
        other = feed(WANTED[name], 1, 2)  # as after a restart
        batch = batch_at(other, step)
        expected = [tf.reduce_sum(w) + tf.reduce_sum(a[0]) for w, a in batch]
        np.testing.assert_allclose(records[step], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "points",
    [Points(9000, batch_size=2049), Points(2731, method="lhs", resample_every=1)],
    ids=["batches", "drawn anew"],
)
def test_all_ranks_cut_steps_into_the_same_chunks(points: Points) -> None:
    """Also where some have a point more than others: they communicate in every step."""
    assert len({feed(points, rank, 2).longest_chunk(0) for rank in range(2)}) == 1


def test_an_epoch_uses_every_point_once() -> None:
    made = feed(Points((6, 10), batch_size=7))
    assert made.steps_per_epoch == 9
    used = np.concatenate([at(made, step)[0][:, 1:3] for step in range(60)])
    for epoch in range(7):
        part = used[60 * epoch : 60 * (epoch + 1)]
        assert len(np.unique(part, axis=0)) == 60
    assert not np.array_equal(used[:60], used[60:120])
    # the conditions have all of their points
    assert len(at(made, 3)[2]) == made.totals[2]


def test_seeds() -> None:
    random, batches = Points(20, method="random"), Points(20, batch_size=5)
    for points in (random, batches):
        assert np.array_equal(at(feed(points), 3)[0], at(feed(points), 3)[0])
        assert not np.array_equal(at(feed(points), 3)[0], at(feed(points, seed=6), 3)[0])
    own = Points(20, method="random", seed=9)
    assert np.array_equal(at(feed(own), 0)[0], at(feed(own, seed=6), 0)[0])
    again = feed(Points(20, method="random", resample_every=2))
    draws = [at(again, step)[0] for step in range(6)]
    assert np.array_equal(draws[0], draws[1]) and np.array_equal(draws[2], draws[3])
    assert not np.array_equal(draws[1], draws[2]) and not np.array_equal(draws[3], draws[4])
    np.testing.assert_array_equal(draws[0], at(feed(random), 0)[0])


def test_ranks_have_neighbouring_points_along_the_longest_axis() -> None:
    for name in ("grid", "sobol"):
        feeds = [feed(WANTED[name], rank, 3) for rank in range(3)]
        for each in feeds:
            assert each.sub_domain.contains(each.interior).all()
            np.testing.assert_array_equal(each.interior, each.arrays[0][0])
        assert feeds[0].sub_domain.lower[1] == 0 and feeds[2].sub_domain.upper[1] == 2
        assert feeds[0].sub_domain.upper[1] == feeds[1].sub_domain.lower[1]
        assert feeds[0].interior[:, 1].max() <= feeds[1].interior[:, 1].min()
    assert feed(WANTED["array"], 0, 3).sub_domain is None
    assert feed(WANTED["batches"], 0, 3).sub_domain is None
    assert feed(WANTED["grid"]).sub_domain == PLATE.domain
    few = [feed(WANTED["fewer points than ranks"], rank, 4) for rank in range(4)]
    assert few[3].sub_domain is None and few[3].interior.shape == (0, 2)
    assert few[2].sub_domain.upper[1] == 2


def test_one_rank_has_points_in_the_order_given() -> None:
    """A residual may have captured measured values, a row for each point."""
    np.testing.assert_array_equal(feed(SCATTERED).interior, SCATTERED)
    pieces = [feed(SCATTERED, rank, 3).interior for rank in range(3)]
    np.testing.assert_array_equal(np.concatenate(pieces), SCATTERED)
    np.testing.assert_array_equal(feed((4, 6)).interior, PLATE.domain.grid((4, 6)))


def test_data_may_be_measured_values_in_the_order_of_the_points() -> None:
    values = np.arange(53.0)[:, None]
    problem = Problem(PLATE.domain, Residual(equation, data=lambda x: values))
    for batch_size in (None, 10):
        points = Points(SCATTERED, batch_size=batch_size)
        for rank in range(3):
            made = make_feed(problem, points, rank=rank, size=3, seed=0, dtype="float64")
            for x, f in zip(*at_arrays(made, 2), strict=True):
                np.testing.assert_array_equal(x, SCATTERED[int(f[0])])


def at_arrays(made: RankFeed, step: int) -> Any:
    return [np.asarray(a) for a in batch_at(made, step)[0].arrays]


def test_points_per_rank() -> None:
    """Each rank has so many, both ends of its slab included."""
    problem = Problem(Interval(0, 3), lambda u, x: u(x), conditions=[Dirichlet(0.0)])
    for rank in range(3):
        made = make_feed(problem, points_per_rank=5, rank=rank, size=3, seed=0, dtype="float32")
        np.testing.assert_allclose(made.interior[:, 0], rank + np.linspace(0, 1, 5))
        assert made.totals == (15, 2) and made.sub_domain == Interval(rank, rank + 1)
        np.testing.assert_allclose(made.whole(0)[0].weights, 1 / 15)
    made = make_feed(
        PLATE, Points(boundary=60), points_per_rank=(4, 6), rank=1, size=2, seed=0, dtype="float32"
    )
    assert counts_of(made)[:2] == (24, 24) and made.totals[:2] == (48, 48)
    assert made.totals[3] == 15


def test_a_random_boundary_has_as_many_points_in_every_draw_of_any_seed() -> None:
    points = Points(10, boundary=50, method="uniform", resample_every=1)
    counts = {
        tuple(len(rows.arrays[0]) for rows in feed(points, seed=seed).whole(step))
        for seed in range(3)
        for step in range(6)
    }
    assert len(counts) == 1


def test_the_initial_points_reach_the_condition_that_holds_there() -> None:
    problem = Problem(
        Box([0, 0], [1, 2]),
        lambda u, x: u(x),
        conditions=[
            Dirichlet(0.0, where=lambda x: x[:, 1] == 0),
            Dirichlet(1.0, where=lambda x: (x[:, 0] == 0) | (x[:, 0] == 1)),
        ],
    )

    def counts(**given: Any) -> tuple[int, ...]:
        points = Points(40, **given)
        return make_feed(problem, points, rank=0, size=1, seed=0, dtype="float64").totals

    assert counts(boundary=60)[1:] == (15, 30)
    assert counts(boundary=60, initial=33)[1:] == (33, 40)
    line = np.stack([np.linspace(0, 1, 7), np.zeros(7)], axis=1)
    # its ends are on the sides as well, as on a grid of one's own
    assert counts(boundary=60, initial=line)[1:] == (7, 42)
    made = make_feed(
        problem,
        Points(40, boundary=50, initial=16, method={"initial": "sobol"}),
        rank=0,
        size=1,
        seed=0,
        dtype="float64",
    )
    x = made.arrays[1][0]
    np.testing.assert_array_equal(np.sort(np.floor(16 * x[:, 0])), np.arange(16))
