"""First layers of waves: their frequencies, exact periodicity, and what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from sciml_par.errors import InputError
from sciml_par.networks import MLP, FourierFeatures, PeriodicEmbedding, as_network
from sciml_par.problems import Box

STRIP = Box([-1, 0], [1, 3], names=("x", "t"))


def test_fourier_features_are_those_of_the_formula():
    layer = FourierFeatures(5, scale=[1.0, 20.0], seed=3, dtype="float64")
    x = np.random.default_rng(0).uniform(-1, 1, (7, 2))
    found = layer(x)
    z = 2 * np.pi * x @ layer.frequencies.numpy()
    np.testing.assert_allclose(found, np.concatenate([np.cos(z), np.sin(z)], axis=1), atol=1e-12)
    assert found.shape == (7, layer.units) == layer.compute_output_shape((7, 2))
    assert layer.trainable_variables == []
    assert len(FourierFeatures(5, trainable=True).trainable_variables) == 0  # not built


def test_frequencies_are_normal_with_the_scales_and_seeds_given():
    layer = FourierFeatures(4000, scale=[0.5, 8.0])
    layer.build((None, 2))
    drawn = layer.frequencies.numpy()
    for part, scale in zip(np.split(drawn, 2, axis=1), (0.5, 8.0), strict=True):
        assert abs(part.std() / scale - 1) < 0.05 and abs(part.mean()) < 0.05 * scale
    again, other = FourierFeatures(4), FourierFeatures(4, seed=1)
    again.build((None, 2)), other.build((None, 2))
    first = FourierFeatures(4)
    first.build((None, 2))
    np.testing.assert_array_equal(first.frequencies, again.frequencies)
    assert not np.array_equal(first.frequencies, other.frequencies)


def test_a_network_behind_a_periodic_embedding_is_periodic_with_all_derivatives():
    embedding = PeriodicEmbedding(["x"], harmonics=3, domain=STRIP)
    network = as_network(MLP(2, 2, embedding=embedding, dtype="float64"), 2, 2, dtype="float64")
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 3, (9, 1))
    parameters = [tf.constant(rng.normal(size=v.shape)) for v in network.trainable_variables]
    second = np.array([[[1.0, 0], [0, 0]], [[0, 0.5], [0.5, 0]], [[0, 0], [0, 1.0]]])
    at = [tf.constant(np.hstack([np.full_like(t, x), t])) for x in (-1.0, 1.0, 0.2)]
    left, right, inside = (network.jet(parameters, x, second) for x in at)
    for mine, theirs, other in zip(left, right, inside, strict=True):
        scale = np.abs(mine).max()
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12 * scale)
        assert np.abs(mine - other).max() > 1e-3 * scale
    # Not in t, along which nothing was said.
    later = network.apply(parameters, at[0] + [[0.0, 3.0]])
    assert np.abs(later - left[0]).max() > 1e-3


def test_units_of_a_periodic_embedding():
    layer = PeriodicEmbedding({2: 4.0, 0: 0.5}, harmonics=2, dtype="float64")
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3))
    p, q = 2 * np.pi * x[:, 0] / 0.5, 2 * np.pi * x[:, 2] / 4.0
    waves = [p, q, 2 * p, 2 * q]
    expected = [*map(np.cos, waves), *map(np.sin, waves), x[:, 1]]
    np.testing.assert_allclose(layer(x), np.stack(expected, axis=1), atol=1e-12)
    assert layer.units == 9 == layer.compute_output_shape((None, 3))[1]
    lower, upper = layer.box_of(((-1, -2, -3), (1, 2, 3)))
    assert (lower, upper) == ((-1.0,) * 8 + (-2,), (1.0,) * 8 + (2,))


def test_periods_may_be_given_in_several_ways():
    expected = {0: 2.0}
    given = [(["x"], STRIP), ([0], STRIP), ("x", STRIP), ({"x": None}, STRIP), ({0: 2}, None)]
    for periods, domain in [*given, ([0], ((-1, 0), (1, 3))), ([0], (-1, 1))]:
        assert PeriodicEmbedding(periods, domain=domain).periods == expected


def test_a_sequential_model_of_single_precision():
    model = keras.Sequential([PeriodicEmbedding([0, 1], domain=STRIP), layers.Dense(4, "tanh")])
    model.add(layers.Dense(1))
    network = as_network(model, 2, 1)
    assert network.jet is not None and network.chain is not None
    x = tf.constant([[-1.0, 0.0], [1.0, 3.0]])
    assert np.ptp(network.apply(network.trainable_variables, x)) < 1e-6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FourierFeatures(0), "FourierFeatures: features must be an integer of at least 1"),
        (lambda: FourierFeatures(4, scale=0.0), r"scale must be a number > 0, or several, .*got 0"),
        (lambda: FourierFeatures(4, scale=[]), "scale must be a number > 0"),
        (lambda: FourierFeatures(4, seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda: PeriodicEmbedding([0], domain=np.zeros((2, 2, 2))), "lower and upper corners"),
        (lambda: PeriodicEmbedding({}), r"must name an axis at least, as in \{0: 2.0\}"),
        (lambda: PeriodicEmbedding([0]), "axis 0 has no period; give it, .*domain=problem.domain"),
        (lambda: PeriodicEmbedding(["x"]), "got 'x', and no domain is given"),
        (lambda: PeriodicEmbedding(["y"], domain=STRIP), "names of the domain are x, t"),
        (lambda: PeriodicEmbedding([-1], domain=STRIP), "a number from 0.*got -1"),
        (lambda: PeriodicEmbedding([2], domain=STRIP), "axis 2 is not one of the domain's 2"),
        (lambda: PeriodicEmbedding({0: 0.0}), "period of axis 0 must be a number > 0.*got 0.0"),
        (lambda: PeriodicEmbedding({0: 1, "x": 2}, domain=STRIP), "axis 0 has two periods"),
        (lambda: PeriodicEmbedding({0: 1}, harmonics=0), "harmonics must be an integer"),
        (lambda: PeriodicEmbedding({3: 1.0})(np.zeros((2, 2))), "axis 3 is not one of the points"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
