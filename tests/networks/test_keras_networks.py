"""Keras models as pure functions: what they are, what they cost in trust, what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.errors import InputError
from sciml_par.networks import MLP, as_network, make_network
from sciml_par.results import Result

DTYPES = ("float32", "float64")


def sequential(*hidden, m=1):
    return keras.Sequential([*hidden, layers.Dense(m)])


def functional():
    x = keras.Input((2,))
    h = layers.Dense(6, "softplus", use_bias=False)(layers.Rescaling(2.0, offset=0.5)(x))
    h = keras.ops.sin(layers.Dense(5)(h))
    return keras.Model(x, layers.Dense(2, "sigmoid")(h))


def normalized():
    layer = layers.Normalization()
    layer.adapt(np.random.default_rng(0).normal([3.0, -1.0], [2.0, 0.1], size=(50, 2)))
    return sequential(keras.Input((2,)), layer, layers.Dense(7, "silu"), m=2)


def nested():
    inner = sequential(layers.Dense(5, "tanh"), m=4)
    return keras.Sequential([keras.Input((2,)), layers.Rescaling(0.5), inner, MLP(4, 2, width=3)])


def shared():
    layer = layers.Dense(4, "tanh")
    x = keras.Input((2,))
    return keras.Model(x, layers.Dense(2)(layer(layers.Dense(4)(layer(layers.Dense(4)(x))))))


CHAINS = {
    "sequential": lambda: sequential(layers.Dense(6, "tanh"), layers.Dense(5, tf.sin), m=2),
    "activation layers": lambda: sequential(
        layers.Dense(6), layers.Activation("gelu"), layers.Dense(5), layers.Lambda(tf.tanh), m=2
    ),
    "linear": lambda: sequential(m=2),
    "functional": functional,
    "normalized": normalized,
    "shared": shared,
}
"""Models that are chains of dense layers and are made in the precision that Keras has."""


def skip():
    x = keras.Input((2,))
    h = layers.Dense(4, "tanh")(x)
    return keras.Model(x, layers.Dense(2)(layers.Concatenate()([h, x])))


class Product(keras.Model):
    """A subclassed model that is built at its first call."""

    def __init__(self, width=4):
        super().__init__()
        self.first, self.last = layers.Dense(width, "tanh"), layers.Dense(2)

    def call(self, x):
        return self.last(self.first(x)) * x[:, :1]


class AlmostDense(layers.Dense):
    def call(self, inputs):
        return 2 * super().call(inputs)


OTHERS = {
    "skip": skip,
    "subclassed": Product,
    "layer norm": lambda: sequential(layers.Dense(4, "tanh"), layers.LayerNormalization(), m=2),
    "own dense": lambda: sequential(AlmostDense(4, "tanh"), m=2),
    "unknown activation": lambda: sequential(layers.Dense(4, tf.cos), m=2),
    "approximate gelu": lambda: sequential(layers.Dense(4), layers.Lambda(keras.ops.gelu), m=2),
    "scaled inside": lambda: sequential(layers.Dense(4, "tanh"), layers.Rescaling(2.0), m=2),
    "no dropout": lambda: sequential(layers.Dense(4, "tanh"), layers.Dropout(0.0), m=2),
}


def points(dtype, n=7):
    return tf.constant(np.random.default_rng(2).uniform(-1, 1, (n, 2)), dtype)


def weights(network, seed=3):
    """Others than those of the model, so that using those would show."""
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.normal(size=v.shape), v.dtype) for v in network.trainable_variables]


def with_weights(network, parameters, x):
    """The model's own answer, with these weights."""
    for variable, value in zip(network.trainable_variables, parameters, strict=True):
        variable.assign(value)
    return network.model(x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*CHAINS, *OTHERS])
