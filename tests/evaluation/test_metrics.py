"""Norms, against values worked out by hand."""

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.evaluation import max_error, pointwise_error, relative_l2_error, rms_error

NORMS = [relative_l2_error, max_error, rms_error, pointwise_error]


def test_relative_l2_error_is_the_quotient_of_euclidean_norms():
    # ‖(0, 0.5)‖ / ‖(3, 4)‖ = 0.5 / 5
    assert relative_l2_error([3.0, 4.5], [3.0, 4.0]) == pytest.approx(0.1, rel=1e-15)


def test_relative_l2_error_takes_points_and_components_together():
    u_exact = np.array([[1.0, 2.0], [3.0, 4.0]])
    u = u_exact + np.array([[0.0, 1.0], [2.0, 2.0]])
    assert relative_l2_error(u, u_exact) == pytest.approx(3.0 / np.sqrt(30.0), rel=1e-15)


def test_max_and_rms_error():
    u, u_exact = [[1.0], [2.0], [-3.0]], [[1.0], [4.0], [-2.0]]
    assert max_error(u, u_exact) == 2.0
    assert rms_error(u, u_exact) == pytest.approx(np.sqrt(5.0 / 3.0), rel=1e-15)
    np.testing.assert_array_equal(pointwise_error(u, u_exact), [[0.0], [2.0], [1.0]])


def test_a_prediction_without_error_gives_zero():
    u = np.linspace(0.1, 1.0, 7)
    assert relative_l2_error(u, u) == max_error(u, u) == rms_error(u, u) == 0.0


def test_float32_is_subtracted_in_float64():
    u = np.array([1.0 + 2.0**-23], np.float32)
    assert max_error(u, np.array([1.0 + 2.0**-30])) == 2.0**-23 - 2.0**-30


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_squares_neither_overflow_nor_vanish(scale):
    u_exact = scale * np.array([3.0, 4.0])
    assert relative_l2_error(1.5 * u_exact, u_exact) == pytest.approx(0.5, rel=1e-14)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shapes", [((5,), (5, 1)), ((5, 1), (5,)), ((5, 1), (5, 2)), ((4,), (5,))])
def test_shapes_that_would_broadcast_are_refused(norm, shapes):
    with pytest.raises(InputError) as caught:
        norm(np.ones(shapes[0]), np.ones(shapes[1]))
    assert str(list(shapes[0])) in str(caught.value) and str(list(shapes[1])) in str(caught.value)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("empty", [np.empty(0), np.empty((0, 2)), 1.0])
def test_no_points_are_refused(norm, empty):
    with pytest.raises(InputError, match="at least one point"):
        norm(empty, empty)


def test_a_zero_exact_solution_names_the_absolute_norms():
    with pytest.raises(InputError, match="max_error or rms_error"):
        relative_l2_error(np.ones(3), np.zeros(3))


@pytest.mark.filterwarnings("error")
def test_values_that_are_not_finite_come_through():
    exact = np.ones(3)
    assert relative_l2_error([1.0, np.inf, 1.0], exact) == np.inf
    assert max_error([1.0, -np.inf, 1.0], exact) == np.inf
    for norm in (relative_l2_error, max_error, rms_error):
        assert np.isnan(norm([1.0, np.nan, np.inf], exact))
    assert np.isnan(relative_l2_error([np.inf], [np.inf]))


@pytest.mark.parametrize("values", [["one"], [1j], [[1.0], [1.0, 2.0]], None])
def test_what_is_no_real_number_is_refused(values):
    with pytest.raises(InputError, match="real numbers"):
        max_error(values, [1.0])
