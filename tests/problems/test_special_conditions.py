"""Initial, periodic, interface, observed and integral conditions against known fields."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.problems import (
    Ball,
    Box,
    Ellipse,
    Initial,
    IntegralCondition,
    Interface,
    Interval,
    Observations,
    Periodic,
    Polygon,
    Problem,
    derivative,
)

ROD = Box([0, 0.5], [2, 1.5], names=("x", "t"))


def wave(x):
    """u = x² t³: ∂u/∂t = 3 x² t², ∂²u/∂t² = 6 x² t."""
    return x[:, 0:1] ** 2 * x[:, 1:2] ** 3


def pair(x):
    return tf.concat([wave(x), x[:, 0:1] + x[:, 1:2]], axis=1)


def prepared(condition, domain=ROD, outputs=1):
    return Problem(domain, lambda u, x: u(x), conditions=[condition], outputs=outputs)


def evaluated(condition, u, domain=ROD, outputs=1, n=40):
    problem = prepared(condition, domain, outputs)
    arrays = problem.conditions[0].points(domain, n)
    return problem.terms[1].residual(u, *map(tf.constant, arrays)).numpy(), *arrays


@pytest.mark.parametrize(
    ("order", "expected"), [(0, 0.125), (1, 0.75), (2, 3.0)], ids=["u", "u_t", "u_tt"]
)
def test_initial(order, expected):
    r, x, *_ = evaluated(Initial(0.5, order=order), wave)
    assert np.all(x[:, 1] == 0.5) and len(x) > 3
    np.testing.assert_allclose(r, expected * x[:, :1] ** 2 - 0.5)


def test_initial_with_velocity():
    start = Initial(lambda x: np.cos(x[:, 0]), velocity=lambda x: tf.sin(x[:, :1]))
    r, x, *_ = evaluated(start, wave)
    expected = np.hstack(
        [0.125 * x[:, :1] ** 2 - np.cos(x[:, :1]), 0.75 * x[:, :1] ** 2 - np.sin(x[:, :1])]
    )
    np.testing.assert_allclose(r, expected)
    r, x, *_ = evaluated(
        Initial(0.0, velocity=lambda x: x[:, 0], component="v"), pair, ROD, ("u", "v")
    )
    np.testing.assert_allclose(r, np.hstack([x[:, :1] + 0.5, 1 - x[:, :1]]))


def test_initial_of_an_ordinary_differential_equation():
    time = Interval(1, 3, name="t")
    r, *_ = evaluated(Initial(2.0, velocity=4.0), lambda t: t**2, time)
    np.testing.assert_allclose(r, [[-1, -2]])


@pytest.mark.parametrize("order", [0, 1, (0, 1), (2, 0)])
def test_periodic(order):
    """u = e^x + t: a difference of e² − 1 in u, and in every derivative along x."""
    u = lambda x: tf.exp(x[:, 0:1]) + x[:, 1:2]  # noqa: E731
    r, lower, upper = evaluated(Periodic("x", order=order), u)
    assert np.all(lower[:, 0] == 0) and np.all(upper[:, 0] == 2)
    np.testing.assert_array_equal(lower[:, 1], upper[:, 1])
    np.testing.assert_allclose(r, np.full_like(r, 1 - np.exp(2)), rtol=1e-12)
    assert r.shape[1] == np.size(order)


def test_periodic_functions_have_no_residual():
    u = lambda x: tf.sin(np.pi * x[:, 0:1]) * x[:, 1:2]  # noqa: E731
    r, *_ = evaluated(Periodic(0), u)
    np.testing.assert_allclose(r, 0, atol=1e-14)
    r, lower, _ = evaluated(
        Periodic("x", where=lambda x: x[:, 1] < 1, component="v"), pair, ROD, ("u", "v")
    )
    assert np.all(lower[:, 1] < 1)
    np.testing.assert_allclose(r, np.tile([-2.0, 0.0], (len(r), 1)), atol=1e-14)


def test_interface():
    """u_l = x, u_r = 3x − 1 at x = 0.5: equal values, and fluxes with k of 3 and 1."""
    u = lambda x: tf.concat([x[:, :1], 3 * x[:, :1] - 1], axis=1)  # noqa: E731
    joined = Interface("l", "r", at=("x", 0.5), k_left=3.0, k_right=1.0)
    r, x, normals, *_ = evaluated(joined, u, ROD, ("l", "r"))
    assert np.all(x[:, 0] == 0.5) and np.all(normals == [1, 0]) and len(x) > 5
    np.testing.assert_allclose(r, 0, atol=1e-15)
    jumping = Interface(0, 1, at=(0, 1.0), k_left=2.0, k_right=5.0, jump=0.5, flux_jump=3.0)
    r, *_ = evaluated(jumping, u, ROD, 2)
    np.testing.assert_allclose(r, np.tile([1 - 0.5, 13 - 3.0], (len(r), 1)))
    angle = np.linspace(0, 1.5, 4)
    normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    r, x, *_ = evaluated(Interface(0, 1, points=(0.5 + 0.4 * normals, normals)), u, ROD, 2)
    np.testing.assert_allclose(r[:, 0], 2 * x[:, 0] - 1)
    np.testing.assert_allclose(r[:, 1], 2 * normals[:, 0])


def test_interface_in_one_dimension():
    u = lambda x: tf.concat([x, x**2], axis=1)  # noqa: E731
    r, x, *_ = evaluated(Interface(0, 1, at=(0, 0.5)), u, Interval(0, 1), 2)
    np.testing.assert_allclose(r, [[-0.25, 0.0]])


def test_observations():
    x = [[0.0, 0.5], [1.0, 1.0], [2.0, 1.25]]
    r, points, *_ = evaluated(Observations(x, [1.0, 2.0, 3.0], noise=0.1), wave)
    np.testing.assert_array_equal(points, x)
    np.testing.assert_allclose(r, (wave(points) - [[1], [2], [3]]) / 0.1)
    r, points, *_ = evaluated(
        Observations(x, np.ones((3, 1)), component="v"), pair, ROD, ("u", "v")
    )
    np.testing.assert_allclose(r[:, 0], points.sum(axis=1) - 1)
    both = np.ones((3, 2))
    r, points, *_ = evaluated(Observations(x, both, noise=2 * both), pair, ROD, 2)
    np.testing.assert_allclose(r, (pair(points) - 1) / 2)


@pytest.mark.parametrize(
    ("loss", "rho"),
    [
        ("squares", lambda r: r**2),
        ("huber", lambda r: np.where(abs(r) < 1.345, r**2, 2 * 1.345 * abs(r) - 1.345**2)),
        ("student", lambda r: 4 * np.log(1 + r**2 / 4)),
    ],
)
def test_a_robust_loss_is_a_square_with_a_derivative_everywhere(loss, rho):
    values = np.array([-200.0, -1.345, -1.0, -1e-7, 0, 1e-9, 1e-5, 0.5, 1.345, 1.4, 7])
    x, noise = np.linspace(0, 1, len(values))[:, None], 0.1
    observed = Observations(x, np.zeros(len(x)), noise=noise, loss=loss)
    at = tf.constant(values[:, None])
    arrays = [tf.constant(a) for a in observed.points(Interval(0, 1), 0)]
    with tf.GradientTape() as tape:
        tape.watch(at)
        s = observed.residual(lambda x: noise * at, *arrays)
    np.testing.assert_allclose(s[:, 0] ** 2, rho(values), rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(np.sign(s[:, 0]), np.sign(values))
    slopes = tape.gradient(s, at).numpy()[:, 0]
    h = 1e-6 * np.maximum(abs(values), 1e-3)
    root = lambda r: np.sign(r) * np.sqrt(rho(r))  # noqa: E731
    known = abs(values) > 1e-4
    by_differences = (root(values + h) - root(values - h))[known] / (2 * h[known])
    np.testing.assert_allclose(slopes[known], by_differences, rtol=1e-5)
    np.testing.assert_allclose(slopes[~known], 1, rtol=1e-6)


def test_noise_that_is_unknown_starts_at_a_tenth_of_the_spread_of_each_component():
    x, u = np.linspace(0, 1, 4), np.array([[1.0, 5], [3, 5], [1, 5], [3, 5]])
    observed = Observations(x, u, noise="unknown")
    assert observed.noise_unknown and observed.statistical
    np.testing.assert_allclose(observed.noise, np.tile([0.1, 0.5], (4, 1)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"noise": 0.0}, "noise must be positive, .*; got 0"),
        ({"noise": [0.1, -0.2, 0.1]}, "positive, .*; got -0.2 in row 1"),
        ({"noise": [0.1, np.nan, 0.1]}, "1 of 3 are not, the first of them in row 1: nan.*Leave"),
        ({"noise": [0.1, 0.2]}, r"an array \[3\] with a standard deviation for each.*got \[2\]"),
        ({"noise": "unkown"}, "did you mean 'unknown'?"),
        ({"noise": 0.1, "loss": "hubber"}, "loss must be 'squares' or .*did you mean 'huber'?"),
        ({"loss": "huber"}, "deviation of the good values; give it"),
        ({"noise": "unknown", "loss": "student"}, "deviation of the good values; give it"),
        ({"sigma": 0.1}, "'sigma'; the standard deviation of measured values is noise="),
    ],
)
def test_what_is_wrong_with_noise_is_told(options, says):
    with pytest.raises(InputError, match=says):
        Observations([0.1, 0.2, 0.3], [1.0, 2.0, 3.0], **options)


def test_correlated_observations():
    x, u = [[0.0, 0.5], [1.0, 1.0], [2.0, 1.25]], [1.0, 2.0, 3.0]
    covariance = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 0.5]])
    given = Observations(x, u, noise=covariance, component="v")
    r, *arrays = evaluated(given, pair, ROD, ("u", "v"))
    assert r.shape == (1, 3) and all(len(each) == 1 for each in arrays)
    errors = np.sum(x, axis=1) - u
    np.testing.assert_allclose(r @ r.T, errors @ np.linalg.solve(covariance, errors), rtol=1e-12)
    # An array of the shape of u, or of one column, has deviations.
    three = np.ones((3, 3))
    assert not Observations(x, three, noise=covariance).coupled
    assert not Observations([0.5], [1.0], noise=[[0.1]]).coupled


def test_observations_on_an_interval_may_miss_it_by_rounding():
    x = np.array([0.0, 0.8], np.float32)
    _, points, *_ = evaluated(Observations(x, [0, 1]), lambda x: x, Interval(0, 0.8))
    np.testing.assert_array_equal(points, [[0], [0.8]])


def test_integral_over_the_domain():
    r, x, weights, _ = evaluated(IntegralCondition(lambda u, x: u(x), 1.0, points=9), wave)
    assert x.shape == (1, 9, 2) and weights.shape == (1, 9)
    np.testing.assert_allclose(r, [[8 / 3 * (1.5**4 - 0.5**4) / 4 - 1]], rtol=1e-13)


@pytest.mark.parametrize(
    ("options", "measure"),
    [({}, 12), ({"on": ("x=lower", "z=upper")}, 6 + 4), ({"at": ("y", [0.5])}, 6)],
)
def test_integrals_of_one_are_volumes_and_areas(options, measure):
    cuboid = Box([0, -1, 1], [2, 1, 4])
    one = IntegralCondition(lambda u, x: tf.ones_like(u(x)), points=27, **options)
    r, *_ = evaluated(one, wave, cuboid)
    np.testing.assert_allclose(r, [[measure]])


@pytest.mark.parametrize(
    ("domain", "area"),
    [
        (Box([-1, -1], [1, 1]) - Box([0, -1], [1, 0]), 3.0),
        (Ball([0.3, 0.2], 1.5), 2.25 * np.pi),
        (Box([-1, -1], [1, 1]) - Ball([1, 1], 0.7), 4 - 0.49 * np.pi / 4),
        (Box([-1, -1], [1, 1]) | Ball([1, 0], 1.0), 4 + np.pi / 2),
        (Ellipse([0, 0], [2.0, 1.0], angle=0.3), 2 * np.pi),
        (Ball([0, 0], 1.0) & Ball([1, 0], 1.0), 2 * np.pi / 3 - np.sqrt(3) / 2),
        (Polygon([(0, 0), (4, 0), (0, 3)], holes=[[(1, 1), (1.5, 1), (1, 1.5)]]), 5.875),
    ],
    ids=str,
)
def test_integrals_between_lines_and_ellipses(domain, area):
    one = IntegralCondition(lambda u, x: u(x), area, points=4000)
    r, x, _, _ = evaluated(one, lambda x: 1 + 0 * x[:, :1], domain)
    np.testing.assert_allclose(r, 0, atol=1e-12)
    assert domain.contains(x[0]).all()
    growing = IntegralCondition(lambda u, x: u(x))
    values = [
        evaluated(each, lambda x: tf.exp(x[:, :1] - x[:, 1:]), domain)[0]
        for each in (growing, growing.finer())
    ]
    np.testing.assert_allclose(*values, rtol=1e-6)


def test_integrals_at_times():
    times = [0.5, 0.75, 1.5]
    condition = IntegralCondition(lambda u, x: u(x), lambda t: t, at=("t", times))
    r, x, *_ = evaluated(condition, wave)
    assert x.shape == (3, 32, 2)
    np.testing.assert_allclose(r[:, 0], [8 / 3 * t**3 - t for t in times])
    two = IntegralCondition(lambda u, x: u(x), np.ones((3, 2)), at=("t", times), points=(4,))
    r, x, *_ = evaluated(two, pair, ROD, 2)
    np.testing.assert_allclose(r[:, 1], [2 + 2 * t - 1 for t in times])


def test_integral_of_a_derivative_over_faces():
    """∫ ∂u/∂x dS over x = 2 is ∫ 4 t³ dt, and over the two other faces ∫ 2x t³ dx."""
    flux = IntegralCondition(lambda u, x: derivative(u, x, 0), on="x=upper")
    np.testing.assert_allclose(evaluated(flux, wave)[0], [[1.5**4 - 0.5**4]])
    both = IntegralCondition(lambda u, x: derivative(u, x, 0), on=("t=lower", "t=upper"), points=5)
    np.testing.assert_allclose(evaluated(both, wave)[0], [[4 * (0.5**3 + 1.5**3)]])


def test_integral_with_points_of_ones_own():
    x = np.array([[[0.5, 1.0], [1.0, 1.0]]])
    condition = IntegralCondition(lambda u, x: u(x), points=(x, np.array([[2.0, 3.0]])))
    np.testing.assert_allclose(evaluated(condition, wave)[0], [[2 * 0.25 + 3]])
    one = IntegralCondition(lambda u, x: u(x), points=(x[0], np.array([2.0, 3.0])))
    np.testing.assert_allclose(evaluated(one, wave)[0], [[3.5]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Initial(order=-1), "order must be an integer of at least 0"),
        (lambda: Initial(order=1, velocity=0.0), "velocity belongs to order=0"),
        (lambda: Initial(velocity="fast"), "Initial: velocity"),
        (lambda: prepared(Initial(), Ball([0, 0], 1)), r"no time: .* x, y\. .*\* Time\(0, 1\)"),
        (lambda: prepared(Initial(points=[[1.0, 0.7]])), "least value 0.5 of t; 1 of 1"),
        (lambda: Periodic("x", order=()), "order must be one or several"),
        (lambda: Periodic("x", order=(1, 1)), "several different"),
        (lambda: Periodic(1.5), "axis must be a coordinate's name"),
        (lambda: prepared(Periodic("z")), r"no axis 'z'; its axes are 'x' \(0\), 't' \(1\)"),
        (lambda: prepared(Periodic("x", points=[[1.0, 1.0]])), "must lie on the lower face"),
        (lambda: prepared(IntegralCondition(lambda u, x: u(x), points=(1, 2, 3))), "or 2, one for"),
        (lambda: Interface("u", "u", at=("x", 1)), "both sides must have the same number"),
        (lambda: Interface(0, (1, 2), at=("x", 1)), "the same number of components"),
        (lambda: Interface(0, 1), "give either at="),
        (lambda: Interface(0, 1, points=[[0.5, 0.5]]), "give either at="),
        (lambda: Interface(0, 1, at="x"), "pair"),
        (lambda: prepared(Interface(0, 1, at=("x", 3.0)), outputs=2), "x = 3.0 does not lie"),
        (lambda: Observations([[0, 1]], [1, 2]), "one row for each point"),
        (lambda: Observations([[0, 1]], [np.nan]), "finite numbers; 1 of 1.*row 0: nan"),
        (
            lambda: Observations([0, 1], [1, 2], noise=[[1, 2], [2, 1]]),
            "must be positive definite, but its smallest eigenvalue is -1 and",
        ),
        (
            lambda: Observations([0, 1], [1, 2], noise=[[1, 0.5], [0.4, 1]]),
            r"must be symmetric; its elements \[0, 1\] and \[1, 0\] are 0.5 and 0.4",
        ),
        (
            lambda: Observations([0, 1], np.ones((2, 3)), noise=np.eye(2)),
            r"of one component, a covariance \[2, 2\]",
        ),
        (lambda: prepared(Observations([[0, 0.2]], [1])), r"outside Box.*number 0: \[0.0, 0.2\]"),
        (lambda: prepared(Observations([[0, 1]], [1]), outputs=2), "say which by component="),
        (lambda: prepared(Observations([[0, 1]], [1], component="w")), "no component 'w'"),
        (lambda: prepared(Observations([0.5], [1])), r"shape \[n, 2\]"),
        (lambda: IntegralCondition(1.0), "integrand must be a function"),
        (lambda: IntegralCondition(abs, on="x=upper", at=("t", 1)), "not both"),
        (lambda: IntegralCondition(abs, lambda t: t), "with at="),
        (lambda: IntegralCondition(abs, points=0), "points must be a number"),
        (lambda: prepared(IntegralCondition(abs, at=("t", [2.0]))), "t = 2.0 does not lie in"),
        (lambda: prepared(IntegralCondition(abs, [1.0, 2.0])), r"shape \[1, k\]"),
        (lambda: prepared(IntegralCondition(abs, on="top")), "no face 'top'"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_an_integrand_that_has_summed_already():
    condition = IntegralCondition(lambda u, x: tf.reduce_sum(u(x)))
    with pytest.raises(InputError, match=r"integrand must return a tensor \[n, c\]"):
        evaluated(condition, wave)
