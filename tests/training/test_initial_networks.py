"""The networks of a training before it: one for each member, tried on the problem."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Problem, derivative, laplacian
from sciml_par.training.initial_networks import field_of, networks_of_members

pytestmark = pytest.mark.ranks(most=1, reason="local: each rank makes its own networks")

CURVED = Problem(Interval(0, 1), lambda u, x: laplacian(u, x) - 1)


def make(network, problem=CURVED, seeds=(1,), members=None, dtype="float32"):
    return networks_of_members(
        problem,
        network,
        seeds=seeds,
        members=len(seeds) if members is None else members,
        dtype=dtype,
        arrays=[term.points(5) for term in problem.terms],
    )


def small(activation="tanh"):
    return lambda: keras.Sequential([layers.Dense(4, activation), layers.Dense(1)])


@pytest.mark.parametrize("network", [None, MLP, small(), small(tf.cos)])
def test_members_have_weights_of_their_own_and_one_key(network):
    first, second = make(network, seeds=(1, 2))
    assert first.key == second.key
    assert not np.array_equal(first.model.get_weights()[0], second.model.get_weights()[0])


def test_one_model_is_for_one_member():
    model = small()()
    assert make(model)[0].model is model
    with pytest.raises(InputError, match="is one model, but 3 are to be trained.*a function that"):
        make(model, members=3)


def test_a_network_for_an_ansatz_of_other_components():
    problem = Problem(
        Interval(0, 1),
        lambda u, x: derivative(u, x, 0),
        outputs=("u", "v", "w"),
        network_outputs=1,
        ansatz=lambda u, x: tf.concat([u(x), x * u(x), u(x) ** 2], axis=1),
    )
    (network,) = make(None, problem)
    assert network.model.output_size == 1
    u = field_of(problem, network, network.trainable_variables)
    x = tf.constant([[0.5]])
    a = float(network.model(x)[0, 0])
    np.testing.assert_allclose(u(x), [[a, 0.5 * a, a * a]], rtol=1e-6)


@pytest.mark.parametrize(
    ("activation", "problem", "said"),
    [
        ("relu", CURVED, True),
        ("tanh", CURVED, False),
        (tf.cos, CURVED, False),
        ("relu", Problem(Interval(0, 1), lambda u, x: derivative(u, x, 0)), False),
        ("relu", Problem(Interval(0, 1), lambda u, x: derivative(u, x, 0, 0, 0)), True),
    ],
)
def test_a_network_without_curvature_is_said_where_it_matters(activation, problem, said, recwarn):
    make(small(activation), problem)
    messages = [str(w.message) for w in recwarn if "second derivatives" in str(w.message)]
    assert [("use a smooth activation" in m) for m in messages] == [True] * said


def test_a_compiled_model_is_said():
    model = small()()
    model.compile("adam", "mse")
    with pytest.warns(RuntimeWarning, match="does not use its optimizer"):
        make(model)
