"""Operators of third and fourth order on fields of all kinds, against tapes and each other."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Field,
    Problem,
    Request,
    Term,
    biharmonic,
    derivative,
    laplacian,
    record,
)

BOX = Box([0.0, 1.0], [2.0, 5.0], names=("x", "t"))
MODEL = MLP(2, 1, width=5, depth=2, dtype="float64")
RNG = np.random.default_rng(4)
PARAMETERS = [tf.constant(0.6 * RNG.normal(size=v.shape)) for v in MODEL.trainable_variables]
X = tf.constant(BOX.sample(3, seed=0))


def kdv(u, x):
    return derivative(u, x, "t") + u(x) * derivative(u, x, "x") + derivative(u, x, *"xxx")


def beam(u, x):
    return derivative(u, x, "t", "t") + derivative(u, x, 0, 0, 0, 0) - laplacian(u, x, over="x")


def plate(u, x):
    return biharmonic(u, x, over=(0, 1)) + derivative(u, x, 0, 1, 1) * u(x) + derivative(u, x, 1)


EQUATIONS = {f.__name__: f for f in (kdv, beam, plate)}
ANSATZE = {
    "none": None,
    "values": lambda n, x: tf.sin(x[:, :1]) * n(x) ** 2 + x[:, 1:],
    "derivatives": lambda n, x: x[:, :1] * derivative(n, x, 1),
    "elsewhere": lambda n, x: n(x) - n(x * [[1.0, 0.0]]),
}


def problem_of(name, *, input_scaling=True):
    return Problem(BOX, kdv, ansatz=ANSATZE[name], input_scaling=input_scaling)


def field_by_jet(problem, parameters):
    return problem.field(partial(MODEL.apply, parameters), jet=partial(MODEL.jet, parameters))


def field_by_tapes(problem, parameters):
    """Of the function alone, so that nothing but tapes differentiates it."""
    plain = problem.field(partial(MODEL.apply, parameters))
    return plain.with_names(BOX.names, None)


def value_and_gradients(equation, field_of, parameters, x):
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        u = field_of(parameters)
        term = Term("test", 1.0, lambda n: (), equation)
        result = term.residual(u, x)
        loss = tf.reduce_sum(result**2)
    return result, tape.gradient(loss, parameters, unconnected_gradients="zero")


def assert_close(found, expected, tolerance=1e-10):
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        scale = max(1.0, float(tf.reduce_max(tf.abs(b))))
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("equation", "ansatz"),
    [("kdv", "none"), ("beam", "values"), ("plate", "none"), ("kdv", "derivatives")],
)
def test_jets_equal_tapes_with_the_gradients_by_the_weights(equation, ansatz):
    problem = problem_of(ansatz)
    of = partial(value_and_gradients, EQUATIONS[equation])
    found = of(partial(field_by_jet, problem), PARAMETERS, X)
    assert_close(found, of(partial(field_by_tapes, problem), PARAMETERS, X))


def test_an_ansatz_that_evaluates_elsewhere():
    problem = problem_of("elsewhere")
    by_jet, by_tapes = (f(problem, PARAMETERS) for f in (field_by_jet, field_by_tapes))
    assert_close(kdv(by_jet, X), kdv(by_tapes, X))


def test_members_in_one_compiled_computation():
    problem = problem_of("none")
    stacked = [tf.stack([p, 0.5 * p, -p]) for p in PARAMETERS]

    def of_one(parameters):
        return value_and_gradients(kdv, partial(field_by_jet, problem), parameters, X)

    @tf.function(jit_compile=True, autograph=False)
    def of_all(parameters):
        return tf.vectorized_map(of_one, parameters, fallback_to_while_loop=False)

    found = of_all(stacked)
    for member in range(3):
        alone = of_one([p[member] for p in stacked])
        assert_close(tf.nest.map_structure(lambda t, k=member: t[k], found), alone)


def test_biharmonic_is_the_laplacian_of_the_laplacian():
    u = field_by_jet(problem_of("none"), PARAMETERS)
    nested = laplacian(lambda z: laplacian(u, z, over=(0, 1)), X, over=(0, 1))
    assert_close(biharmonic(u, X, over=(0, 1)), nested)
    separate = derivative(u, X, *"xxxx") + 2 * derivative(u, X, *"xtxt") + derivative(u, X, *"tttt")
    assert_close(biharmonic(u, X, over=(0, 1)), separate)
    assert_close(biharmonic(u, X, over="space"), derivative(u, X, *"xxxx"))


def test_a_residual_of_mixed_orders_is_one_jet():
    calls = []

    def jet(z, second, higher=()):
        calls.append((len(second), len(higher)))
        return MODEL.jet(PARAMETERS, z, second, higher=higher)

    u = Field(partial(MODEL.apply, PARAMETERS), jet=jet, coordinates=("x", "t"))
    plan = record(beam, u, X)
    xx, tt = ((1.0, 0.0), (0.0, 0.0)), ((0.0, 0.0), (0.0, 1.0))
    assert plan == (Request(True, (tt, xx), ((((0, 0, 0, 0), 1.0),),)),)
    calls.clear()
    found = beam(u.with_plan(plan), X)
    assert calls == [(2, 1)]
    assert_close(found, beam(u, X))


def test_a_jet_of_second_order_gets_tapes_on_top():
    asked = []

    def jet(z, second):
        asked.append(len(second))
        return MODEL.jet(PARAMETERS, z, second)

    u = Field(partial(MODEL.apply, PARAMETERS), jet=jet, coordinates=("x", "t"))
    assert_close(plate(u, X), plate(partial(MODEL.apply, PARAMETERS), X))
    assert_close(
        kdv(u, X), kdv(field_by_jet(problem_of("none", input_scaling=False), PARAMETERS), X)
    )
    assert asked
