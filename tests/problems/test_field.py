"""The field's plan, what it keeps, and when it must not use what it kept."""

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Field, Term, derivative, gradient, hessian, laplacian, record


class Counted:
    """A network's field that counts evaluations and jets."""

    def __init__(self, d=2, m=1):
        self.model = MLP(d, m, width=5, dtype="float64", seed=2)
        self.parameters = [tf.convert_to_tensor(v) for v in self.model.trainable_variables]
        self.values, self.jets = 0, []

    def field(self):
        return Field(self._value, jet=self._jet)

    def _value(self, x):
        self.values += 1
        return self.model.apply(self.parameters, x)

    def _jet(self, x, second):
        self.jets.append(len(second))
        return self.model.jet(self.parameters, x, second)

    def planned(self, residual, *arrays):
        u = self.field()
        plan = record(residual, u, *arrays)
        self.values, self.jets = 0, []
        return u.with_plan(plan)


@pytest.fixture
def x():
    return tf.constant(Box([-1, -1], [1, 1]).sample(6, seed=0))


def burgers(u, x):
    return (
        derivative(u, x, 0)
        + u(x) * derivative(u, x, 1)
        - 0.1 * laplacian(u, x)
        + derivative(u, x, 0, 0)
        + 0.0 * hessian(u, x)[:, :, 0, 1]
    )


def test_one_jet_serves_a_whole_residual(x):
    counted = Counted()
    u = counted.planned(burgers, x)
    result = burgers(u, x)
    # Laplacian, ∂₀₀, and of the Hessian ∂₀₁ and ∂₁₁: ∂₀₀ is asked for twice and carried once.
    assert counted.jets == [4]
    assert counted.values == 0
    np.testing.assert_allclose(result, burgers(counted.model, x), rtol=1e-10)


@pytest.mark.parametrize(
    ("residual", "values", "jets"),
    [
        (lambda u, x: u(x) * u(x), 1, []),
        (lambda u, x: gradient(u, x) + u(x), 0, [0]),
        (lambda u, x: laplacian(u, x) + u(x) - u(x + 1.0), 1, [1]),
    ],
)
def test_no_more_is_computed_than_is_asked_for(residual, values, jets, x):
    """Values alone make no jet, first derivatives no operator; other points have their own."""
    counted = Counted()
    residual(counted.planned(residual, x), x)
    assert (counted.values, counted.jets) == (values, jets)


def test_what_the_plan_lacks_is_computed_when_asked_for(x):
    counted = Counted()
    u = counted.planned(laplacian, x)
    np.testing.assert_allclose(hessian(u, x), hessian(counted.model, x), rtol=1e-10, atol=1e-12)
    empty = counted.planned(lambda u, x: x, x)
    np.testing.assert_allclose(laplacian(empty, x), laplacian(counted.model, x), rtol=1e-10)


def test_a_field_without_a_plan_keeps_nothing(x):
    counted = Counted()
    u = counted.field()
    laplacian(u, x), laplacian(u, x)
    assert counted.jets == [1, 1]


def under_a_tape_of_the_parameters(counted, residual, x):
    """As in training, where a tape records all the time but follows the parameters, not x."""
    u = counted.planned(residual, x)
    with tf.GradientTape() as tape:
        tape.watch(counted.parameters)
        return residual(u, x)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("what", [lambda u, x: u(x), lambda u, x: derivative(u, x, 0), laplacian])
def test_a_tape_around_an_operator_sees_through_what_was_kept(x, what, jit):
    counted = Counted()

    def residual(u, x):
        before = what(u, x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            after = what(u, x)
        return before + tape.gradient(after, x)[:, 1:2]

    expected = what(counted.model, x) + derivative(lambda z: what(counted.model, z), x, 1)
    run = lambda: under_a_tape_of_the_parameters(counted, residual, x)  # noqa: E731
    result = tf.function(run, jit_compile=True, autograph=False)() if jit else run()
    np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_a_forward_accumulator_sees_through_what_was_kept(x):
    counted = Counted()

    def residual(u, x):
        before = u(x)
        direction = tf.concat([tf.ones_like(before), tf.zeros_like(before)], axis=1)
        with tf.autodiff.ForwardAccumulator(x, direction) as accumulator:
            after = u(x)
        return accumulator.jvp(after)

    result = under_a_tape_of_the_parameters(counted, residual, x)
    np.testing.assert_allclose(result, derivative(counted.model, x, 0), rtol=1e-10)


def test_what_is_computed_while_recording_is_stopped_is_not_kept_for_others(x):
    counted = Counted()
    u = counted.planned(laplacian, x)
    with tf.GradientTape() as tape:
        tape.watch(counted.parameters)
        with tape.stop_recording():
            laplacian(u, x)
        loss = tf.reduce_sum(laplacian(u, x) ** 2)
    assert all(g is not None for g in tape.gradient(loss, counted.parameters[:-1]))


def test_branches_of_a_graph_do_not_share_tensors(x):
    counted = Counted()

    def residual(u, x):
        inside = tf.cond(x[0, 0] > 0, lambda: laplacian(u, x), lambda: u(x))
        return inside + laplacian(u, x) + u(x)

    def run():
        return residual(counted.field().with_plan(plan), x)

    plan = record(residual, counted.field(), x)
    plain = residual(counted.model, x)
    np.testing.assert_allclose(tf.function(run, autograph=False)(), plain, rtol=1e-10)


def test_a_term_records_its_plan_once(x):
    counted = Counted()
    seen = []
    term = Term("interior", 1.0, lambda n: (), lambda u, x: seen.append(u) or burgers(u, x))
    first = term.residual(counted.field(), x)
    assert len(seen) == 2
    counted.jets = []
    second = term.residual(counted.field(), x)
    assert len(seen) == 3
    assert counted.jets == [4]
    np.testing.assert_array_equal(first, second)


def test_a_field_needs_functions():
    with pytest.raises(InputError, match="function must be callable"):
        Field(3.0)
    with pytest.raises(InputError, match="jet must be callable or None"):
        Field(lambda x: x, jet=3.0)
