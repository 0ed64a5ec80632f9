"""Networks on propagated quantities: derivatives against nested tapes, files, keys, members."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par import _tape
from sciml_par._partial_operators import operator_of
from sciml_par.errors import InputError
from sciml_par.networks import (
    MLP,
    FourierFeatures,
    ModifiedMLP,
    PeriodicEmbedding,
    PirateNet,
    Propagated,
    PropagatedModel,
    as_network,
    make_network,
)

FOURIER = partial(FourierFeatures, 3, scale=[0.2, 0.4])
PERIODIC = partial(PeriodicEmbedding, {0: 2.0, 2: 1.5}, harmonics=2)
BOX = ((-1.0, 0.0, 0.0), (1.0, 3.0, 1.5))

ARCHITECTURES = {
    "plain": partial(MLP, width=7, depth=3, activation="sin"),
    "stretched": partial(MLP, activation="sin", omega=3.0, initial_weights="siren"),
    "slope of a layer": partial(MLP, adaptive="layer", slope_factor=5.0),
    "slopes of units": partial(MLP, adaptive="unit", embedding=PERIODIC()),
    "fourier": partial(MLP, embedding=FOURIER()),
    "trained fourier": partial(MLP, embedding=FOURIER(trainable=True)),
    "periodic": partial(MLP, embedding=PERIODIC(), initial_weights="centres", box=BOX),
    "gates": partial(ModifiedMLP, depth=3, activation="swish"),
    "gates, trained fourier": partial(ModifiedMLP, embedding=FOURIER(trainable=True)),
    "gates of one layer": partial(ModifiedMLP, depth=1, embedding=PERIODIC()),
    "blocks": partial(PirateNet, activation="gelu"),
    "blocks on fourier": partial(PirateNet, width=12, embedding=FOURIER()),
    "blocks on periodic": partial(PirateNet, embedding=PERIODIC(), omega=2.0),
}
"""Of three inputs and two outputs."""


def chain(first):
    return keras.Sequential([first, layers.Dense(6, "tanh"), layers.Dense(2)])


CHAINS = {
    "periodic layers": lambda: chain(PERIODIC()),
    "fourier layers": lambda: chain(FOURIER()),
    "mlp behind a layer": lambda: keras.Sequential([PERIODIC(), MLP(9, 2, dtype="float64")]),
}
EVERYTHING = {**ARCHITECTURES, **CHAINS}


def made(name, dtype="float64", seed=0):
    return make_network(EVERYTHING[name], 3, 2, dtype=dtype, seed=seed)


def points(dtype="float64", n=5):
    return tf.constant(np.random.default_rng(1).uniform(-1, 1, (n, 3)), dtype)


def weights(network, seed=3):
    """None of them zero, as the slopes of residual blocks begin."""
    rng = np.random.default_rng(seed)
    return [
        tf.constant(0.5 * rng.normal(size=v.shape), v.dtype) for v in network.trainable_variables
    ]


def operators():
    rng = np.random.default_rng(0)
    full = rng.normal(size=(2, 3, 3))
    return np.concatenate([full + full.transpose(0, 2, 1), np.eye(3)[None], np.zeros((1, 3, 3))])


@pytest.mark.parametrize("name", EVERYTHING)
def test_derivatives_are_those_of_nested_tapes(name):
    network = made(name)
    assert network.jet is not None
    parameters, x = weights(network), points()
    found = network.jet(parameters, x, operators())
    expected = _tape.jet(lambda z: network.apply(parameters, z), x, operators())
    for got, exact in zip(found, expected, strict=True):
        assert got.shape == exact.shape
        np.testing.assert_allclose(got, exact, rtol=0, atol=1e-10 * (1 + np.abs(exact).max()))


SAVED = [
    "plain",
    "periodic",
    "slopes of units",
    "trained fourier",
    "gates",
    "blocks on periodic",
    "periodic layers",
]


@pytest.mark.parametrize("name", SAVED)
def test_keras_saves_and_loads_it(name, tmp_path):
    network = made(name)
    for variable, value in zip(network.trainable_variables, weights(network), strict=True):
        variable.assign(value)
    model, x = network.model, points()
    model.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    if name in ARCHITECTURES:
        assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded(x), model(x))
    again = as_network(loaded, 3, 2, dtype="float64")
    assert again.key == network.key
    np.testing.assert_allclose(again.apply(weights(network), x), model(x), rtol=1e-12)


def test_members_have_one_key_and_are_computed_together_as_alone():
    first, second = (made("blocks on fourier", seed=seed) for seed in (1, 2))
    assert first.key == second.key and hash(first.key) == hash(second.key)
    assert not np.array_equal(first.model.get_weights()[-2], second.model.get_weights()[-2])
    members, x = [weights(first, seed) for seed in (4, 5)], points()
    stacked = [tf.stack(each) for each in zip(*members, strict=True)]

    found = tf.vectorized_map(
        lambda p: first.jet(p, x, operators()), stacked, fallback_to_while_loop=False
    )
    for k, member in enumerate(members):
        for got, exact in zip(found, second.jet(member, x, operators()), strict=True):
            np.testing.assert_allclose(got[k], exact, rtol=1e-10, atol=1e-10)


def test_keys_tell_other_functions_apart():
    names = ["slope of a layer", "fourier", "trained fourier", "gates", "blocks", "stretched"]
    assert len({made(name).key for name in names}) == len(names)
    other = partial(MLP, embedding=FourierFeatures(3, scale=[0.2, 0.4], seed=1))
    assert make_network(other, 3, 2, dtype="float64").key != made("fourier").key


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", ["plain", "periodic", "gates", "blocks"])
def test_few_points_and_single_precision(name, n):
    network = made(name, "float32")
    x = points("float32", n)
    u, du, curved = network.jet(network.trainable_variables, x, np.zeros((0, 3, 3)))
    assert (u.shape, du.shape, curved.shape) == ((n, 2), (n, 2, 3), (n, 2, 0))
    assert u.dtype == du.dtype == "float32"
    np.testing.assert_allclose(u, network.model(x), rtol=1e-5, atol=1e-6)


def test_frozen_layers_are_constants():
    model = ModifiedMLP(3, 2, dtype="float64")
    model.layers[0].trainable = False
    network = as_network(model, 3, 2, dtype="float64")
    assert len(network.trainable_variables) == len(model.variables) - 2
    parameters, x = weights(network), points()
    for variable, value in zip(network.trainable_variables, parameters, strict=True):
        variable.assign(value)
    np.testing.assert_allclose(network.apply(parameters, x), model(x), rtol=1e-12)
    before = network.key
    model.layers[0].kernel.assign(model.layers[0].kernel + 1.0)
    assert as_network(model, 3, 2, dtype="float64").key != before


def test_they_are_ordinary_keras_layers_and_models():
    x = keras.Input((3,))
    h = layers.Dense(4, "tanh")(FOURIER()(x))
    model = keras.Model(x, layers.Dense(1)(layers.Concatenate()([h, ModifiedMLP(3, 2)(x)])))
    model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=False)
    inputs = points("float32", 64).numpy()
    wanted = np.sin(inputs[:, :1])
    losses = model.fit(inputs, wanted, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert as_network(model, 3, 1).jet is None


def test_an_architecture_of_ones_own_is_one_function():
    class Product(PropagatedModel):
        def _make(self):
            self._one = self._dense("one", self.embedded_size, self.width)
            self._two = self._dense("two", self.embedded_size, self.width)
            self._last = self._dense("last", self.width, self.output_size)

        def propagate(self, of, x):
            x = self.embed(of, x)
            tanh = self._activation
            product = of.dense(self._one, x).activate(tanh) * of.dense(self._two, x)
            return of.dense(self._last, product.scaled(0.5).shifted(1.0) - product)

    options = {"width": 4, "depth": 1, "activation": "tanh", "omega": 1.0, "embedding": PERIODIC()}
    model = Product(3, 1, **options, initial_weights="he", seed=0, dtype="float64", name="product")
    network = as_network(model, 3, 1, dtype="float64")
    parameters, x = weights(network), points()
    found = network.jet(parameters, x, operators())
    expected = _tape.jet(lambda z: network.apply(parameters, z), x, operators())
    for got, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-10, atol=1e-10)
    assert not model.sees_scaled_inputs


def test_the_product_rule():
    """Of x₀² x₁ at given points: ∂₀ = 2 x₀ x₁, and ∂₀² + 3 ∂₀∂₁ = 2 x₁ + 6 x₀."""
    x = points()[:, :2]
    coordinates = Propagated.at(x, np.array([[[1.0, 1.5], [1.5, 0.0]]]))
    pick = [tf.constant(np.eye(2)[:, i : i + 1]) for i in (0, 1)]
    a, b = (coordinates.dense(column) for column in pick)
    u, du, curved = (a * a * b).results()
    p, q = x[:, :1], x[:, 1:]
    np.testing.assert_allclose(u, p * p * q, rtol=1e-13)
    np.testing.assert_allclose(du[:, 0], tf.concat([2 * p * q, p * p], axis=1), rtol=1e-13)
    np.testing.assert_allclose(curved[:, :, 0], 2 * q + 6 * p, rtol=1e-12)


def test_the_product_rule_of_third_and_fourth_order():
    """Of x₀² x₁²: ∂₀²∂₁ = 4 x₁, ∂₀²∂₁² = 4 and Δ² = 8; a quantity for Δ² and one for each ∂_i Δ."""
    x = points()[:, :2]
    plate = operator_of({(0, 0, 0, 0): 1.0, (0, 0, 1, 1): 2.0, (1, 1, 1, 1): 1.0})
    others = [operator_of({axes: 1.0}) for axes in [(0, 0, 1), (0, 0, 1, 1)]]
    coordinates = Propagated.at(x, np.eye(2)[None], [plate, *others])
    a, b = (coordinates.dense(tf.constant(np.eye(2)[:, i : i + 1])) for i in (0, 1))
    _, _, laplacian, higher = (a * b * a * b).results()
    p, q = x[:, :1], x[:, 1:]
    np.testing.assert_allclose(laplacian[:, 0], 2 * p * p + 2 * q * q, rtol=1e-12)
    expected = tf.concat([8 + 0 * q, 4 * q, 4 + 0 * q], axis=1)
    np.testing.assert_allclose(higher[:, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", [ModifiedMLP, PirateNet])
def test_gates_carry_the_fourth_order(kind):
    network = make_network(partial(kind, width=3, depth=2), 1, 1, dtype="float64")
    parameters, x = weights(network), points()[:, :1]
    above = (operator_of({(0, 0, 0): 1.0}), operator_of({(0, 0, 0, 0): 1.0}))
    second = np.ones((1, 1, 1))
    found = network.jet(parameters, x, second, higher=above)
    expected = _tape.jet_at(partial(network.apply, parameters), None, x, second, above)
    for got, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, exact, rtol=0, atol=1e-10 * (1 + np.abs(exact).max()))


def test_residual_blocks_begin_as_the_identity():
    """Then u is linear in the features, and the last layer can be fitted to values."""
    features = FourierFeatures(8, scale=0.3, dtype="float64")
    model = PirateNet(1, 1, width=16, depth=3, embedding=features, dtype="float64")
    x = np.linspace(-1, 1, 60)[:, None]
    last = model.layers[-1]
    seen = model.embedding(x)
    np.testing.assert_allclose(model(x), seen @ last.kernel + last.bias, rtol=1e-12)
    before = [np.array(v) for v in model.variables]
    model.fit_output(x, np.sin(3 * x))
    assert np.abs(model(x) - np.sin(3 * x)).max() < 1e-4
    changed = [not np.array_equal(v, w) for v, w in zip(model.variables, before, strict=True)]
    assert sum(changed) == 2
    with pytest.raises(InputError, match=r"fit_output: expected x: \[n, 1\] and values: \[n, 1\]"):
        model.fit_output(x, x[:, 0])


def test_gates_are_those_of_the_formula():
    model = ModifiedMLP(2, 1, width=3, depth=2, dtype="float64")
    rng = np.random.default_rng(0)
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape))
    (wu, bu, wv, bv, w1, b1, w2, b2, w, b) = (v.numpy() for v in model.trainable_variables)
    x = rng.normal(size=(4, 2))
    u, v, h = (np.tanh(x @ p + q) for p, q in ((wu, bu), (wv, bv), (w1, b1)))
    z = np.tanh(h @ w2 + b2)
    np.testing.assert_allclose(model(x), ((1 - z) * u + z * v) @ w + b, rtol=1e-12)


@pytest.mark.parametrize("kind", [MLP, ModifiedMLP, PirateNet])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0}, ": width must be an integer of at least 1, got 0"),
        ({"activation": "relu"}, "second derivative is zero"),
        ({"omega": 0.0}, ": omega must be a number > 0, got 0.0"),
        ({"embedding": 3}, "embedding must be a FourierFeatures or a PeriodicEmbedding, got int"),
        ({"embedding": layers.Dense(3)}, "got Dense; put other layers in front"),
        ({"initial_weights": "xavier"}, "initial_weights must be one of 'glorot', .*'siren', or"),
        ({"embedding": PeriodicEmbedding([2], domain=((0,) * 3, (1,) * 3))}, "axis 2 is not one"),
    ],
)
def test_refusals(kind, given, message):
    with pytest.raises(InputError, match=message):
        kind(2, 1, **given)


def test_refusals_at_calls():
    model = PirateNet(2, 1)
    parameters = list(model.trainable_variables)
    with pytest.raises(InputError, match=rf"PirateNet has {len(parameters)} parameters"):
        model.apply(parameters[1:], tf.ones([3, 2]))
    with pytest.raises(InputError, match=r"x\[:, i:i\+1\]"):
        model.apply(parameters, tf.ones([3]))
    with pytest.raises(InputError, match="x is float64, the parameters are float32"):
        model.apply(parameters, tf.ones([3, 2], tf.float64))
    with pytest.raises(InputError, match=r"\[K, 2, 2\], got \[2, 2\]"):
        model.jet(parameters, tf.ones([3, 2]), np.eye(2))
    with pytest.raises(InputError, match="takes 2 inputs, but the problem has 3"):
        as_network(model, 3, 1)
    with pytest.raises(InputError, match="initial_weights must be one of 'glorot', 'he', 'siren'"):
        ModifiedMLP(2, 1, initial_weights="centres")
