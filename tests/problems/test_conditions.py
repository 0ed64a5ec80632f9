"""Conditions against fields whose boundary values and slopes are known."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.problems import Box, Dirichlet, Interval, Neumann, Robin

BOX = Box([0, 0], [2, 1])


def quadratic(x):
    """u = x₀² + 3 x₁, ∇u = (2 x₀, 3)."""
    return x[:, 0:1] ** 2 + 3 * x[:, 1:2]


def residual(condition, u, domain=BOX, n=24):
    x, normals, *values = condition.points(domain, n)
    return condition.residual(u, *map(tf.constant, (x, normals, *values))).numpy(), x, normals


def normal_slope(x, normals):
    return normals[:, 0:1] * 2 * x[:, 0:1] + normals[:, 1:2] * 3


def test_dirichlet():
    r, x, _ = residual(Dirichlet(1.5), quadratic)
    np.testing.assert_allclose(r, x[:, 0:1] ** 2 + 3 * x[:, 1:2] - 1.5)
    r, _, _ = residual(Dirichlet(quadratic), quadratic)
    np.testing.assert_allclose(r, np.zeros_like(r), atol=1e-14)  # NumPy and TensorFlow round apart


def test_neumann():
    r, x, normals = residual(Neumann(0.5), quadratic)
    np.testing.assert_allclose(r, normal_slope(x, normals) - 0.5)


def test_robin():
    r, x, normals = residual(Robin(2.0, -0.5, 1.0), quadratic)
    left = 2 * (x[:, 0:1] ** 2 + 3 * x[:, 1:2]) - 0.5 * normal_slope(x, normals)
    np.testing.assert_allclose(r, left - 1.0)


def test_neumann_at_the_ends_of_an_interval():
    r, _, _ = residual(Neumann(), lambda x: x**3, Interval(-1, 2))
    np.testing.assert_allclose(r, [[-3], [12]])


def test_vector_fields():
    u = lambda x: tf.concat([x[:, 0:1] ** 2, 5 * x[:, 1:2]], axis=1)  # noqa: E731
    r, x, normals = residual(Neumann(), u)
    exact = np.hstack([2 * x[:, 0:1] * normals[:, 0:1], 5 * normals[:, 1:2]])
    np.testing.assert_allclose(r, exact)
    r, x, _ = residual(Dirichlet(1.0), u)
    np.testing.assert_allclose(r, np.hstack([x[:, 0:1] ** 2, 5 * x[:, 1:2]]) - 1)


def test_where_selects_a_part():
    condition = Dirichlet(where=lambda x: x[:, 0] == 0)
    x, normals, _ = condition.points(BOX, 24)
    assert 0 < len(x) < 24
    np.testing.assert_array_equal(x[:, 0], 0)
    np.testing.assert_array_equal(normals, np.tile([-1.0, 0.0], (len(x), 1)))


def test_where_must_select_something_and_say_it_with_booleans():
    with pytest.raises(InputError, match="selects none of the 24 points"):
        Dirichlet(where=lambda x: x[:, 0] > 5).points(BOX, 24)
    with pytest.raises(InputError, match=r"shape \[24\]"):
        Neumann(where=lambda x: x == 0).points(BOX, 24)
    with pytest.raises(InputError, match="float64"):
        Dirichlet(where=lambda x: x[:, 0]).points(BOX, 24)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, r"value\(x\) must have the shape \[24, 1\]"),
        (lambda x: 1 + tf.reduce_mean(x), r"must have the shape \[24, k\] at 24 points"),
        (lambda x: x[:5], r"must have the shape \[24, k\] at 24 points, got \[5, 2\]"),
    ],
)
def test_values_of_another_shape(value, message):
    with pytest.raises(InputError, match=message):
        residual(Dirichlet(value), quadratic)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dirichlet("0"), "Dirichlet: value"),
        (lambda: Dirichlet(np.nan), "Dirichlet: value"),
        (lambda: Neumann(weight=-1.0), "Neumann: weight must not be negative"),
        (lambda: Neumann(weight=np.inf), "Neumann: weight"),
        (lambda: Robin(1.0, np.nan), "Robin: beta"),
        (lambda: Robin(None, 1.0), "Robin: alpha"),
        (lambda: Dirichlet(where=3), "Dirichlet: where"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_conditions_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dirichlet().weight = 2.0
