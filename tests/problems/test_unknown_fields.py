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
    Normal,
    Problem,
    Residual,
    Smooth,
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


@pytest.mark.parametrize(
    ("of", "bounds", "scaled"),
    [
        (None, BOUNDS[0], True),
        ("x", BOUNDS[1], False),
        (("y", "x"), BOUNDS[2], True),
        ("u", BOUNDS[3], True),
        (("u", "y"), BOUNDS[1], True),
    ],
)
def test_derivatives_are_those_of_tapes(of: Any, bounds: dict[str, Any], scaled: bool) -> None:
    x = tf.constant(np.random.default_rng(0).uniform(0, 1, (5, 2)))
    placed = problem(UnknownFunction(1.0, of=of, **bounds)).unknown_functions["k"]
    k = placed.field(Field(network), SOLUTION, scaled=scaled)
    plain = Field(k._source.function, coordinates=("x", "y"))
    for name, operator in OPERATORS.items():
        expected = operator(plain, x)
        # A function of x alone has no mixed derivatives.
        assert np.abs(expected).max() > 0 or (of, name) == ("x", "mixed")
        np.testing.assert_allclose(operator(k, x), expected, rtol=1e-11, atol=1e-12, err_msg=name)


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
        ({"start": 1.0, "prior": Normal(1, 1)}, r"prior must be Smooth\(length=…, amplitude=…\)"),
        ({"start": 1.0, "prior": Smooth(length=1, amplitude=1, log=True)}, "bound of 0 or more"),
    ],
)
def test_what_no_unknown_function_can_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UnknownFunction(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0, "amplitude": 1}, "length must be a positive number"),
        ({"length": 1, "amplitude": "1"}, "amplitude must be a positive number"),
        ({"length": 1, "amplitude": 1, "log": True, "mean": 0}, "mean must be a positive number"),
        ({"length": 0.01, "amplitude": 1}, "needs a grid of 401 × 401 points, four per length"),
        ({"length": [1, 1, 1], "amplitude": 1}, r"3 lengths, and the function has 2 arg.*: x, y"),
        ({"length": 1, "amplitude": 1, "mean": -1}, "lies outside the bounds"),
        ({"length": 1, "amplitude": 1, "of": "u"}, "that of components of the solution is not"),
    ],
)
def test_what_no_prior_can_be(options: dict[str, Any], message: str) -> None:
    of = options.pop("of", None)
    with pytest.raises(InputError, match=message):
        problem(UnknownFunction(1.0, of=of, lower=0, prior=Smooth(**options)))


def kernel(z: Any, length: Any) -> Any:
    """Matérn 5/2 as in the literature, with the jitter."""
    r = np.sqrt(np.sum(((z[:, None] - z) / length) ** 2, axis=2))
    values = (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r)
    return values + 1e-8 * np.eye(len(z))


@pytest.mark.parametrize(
    ("of", "options", "transform"),
    [
        (None, {"length": [1.0, 0.8]}, lambda k: k - 1.5),
        ("y", {"length": 0.5, "mean": lambda y: 1 + y**2}, None),
        ("x", {"length": 2.0, "log": True}, lambda k: np.log(k / 1.5)),
    ],
)
def test_smooth_is_a_gaussian_process(of: Any, options: dict[str, Any], transform: Any) -> None:
    given = problem(
        UnknownFunction(1.5, of=of, lower=0, prior=Smooth(amplitude=0.3, **options)),
        conditions=[Dirichlet(0.0)],
    )
    term = given.terms[-1]
    assert term.name == "prior k"
    arrays = [tf.constant(each) for each in term.points(7)]
    x = arrays[1].numpy()[0]
    z = x if of is None else x[:, [0 if of == "x" else 1]]
    np.testing.assert_array_equal(z.min(axis=0), BOX.lower if of is None else z[0])
    values = (lambda x: 2 + tf.sin(x[:, 1:])) if of == "y" else lambda x: 2 + tf.sin(x[:, :1])
    r = term.residual(given.field(SOLUTION, unknowns={"k": values}), *arrays).numpy()
    k = values(x).numpy()[:, 0]
    e = k - 1 - z[:, 0] ** 2 if transform is None else transform(k)
    covariance = 0.3**2 * kernel(z, np.asarray(options["length"]))
    np.testing.assert_allclose(r @ r.T, e @ np.linalg.solve(covariance, e), rtol=1e-6)
    given.check(lambda z: z[:, :1] * z[:, 1:], dtype="float64")


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
