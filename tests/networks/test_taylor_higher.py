"""Third and fourth order by Taylor propagation against nested tapes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import MLP, as_network
from sciml_par.problems import Field

XXX, XXXX = {(0, 0, 0): 1.0}, {(0, 0, 0, 0): 1.0}
BIHARMONIC = {(0, 0, 0, 0): 1.0, (0, 0, 1, 1): 2.0, (1, 1, 1, 1): 1.0}
MIXED = {(2, 0, 1, 0): -2.0, (1, 1, 1, 2): 0.5}
CASES = [
    (1, [XXX]),
    (1, [XXXX, XXX]),
    (2, [BIHARMONIC]),
    (2, [{(1, 0, 0): 3.0}, {(0, 0, 1, 1): 1.0}, {(0, 1, 1, 1): -1.0}]),
    (3, [MIXED, {(0, 1, 2): 1.0}]),
]


def parameters_of(model, seed=0):
    rng = np.random.default_rng(seed)
    return [tf.constant(0.8 * rng.normal(size=v.shape)) for v in model.trainable_variables]


def points(d, n=3):
    return tf.constant(np.random.default_rng(1).uniform(-1, 1, (n, d)))


def check_jet(function, jet, d, operators, tolerance=1e-12):
    """All that a jet returns, against tapes around the function's values."""
    x, second = points(d), np.array([np.eye(d), np.ones((d, d))])
    by_tapes = Field(function).jet(x, second, [tuple(sorted(_sorted(p))) for p in operators])
    for found, expected in zip(jet(x, second, higher=operators), by_tapes, strict=True):
        assert found.shape == expected.shape
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=tolerance)


def _sorted(operator):
    return [(tuple(sorted(axes)), c) for axes, c in operator.items()]


@pytest.mark.parametrize(("d", "operators"), CASES)
def test_jet_of_an_mlp(d, operators):
    model = MLP(d, 2, width=5, depth=2, activation="tanh", dtype="float64")
    own = parameters_of(model)
    check_jet(lambda z: model.apply(own, z), lambda *a, **k: model.jet(own, *a, **k), d, operators)


def test_jet_of_a_chain_with_scalings_and_several_activations():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Normalization(mean=[0.2, -0.3], variance=[0.5, 2.0], dtype="float64"),
            layers.Dense(4, "silu", dtype="float64"),
            layers.Dense(3, use_bias=False, dtype="float64"),
            layers.Dense(2, "softplus", dtype="float64"),
        ]
    )
    network = as_network(model, 2, 2, dtype="float64")
    own = parameters_of(model)
    check_jet(
        lambda z: network.apply(own, z),
        lambda *a, **k: network.jet(own, *a, **k),
        2,
        [{(0, 0, 1): 1.0}],
    )


def test_a_derivative_alone_carries_no_more_than_it_needs():
    """The products of hidden layers, counted: u, u_x, u_xx, u_xxx; of the last, what is asked."""
    model = MLP(1, 1, width=4, depth=3, dtype="float64")
    counts = []

    def record_of(layer):
        def record(parts, products):
            counts.append(len(parts))
            return list(products)

        return record

    chain = as_network(model, 1, 1, dtype="float64").chain
    chain.jet(parameters_of(model), points(1), np.empty((0, 1, 1)), record_of, higher=[XXX])
    assert counts == [2, 4, 4, 3]
    plate = MLP(2, 1, width=4, depth=2, dtype="float64")
    counts.clear()
    chain = as_network(plate, 2, 1, dtype="float64").chain
    chain.jet(parameters_of(plate), points(2), np.eye(2)[None], record_of, higher=[BIHARMONIC])
    assert counts == [3, 9, 6]


@pytest.mark.parametrize(
    "higher", [[{(0, 0): 1.0}], [{(0, 0, 2): 1.0}], [{(0,) * 3: 1.0, (0,) * 4: 1.0}], [{}], [3]]
)
def test_operators_that_are_none_are_explained(higher):
    model = MLP(2, 1, width=4)
    with pytest.raises(InputError, match="third or fourth order"):
        model.jet(model.trainable_variables, tf.ones([3, 2]), np.eye(2)[None], higher=higher)