def test_apply_is_the_model_with_the_weights_given(name, dtype):
    make = {**CHAINS, **OTHERS}[name]
    network = make_network(make, 2, 2, seed=1, dtype=dtype)
    assert (network.jet is not None) == (name in CHAINS)
    parameters, x = weights(network), points(dtype)
    u = network.apply(parameters, x)
    assert (u.shape, u.dtype) == ((7, 2), dtype)
    # Keras has the constants of gelu in single precision.
    close = 1e-5 if dtype == "float32" else 1e-7 if "activation layers" in name else 1e-12
    expected = with_weights(network, parameters, x)
    np.testing.assert_allclose(u, expected, rtol=close, atol=close)


def test_a_nested_chain_of_layers_of_fixed_precision():
    network = make_network(nested, 2, 2)
    assert network.jet is not None
    parameters, x = weights(network), points("float32")
    expected = with_weights(network, parameters, x)
    np.testing.assert_allclose(network.apply(parameters, x), expected, rtol=1e-4, atol=1e-5)


def test_a_function_that_only_seems_to_be_known_is_not_taken_for_it():
    """What is read off the layers is compared with the model."""

    class Deceptive(layers.Dense):
        pass

    model = sequential(layers.Dense(4, "tanh"), m=2)
    assert as_network(model, 2, 2).jet is not None
    model.layers[0].call = lambda x, **_: 3 * x @ model.layers[0].kernel
    assert as_network(model, 2, 2).jet is None
    assert make_network(lambda: sequential(Deceptive(4, "tanh"), m=2), 2, 2).jet is None


@pytest.mark.parametrize("name", ["sequential", "normalized", "skip", "subclassed"])
def test_frozen_layers_stay_as_they_are(name):
    model = {**CHAINS, **OTHERS}[name]()
    model(points("float32"))
    first = next(layer for layer in model.layers if isinstance(layer, layers.Dense))
    first.trainable = False
    network = as_network(model, 2, 2)
    assert all(first.kernel is not v for v in network.trainable_variables)
    assert (network.jet is not None) == (name in CHAINS)
    parameters, x = weights(network), points("float32")
    expected = with_weights(network, parameters, x)
    np.testing.assert_allclose(network.apply(parameters, x), expected, rtol=1e-5, atol=1e-5)
    before = network.key
    first.kernel.assign(first.kernel + 1.0)
    assert as_network(model, 2, 2).key != before


def test_a_frozen_part_of_mlp():
    model = MLP(2, 2, width=4)
    model._dense[0].trainable = False
    network = as_network(model, 2, 2)
    assert len(network.trainable_variables) == 4
    parameters, x = weights(network), points("float32")
    expected = with_weights(network, parameters, x)
    np.testing.assert_allclose(network.apply(parameters, x), expected, rtol=1e-5)
    u, du, operators = network.jet(parameters, x, np.eye(2)[None])
    assert (u.shape, du.shape, operators.shape) == ((7, 2), (7, 2, 2), (7, 2, 1))


def test_equal_keys_for_members_and_others_for_other_functions():
    making = {**CHAINS, **OTHERS}
    networks = {name: make_network(make, 2, 2, seed=1) for name, make in making.items()}
    x = points("float32")
    for name in ("sequential", "functional", "skip", "subclassed", "layer norm"):
        first, second = networks[name], make_network(making[name], 2, 2, seed=2)
        assert first.key == second.key and hash(first.key) == hash(second.key)
        parameters = weights(first)
        np.testing.assert_array_equal(first.apply(parameters, x), second.apply(parameters, x))
        assert first.key not in [other.key for n, other in networks.items() if n != name]
        assert first.key != make_network(making[name], 2, 2, dtype="float64").key


def test_a_number_in_a_model_is_part_of_its_key():
    class Scaled(keras.Model):
        def __init__(self):
            super().__init__()
            self.last, self.factor = layers.Dense(1), 1.0

        def call(self, x):
            return self.factor * self.last(x)

    model = Scaled()
    before = as_network(model, 2, 1).key
    assert as_network(model, 2, 1).key == before
    model.factor = 2.0
    assert as_network(model, 2, 1).key != before


