"""The networks of a training before it: one for each member, tried on the problem."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Interval, Problem, derivative, laplacian
from sciml_par.training.initial_networks import network_of_member, try_residuals
from sciml_par.training.objective import field_of

pytestmark = pytest.mark.ranks(most=1, reason="local: each rank makes its own networks")

CURVED = Problem(Interval(0, 1), lambda u, x: laplacian(u, x) - 1)


def make(network, problem=CURVED, seeds=(1,), members=None):
    members = len(seeds) if members is None else members
    return [
        network_of_member(problem, network, seed=seed, members=members, dtype="float32")
        for seed in seeds
    ]


def remarks(network, problem=CURVED):
    (made,) = make(network, problem)
    arrays = [term.points(5) for term in problem.terms]
    return try_residuals(problem, made, dtype="float32", arrays=arrays)


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
def test_a_network_without_curvature_is_said_where_it_matters(activation, problem, said):
    found = [text for text in remarks(small(activation), problem) if "second derivatives" in text]
    assert [("use a smooth activation" in text) for text in found] == [True] * said


def test_a_compiled_model_is_said():
    model = small()()
    model.compile("adam", "mse")
    assert any("does not use its optimizer" in text for text in remarks(model))
