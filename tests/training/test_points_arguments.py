"""What users write as points: taken, or refused with a sentence that says what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import RankFeed, make_feed

from sciml_par.errors import InputError
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Interval,
    Neumann,
    Observations,
    Problem,
    Residual,
)
from sciml_par.training import Points

pytestmark = pytest.mark.ranks(most=1, reason="local: nothing here knows of other ranks")

X = np.random.default_rng(0).random((20, 2))
SIDES = np.array([[0, 0.5], [1, 0.5], [0.5, 0]])
SQUARE = Problem(
    Box([0, 0], [1, 1]),
    lambda u, x: u(x),
    conditions=[Dirichlet(0.0), Neumann(0.0, where=lambda x: x[:, 0] == 1)],
)
LINE = Problem(
    Interval(0.1, 0.8), Residual(lambda u, x, f: u(x) - f, data=np.sin), conditions=[Dirichlet(0.0)]
)
MEASURED = Problem(
    Interval(0, 1), Residual(lambda u, x, f: u(x) - f, data=lambda x: np.arange(len(x))[:, None])
)


class DataFrame:
    """What NumPy reads, and is no array."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return X if dtype is None else X.astype(dtype)


class OwnPoints(Condition):
    """A condition that chooses its points by itself."""

    kind = "own"
    value, where, weight = 0.0, None, 1.0

    def points(self, domain: Box, n: int) -> Any:
        return domain.sample(5, seed=0), np.ones((5, 3)), np.zeros((5, 1))

    def residual(self, u: Any, x: Any, *arrays: Any) -> Any:
        return u(x) - arrays[1]


def feed(points: Any, problem: Problem = SQUARE, **more: Any) -> RankFeed:
    return make_feed(problem, points, rank=0, size=1, seed=0, dtype="float32", **more)


@pytest.mark.parametrize(
    ("points", "problem", "totals"),
    [
        (100, SQUARE, (100, 64, 16)),
        (None, SQUARE, (64, 64, 16)),
        (np.int64(100), SQUARE, (100, 64, 16)),
        (tf.constant(100), SQUARE, (100, 64, 16)),
        ((5, 6), SQUARE, (30, 64, 16)),
        ([5, 6], SQUARE, (30, 64, 16)),
        (X.tolist(), SQUARE, (20, 64, 16)),
        (tf.constant(X), SQUARE, (20, 64, 16)),
        (DataFrame(), SQUARE, (20, 64, 16)),
        (X.astype(np.float32), SQUARE, (20, 64, 16)),
        (np.linspace(0.1, 0.8, 5), LINE, (5, 2)),
        (np.linspace(0.1, 0.8, 5, dtype=np.float32), LINE, (5, 2)),
        ([0.2, 0.3], LINE, (2, 2)),
        (Points(100, boundary=SIDES), SQUARE, (100, 3, 1)),
        (Points(100, boundary=SIDES.tolist()), SQUARE, (100, 3, 1)),
        (Points(100, boundary=(SIDES, np.ones((3, 2)))), SQUARE, (100, 3, 1)),
        (Points(100, conditions={"dirichlet": [[1.0, 1.0]]}), SQUARE, (100, 1, 16)),
        (Points(100, conditions={"neumann": (X, np.ones_like(X))}), SQUARE, (100, 64, 20)),
        (Points(1, method="sobol"), SQUARE, (1, 64, 16)),
        (Points(100, initial=3), LINE, (100, 2)),
    ],
)
def test_what_is_taken(points: Any, problem: Problem, totals: tuple[int, ...]) -> None:
    assert feed(points, problem).totals == totals


def test_points_that_rounding_has_put_outside_are_on_the_boundary() -> None:
    x = np.linspace(0.1, 0.8, 5, dtype=np.float32)
    assert float(x[-1]) > 0.8
    found = feed(x, LINE).interior
    assert found[-1, 0] == 0.8
    np.testing.assert_array_equal(found[1:-1, 0], x[1:-1])


