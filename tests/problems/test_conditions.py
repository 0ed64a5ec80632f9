"""Conditions on fields whose values and slopes are known: residuals, points, names, mistakes."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.problems import (
    Ball,
    Box,
    Condition,
    Dirichlet,
    Interval,
    Neumann,
    Problem,
    Robin,
    derivative,
    jacobian,
)

BOX = Box([0, 0], [2, 1], names=("x", "y"))


def quadratic(x):
    """u = x² + 3y, ∇u = (2x, 3)."""
    return x[:, 0:1] ** 2 + 3 * x[:, 1:2]


def two(x):
    return tf.concat([x[:, 0:1] * x[:, 1:2], x[:, 0:1] - x[:, 1:2]], axis=1)


def slope_minus_one(u, x, normals):
    return tf.reduce_sum(jacobian(u, x) * normals[:, None, :], axis=-1) - 1


def evaluated(condition, u, *, domain=BOX, n=40, outputs=1):
    """The residual of the problem's condition, and its arrays."""
    problem = Problem(domain, lambda u, x: u(x), conditions=[condition], outputs=outputs)
    arrays = problem.conditions[0].points(domain, n)
    r = problem.terms[1].residual(u, *map(tf.constant, arrays))
    return r.numpy(), *arrays


def slope(x, normals):
    return 2 * x[:, :1] * normals[:, :1] + 3 * normals[:, 1:]


EXPECTED = {
    Dirichlet(1.5): lambda x, normals: quadratic(x) - 1.5,
    Dirichlet(quadratic): lambda x, normals: 0 * x[:, :1],
    Neumann(0.5): lambda x, normals: slope(x, normals) - 0.5,
    Robin(2.0, -0.5, 1.0): lambda x, normals: 2 * quadratic(x) - 0.5 * slope(x, normals) - 1,
}
"""Residuals of conditions for the field above, at points x with normals."""


@pytest.mark.parametrize("condition", EXPECTED, ids=str)
def test_residuals_by_hand(condition):
    r, x, normals, *_ = evaluated(condition, quadratic)
    np.testing.assert_allclose(r, EXPECTED[condition](x, normals), atol=1e-13)


@pytest.mark.parametrize(
    ("condition", "right"),
    [
        (Dirichlet(lambda u, x: 2 * u(x) ** 2), lambda u, x, n: 2 * u**2),
        (Neumann(lambda u, x: 1 - u(x)), lambda u, x, n: 1 - u),
        (Neumann(lambda u, x, normals: u(x) * normals[:, :1]), lambda u, x, n: u * n[:, :1]),
        (Robin(2.0, -0.5, lambda u, x: u(x) * x[:, 1:]), lambda u, x, n: u * x[:, 1:]),
        (Neumann(lambda u, x, n, q=3.0: q * n[:, 1:]), lambda u, x, n: 3 * n[:, 1:]),
    ],
)
def test_values_that_depend_on_u_and_normals(condition, right):
    r, x, normals = evaluated(condition, quadratic)
    u = quadratic(x)
    left = {Dirichlet: u, Neumann: slope(x, normals)}
    left[Robin] = 2 * u - 0.5 * slope(x, normals)
    np.testing.assert_allclose(r, left[type(condition)] - right(u, x, normals), atol=1e-13)


@pytest.mark.parametrize(
    ("condition", "forms"),
    [
        (Neumann(lambda x, u: u), r"\(x\) or \(u, x\) or \(u, x, normals\), .*one of \(x, u\)"),
        (Neumann(lambda x, normals: normals), r"\(u, x, normals\), .*one of \(x, normals\)"),
        (Dirichlet(lambda u, x, normals: u(x)), r"\(x\) or \(u, x\), .*one of \(u, x, normals\)"),
        (Dirichlet(lambda x, q: q * x), r"\(x, q\). Unknowns of the problem follow a star"),
    ],
)
def test_values_of_arguments_in_another_order(condition, forms):
    with pytest.raises(InputError, match=forms):
        evaluated(condition, quadratic)


def test_a_function_of_u_and_x():
    r, x = evaluated(Condition(lambda u, x: u(x) * derivative(u, x, 0), on="x=upper"), quadratic)
    np.testing.assert_allclose(r, 4 * (4 + 3 * x[:, 1:2]))
    assert np.all(x[:, 0] == 2)


def test_a_function_with_normals():
    r, x, normals = evaluated(Condition(slope_minus_one), quadratic)
    np.testing.assert_allclose(r, 2 * x[:, :1] * normals[:, :1] + 3 * normals[:, 1:] - 1)


def test_faces_and_predicates():
    def on(faces, **more):
        return evaluated(Dirichlet(on=faces, **more), quadratic)[1]

    named = on(("x=lower", "y=upper"))
    assert np.all((named[:, 0] == 0) | (named[:, 1] == 1))
    assert np.any(named[:, 0] == 0) and np.any(named[:, 1] == 1)
    np.testing.assert_array_equal(on("x=lower"), on(lambda x: x[:, 0] == 0))
    np.testing.assert_array_equal(on("x=lower"), on(lambda x: tf.equal(x[:, 0], 0)))
    half = on("x=lower", where=lambda x: x[:, 1] < 0.5)
    assert 0 < len(half) < len(on("x=lower")) and np.all(half[:, 1] < 0.5)
    np.testing.assert_array_equal(on("boundary"), on(None))


