"""Networks from factories: which arguments they get, and where their random numbers come from."""

import functools
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.errors import InputError
from sciml_par.networks import MLP, make_network


def small():
    return keras.Sequential([layers.Dense(4, "tanh"), layers.Dense(1)])


class Own(keras.Model):
    def __init__(self, width=4):
        super().__init__()
        self.width, self.last = width, layers.Dense(1)

    def call(self, x):
        return self.last(x)


class Drawn(keras.layers.Layer):
    """Draws its weights by every generator that there is."""

    def build(self, shape):
        self.w = self.add_weight(shape=(5,))
        drawn = [
            tf.random.normal([]),
            keras.random.normal([]),
            np.random.normal(),  # noqa: NPY002
            random.random(),
            keras.initializers.RandomNormal()([]),
        ]
        self.w.assign([float(v) for v in drawn])

    def call(self, x):
        return x * tf.reduce_sum(self.w)


def weights(network):
    return np.concatenate([np.ravel(v) for v in network.model.get_weights()])


@pytest.mark.parametrize("make", [small, MLP, lambda: keras.Sequential([Drawn()])])
def test_members_differ_and_can_be_repeated(make):
    first, again, other = (make_network(make, 1, 1, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(weights(first), weights(again))
    kernels = np.flatnonzero(weights(first))
    assert np.all(weights(first)[kernels] != weights(other)[kernels])


def test_the_random_numbers_of_the_program_go_on_as_if_nothing_had_been_made():
    def draw():
        return [
            random.random(),
            np.random.random(),  # noqa: NPY002
            float(tf.random.uniform([])),
            float(keras.random.uniform([])),
        ]

    keras.utils.set_random_seed(5)
    expected = [draw(), draw()]
    keras.utils.set_random_seed(5)
    found = [draw()]
    make_network(lambda: keras.Sequential([Drawn()]), 1, 1, seed=9)
    found.append(draw())
    assert found == expected


def test_keras_settings_are_as_before_also_after_an_error():
    def fails():
        assert keras.config.floatx() == "float64"
        raise RuntimeError("no model today")

    with pytest.raises(RuntimeError, match="no model today"):
        make_network(fails, 1, 1, dtype="float64")
    assert keras.config.floatx() == "float32"
    assert keras.config.dtype_policy().name == "float32"


def with_keywords(d, m, **options):
    return MLP(d, m, width=3, **options)


def two(d, m):
    return keras.Sequential([keras.Input((d,)), layers.Dense(m)])


def seeded(*, seed):
    return keras.Sequential([layers.Dense(2, kernel_initializer=keras.initializers.Zeros())])


@pytest.mark.parametrize(
    "make",
    [
        MLP,
        functools.partial(MLP, width=3),
        with_keywords,
        lambda *positional, **named: MLP(*positional, **named, width=3),
        two,
        seeded,
        lambda d, m, dtype: MLP(d, m, dtype=dtype),
    ],
)
def test_a_factory_gets_the_arguments_that_it_takes(make):
    network = make_network(make, 3, 2, seed=7, dtype="float64")
    u = network.apply(network.trainable_variables, tf.zeros([5, 3], tf.float64))
    assert (u.shape, u.dtype) == ((5, 2), "float64")


def test_arguments_with_defaults_are_not_taken_for_numbers_of_inputs():
    assert make_network(Own, 3, 1).model.width == 4
    assert make_network(lambda width=6: Own(width), 3, 1).model.width == 6


def test_the_seed_reaches_mlp():
    assert make_network(with_keywords, 1, 1, seed=7).model.seed == 7
    assert make_network(None, 1, 1, seed=8).model.seed == 8


def test_what_partial_binds_stays():
    assert make_network(functools.partial(MLP, seed=1), 1, 1, seed=7).model.seed == 1
    assert make_network(functools.partial(MLP, seed=None), 1, 1, seed=7).model.seed == 7
    assert make_network(functools.partial(with_keywords, seed=2), 1, 1, seed=7).model.seed == 2
    double = functools.partial(MLP, dtype="float64")
    made = make_network(double, 1, 1, dtype="float64")
    assert {v.dtype for v in made.trainable_variables} == {"float64"}
    with pytest.raises(InputError, match="binds dtype='float64'.*has precision='float32'"):
        make_network(double, 1, 1, dtype="float32")


UNIT = ((0.0,), (1.0,))


def noting(seen, d, m, *, box, initial_weights=None, seed=0, dtype="float32"):
    seen.append((box, initial_weights))
    return MLP(d, m, width=3, initial_weights=initial_weights, box=box, seed=seed, dtype=dtype)


@pytest.mark.parametrize("wanted", [None, "glorot", "centres"])
def test_box_and_initial_weights_reach_what_takes_them(wanted):
    seen = []
    make_network(functools.partial(noting, seen), 1, 1, box=UNIT, initial_weights=wanted)
    assert seen == [(UNIT, wanted)]
    for make in (None, MLP, functools.partial(MLP, width=3)):
        model = make_network(make, 1, 1, box=UNIT, initial_weights=wanted).model
        assert model.initial_weights == wanted
    for make in (with_keywords, two, small):
        made = make_network(make, 1, 1, box=UNIT, initial_weights=wanted).model
        assert getattr(made, "initial_weights", None) is None


def test_a_choice_that_has_been_made_stays():
    glorot = functools.partial(MLP, initial_weights="glorot")
    assert make_network(glorot, box=UNIT, initial_weights="centres").model.box is None
    own = functools.partial(MLP, box=((0.0,), (3.0,)), initial_weights="centres")
    assert make_network(own, box=UNIT).model.box == ((0.0,), (3.0,))
    model = make_network(functools.partial(MLP, initial_weights="centres"), box=UNIT).model
    assert model.box == UNIT
    with pytest.raises(InputError, match="needs the box"):
        make_network(functools.partial(MLP, initial_weights="centres"))


def test_a_model_is_not_touched_by_what_is_wanted():
    model = MLP(1, 1)
    before = model.get_weights()
    assert make_network(model, box=UNIT, initial_weights="centres").model is model
    for found, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x, r"called as network\(d, m, seed=\.\.\., dtype=\.\.\.\) .* too many"),
        (lambda d, m, width: MLP(d, m, width=width), "'width'; bind"),
        (lambda *, depth: MLP(1, 1, depth=depth), "'depth'; bind"),
        (lambda: None, "returned None"),
        (lambda d, m: 3, "got int"),
        (lambda: small, "got function"),
        (lambda: Own, "got the class Own"),
    ],
)
def test_bad_factories(make, message):
    with pytest.raises(InputError, match=message):
        make_network(make, 1, 1)


def test_an_instance_is_taken_as_it_is():
    model = small()
    network = make_network(model, 1, 1, seed=3)
    before = weights(network)
    assert network.model is model
    np.testing.assert_array_equal(weights(make_network(model, 1, 1, seed=4)), before)
