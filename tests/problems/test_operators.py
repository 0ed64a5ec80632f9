"""Operators against analytic fields, and against one another."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import sciml_par as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Dirichlet,
    Field,
    Interval,
    Problem,
    derivative,
    divergence,
    gradient,
    hessian,
    integral_to,
    jacobian,
    laplacian,
)


def points(d, n=7, seed=3):
    return tf.constant(Box([-1.0] * d, [1.5] * d).sample(n, seed=seed))


def field_of(model):
    parameters = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    return Field(lambda x: model.apply(parameters, x), jet=lambda x, s: model.jet(parameters, x, s))


def sines(x):
    """u = Π_i sin(a_i x_i) with a_i = i + 1."""
    u = tf.ones_like(x[:, 0:1])
    for i in range(x.shape[1]):
        u *= tf.sin((i + 1.0) * x[:, i : i + 1])
    return u


def sines_derivative(x, orders):
    """The exact ∂^orders of `sines`."""
    u = np.ones((len(x), 1))
    for i, q in enumerate(orders):
        a = i + 1.0
        u *= a**q * np.sin(a * x[:, i : i + 1] + q * np.pi / 2)
    return u


@pytest.mark.parametrize("d", [1, 2, 3])
def test_scalar_operators_of_a_product_of_sines(d):
    x = points(d)
    unit = np.eye(d, dtype=int)
    exact_gradient = np.hstack([sines_derivative(x.numpy(), e) for e in unit])
    np.testing.assert_allclose(gradient(sines, x), exact_gradient, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(jacobian(sines, x)[:, 0], exact_gradient, rtol=1e-12, atol=1e-13)
    exact_laplacian = sum(sines_derivative(x.numpy(), 2 * e) for e in unit)
    np.testing.assert_allclose(laplacian(sines, x), exact_laplacian, rtol=1e-12, atol=1e-13)
    second = hessian(sines, x)
    for i in range(d):
        for j in range(d):
            exact = sines_derivative(x.numpy(), unit[i] + unit[j])
            np.testing.assert_allclose(second[:, :, i, j], exact, atol=1e-13)
            if i <= j:
                found = derivative(sines, x, j, i)
                np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("orders", [(4,), (2, 1), (1, 1, 1)])
def test_orders_above_two(orders):
    x = points(len(orders))
    axes = [i for i, q in enumerate(orders) for _ in range(q)]
    exact = sines_derivative(x.numpy(), orders)
    np.testing.assert_allclose(derivative(sines, x, *axes), exact, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(derivative(sines, x, *axes[::-1]), exact, rtol=1e-11, atol=1e-12)


def test_vector_field_of_polynomials():
    def u(x):
        a, b = x[:, 0:1], x[:, 1:2]
        return tf.concat([a**2 * b, a + b**3], axis=1)

    x = points(2)
    a, b = x.numpy()[:, 0], x.numpy()[:, 1]
    exact = np.stack([np.stack([2 * a * b, a**2], 1), np.stack([1 + 0 * a, 3 * b**2], 1)], 1)
    np.testing.assert_allclose(jacobian(u, x), exact, atol=1e-13)
    np.testing.assert_allclose(divergence(u, x), (2 * a * b + 3 * b**2)[:, None], atol=1e-13)
    np.testing.assert_allclose(laplacian(u, x), np.stack([2 * b, 6 * b], 1), atol=1e-13)
    np.testing.assert_allclose(derivative(u, x, 0, 1), np.stack([2 * a, 0 * a], 1), atol=1e-13)
    assert hessian(u, x).shape == (7, 2, 2, 2)
    np.testing.assert_allclose(hessian(u, x)[:, 0, 0, 1], 2 * a, atol=1e-13)


def test_more_components_than_dimensions():
    x = points(1)
    u = lambda x: tf.concat([x**2, x**3, tf.ones_like(x)], axis=1)  # noqa: E731
    s = x.numpy()
    np.testing.assert_allclose(laplacian(u, x), np.hstack([2 + 0 * s, 6 * s, 0 * s]), atol=1e-13)
    np.testing.assert_allclose(jacobian(u, x)[:, :, 0], np.hstack([2 * s, 3 * s**2, 0 * s]))


@pytest.mark.parametrize("u", [lambda x: 3.0 * x[:, 0:1], lambda x: tf.ones_like(x[:, 0:1])])
def test_linear_and_constant_fields_have_zero_second_derivatives(u):
    np.testing.assert_array_equal(laplacian(u, points(2)), np.zeros((7, 1)))


def test_operators_nest():
    """Δ² of sin(x) sin(2y) is 25 u, by a Laplacian of a Laplacian and by mixed derivatives."""
    x = points(2)
    nested = laplacian(lambda z: laplacian(sines, z), x)
    np.testing.assert_allclose(nested, 25 * sines(x), rtol=1e-10)
    by_divergence = divergence(lambda z: gradient(sines, z), x)
    np.testing.assert_allclose(by_divergence, laplacian(sines, x), rtol=1e-12)


def test_only_the_argument_is_differentiated():
    """A coefficient at the outer x is a constant to an inner derivative."""
    x = points(1)
    product = gradient(lambda z: x**2 * z, x)
    np.testing.assert_allclose(product, x**2, rtol=1e-14)


@pytest.mark.parametrize(("n", "jit"), [(0, True), (1, False), (7, True)])
def test_jets_equal_nested_tapes_at_any_number_of_points(n, jit):
    model = MLP(2, 2, width=4, dtype="float64")
    x = points(2, n=n)

    @tf.function(jit_compile=jit, autograph=False)
    def evaluate(x):
        u = field_of(model)
        plain = model
        return [f(v, x) for v in (u, plain) for f in (laplacian, jacobian, hessian, divergence)]

    results = evaluate(x)
    for jet, tape in zip(results[:4], results[4:], strict=True):
        assert jet.shape[0] == n
        np.testing.assert_allclose(jet, tape, rtol=1e-10, atol=1e-12)


def test_unknown_number_of_points():
    model = MLP(2, 1, width=4, dtype="float64")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float64)], autograph=False)
    def evaluate(x):
        return laplacian(field_of(model), x), laplacian(model, x)

    jet, tape = evaluate(points(2))
    assert jet.shape == (7, 1)
    np.testing.assert_allclose(jet, tape, rtol=1e-10)


def test_wrong_uses_are_explained():
    x = points(2)
    vector = lambda x: x**2  # noqa: E731
    with pytest.raises(InputError, match="jacobian"):
        gradient(vector, x)
    with pytest.raises(InputError, match="1 components in 2 dimensions"):
        divergence(sines, x)
    with pytest.raises(InputError, match="at least one axis"):
        derivative(sines, x)
    for axis in (2, -1, True, 0.0):
        with pytest.raises(InputError, match=r"0\.\.1"):
            derivative(sines, x, axis)
    with pytest.raises(InputError, match=r"laplacian\(u, x\), not laplacian\(u\(x\), x\)"):
        laplacian(sines(x), x)
    with pytest.raises(InputError, match=r"x\[:, i:i\+1\]"):
        laplacian(sines, x[:, 0])
    with pytest.raises(InputError, match="floating-point"):
        laplacian(sines, tf.constant([[1, 2]]))
    with pytest.raises(InputError, match=r"x\[:, 0:1\]"):
        laplacian(lambda x: x[:, 0], x)
    with pytest.raises(InputError, match="tf.sin"):
        laplacian(lambda x: np.ones((7, 1)), x)


def test_integrals_over_the_past():
    x = tf.constant(np.random.default_rng(0).uniform(0.5, 2.0, size=(7, 2)))
    s, t = x[:, :1], x[:, 1:]
    cases = {
        "the other coordinate stays": (
            integral_to(lambda y: y[:, :1] * y[:, 1:], x, 1),
            s * t**2 / 2,
        ),
        "start": (integral_to(lambda y: y[:, :1] ** 3, x, 0, start=-1.0), (s**4 - 1) / 4),
        "kernel": (
            integral_to(lambda y: y[:, 1:], x, 1, kernel=lambda y, x: tf.exp(y - x)[:, 1:]),
            t - 1 + tf.exp(-t),
        ),
        "half derivative of t²": (
            integral_to(
                lambda y: derivative(lambda z: z[:, 1:] ** 2, y, 1), x, 1, power=-0.5, nodes=2
            )
            / math.gamma(0.5),
            2 / math.gamma(2.5) * t**1.5,
        ),
        "at the start": (
            integral_to(lambda y: y, tf.zeros([3, 1], tf.float64), 0),
            tf.zeros([3, 1]),
        ),
    }
    for name, (found, expected) in cases.items():
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
    for wrong in ({"power": -1.0}, {"nodes": 0}, {"axis": 2}):
        with pytest.raises(InputError, match="power|nodes|axes must be in 0..1"):
            integral_to(lambda y: y, x, **{"axis": 0} | wrong)


def test_an_equation_with_a_memory_is_solved():
    problem = Problem(
        Interval(0, 3, name="t"),
        lambda u, t: derivative(u, t, "t") - 1 + integral_to(u, t, "t"),
        conditions=[Dirichlet(0.0, on="t=lower")],
    )
    t = np.linspace(0, 3, 7)[:, None]
    result = sp.train(
        problem,
        network=functools.partial(MLP, width=8, depth=1),
        optimizer="lm",
        steps=40,
        points=40,
        precision="float64",
        evaluation_points=20,
        progress=False,
        estimate=False,
    )
    np.testing.assert_allclose(result.predict(t).mean, np.sin(t), atol=1e-4)
