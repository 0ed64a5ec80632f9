"""Curl, advection and material derivative; components, names and `over`; what is refused."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Field,
    Problem,
    Term,
    advection,
    biharmonic,
    curl,
    derivative,
    divergence,
    gradient,
    hessian,
    jacobian,
    laplacian,
    material_derivative,
)

BOX = Box([-1.0, -1.0, 0.0], [1.0, 2.0, 1.0], names=("x", "y", "t"))
X = tf.constant(BOX.sample(5, seed=2))
PLAIN = X.numpy()
PROBLEM = Problem(BOX, lambda u, x: u(x), outputs=("u", "v", "p"))


def flow(z):
    """u = x y t, v = x² + y t, p = sin(x) y³ t."""
    x, y, t = z[:, :1], z[:, 1:2], z[:, 2:]
    return tf.concat([x * y * t, x**2 + y * t, tf.sin(x) * y**3 * t], axis=1)


U = PROBLEM.field(flow)
SPATIAL = {"over": "space", "component": ("u", "v")}
COLUMNS = [PLAIN[:, i : i + 1] for i in range(3)]


def expected():
    x, y, t = COLUMNS
    u, v = x * y * t, x**2 + y * t
    return {
        "divergence": y * t + t,
        "curl": 2 * x - x * t,
        "gradient": np.hstack([np.cos(x) * y**3 * t, 3 * np.sin(x) * y**2 * t]),
        "laplacian": -np.sin(x) * y**3 * t + 6 * np.sin(x) * y * t,
        "biharmonic": np.sin(x) * y**3 * t - 12 * np.sin(x) * y * t,
        "advection": u * np.cos(x) * y**3 * t + v * 3 * np.sin(x) * y**2 * t,
        "material": np.hstack([x * y + u * y * t + v * x * t, y + u * 2 * x + v * t]),
        "derivative": 6 * np.sin(x) * y,
    }


OPERATORS = {
    "divergence": lambda u, x: divergence(u, x, **SPATIAL),
    "curl": lambda u, x: curl(u["u", "v"], x, over=("x", "y")),
    "gradient": lambda u, x: gradient(u["p"], x, over="space"),
    "laplacian": lambda u, x: laplacian(u, x, over=("x", 1), component="p"),
    "biharmonic": lambda u, x: biharmonic(u, x, over="space", component=2),
    "advection": lambda u, x: advection(u["p"], u["u", "v"], x, over="space"),
    "material": lambda u, x: material_derivative(u["u", "v"], u["u", "v"], x),
    "derivative": lambda u, x: derivative(u, x, "y", "y", "t", component="p"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_in_space_on_components_of_a_flow(name):
    np.testing.assert_allclose(OPERATORS[name](U, X), expected()[name], rtol=1e-11, atol=1e-12)


def test_curl_in_three_dimensions():
    x, y, z = COLUMNS
    found = curl(lambda p: tf.concat([p[:, 1:2] * p[:, 2:], p[:, :1] ** 2, p[:, :1]], axis=1), X)
    np.testing.assert_allclose(found, np.hstack([0 * x, y - 1, 2 * x - z]), atol=1e-13)
    # Of a gradient it is zero, and the divergence of a curl is.
    scalar = lambda p: flow(p)[:, 2:]  # noqa: E731
    np.testing.assert_allclose(curl(lambda p: gradient(scalar, p), X), 0 * PLAIN, atol=1e-12)
    np.testing.assert_allclose(divergence(lambda p: curl(flow, p), X), 0 * x, atol=1e-12)


def test_velocities_of_all_kinds_and_another_name_of_time():
    v = tf.constant(PLAIN[:, :2])
    first = material_derivative(U["p"], v, X)
    np.testing.assert_allclose(material_derivative(U["p"], lambda z: z[:, :2], X), first)
    np.testing.assert_allclose(material_derivative(lambda z: flow(z)[:, 2:], v, X), first)
    by_hand = derivative(U["p"], X, 0) + advection(
        U["p"], tf.constant(PLAIN[:, 1:]), X, over=(1, 2)
    )
    np.testing.assert_allclose(
        material_derivative(U["p"], tf.constant(PLAIN[:, 1:]), X, time="x"), by_hand, rtol=1e-12
    )


def test_hessian_and_jacobian_over_some_coordinates():
    whole, part = hessian(U, X), hessian(U, X, over=("t", "x"))
    np.testing.assert_array_equal(part, tf.gather(tf.gather(whole, [2, 0], axis=2), [2, 0], axis=3))
    np.testing.assert_array_equal(jacobian(U, X, over="t"), jacobian(U, X)[:, :, 2:])


def test_components_share_the_plan_of_their_field():
    model = MLP(3, 3, width=4, dtype="float64")
    parameters = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    jets = []

    def jet(z, second, higher=()):
        jets.append(len(second))
        return model.jet(parameters, z, second, higher=higher)

    def equation(u, x):
        velocity = u["u", "v"]
        return (
            material_derivative(velocity, velocity, x)
            + gradient(u["p"], x, over="space")
            - laplacian(velocity, x, over="space")
            + u["p"](x)
        )

    u = PROBLEM.field(partial(model.apply, parameters), jet=jet)
    term = Term("test", 1.0, lambda n: (), equation)
    term.plan(u, X)
    jets.clear()
    found = term.residual(u, X)
    assert jets == [1]
    np.testing.assert_allclose(found, equation(PROBLEM.field(model), X), rtol=1e-10)


MISTAKES = [
    (lambda: derivative(U, X, "z"), "no coordinate 'z'; there are x, y, t"),
    (lambda: derivative(flow, X, "x"), "plain function"),
    (lambda: derivative(U, X, 3), r"there are x, y, t, with the numbers 0 to 2"),
    (lambda: laplacian(flow, X, over="space"), r"give their numbers, as over=\(0, 1\)"),
    (lambda: laplacian(U, X, over=()), "one or several different"),
    (lambda: laplacian(U, X, over=("x", 0)), "one or several different"),
    (lambda: laplacian(U, X, component="w"), "no component 'w'; there are u, v, p"),
    (lambda: U[:, 0:1], r"u\(x\)\[:, 0:1\] slices values, u\[0\] the field"),
    (lambda: list(U), "cannot be unpacked"),
    (lambda: Field(flow)["u"], "have no names; give the number"),
    (lambda: Field(flow)[3](X), "there is no component 3: the field has 3"),
    (lambda: laplacian(U(X)[:, 0:1], X), r'u\["v"\] or u\[0\]'),
    (lambda: laplacian(U, X[:, 0]), r"x\[:, i:i\+1\]"),
    (lambda: gradient(U, X), r"choose one, gradient\(u\[0\], x\), or use jacobian"),
    (lambda: divergence(U["u", "v"], X), '2 components in 3 dimensions; .*over="space"'),
    (lambda: curl(U, X, over="space"), "3 components in 2 dimensions"),
    (lambda: curl(U["p"], X, over="x"), "1 components in 1 dimensions"),
    (lambda: material_derivative(U, U, X), r"velocity must be a tensor \[n, 2\].*shape \(5, 3\)"),
    (lambda: advection(U, PLAIN, X), "a ndarray"),
    (lambda: advection(U, X[:, :2], U), r"x must be the points, a tensor \[n, d\]; got a field"),
    (lambda: derivative(U, "x"), r"derivative\(u, x, 0\): x must be the points, .* got 'x'"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes_are_explained(call, message):
    with pytest.raises(InputError, match=message):
        call()
