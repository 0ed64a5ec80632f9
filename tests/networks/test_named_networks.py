"""Networks by name: what they are, and what `make_network` makes of a name."""

import pytest

from sciml_par.errors import InputError
from sciml_par.networks import (
    MLP,
    NETWORK_NAMES,
    FourierFeatures,
    ModifiedMLP,
    PirateNet,
    make_network,
    network_named,
)

KINDS = {"mlp": MLP, "siren": MLP, "fourier": MLP, "modified": ModifiedMLP, "pirate": PirateNet}


def test_every_name_makes_a_network_of_the_seed():
    assert (*KINDS, "windows", "polynomials") == NETWORK_NAMES
    for name, kind in KINDS.items():
        network = make_network(name, 2, 3, seed=5, dtype="float64")
        model = network.model
        assert type(model) is kind and network.jet is not None
        assert (model.input_size, model.output_size, model.seed) == (2, 3, 5)
        assert (model.width, model.depth) == (16, 2)
        assert isinstance(model.embedding, FourierFeatures) == (name in ("fourier", "pirate"))
        assert (model.initial_weights == "siren") == (name == "siren")


def test_width_depth_scale_and_options_of_the_class():
    made = network_named("fourier", width=9, depth=1, scale=3.0, activation="swish")(2, 1)
    assert (made.width, made.depth, made.activation) == (9, 1, "swish")
    assert (made.embedding.units, made.embedding.scales) == (8, (3.0,))
    own = FourierFeatures(3, scale=[1.0, 2.0])
    assert network_named("pirate", embedding=own)(1, 1).embedding.units == 12
    assert network_named("siren", omega=30.0)(1, 1).omega == 30.0
    # Members have layers of their own, with the same frequencies.
    make = network_named("fourier")
    first, second = (make(2, 1, seed=seed) for seed in (1, 2))
    assert first.embedding is not second.embedding
    assert make_network(first, 2, 1).key == make_network(second, 2, 1).key


def test_windows_by_name():
    made = network_named("windows", width=30, parts=(2, 3), scale=5.0)(2, 1)
    assert (made.width, made.partition.parts) == (30, (2, 3))
    with pytest.raises(InputError, match="parts=4 is of windows"):
        network_named("mlp", parts=4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "resnet"}, "unknown name 'resnet'; choose one of mlp, siren, fourier, modified"),
        ({"name": "mlp", "scale": 1.0}, "scale=1.0 is of Fourier features, which 'mlp' does not"),
        ({"name": "fourier", "scale": -1.0}, "scale must be a number > 0, got -1.0"),
        ({"name": "pirate", "width": 0}, "features must be an integer|width must be an integer"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        network_named(**arguments)(2, 1)