def test_points_inside():
    r, x = evaluated(Condition(lambda u, x: u(x) - 1, on="interior", points=50), quadratic)
    assert 40 < len(x) < 60
    assert np.any((x > 0).all(axis=1) & (x < [2, 1]).all(axis=1))
    assert r.shape == (len(x), 1)


@pytest.mark.parametrize("condition", [Dirichlet(points=200), Neumann(on="x=lower", points=33)])
def test_a_number_of_points_of_its_own(condition):
    number = condition.number
    assert len(evaluated(condition, quadratic, n=10)[1]) == pytest.approx(number, rel=0.05)


def test_a_number_where_a_predicate_holds():
    condition = Dirichlet(where=lambda x: (x[:, 1] == 0) & (x[:, 0] > 1.5), points=40)
    x = evaluated(condition, quadratic)[1]
    assert len(x) == pytest.approx(40, abs=2) and np.all(x[:, 0] > 1.5)


def test_points_as_arrays():
    pin = [[0.5, 0.5], [0.25, 0.75]]
    r, x, *_ = evaluated(Dirichlet(1.0, points=pin), quadratic)
    np.testing.assert_array_equal(x, pin)
    np.testing.assert_allclose(r, quadratic(x) - 1)
    side = np.array([[2, 0.3], [2, 0.4]])
    r, _, normals, _ = evaluated(Neumann(points=side), quadratic)
    np.testing.assert_array_equal(normals, [[1, 0], [1, 0]])
    np.testing.assert_allclose(r, [[4], [4]])
    diagonal = np.full((2, 2), np.sqrt(0.5))
    r, *_ = evaluated(Neumann(points=(np.array(pin), diagonal)), quadratic)
    np.testing.assert_allclose(r[:, 0], np.sqrt(0.5) * (2 * np.array(pin)[:, 0] + 3))
    on_circle = [[1, 0], [0.6, 0.8]]
    _, _, normals, _ = evaluated(Neumann(points=on_circle), quadratic, domain=Ball([0, 0], 1))
    np.testing.assert_allclose(normals, on_circle)
    r, x, *_ = evaluated(Dirichlet(points=[0.5]), lambda x: x**2, domain=Interval(0, 1))
    np.testing.assert_allclose(r, [[0.25]])


def test_components_by_name_and_number():
    names = ("u", "v")
    r, x, *_ = evaluated(Dirichlet(2.0, component="v"), two, outputs=names)
    np.testing.assert_allclose(r, x[:, :1] - x[:, 1:] - 2)
    by_number, *_ = evaluated(Dirichlet(2.0, component=1), two, outputs=names)
    np.testing.assert_array_equal(by_number, r)
    r, x, *_ = evaluated(Dirichlet((1.0, 2.0), component=("v", "u")), two, outputs=names)
    np.testing.assert_allclose(r, two(x).numpy()[:, ::-1] - [1, 2])
    r, x, normals, *_ = evaluated(Robin(2.0, 3.0, 1.0, component="v"), two, outputs=names)
    np.testing.assert_allclose(
        r[:, 0], 2 * (x[:, 0] - x[:, 1]) + 3 * (normals[:, 0] - normals[:, 1]) - 1
    )
    r, x, normals, *_ = evaluated(Neumann(component="u"), two, outputs=names)
    np.testing.assert_allclose(r[:, 0], x[:, 1] * normals[:, 0] + x[:, 0] * normals[:, 1])


@pytest.mark.parametrize(
    "value",
    [
        lambda x: np.sin(x[:, 0:1]),
        lambda x: np.sin(x[:, 0]),
        lambda x: tf.sin(x[:, 0:1]),
        lambda x: tf.sin(tf.cast(x[:, 0], tf.float64)),
        lambda x: tf.math.sin(x).numpy()[:, :1],
        lambda x: tf.ensure_shape(tf.sin(x), x.shape.as_list())[:, :1],
        tf.function(lambda x: tf.sin(x[:, :1])),
        lambda x: [[np.sin(row[0])] for row in x],
    ],
)
def test_values_are_functions_in_numpy_or_tensorflow(value):
    r, x, *_ = evaluated(Dirichlet(value), lambda x: tf.sin(x[:, 0:1]))
    np.testing.assert_allclose(r, 0, atol=1e-15)
    problem = Problem(BOX, lambda u, x: u(x), exact=value)
    np.testing.assert_allclose(problem.exact(x), np.sin(x[:, :1]))


def test_a_function_with_single_precision_inside():
    r, *_ = evaluated(Dirichlet(lambda x: tf.constant(2.0) * x[:, 0:1]), lambda x: 2 * x[:, :1])
    np.testing.assert_allclose(r, 0, atol=1e-6)


