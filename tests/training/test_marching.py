"""Long times: training and solving slab by slab, and the one result of it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP, RandomFeatures, Windows
from sciml_par.problems import Dirichlet, Initial, Interval, Problem, Time, derivative, laplacian
from sciml_par.training import (
    Adam,
    Checkpoint,
    LeastSquares,
    LevenbergMarquardt,
    Result,
    solve,
    train,
)

pytestmark = pytest.mark.ranks(most=1, reason="two ranks march where a test says so")

features = partial(RandomFeatures, features=40, scale=4.0)
by_features = partial(
    train,
    network=features,
    points=100,
    optimizer=LeastSquares(),
    precision="float64",
    progress=False,
)
by_networks = partial(
    train,
    network=partial(MLP, width=10, depth=2),
    points=40,
    optimizer=LevenbergMarquardt(),
    steps=60,
    precision="float64",
    progress=False,
)


def oscillator(slabs, final=12.0):
    return Problem(
        Time(0, final, slabs=slabs),
        lambda u, x: derivative(u, x, 0, 0) + u(x),
        conditions=[Initial(1.0, velocity=0.0)],
        exact=np.cos,
    )


def heat(slabs):
    def exact(x):
        return np.sin(np.pi * x[:, :1]) * np.cos(x[:, 1:])

    def residual(u, x):
        s, t = tf.sin(np.pi * x[:, :1]), x[:, 1:]
        source = s * (0.1 * np.pi**2 * tf.cos(t) - tf.sin(t))
        return derivative(u, x, "t") - 0.1 * laplacian(u, x, over="space") - source

    return Problem(
        Interval(0, 1) * Time(0, 4, slabs=slabs),
        residual,
        conditions=[Initial(exact), Dirichlet(0.0, on=("left", "right"))],
        exact=exact,
    )


def relative_error(result):
    return result.members[0].prediction.relative_l2_error


def test_a_march_is_one_result_that_is_saved_and_loaded(tmp_path, capsys):
    result = by_features(oscillator(2, 8.0), progress=True)
    assert relative_error(result) < 1e-7
    lines = [each for each in capsys.readouterr().out.splitlines() if "slab" in each]
    assert [each.split(",")[0] for each in lines] == ["slab 1 of 2", "slab 2 of 2"]
    folder = result.save(tmp_path / "saved", plots=False)
    x = np.linspace(0, 8, 25)[:, None]
    np.testing.assert_array_equal(Result.load(folder).predict(x).mean, result.predict(x).mean)
    u, points = oscillator(1).field(result.networks[0]), tf.constant(x)
    np.testing.assert_allclose(derivative(u, points, "t"), -np.sin(x), atol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(points)
        values = result.networks[0](points)
    np.testing.assert_allclose(tape.gradient(values, points), -np.sin(x), atol=1e-6)


@pytest.mark.ranks(least=2, most=2, reason="one rank marches in other tests")
@pytest.mark.long
def test_the_estimated_error_is_that_of_the_whole_march():
    """Also of slabs that are not equal."""
    result = by_features(oscillator([3], 8.0), estimate=True)
    error, x = result.error, np.linspace(0, 8, 61)[:, None]
    assert error.known
    true = np.cos(x) - result.predict(x).mean
    assert 0.3 < error.relative / relative_error(result) < 3
    assert np.linalg.norm(error.field(x) - true) < 0.7 * np.linalg.norm(true)


@pytest.mark.ranks(least=2, most=2, reason="of points that ranks do not share")
def test_networks_of_two_dimensions_march_on_ranks_that_share_the_points():
    small = partial(MLP, width=4, depth=1)
    found = by_networks(heat(2), network=small, optimizer=Adam(), points=400, steps=2)
    assert found.members[0].points >= 360


@pytest.mark.long
def test_the_heat_equation():
    assert relative_error(by_features(heat(2), network=partial(features, features=150))) < 1e-5


@pytest.mark.long
def test_a_march_that_was_interrupted_continues_where_it_was(tmp_path):
    def interrupt(progress):
        if (tmp_path / "slab-2").exists():
            raise ValueError("interrupted")

    march = partial(by_networks, oscillator(2, 8.0), network=partial(MLP, width=10, depth=1))
    given = partial(march, checkpoint=Checkpoint(tmp_path, every=20))
    whole = march()
    assert relative_error(whole) < 1e-3
    with pytest.raises(Exception, match="interrupted"):
        given(callbacks=interrupt)
    x = np.linspace(0, 8, 25)
    resumed = given(resume=True)
    np.testing.assert_array_equal(resumed.predict(x).mean, whole.predict(x).mean)


@pytest.mark.long
def test_the_error_of_slabs_that_have_found_nothing():
    fast = Problem(
        Time(0, 4, slabs=2),
        lambda u, x: derivative(u, x, 0, 0) + 4e4 * u(x),
        conditions=[Initial(1.0, velocity=0.0)],
        exact=lambda t: np.cos(200 * t),
    )
    result = by_features(fast, estimate=True)
    assert result.error.known
    assert result.error.relative == pytest.approx(relative_error(result), rel=0.1)


@pytest.mark.long
def test_windows_march() -> None:
    result = by_features(oscillator(2, 8.0), network=Windows(features, parts=2), points=200)
    assert relative_error(result) < 1e-7


@pytest.mark.long
def test_solve_marches_to_its_tolerance():
    result = solve(oscillator(2), tolerance=1e-8, progress=False)
    assert result.error.relative < 1e-8
    assert relative_error(result) < 1e-8


def test_ensembles_do_not_march():
    with pytest.raises(InputError, match="one model"):
        by_features(oscillator(2), mode="ensemble")
