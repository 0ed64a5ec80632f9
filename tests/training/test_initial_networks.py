"""The networks of a training before it: one for each member, tried on the problem."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Interval, Problem, Unknown, derivative, laplacian
from sciml_par.training import Adam
from sciml_par.training.identity.described import architecture_of
from sciml_par.training.loss.traced_terms import trace_terms
from sciml_par.training.preparation.member_preparation import network_of_member
from sciml_par.training.preparation.remarks import remarks_on_unread_outputs

pytestmark = pytest.mark.ranks(most=1, reason="local: each rank makes its own networks")

CURVED = Problem(Interval(0, 1), lambda u, x: laplacian(u, x) - 1)


class Preferring:
    """Stands for an optimizer to which initial weights with centres are better."""

    prefers_centres = True


def make(network, problem=CURVED, seeds=(1,), members=None, optimizers=()):
    members = len(seeds) if members is None else members
    return [
        network_of_member(
            problem, network, seed=seed, members=members, dtype="float32", optimizers=optimizers
        )
        for seed in seeds
    ]


def remarks(network, problem=CURVED):
    (made,) = make(network, problem)
    arrays = [term.points(5) for term in problem.terms]
    return trace_terms(problem, made, dtype="float32", arrays=arrays).remarks


def small(activation="tanh", outputs=1, last=None):
    end = functools.partial(layers.Dense, kernel_initializer=last or "glorot_uniform")
    return lambda: keras.Sequential([layers.Dense(4, activation), end(outputs)])


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


PLAIN = "no residual and no condition reads the output 1 ('v'): the training leaves it as"


@pytest.mark.parametrize(
    ("residual", "options", "said"),
    [
        (lambda u, x: laplacian(u[0], x), {}, PLAIN),
        (lambda u, x: u(x)[:, :1] - x, {"network": small(outputs=2)}, PLAIN),
        (lambda u, x: u(x)[:, :1] + derivative(u[1], x, 0), {}, None),
        (lambda u, x: tf.stop_gradient(u(x)[:, :1]) - u(x)[:, 1:], {}, None),
        # The initial values of the factors are zero.
        (lambda u, x, *, k: u(x)[:, :1] + k * u(x)[:, 1:], {"unknowns": {"k": Unknown(0.0)}}, None),
        (lambda u, x: u(x)[:, :1] * u(x)[:, 1:], {"network": small(outputs=2, last="zeros")}, None),
        (lambda u, x: u(x)[:, :1] - x, {"conditions": [Dirichlet(0.0, component="v")]}, None),
        (
            laplacian,
            {"ansatz": lambda N, x: x * N(x)[:, :2], "network_outputs": 3},
            "reads the output 2 of the network",
        ),
    ],
)
def test_an_output_that_no_term_reads_is_said(residual, options, said):
    network = options.pop("network", None)
    problem = Problem(Interval(0, 1), residual, outputs=("u", "v"), **options)
    (made,) = make(network, problem)
    arrays = [term.points(5) for term in problem.terms]
    traced = trace_terms(problem, made, dtype="float32", arrays=arrays)
    weights = [np.ravel(v) for v in made.trainable_variables] + [np.zeros(len(problem.unknowns))]
    theta = np.concatenate(weights).astype(np.float32)
    found = remarks_on_unread_outputs(problem, made, traced, arrays, theta)
    assert [said in text for text in found] == [True] * (said is not None)


def test_a_compiled_model_is_said():
    model = small()()
    model.compile("adam", "mse")
    assert any("does not use its optimizer" in text for text in remarks(model))


def made_for(network, optimizer, problem=CURVED):
    (made,) = make(network, problem, optimizers=[optimizer])
    return made.model, " ".join(made.notes)


def make_mlp(d, m, *, seed, dtype, initial_weights=None, box=None):
    return MLP(d, m, width=5, seed=seed, dtype=dtype, initial_weights=initial_weights, box=box)


TAKING = [None, MLP, functools.partial(MLP, width=4), make_mlp]


@pytest.mark.parametrize("network", TAKING)
def test_an_optimizer_may_prefer_centres(network):
    model, said = made_for(network, Preferring())
    assert (model.initial_weights, model.box) == ("centres", ((0.0,), (1.0,)))
    assert said == ""  # the right thing needs no notice


@pytest.mark.parametrize("network", TAKING)
def test_no_other_optimizer_changes_the_initial_weights(network):
    for optimizer in (Adam(), type("Indifferent", (), {"prefers_centres": False})()):
        model, said = made_for(network, optimizer)
        assert (model.initial_weights, model.box, said) == (None, None, "")
        plain = MLP(1, 1, width=model.width, depth=model.depth, seed=1)
        for found, expected in zip(model.get_weights(), plain.get_weights(), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_what_the_user_chose_is_left_and_nothing_is_said():
    glorot = functools.partial(MLP, initial_weights="glorot")
    model, said = made_for(glorot, Preferring())
    assert (model.initial_weights, said) == ("glorot", "")
    chosen = functools.partial(MLP, initial_weights="centres")
    for optimizer in (Adam(), Preferring()):
        model, said = made_for(chosen, optimizer)
        assert (model.initial_weights, model.box, said) == ("centres", ((0.0,), (1.0,)), "")
    for given in (keras.Sequential([keras.Input((1,)), layers.Dense(1)]), MLP(1, 1, width=3)):
        before = given.get_weights()
        model, said = made_for(given, Preferring())
        assert model is given and said == ""
        for found, expected in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(found, expected)
    assert made_for(small(), Preferring())[1] == ""


def test_a_function_that_takes_no_initial_weights_gets_advice():
    for network in (lambda: MLP(1, 1), lambda d, m, **options: MLP(d, m, width=3, **options)):
        model, said = made_for(network, Preferring())
        assert model.initial_weights is None
        assert "take the arguments initial_weights and box" in said
    explicit = lambda d, m, box: MLP(d, m, initial_weights="centres", box=box)  # noqa: E731
    assert made_for(explicit, Preferring())[1] == ""


def test_the_box_is_that_of_what_the_network_sees():
    box = Box([0, -5], [100, 5])
    models = {
        scaled: made_for(None, Preferring(), Problem(box, laplacian, input_scaling=scaled))[0]
        for scaled in (False, True)
    }
    assert models[False].box == ((0.0, -5.0), (100.0, 5.0))
    assert models[True].box == ((-1.0, -1.0), (1.0, 1.0))
    # So it makes no difference to the field at the beginning whether the inputs are scaled.
    x = box.sample(20, seed=1).astype("float32")
    z = ((x - [50, 0]) / [50, 5]).astype("float32")
    np.testing.assert_allclose(models[False](x), models[True](z), atol=2e-5)


def test_members_have_centres_of_their_own_and_one_key():
    first, second = make(None, seeds=(1, 2), optimizers=[Adam(), Preferring()])
    assert first.key == second.key == make(None)[0].key
    assert np.all(first.model.get_weights()[0] != second.model.get_weights()[0])
    assert architecture_of(first.model) == architecture_of(make(None)[0].model)


class Boxed(layers.Layer):
    def __init__(self, box):
        super().__init__()
        self.box = box

    def get_config(self):
        return {**super().get_config(), "box": self.box}


def test_a_box_that_is_no_matter_of_initial_weights_is_one_of_the_architecture():
    digests = {architecture_of(keras.Sequential([Boxed(side)])) for side in (1, 2)}
    assert len(digests) == 2