def test_an_error_of_a_value_goes_through():
    def value(x):
        raise KeyError("temperature")

    with pytest.raises(KeyError, match="temperature"):
        evaluated(Dirichlet(value), quadratic)


class Flow(Condition):
    """∫-like: its own arrays and constructor."""

    kind = "flow"

    def __init__(self, factor):
        self.factor = factor

    def points(self, domain, n):
        x = domain.sample(7, seed=1)
        return x, 2 * x[:, :1]

    def residual(self, u, x, target):
        return self.factor * u(x) - target


def test_a_class_of_ones_own():
    r, x, target = evaluated(Flow(3.0), quadratic)
    np.testing.assert_allclose(r, 3 * quadratic(x) - target)


def test_names_and_weights():
    conditions = [
        Dirichlet(name="lid", weight=3.0),
        Condition(lambda u, x: u(x), name="mine"),
        Flow(1.0),
    ]
    problem = Problem(BOX, lambda u, x: u(x), conditions=conditions)
    assert [t.name for t in problem.terms] == ["residual", "lid", "mine", "flow"]
    assert [t.weight for t in problem.with_condition_weight(5).terms] == [1, 3, 5, 5]
    assert "mine" in repr(conditions[1]) and "lid" in repr(conditions[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Condition(3), r"Condition: function must be a function \(u, x\)"),
        (Condition, "function must be a function"),
        (lambda: Dirichlet(on=3), "on must be a face's name"),
        (lambda: Dirichlet(on=()), "at least one face"),
        (lambda: Dirichlet(on=("interior", "x=lower")), "inside or on faces"),
        (lambda: Dirichlet(points=0), "points must be an integer of at least 1"),
        (lambda: Dirichlet(points="many"), "points must be an integer"),
        (lambda: Dirichlet(points=[[0.0, np.nan]]), "finite numbers; 1 of 2.*in row 0"),
        (lambda: Dirichlet(name=3), "name must be a text"),
        (lambda: Dirichlet(component=1.5), "component must be a name of Problem"),
        (lambda: Dirichlet(component=()), "component must be a name"),
        (lambda: Dirichlet(component=("u", "u")), "names a component twice"),
        (lambda: Dirichlet("0"), "Dirichlet: value"),
        (lambda: Dirichlet(np.nan), "Dirichlet: value"),
        (lambda: Neumann(weight=-1.0), "Neumann: weight must not be negative"),
        (lambda: Neumann(weight=np.inf), "Neumann: weight"),
        (lambda: Robin(1.0, np.nan), "Robin: beta"),
        (lambda: Robin(None, 1.0), "Robin: alpha"),
        (lambda: Dirichlet(where=3), "Dirichlet: where"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (Dirichlet(on="left side"), "no face 'left side'; its faces are x=lower"),
        (Dirichlet(component="w"), r"no component 'w'; its components are 'u' \(0\), 'v' \(1\)"),
        (Dirichlet(component=2), "no component 2"),
        (Dirichlet(component=("u", 0)), "names a component twice"),
        (Dirichlet((1.0, 2.0, 3.0)), r"3 values .* for 2 component"),
        (Dirichlet((1.0, 2.0), component="u"), r"2 values .* for 1 component"),
        (Dirichlet(points=[[3.0, 0.5]]), r"lie outside Box.*number 0: \[3.0, 0.5\]"),
        (Neumann(points=[[1.0, 0.5]]), r"Neumann uses the normal.*points=\(x, normals\)"),
        (Neumann(points=[[0.0, 0.0]]), "leave out points inside and on edges"),
        (Neumann(points=([[0.0, 0.0]], [[1.0]])), "normals must have the shape"),
        (Condition(lambda u: u), r"must be a function of \(u, x\), got one of \(u\)"),
        (lambda u, x: u(x), r"given as Condition\(function, on=...\)"),
    ],
)
def test_mistakes_that_a_problem_sees(condition, message):
    with pytest.raises(InputError, match=message):
        Problem(BOX, lambda u, x: u(x), conditions=[condition], outputs=("u", "v"))


def test_a_predicate_of_something_else():
    with pytest.raises(InputError, match=r"Dirichlet: where must be a function of \(x\), got one"):
        Dirichlet(where=lambda u, x: x > 0).points(BOX, 8)


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
        evaluated(Dirichlet(value), quadratic, n=24)


def test_values_for_another_number_of_components():
    with pytest.raises(InputError, match=r"shape \[\d+, 2\], a column for each component"):
        evaluated(Dirichlet(lambda x: x[:, :1]), two, outputs=2)


def test_numpy_on_a_tensor_says_what_to_write():
    condition = Condition(lambda u, x: u(x) - np.sin(x))
    problem = Problem(BOX, lambda u, x: u(x), conditions=[condition])
    with pytest.raises(InputError, match="in term 'condition'.* in place of np.sin"):
        problem.check(quadratic)


def test_conditions_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dirichlet().weight = 2.0
