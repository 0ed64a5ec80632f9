"""Unknown functions as fields: their derivatives, and how residuals get them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Field,
    Interval,
    Problem,
    Residual,
    Unknown,
    UnknownFunction,
    derivative,
    divergence,
    gradient,
    hessian,
    laplacian,
)

BOX, UNIT = Box([0.0, -1.0], [2.0, 1.0]), Interval(0, 1)
BOUNDS: list[dict[str, Any]] = [{}, {"lower": 0}, {"upper": 3.0}, {"lower": 0, "upper": 3.0}]
SOLUTION = Field(lambda x: tf.exp(x[:, :1]) * x[:, 1:], coordinates=("x", "y"))
OPERATORS = {
    "value": lambda k, x: k(x),
    "gradient": gradient,
    "hessian": hessian,
    "third": lambda k, x: derivative(k, x, "x", "x", "x"),
    "mixed": lambda k, x: derivative(k, x, "x", "x", "y"),
    "flux": lambda k, x: divergence(lambda z: k(z) * gradient(SOLUTION, z), x),
}


def network(z: Any) -> Any:
    return tf.sin(1.3 * tf.reduce_sum(z, axis=1, keepdims=True)) + z[:, :1] ** 2


def conduction(u: Any, x: Any, *, k: Any) -> Any:
    return divergence(lambda z: k(z) * gradient(u, z), x)


def problem(function: Any, residual: Any = conduction, **options: Any) -> Problem:
    return Problem(BOX, residual, unknowns={"k": function}, **options)


@pytest.mark.parametrize("of", [None, "x", ("y", "x"), "u", ("u", "y")], ids=str)
def test_derivatives_are_those_of_tapes(of: Any) -> None:
    x = tf.constant(np.random.default_rng(0).uniform(0, 1, (5, 2)))
    for bounds, scaled in zip(BOUNDS, (True, False, True, True), strict=True):
        placed = problem(UnknownFunction(1.0, of=of, **bounds)).unknown_functions["k"]
        k = placed.field(Field(network), SOLUTION, scaled=scaled)
        plain = Field(k._source.function, coordinates=("x", "y"))
        for name, operator in OPERATORS.items():
            expected = operator(plain, x)
            # A function of x alone has no mixed derivatives.
            assert np.abs(expected).max() > 0 or (of, name) == ("x", "mixed")
            np.testing.assert_allclose(
                operator(k, x), expected, rtol=1e-11, atol=1e-12, err_msg=f"{bounds} {name}"
            )


def test_values_are_those_of_the_formula() -> None:
    x = np.array([[0.5, 0.25], [1.5, -0.75]])
    for bounds in BOUNDS:
        function = UnknownFunction(1.0, of="x", **bounds)
        placed = problem(function).unknown_functions["k"]
        k = placed.field(Field(network), SOLUTION, scaled=True)
        z = x[:, :1] - 1  # of [0, 2], mapped to [−1, 1]
        number = Unknown(1.0, **bounds)
        expected = number.values(number.initial("", 0) + np.sin(1.3 * z) + z**2)
        np.testing.assert_allclose(k(tf.constant(x)), expected, rtol=1e-13)
        # Until there is a network, it is the constant that it begins around.
        np.testing.assert_allclose(placed.start.beside(SOLUTION)(tf.constant(x)), 1.0)


def test_residuals_and_conditions_get_it() -> None:
    """By default where it begins; tests may give any function in its place."""
    x = tf.constant([[0.5, 0.25]], tf.float64)
    given = problem(
        UnknownFunction(2.0),
        conditions=[
            Dirichlet(lambda x, *, k: 3 * k(x)),
            Condition(lambda u, x, *, k: k(x) - 1, on="left", name="known"),
        ],
    )
    interior, dirichlet, known = given.terms
    u = given.field(SOLUTION)
    np.testing.assert_allclose(interior.residual(u, x), 2 * laplacian(SOLUTION, x))
    np.testing.assert_allclose(known.residual(u, x), 1.0)
    np.testing.assert_allclose(dirichlet.residual(u, x, x), SOLUTION(x) - 6.0)
    u = given.field(SOLUTION, unknowns={"k": lambda z: z[:, :1] ** 2})
    expected = laplacian(SOLUTION, x) * 0.25 + 2 * 0.5 * derivative(SOLUTION, x, "x")
    np.testing.assert_allclose(interior.residual(u, x), expected)
    assert set(given.unknown_functions) == {"k"} and not given.unknowns
    given.check(lambda z: z[:, :1] * z[:, 1:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 0.0, "lower": 0}, "UnknownFunction: the start must lie strictly inside"),
        ({"start": [1.0, 2.0]}, "UnknownFunction: start must be one number"),
        ({"start": 1.0, "of": ()}, "at least one coordinate"),
        ({"start": 1.0, "of": 0}, "of, what it depends on, must be non-empty texts"),
        ({"start": 1.0, "scale": -1}, "UnknownFunction: scale must be positive"),
        ({"start": 1.0, "true": 2.0}, "true must be a function"),
    ],
)
def test_what_no_unknown_function_can_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UnknownFunction(**options)


def _times(u: Any, x: Any, *, k: Any) -> Any:
    return k * u(x)


@pytest.mark.parametrize(
    ("unknown", "residual", "message"),
    [
        (UnknownFunction(1.0, of="t"), conduction, r"depend on 't', which is neither.*\(x, y\)"),
        (UnknownFunction(1.0), lambda u, x: u(x), "no residual and no condition takes"),
        (UnknownFunction, conduction, r"sought, as UnknownFunction\(1.0\)"),
        (lambda x: x, conduction, r"sought, as UnknownFunction\(1.0\)"),
        (
            UnknownFunction(1.0, true=lambda x: x),
            conduction,
            "true function of the unknown 'k' must have the shape",
        ),
        (
            UnknownFunction(1.0),
            Residual(conduction, data=lambda x, k: x),
            "takes the unknown 'k', but it is computed once",
        ),
    ],
)
def test_mistakes(unknown: Any, residual: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem(unknown, residual)


@pytest.mark.parametrize(
    ("unknown", "residual", "message"),
    [
        (UnknownFunction(1.0), _times, "k is a function, with the values k\\(x\\)"),
        (Unknown(1.0), conduction, "k is a number, written k"),
        (
            UnknownFunction(1.0),
            lambda u, x, *, k: tf.round(k(x)) * u(x),
            "TensorFlow finds no derivative",
        ),
    ],
)
def test_mistakes_that_show_when_it_is_run(unknown: Any, residual: Any, message: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 TensorFlow raises what it likes
        problem(unknown, residual).check(lambda x: x[:, :1] * x[:, 1:])
    words = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(message, words)


def test_an_ansatz_cannot_depend_on_it() -> None:
    with pytest.raises(InputError, match="ansatz cannot depend on unknowns"):
        Problem(
            UNIT,
            lambda u, x, *, k: k(x) * u(x),
            ansatz=lambda n, x, *, k: k(x) * n(x),
            unknowns={"k": UnknownFunction(1.0)},
        )
    # One that leaves it alone is as any other.
    x = tf.constant([[0.5]], tf.float64)
    whole = Problem(
        UNIT,
        lambda u, x, *, k: divergence(lambda z: k(z) * gradient(u, z), x),
        ansatz=lambda n, x: x * n(x),
        unknowns={"k": UnknownFunction(1.0, of="u")},
    )
    u = whole.field(lambda x: x, unknowns={"k": whole.unknown_functions["k"].start})
    np.testing.assert_allclose(whole.terms[0].residual(u, x), [[2.0]])
