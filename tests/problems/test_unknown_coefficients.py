"""Unknown coefficients: how their values come of parameters, and how residuals get them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.problems import (
    Box,
    Condition,
    Dirichlet,
    Interval,
    LogNormal,
    Normal,
    Problem,
    Residual,
    Robin,
    Unknown,
    laplacian,
)
from sciml_par.problems.unknowns.unknowns import (
    initial_unknowns,
    names_of_numbers,
    numbers_of,
    values_of,
)

UNIT = Interval(0, 1)
BOUNDS: dict[str, Unknown] = {
    "none": Unknown(-3.0),
    "none, at zero": Unknown(0.0),
    "lower": Unknown(0.01, lower=0),
    "lower, scaled": Unknown([3.0, 5.0], lower=1, scale=2),
    "upper": Unknown(-3.0, upper=1.0),
    "both": Unknown([0.2, 0.9], lower=[0, 0.5], upper=1),
    "far away": Unknown(1e9 + 1.0, lower=1e9),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_a_training_begins_at_the_start_with_a_parameter_of_order_one(case: str) -> None:
    unknown = BOUNDS[case]
    p = unknown.initial("k", 0)
    assert p.shape == unknown.shape and np.all(np.abs(p) < 3)
    np.testing.assert_allclose(unknown.values(p), unknown.start, rtol=1e-14)


@pytest.mark.parametrize("case", BOUNDS)
def test_values_stay_inside_and_grow_with_the_parameter(case: str) -> None:
    unknown = BOUNDS[case]
    p = np.linspace(-30, 30, 61).reshape(-1, *[1] * len(unknown.shape)) + np.zeros(unknown.shape)
    values = unknown.values(p)
    lower = -np.inf if unknown.lower is None else unknown.lower
    upper = np.inf if unknown.upper is None else unknown.upper
    assert np.all((lower <= values) & (values <= upper))
    sign = -1 if unknown.lower is None and unknown.upper is not None else 1
    assert np.all(sign * np.diff(values[20:41], axis=0) > 0)
    in_graph = np.stack([unknown.value(tf.constant(row)).numpy() for row in p])
    np.testing.assert_allclose(in_graph, values, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 1, "lower": 1}, "strictly inside"),
        ({"start": [1, 3], "upper": 2}, "strictly inside"),
        ({"start": float("nan")}, "finite number"),
        ({"start": "1"}, "finite number"),
        ({"start": True}, "finite number"),
        ({"start": 1, "scale": 0}, "scale must be positive"),
        ({"start": 1, "lower": 0, "upper": 2, "scale": 1}, "no meaning with both bounds"),
        ({"start": [1, 2], "true": [1, 2, 3]}, "of the shape"),
        ({"start": 1, "spread": -1}, "spread must not be negative"),
        ({"start": 1, "prior": 0.5}, r"prior must be Normal\(mean, deviation\) or LogNormal"),
        ({"start": 1, "prior": LogNormal(1, 1)}, "a lower bound of 0 or more"),
        ({"start": 1, "lower": -1, "prior": LogNormal(1, 1)}, "a lower bound of 0 or more"),
        ({"start": 1, "lower": 0, "prior": Normal(-1, 1)}, "its center outside the bounds"),
        ({"start": 1, "prior": Normal([1, 2], 1)}, r"the shape \[\] of the start; got .* \[2\]"),
    ],
)
def test_what_no_unknown_can_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Unknown(**options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(1, 0), "Normal: deviation must be a positive number"),
        (lambda: Normal(np.nan, 1), "Normal: mean must hold finite numbers"),
        (lambda: LogNormal(0, 1), "LogNormal: median must be a positive number"),
        (lambda: LogNormal("1", 1), "LogNormal: median must be an array of real numbers"),
    ],
)
def test_what_no_prior_can_be(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_priors_are_terms_of_chi_squared() -> None:
    unknowns = {
        "a": Unknown(2.0, lower=0, prior=LogNormal(3.0, 0.5)),
        "b": Unknown([1.0, 2.0], prior=Normal([0.0, 1.0], 0.25)),
        "k": Unknown(1.0),
    }
    problem = Problem(
        UNIT,
        lambda u, x, *, a, b, k: a * b[0] * u(x) - k * b[1],
        conditions=[Dirichlet(0.0)],
        unknowns=unknowns,
    )
    assert [t.name for t in problem.terms] == ["residual", "dirichlet", "prior a", "prior b"]
    of_a, of_b = problem.terms[2:]
    u = problem.field(lambda x: x)
    x = tf.constant(of_a.points(5)[0])
    np.testing.assert_allclose(of_a.residual(u, x), [[np.log(2 / 3) / 0.5]])
    np.testing.assert_allclose(of_b.residual(u, x), [[4.0, 4.0]])
    u = problem.field(lambda x: x, unknowns={"a": 3.0, "b": [0.5, 1.0], "k": 0.0})
    np.testing.assert_allclose(of_a.residual(u, x), [[0.0]], atol=1e-15)
    np.testing.assert_allclose(of_b.residual(u, x), [[2.0, 0.0]])
    problem.check(lambda x: x, dtype="float64")
    # A prior alone does not make the equation depend on an unknown.
    with pytest.raises(InputError, match="takes the unknown 'a'"):
        Problem(UNIT, lambda u, x, *, k: k * u(x), unknowns={**unknowns, "b": 1.0})


def test_the_spread_of_members() -> None:
    unknown = Unknown(1.0, lower=0.5, spread=0.5)
    drawn = np.array([unknown.values(unknown.initial("k", seed)) for seed in range(300)])
    assert drawn.min() > 0.5 and len(np.unique(drawn)) == 300
    # A normal distribution of which the part below 0.5 is cut off.
    assert drawn.mean() == pytest.approx(1.144, abs=0.05)
    assert unknown.initial("k", 7) == unknown.initial("k", 7) != unknown.initial("c", 7)
    with pytest.raises(InputError, match="smaller spread"):
        Unknown(1e-9, lower=0, upper=2e-9, spread=1.0).initial("k", 0)


def test_several_as_one_vector() -> None:
    unknowns = {"k": Unknown(2.0), "c": Unknown(np.ones((2, 2)), lower=0), "a": Unknown([1.0])}
    flat = initial_unknowns(unknowns, seed=0)
    assert flat.shape == (6,)
    assert names_of_numbers(unknowns) == ["k", "c[0, 0]", "c[0, 1]", "c[1, 0]", "c[1, 1]", "a[0]"]
    np.testing.assert_allclose(numbers_of(unknowns, [flat, 2 * flat])[0], [2, 1, 1, 1, 1, 1])
    values = values_of(unknowns, [tf.constant(flat[0]), tf.reshape(flat[1:5], [2, 2]), flat[5:]])
    assert {name: v.shape.as_list() for name, v in values.items()} == {
        "k": [],
        "c": [2, 2],
        "a": [1],
    }


def _keyword(u: Any, x: Any, *, k: Any) -> Any:
    return k * u(x)


def _by_place(u: Any, x: Any, k: Any) -> Any:
    return k * u(x)


def _any(u: Any, x: Any, **unknowns: Any) -> Any:
    return unknowns["k"] * u(x)


def _default(u: Any, x: Any, scale: float = 1.0, *, k: Any = 5.0) -> Any:
    return scale * k * u(x)


class _Object:
    def __call__(self, u: Any, x: Any, *, k: Any) -> Any:
        return k * u(x)


GETTING: dict[str, Any] = {
    "keyword": _keyword,
    "by place": _by_place,
    "any": _any,
    "default": _default,
    "object": _Object(),
    "partial": partial(_default, scale=1.0),
    "residual": Residual(lambda u, x, f, *, k: k * u(x) + 0 * f, data=np.sin),
}


@pytest.mark.parametrize("case", GETTING)
def test_a_residual_gets_the_unknowns_that_it_names(case: str) -> None:
    problem = Problem(UNIT, GETTING[case], unknowns={"k": Unknown(3.0)})
    (term,) = problem.terms
    arrays = [tf.constant(a) for a in term.points(4)]
    u = problem.field(lambda x: x**2)
    np.testing.assert_allclose(term.residual(u, *arrays), 3 * arrays[0] ** 2)
    given = problem.field(lambda x: x**2, unknowns={"k": tf.constant(7.0, tf.float64)})
    np.testing.assert_allclose(term.residual(given, *arrays), 7 * arrays[0] ** 2)
    problem.check(lambda x: x**2)


def test_the_functions_of_conditions_get_them_too() -> None:
    problem = Problem(
        UNIT,
        lambda u, x, *, k: laplacian(u, x) - k,
        conditions=[
            Dirichlet(lambda x, *, k: k * x),
            Robin(1.0, 2.0, lambda x, c, k: c[0] * x + k),
        ],
        unknowns={"k": 3.0, "c": Unknown([2.0])},
    )
    u = problem.field(lambda x: 0 * x)
    _, dirichlet, robin = problem.terms
    x, normals = (tf.constant(a) for a in dirichlet.points(2))
    np.testing.assert_allclose(dirichlet.residual(u, x, normals), -3 * x)
    np.testing.assert_allclose(robin.residual(u, x, normals), -(2 * x + 3))
    assert problem.with_condition_weight(9.0).terms[1].function is dirichlet.function


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unused": ({"residual": lambda u, x: u(x), "unknowns": {"k": 1.0}}, "takes the unknown 'k'"),
    "missing": ({"residual": _keyword}, "takes the argument 'k', which is not an unknown"),
    "missing by place": ({"residual": _by_place}, r"unknowns=\{'k': Unknown\(1.0\)\}"),
    "missing in a condition": (
        {"residual": lambda u, x: u(x), "conditions": [Dirichlet(lambda x, *, k: k * x)]},
        "term 'dirichlet' takes the argument 'k'",
    ),
    "named like an argument": ({"residual": _keyword, "unknowns": {"u": 1.0}}, "'u' is the name"),
    "named like data": (
        {"residual": Residual(lambda u, x, f: u(x) * f, data=np.sin), "unknowns": {"f": 1.0}},
        "gets by its place",
    ),
    "in the place of normals": (
        {
            "residual": lambda u, x: u(x),
            "conditions": [Condition(lambda u, x, k: u(x) - k)],
            "unknowns": {"k": 1.0},
        },
        r"gets by its place; .* def residual\(u, x, \*, k\)",
    ),
    "named like a coordinate": (
        {
            "domain": Box([0], [1], names=("t",)),
            "residual": lambda u, x, *, t: t * u(x),
            "unknowns": {"t": 1.0},
        },
        "an unknown and of a coordinate",
    ),
    "named like an output": (
        {"residual": lambda u, x, *, p: p * u(x), "outputs": ("p",), "unknowns": {"p": 1.0}},
        "an unknown and of an output",
    ),
    "no name": ({"residual": _keyword, "unknowns": {"a b": 1.0}}, "the name of an unknown"),
    "no dictionary": ({"residual": _keyword, "unknowns": [1.0]}, "must be a dictionary"),
    "a variable": (
        {"residual": _keyword, "unknowns": {"k": tf.Variable(2.0)}},
        r"must be a number or where one starts.*got <tf.Variable",
    ),
    "a text": ({"residual": _keyword, "unknowns": {"k": "2"}}, "or where one starts.*got '2'"),
    "in data": (
        {
            "residual": Residual(lambda u, x, f: u(x) - f, data=lambda x, k: k * x),
            "unknowns": {"k": 1.0},
        },
        "data of term 'residual' takes the unknown 'k'",
    ),
    "in the ansatz": (
        {"residual": _keyword, "ansatz": lambda n, x, k: k * n(x), "unknowns": {"k": 1.0}},
        "ansatz takes the unknown 'k'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_get_a_sentence(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        Problem(**{"domain": UNIT, **options})


def test_a_residual_that_makes_nothing_of_its_unknown_is_refused() -> None:
    residuals = {
        "not used": lambda u, x, *, k: u(x),
        "stopped": lambda u, x, *, k: tf.stop_gradient(k) * u(x),
        "an integer": lambda u, x, *, k: u(x) * tf.cast(tf.cast(k, tf.int32), x.dtype),
    }
    for residual in residuals.values():
        problem = Problem(UNIT, residual, unknowns={"k": 1.0}, name="p")
        with pytest.raises(InputError, match="residuals of problem 'p' take the unknown 'k', but"):
            problem.check(lambda x: x)