def test_a_condition_that_chooses_its_points_keeps_them() -> None:
    problem = Problem(Box([0, 0], [1, 1]), lambda u, x: u(x), conditions=[OwnPoints()])
    points = Points(10, method="sobol", resample_every=5, batch_size={"own": 2})
    made = feed(points, problem)
    assert [a.shape for a in made.arrays[1]] == [(5, 2), (5, 3), (5, 1)]
    np.testing.assert_array_equal(made.whole(0)[1].arrays[0], made.whole(50)[1].arrays[0])
    assert [a.shape for a in made.batch(made.chunk(0), tf.constant(0))[1].arrays] == [
        (2, 2),
        (2, 3),
        (2, 1),
    ]


def test_points_in_many_dimensions_are_on_no_grid_unless_asked_for() -> None:
    for d, scattered in ((3, False), (4, True)):
        problem = Problem(
            Box([0] * d, [1] * d), lambda u, x: u(x), conditions=[Dirichlet(0.0), Neumann(0.0)]
        )
        made = feed(Points(100, boundary=80), problem)
        inside, on = made.interior, made.whole(0)[1].arrays[0].numpy()
        assert (len(np.unique(inside[:, 0])) == len(inside)) == scattered
        # On a face the midpoints of cells are far from its edges.
        assert (np.min(np.where(on > 0, on, 1.0)) < 0.03) == scattered
        asked = feed(Points(100, boundary=80, method="grid"), problem)
        assert len(np.unique(asked.interior[:, 0])) < 6
        by_axis = feed(Points((3,) * d), problem)
        assert len(by_axis.interior) == 3**d


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: 100.0, r"interior must be an integer of at least 1 or an array of points, got 100\.0"),
    (lambda: "100", "integer of at least 1 or an array of points, got '100'"),
    (lambda: True, "got True"),
    (lambda: 0, "at least 1, got 0"),
    (lambda: (5, 6, 7), "or 2 ints, one per axis"),
    (lambda: X.T, r"shape \[n, 2\] with n ≥ 1, got \[2, 20\]; one row is one point"),
    (lambda: np.where(X > 0.9, np.nan, X), r"finite numbers; \d+ of 40.*Leave out the rows"),
    (lambda: 2 * X, "points: .* lie outside Box.*the first of them number"),
    (lambda: X + 0j, "array of real numbers"),
    (lambda: {"interior": 5}, "array of real numbers"),
    (lambda: [[1, 2], [3]], "cannot be read as an array"),
    (lambda: Points(100, method="Hammersley"), "Take 'halton' in place of"),
    (lambda: Points(100, method="foo"), "one of grid, uniform, latin-hypercube, sobol, halton"),
    (lambda: Points(100, method={"inside": "lhs"}), "interior, boundary, initial; got 'inside'"),
    (lambda: Points((5, 5), method="sobol"), r"axis \(5, 5\) are for the method 'grid'"),
    (lambda: Points(100, batch_size="32"), "batch_size must be an integer.*got '32'"),
    (lambda: Points(100, batch_size=32.0), r"got 32\.0"),
    (lambda: Points(100, batch_size=0), "at least 1, got 0"),
    (lambda: Points(100, batch_size=101), "101 is larger than the 100 points.*Take at most 100"),
    (lambda: Points(100, batch_size={"dirchlet": 4}), "'dirichlet', 'neumann'; got 'dirchlet'"),
    (lambda: Points(100, batch_size={"residual": 3, "interior": 4}), "Give it once"),
    (lambda: Points(100, resample_every=10), "on a grid. Choose a random method"),
    (lambda: Points(X, method="lhs", resample_every=10), "given as an array. Give their number"),
    (lambda: Points(100, method="lhs", resample_every="10"), "resample_every must be an integer"),
    (lambda: Points(100, boundary=X), r"20 of 20.*not lie on the boundary.*a pair \(x, normals\)"),
    (lambda: Points(100, boundary=(SIDES, SIDES[:1])), r"shape \[3, 2\] of the points"),
    (lambda: Points(100, boundary=SIDES[:1]), "where selects none of the 1 points"),
    (lambda: Points(100, boundary=[[1.0, 1.0]]), "edges.*Neumann has no normal. Leave them out"),
    (lambda: Points(100, boundary="50"), "boundary must be an integer"),
    (lambda: Points(100, conditions={"side": SIDES}), "'side', and the loss has .*'dirichlet'"),
    (lambda: Points(100, conditions={"dirichlet": None}), "must be a number of points, or an"),
    (lambda: Points(100, conditions={"dirichlet": 0}), "at least 1, got 0"),
    (lambda: Points(100, conditions=[SIDES]), "dictionary of arrays by the names"),
    (lambda: Points(100, initial=SIDES), r"least value 0.0 of the last coordinate; 2 of 3"),
    (lambda: Points(100, seed=-1), "seed must be an integer of at least 0"),
]