def test_a_gradient_of_the_users_makes_a_model_equal_to_itself_alone():
    """The operations of a graph do not tell it; those of TensorFlow's silu follow from them."""

    @tf.custom_gradient
    def halved(x):
        return tf.sin(x), lambda upstream: 0.5 * upstream

    def make(activation):
        return sequential(layers.Dense(4, activation), layers.LayerNormalization(), m=1)

    for activation, equal in {"silu": True, halved: False}.items():
        first, second = (make_network(lambda a=activation: make(a), 2, 1) for _ in "12")
        assert (first.key == second.key) == equal
        assert as_network(first.model, 2, 1).key == first.key


def test_the_key_of_mlp_is_that_of_its_form():
    first, second = as_network(MLP(2, 1, seed=1), 2, 1), as_network(MLP(2, 1, seed=2), 2, 1)
    assert first.key == second.key != as_network(MLP(2, 1, activation="sin"), 2, 1).key


@pytest.mark.parametrize("name", ["sequential", "skip", "subclassed"])
def test_stacked_members(name):
    """Values and second derivatives of stacked weights, as of each member alone, compiled."""
    network = make_network({**CHAINS, **OTHERS}[name], 2, 2, dtype="float64")
    members = [weights(network, seed) for seed in (4, 5, 6)]
    x = points("float64")

    def curvature(parameters):
        with tf.GradientTape() as outer:
            z = tf.identity(x)
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                u = tf.reduce_sum(network.apply(parameters, z))
            slope = inner.gradient(u, z)
            length = tf.reduce_sum(slope**2)
        return u, outer.gradient(length, z)

    stacked = [tf.stack(each) for each in zip(*members, strict=True)]
    run = tf.function(lambda s: tf.vectorized_map(curvature, s), jit_compile=True, autograph=False)
    values, curvatures = run(stacked)
    for k, member in enumerate(members):
        value, expected = curvature(member)
        np.testing.assert_allclose(values[k], value, rtol=1e-12)
        np.testing.assert_allclose(curvatures[k], expected, rtol=1e-10, atol=1e-12)


class Coupled(layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, axis=0, keepdims=True)


class Random(layers.Layer):
    def call(self, x):
        return x + 0 * tf.random.normal(tf.shape(x))


class NoiseInTraining(layers.Layer):
    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator(3)

    def call(self, x, training=False):
        return x + keras.random.normal(tf.shape(x), seed=self.generator) if training else x


class OtherInTraining(layers.Layer):
    def call(self, x, training=False):
        return 2 * x if training else x


class Unknown(layers.Layer):
    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(1.0)

    def call(self, x):
        return x * self.factor


class Casts(layers.Layer):
    def call(self, x):
        return tf.cast(tf.cast(x, tf.float16), x.dtype)


class Adds(layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x))
        return x


def after(layer):
    return lambda: sequential(layers.Dense(4, "tanh"), layer())


def two_inputs():
    first, second = keras.Input((1,)), keras.Input((1,))
    return keras.Model([first, second], layers.Dense(1)(layers.Concatenate()([first, second])))


def two_outputs():
    x = keras.Input((2,))
    return keras.Model(x, [layers.Dense(1)(x), layers.Dense(1)(x)])


def dense(**options):
    return lambda: sequential(layers.Dense(4, "tanh", **options))


