"""The estimated error of a solution against its true error."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainings import quick

import sciml_par.parallel as world
from sciml_par.errors import InputError
from sciml_par.networks import MLP, RandomFeatures
from sciml_par.problems import (
    Dirichlet,
    Field,
    Interval,
    Polygon,
    Problem,
    derivative,
    laplacian,
    poisson,
    problem_by_name,
)
from sciml_par.results import Result
from sciml_par.training import LeastSquares, LevenbergMarquardt, Points, train

pytestmark = [
    pytest.mark.beside,
    pytest.mark.ranks(most=1, reason="the same on any number of ranks"),
]
L_SHAPE = Polygon([[0, 0], [0, -1], [-1, -1], [-1, 1], [1, 1], [1, 0]])


def trained(problem: Problem, **arguments) -> Result:
    given = {
        "network": partial(MLP, width=12, depth=2),
        "optimizer": LevenbergMarquardt(),
        "steps": 20,
        "precision": "float64",
        "progress": False,
        "estimate": True,
        **arguments,
    }
    return train(problem, **given)


@pytest.fixture(scope="module")
def result() -> Result:
    return trained(poisson(domain=Interval(0, 1)))


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_it_is_as_right_as_it_says(result: Result):
    error, member = result.error, result.members[0]
    assert error.known
    assert error.reliability > 10
    assert error.relative == pytest.approx(member.prediction.relative_l2_error, rel=0.05)
    assert "u is right to" in str(error)
    truth = member.prediction.u_exact - member.prediction.u
    assert np.linalg.norm(error.values - truth) < 0.1 * np.linalg.norm(truth)
    assert error.absolute[0] == pytest.approx(np.sqrt(np.mean(truth**2)), rel=0.05)


def test_at_other_points(result: Result):
    x = np.linspace(0.05, 0.95, 7)[:, None]
    field = result.error.field(x)
    assert field.shape == (7, 1)
    assert np.allclose(result.predict(x).error, np.abs(field))
    assert np.array_equal(result.error.field(x[:, 0]), field)
    for wrong in ("a", np.zeros((3, 2))):
        with pytest.raises(InputError, match="expected points x of the shape"):
            result.error.field(wrong)


def test_of_quantities_that_are_derived_from_the_solution(result: Result):
    x = np.linspace(0, 1, 3000)[:, None]
    found = result.evaluate(lambda u, x: tf.concat([u(x), derivative(u, x, 0, 0)], axis=1), x)
    k = 2 * np.pi
    truth = found.mean - np.hstack([np.sin(k * x), -(k**2) * np.sin(k * x)])
    assert found.error.shape == (3000, 2)
    for estimated, true in zip(found.error.T, np.abs(truth).T, strict=True):
        assert np.linalg.norm(estimated - true) < 0.2 * np.linalg.norm(true)
    assert np.isnan(result.using("last").evaluate(laplacian, x[:3]).error).all()


def test_of_quantities_where_a_component_is_not_determined():
    """Only the derivative of u2 is given, so that a constant is free, and the derivative known."""

    def equations(u: Field, x: tf.Tensor) -> tf.Tensor:
        return derivative(u, x, 0) - tf.concat([tf.exp(x), tf.sin(x)], axis=1)

    start = Dirichlet(1.0, component=0, on="left")
    problem = Problem(Interval(0, 1), equations, conditions=[start], outputs=2)
    features = partial(RandomFeatures, features=8, scale=2.0)
    result = trained(problem, network=features, optimizer=LeastSquares(), points=60)
    assert result.error.undetermined == ("u2",)
    x = np.linspace(0, 1, 21)[:, None]
    first, second = (result.evaluate(lambda u, x, c=c: u(x)[:, c : c + 1], x) for c in (0, 1))
    slope = result.evaluate(lambda u, x: derivative(u, x, 0)[:, 1:], x)
    for quantity, exact in ((first, np.exp(x)), (slope, np.sin(x))):
        true = np.linalg.norm(quantity.mean - exact)
        assert np.linalg.norm(quantity.error) == pytest.approx(true, rel=0.3)
    assert np.isnan(second.error).all()
    assert np.isnan(result.evaluate(lambda u, x: u(x)[:, 1:] ** 2, x).error).all()
    assert np.isnan(result.predict(x).error).all(axis=0).tolist() == [False, True]


def test_files_hold_it(result: Result, tmp_path: Path):
    loaded = Result.load(result.save(tmp_path / "run", plots=False))
    assert loaded.error.relative == result.error.relative
    assert str(loaded.error) == str(result.error)
    x = result.members[0].prediction.x
    np.testing.assert_array_equal(loaded.error.values, result.error.values)
    np.testing.assert_allclose(loaded.error.field(x), result.error.field(x), rtol=1e-3)
    np.testing.assert_array_equal(loaded.predict(x[::7]).error, np.abs(result.error.values[::7]))
    assert np.isnan(loaded.evaluate(laplacian, x[:3]).error).all()
    with pytest.raises(InputError, match="1 of these 2 points are others"):
        loaded.error.field([x[3], [0.123]])


def test_it_belongs_to_the_weights_that_it_was_made_for(result: Result):
    assert not result.using("last").error.known
    assert result.using("best").error.known


@pytest.mark.ranks(least=2, most=2, reason="one of two ranks fails")
def test_what_one_rank_does_not_know_is_not_known():
    ended = []

    def equation(u, x):
        if ended and world.rank() == 1:
            raise RuntimeError("here alone")
        return laplacian(u, x) - 1.0

    problem = Problem(Interval(0, 1), equation, conditions=[Dirichlet(0.0)])
    result = trained(problem, callbacks=lambda _: ended.append(1))
    assert not result.error.known and "here alone" in result.error.reason
    assert np.isnan(result.predict([[0.5]]).error).all()


@pytest.mark.long
def test_of_an_unknown():
    result = trained(problem_by_name("inverse-diffusion"), steps=40)
    true = abs(float(result.unknowns["D"].mean) - 0.1)
    assert result.error.unknowns["D"] == pytest.approx(true, rel=0.2)


@pytest.mark.long
def test_what_polynomials_do_not_resolve_is_not_known():
    width = 1e-5

    def layer(x: np.ndarray) -> np.ndarray:
        return (1 - np.exp(-x / width)) / (1 - np.exp(-1 / width))

    problem = Problem(
        Interval(0, 1),
        lambda u, x: width * derivative(u, x, 0, 0) + derivative(u, x, 0),
        conditions=[Dirichlet(layer)],
        exact=layer,
    )
    result = trained(problem)
    assert not result.error.known
    assert "polynomials, which would tell it, do not solve the problem" in str(result.error)
    assert np.isnan(result.error.relative)
    assert np.isnan(result.predict([[0.5]]).error).all()
    with pytest.raises(InputError, match="residual"):
        result.error.field([[0.5]])


@pytest.mark.long
def test_of_a_singular_corner_it_is_true_or_not_known():
    def u(x: np.ndarray) -> np.ndarray:
        angle = np.mod(np.arctan2(x[:, 1:], x[:, :1]), 2 * np.pi)
        return np.sum(x**2, axis=1, keepdims=True) ** (1 / 3) * np.sin(2 / 3 * angle)

    problem = Problem(L_SHAPE, laplacian, conditions=[Dirichlet(u)], exact=u)
    for features in (40, 160):
        result = trained(
            problem,
            network=partial(RandomFeatures, features=features, scale=6.0),
            optimizer=LeastSquares(),
            points=Points(3 * features, method="sobol"),
        )
        true = result.members[0].on_own_domain.relative_l2_error
        assert not result.error.known or true / 3 < result.error.relative < 3 * true


def test_the_rounding_of_a_prediction_in_single_precision_is_part_of_it():
    """Features that are too smooth have large coefficients, and these large rounding errors."""
    result = trained(
        poisson(k=1),
        network=partial(RandomFeatures, scale=4.0),
        optimizer=LeastSquares(),
        points=Points(800, method="sobol"),
        precision="float32",
    )
    true = result.members[0].prediction.relative_l2_error
    assert true > 1e-5
    assert result.error.relative == pytest.approx(true, rel=0.1)


@pytest.mark.long
def test_of_a_keras_model_in_single_precision():
    def with_a_skip(d: int, m: int) -> keras.Model:
        x = keras.Input((d,))
        hidden = keras.layers.Dense(12, "tanh")(x)
        both = keras.layers.Concatenate()([x, keras.layers.Dense(12, "tanh")(hidden)])
        return keras.Model(x, keras.layers.Dense(m)(both))

    found = trained(poisson(domain=Interval(0, 1)), network=with_a_skip, precision="float32")
    true = found.members[0].prediction.relative_l2_error
    assert found.error.relative == pytest.approx(true, rel=0.1)


def test_without_an_estimate_the_result_says_so():
    result = quick(poisson(), steps=5)
    assert not result.error.known
    assert "estimate=True" in str(result.error)


def test_what_is_no_answer_is_refused_before_the_training():
    seen = []
    with pytest.raises(InputError, match="True, False or None"):
        trained(poisson(), steps=1, estimate="yes", callbacks=seen.append)
    assert seen == []


def test_a_result_survives_an_estimate_that_fails():
    def equation(u, x):
        if x.shape[0] == 5:  # those of the estimate
            raise ValueError("too few points for my table")
        return laplacian(u, x) - 1.0

    result = trained(Problem(Interval(0, 1), equation, conditions=[Dirichlet(0.0)]))
    assert not result.error.known
    assert "ValueError: too few points for my table" in str(result.error)