@pytest.mark.parametrize(("points", "message"), REFUSED)
def test_what_is_refused(points: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        feed(points())


def test_drawing_anew_needs_something_to_draw_and_data_that_are_functions() -> None:
    with pytest.raises(InputError, match="resample_every needs random points"):
        feed(Points(100, method={"boundary": "sobol"}, resample_every=10), LINE)
    with pytest.raises(InputError, match="depend on the order of the points"):
        feed(Points(100, method="sobol", resample_every=10), MEASURED)
    assert feed(Points(100, method="sobol"), MEASURED).totals == (100,)
    with pytest.raises(InputError, match="bootstrap gives every member.*Leave out one"):
        feed(Points(100, method="sobol", resample_every=10), LINE, bootstrap=3)


def test_correlated_observations_are_not_divided() -> None:
    seen = Observations([0.2, 0.5], [1.0, 2.0], noise=[[1, 0.5], [0.5, 1]])
    fit = Problem(Interval(0, 1), [], conditions=[seen])
    assert feed(None, fit).totals == (1,)
    with pytest.raises(InputError, match="'observations' are correlated, so that every step"):
        feed(Points(batch_size={"observations": 1}), fit)
    with pytest.raises(InputError, match="have a covariance. Leave out bootstrap"):
        feed(None, fit, bootstrap=3)


@pytest.mark.parametrize(
    ("points", "per_rank", "message"),
    [
        (None, X, "give an array as points="),
        (None, "50", "must be a number of points of at least 2"),
        (None, 50.0, r"one per axis; got 50\.0"),
        (100, 50, "got the number of interior points as well"),
        (Points(batch_size=5), 50, "got batch_size as well. Take points=Points"),
        (Points(method="sobol"), 50, "got a random method"),
        (Points(method={"boundary": "sobol"}, resample_every=5), 50, "got resample_every"),
    ],
)
def test_points_per_rank_refuses_what_it_is_not(points: Any, per_rank: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        feed(points, points_per_rank=per_rank)


def test_points_are_values() -> None:
    x = X.copy()
    points = Points(x, boundary=SIDES, method={"interior": "LHS"}, batch_size=3)
    x[:] = 0.0
    np.testing.assert_array_equal(points.interior, X)
    assert repr(points) == (
        "Points(interior=array[20, 2], boundary=array[3, 2], "
        "method={'interior': 'latin-hypercube'}, batch_size={'interior': 3})"
    )
    assert repr(pickle.loads(pickle.dumps(points))) == repr(points)
    assert repr(Points(5)) == "Points(interior=5)"
    assert repr(Points(5, method="grid")) == "Points(interior=5, method='grid')"
    with pytest.raises(AttributeError):
        points.seed = 3  # type: ignore[misc]


def test_a_description_tells_settings_apart() -> None:
    one = feed(Points(100, method="sobol", batch_size=10)).description
    for name, other in {
        "batch_size": Points(100, method="sobol", batch_size=20),
        "method of the points": Points(100, method="halton", batch_size=10),
        "seed of the points": Points(100, method="sobol", batch_size=10, seed=1),
        "points": Points(99, method="sobol", batch_size=10),
        "resample_every": Points(100, method="sobol", batch_size=10, resample_every=3),
        "points of term 'dirichlet'": Points(100, method="sobol", batch_size=10, boundary=9),
    }.items():
        assert feed(other).description[name] != one[name], name
