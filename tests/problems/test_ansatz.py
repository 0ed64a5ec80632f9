"""Fields made of a network's: the ansatz and the scaling of inputs."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Field,
    Interval,
    Problem,
    Term,
    derivative,
    hessian,
    jacobian,
    laplacian,
)

BOX = Box([1.0, -2.0], [4.0, 3.0])


def split(x):
    return x[:, :1], x[:, 1:]


def bubble(u, x):
    s, t = split(x)
    return tf.sin(s) * (t - 1) * u(x) + s**2 * t


def nonlinear(u, x):
    s, t = split(x)
    a, b = split(u(x))
    return tf.concat([tf.sin(a * b) + s * t, t**2 * a * u(x)[:, 1:] ** 2], axis=1)


def three_of_two(u, x):
    return tf.concat([u(x), tf.exp(0.3 * x[:, :1]) * u(x)[:, :1] * u(x)[:, 1:]], axis=1)


def constant(u, x):
    return x * x


def lifted(u, x):
    return u(x) - u(tf.zeros_like(x))


def even(u, x):
    return u(x) + u(-x)


def stream(u, x):
    slopes = jacobian(u, x)
    return tf.concat([slopes[:, :1, 1], -slopes[:, :1, 0]], axis=1)


def by_tape(u, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        v = u(x)
    return x * tape.gradient(v, x)


def by_forward_mode(u, x):
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        v = u(x)
    return accumulator.jvp(v)


def copied(u, x):
    return x * u(tf.identity(x))


POINTWISE = {f.__name__: f for f in (bubble, nonlinear, three_of_two, constant)}
OTHERS = {f.__name__: f for f in (lifted, even, stream, by_tape, by_forward_mode, copied)}
OPERATORS = {
    "value": lambda u, x: u(x),
    "slopes": jacobian,
    "laplacian": laplacian,
    "hessian": hessian,
    "third": lambda u, x: derivative(u, x, 0, 1, 0),
    "equation": lambda u, x: laplacian(u, x) * u(x) + derivative(u, x, 0, 1),
}


@pytest.fixture(scope="module")
def case():
    model = MLP(2, 2, width=5, dtype="float64")
    rng = np.random.default_rng(0)
    parameters = [tf.constant(0.7 * rng.normal(size=v.shape)) for v in model.variables]
    return model, parameters, tf.constant(BOX.sample(4, seed=0))


def problem_of(ansatz, outputs=2, *, input_scaling=True):
    return Problem(
        BOX,
        lambda u, x: u(x),
        outputs=outputs,
        network_outputs=2,
        ansatz=ansatz,
        input_scaling=input_scaling,
    )


def outputs_of(ansatz):
    return 3 if ansatz is three_of_two else 2


def evaluate(field_of, operator, mode, parameters, x):
    """The operator, and the gradients of its sum of squares by the weights."""

    def run(weights, points):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            result = operator(field_of(weights), points)
            loss = tf.reduce_sum(tf.square(result))
        return result, tape.gradient(loss, weights, unconnected_gradients="zero")

    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "jit", autograph=False)
    return tf.nest.flatten(run(parameters, x))


def assert_close(found, expected):
    for a, b in zip(found, expected, strict=True):
        scale = max(float(tf.reduce_max(tf.abs(b))), 1.0)
        np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=1e-12)


# What a compiler could get wrong, it would in any of them.
CASES = [(name, "laplacian", "eager") for name in (*POINTWISE, *OTHERS)]
CASES += [("nonlinear", op, "eager") for op in ("value", "slopes", "hessian")]
CASES += [
    ("bubble", "laplacian", "jit"),
    ("nonlinear", "third", "eager"),
    ("nonlinear", "equation", "eager"),
    ("nonlinear", "laplacian", "graph"),
    ("by_tape", "laplacian", "jit"),
]


@pytest.mark.long_after(6)
@pytest.mark.all_after(14)
@pytest.mark.parametrize(("name", "operator", "mode"), CASES)
def test_derivatives_by_the_jet_equal_nested_tapes(name, operator, mode, case):
    model, parameters, x = case
    ansatz = {**POINTWISE, **OTHERS}[name]
    problem = problem_of(ansatz, outputs_of(ansatz))

    def with_jet(weights):
        return problem.field(
            lambda z: model.apply(weights, z), jet=lambda z, s: model.jet(weights, z, s)
        )

    def by_tapes(weights):
        center, half = (BOX.lower + BOX.upper) / 2, BOX.extent / 2

        def scaled(z):
            return model.apply(weights, (z - center) / half)

        return Field(lambda z: ansatz(Field(scaled), z))

    found = evaluate(with_jet, OPERATORS[operator], mode, parameters, x)
    expected = evaluate(by_tapes, OPERATORS[operator], mode, parameters, x)
    assert_close(found, expected)


@pytest.mark.parametrize("name", [*POINTWISE, *OTHERS])
def test_the_network_is_differentiated_by_tapes_only_where_it_must(name, case):
    """Where the ansatz is pointwise, the network is asked for one jet at most."""
    model, parameters, x = case
    ansatz = {**POINTWISE, **OTHERS}[name]
    problem = problem_of(ansatz, outputs_of(ansatz), input_scaling=False)
    calls = []

    def apply(z):
        calls.append("value")
        return model.apply(parameters, z)

    def jet(z, second):
        calls.append(len(second))
        return model.jet(parameters, z, second)

    u = problem.field(apply, jet=jet)
    assert u.has_jet
    laplacian(u, x)
    calls.clear()
    laplacian(u, x)
    expected = [] if name == "constant" else [1]
    assert (calls == expected) == (name in POINTWISE)


def test_a_plan_serves_a_transformed_field(case):
    model, parameters, x = case
    problem = problem_of(bubble)
    jets = []

    def jet(z, second):
        jets.append(len(second))
        return model.jet(parameters, z, second)

    def equation(u, x):
        return laplacian(u, x) + derivative(u, x, 0) + u(x) * derivative(u, x, 0, 1)

    u = problem.field(lambda z: model.apply(parameters, z), jet=jet)
    term = Term("test", 1.0, lambda n: (), equation)
    term.residual(u, x)
    jets.clear()
    result = term.residual(u, x)
    assert jets == [2]
    np.testing.assert_allclose(result, equation(u, x), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_input_scaling_maps_the_domain_to_unit_box(dtype):
    problem = Problem(BOX, lambda u, x: u(x), outputs=2, input_scaling=True)
    corners = tf.constant([BOX.lower, BOX.upper, (BOX.lower + BOX.upper) / 2], dtype)
    u = problem.field(lambda z: z)
    np.testing.assert_allclose(u(corners), [[-1, -1], [1, 1], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(jacobian(u, corners)[0], np.diag(2 / BOX.extent), rtol=1e-6)
    assert u(corners).dtype == dtype


def test_without_either_the_field_is_the_networks():
    problem = Problem(Interval(0, 1), lambda u, x: u(x))
    u = Field(lambda x: x)
    named = problem.field(u)
    assert (named.coordinates, named.components) == (("x",), ("u",))
    np.testing.assert_array_equal(named(tf.constant([[0.25]])), [[0.25]])
    assert (problem.ansatz, problem.input_scaling, problem.network_outputs) == (None, None, 1)


def trained(*, trainable=True):
    return tf.Variable(2.0, name="rate", trainable=trainable)


def test_a_trainable_variable_in_the_ansatz_is_refused():
    rate = trained()
    problem = Problem(
        Interval(0, 1), lambda u, x: u(x), ansatz=lambda u, x: rate * u(x), name="decay"
    )
    with pytest.raises(InputError, match="in the ansatz of problem 'decay' reads .*'rate' = 2"):
        problem.check(MLP(1, 1))
    fixed = trained(trainable=False)
    Problem(Interval(0, 1), lambda u, x: u(x), ansatz=lambda u, x: fixed * u(x)).check(MLP(1, 1))


BAD = {
    "another number of components": (lambda u, x: x * u(x), "the ansatz has 2; let it return"),
    "a value for every pair": (lambda u, x: x[:, 0] * u(x), r"\[n, m\]|the ansatz has"),
    "no axis": (lambda u, x: u(x)[:, 0], r"a tensor \[n, m\] .* got the shape"),
    "nothing": (lambda u, x: None, "got NoneType"),
    "a sum": (lambda u, x: tf.reduce_sum(u(x), axis=0, keepdims=True), r"got the shape \(1, 1\)"),
    "another type": (lambda u, x: tf.cast(u(x), tf.float64), "tensor of float32, .*got float64"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_an_ansatz_must_not_return(name):
    ansatz, message = BAD[name]
    with pytest.raises(InputError, match=message):
        Problem(BOX, lambda u, x: u(x), ansatz=ansatz).check(MLP(2, 1))


def test_errors_of_an_ansatz_come_with_advice():
    def words_of(ansatz):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            Problem(Interval(0, 1), lambda u, x: u(x), ansatz=ansatz).check(MLP(1, 1))
        return " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])

    assert "ansatz(u, x)" in words_of(lambda x, y: x * (1 - x) * y)  # as other packages have it
    assert "tf.sin" in words_of(lambda u, x: np.sin(x) * u(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ansatz": 3}, r"ansatz must be a function \(u, x\)"),
        ({"input_scaling": 2}, "input_scaling must be True, False or None for the default, got 2"),
        ({"network_outputs": 2}, "network_outputs=2 needs an ansatz="),
        ({"network_outputs": 0, "ansatz": bubble}, "network_outputs must be an integer"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        Problem(BOX, lambda u, x: u(x), **arguments)