FAULTS = [
    (after(lambda: layers.Dropout(0.1)), "changes '.*seed_generator.* Remove .*Dropout"),
    (after(lambda: layers.AlphaDropout(0.1)), "changes '.*seed_generator"),
    (after(lambda: layers.GaussianNoise(0.1)), "changes '.*seed_generator"),
    (after(layers.BatchNormalization), "changes '.*moving_mean.*BatchNormalization"),
    (
        lambda: keras.Sequential([layers.SpectralNormalization(layers.Dense(1))]),
        "changes '.*spectral_normalization",
    ),
    (after(Coupled), "depends on the other points of the batch"),
    (after(Random), "draws random numbers"),
    (after(NoiseInTraining), "changes '.*seed_generator"),
    (after(OtherInTraining), "other values with training=True"),
    (after(Unknown), r"reads the tf.Variable .*add_weight"),
    (after(Casts), "computes in float16, but the training in float32; make its layers"),
    (after(Adds), "has a loss .*remove it"),
    (dense(kernel_regularizer="l2"), "has a loss .*weight decay"),
    (dense(activity_regularizer="l2"), "has a loss"),
    (dense(kernel_constraint="non_neg"), "have a constraint"),
    (dense(dtype="mixed_float16"), "computes in float16"),
    (dense(dtype="float64"), 'computes in float64.*give train precision="float64"'),
    (two_inputs, r"points \[n, 2\], one tensor .* expects 2"),
    (two_outputs, "returns a list.*Concatenate"),
    (lambda: sequential(keras.Input((3,))), r"points \[n, 2\], .* to have value 3"),
    (lambda: sequential(m=3), "has 3 outputs, but the problem has a field of 1 components"),
    (lambda: MLP(1, 1), "takes 1 inputs, but the problem has 2"),
    (lambda: MLP(2, 2), "has 2 outputs"),
    (lambda: keras.Sequential([keras.Input((2, 1)), layers.Dense(1)]), r"gives \[6, 2, 1\]"),
    (lambda: sequential(layers.Reshape((2, 1))), r"gives \[6, 2, 1\]"),
    (keras.Sequential, "cannot be called .* has no layers"),
    (keras.Model, r"does not have a `call\(\)` method"),
    (lambda: keras.Sequential([keras.Input((2,)), layers.Rescaling(1.0)]), "no weights to train"),
    (tf.Module(), "got Module"),
    (layers.Dense(1), r"a layer; make it a model: keras.Sequential\(\[layer\]\)"),
    (3, "expected a Keras 3 model, or a function that makes one.*got int"),
    (Result("data", [], []), r"network=result\.networks\[0\]"),
    ("mpl", "unknown name 'mpl'; choose one of mlp, siren, fourier, modified, pirate"),
]


@pytest.mark.parametrize(("network", "message"), FAULTS)
def test_what_cannot_serve_as_a_field_is_refused(network, message):
    with pytest.raises(InputError, match=message):
        make_network(network, 2, 1)


def test_a_model_of_keras_2():
    old = pytest.importorskip("tf_keras")
    with pytest.raises(InputError, match="Keras 2; make it with Keras 3"):
        make_network(old.Sequential([old.layers.Dense(1)]), 2, 1)


def test_a_frozen_batch_normalization_is_one_function_of_x():
    model = sequential(keras.Input((2,)), layers.Dense(4, "tanh"), layers.BatchNormalization())
    model.layers[1].trainable = False
    network = as_network(model, 2, 1)
    x = points("float32")
    found = network.apply(network.trainable_variables, x)
    np.testing.assert_allclose(found, model(x, training=True), rtol=1e-5, atol=1e-6)


def test_a_compiled_model_says_what_is_not_used():
    model = sequential()
    assert as_network(model, 2, 1).remarks == ()
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    (remark,) = as_network(model, 2, 1).remarks
    assert "does not use its optimizer (Adam)" in remark and "train(optimizer=" in remark


def test_a_network_written_by_hand():
    class Line:
        def __init__(self):
            self.trainable_variables = [tf.Variable([[2.0], [1.0]])]

        def apply(self, parameters, x):
            return x @ parameters[0]

    model = Line()
    network = make_network(model, 2, 1)
    assert network.jet is None and network.model is model
    assert network.key == as_network(model, 2, 1).key != as_network(Line(), 2, 1).key
