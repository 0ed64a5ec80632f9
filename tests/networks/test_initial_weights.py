"""Initial weights of MLP: where the centres lie, how steep the units are, and what is kept."""

import itertools

import keras
import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.networks import MLP, make_network
from sciml_par.problems import Box

MANY = 2000
SQUARE = ((0.0, 0.0), (1.0, 1.0))
KNOWN = "must be one of 'glorot', 'centres', 'he', 'siren'"


def centred(box, *, width=MANY, depth=1, seed=0, dtype="float64", **more):
    given = {"width": width, "depth": depth, "seed": seed, "dtype": dtype, "box": box, **more}
    return MLP(len(box[0]), 1, initial_weights="centres", **given)


def values(model):
    return [v.numpy() for v in model.trainable_variables]


def in_the_box(box, **more):
    """Weights and biases of the first layer in coordinates that measure the box in its sides."""
    lower, upper = map(np.array, box)
    kernel, bias = (v.astype(np.float64) for v in values(centred(box, **more))[:2])
    return kernel * (upper - lower)[:, None], bias + lower @ kernel


@pytest.mark.parametrize(
    ("box", "steepest"),
    [
        (((-1.0,), (1.0,)), 4.0),
        (((0.0,), (1.0,)), 8.0),
        (SQUARE, 3.0),
        (((-1.0, -1.0), (1.0, 1.0)), 1.5),
        (((0.0,) * 3, (1.0,) * 3), 2.0),
        (((0.0,) * 5, (1.0,) * 5), 2.0),
    ],
)
def test_norms_are_those_of_the_recipe(box, steepest):
    norms = np.linalg.norm(values(centred(box))[0], axis=0)
    assert 0.3 * steepest <= norms.min() < 0.31 * steepest
    assert 0.99 * steepest < norms.max() <= steepest * (1 + 1e-15)
    np.testing.assert_allclose(norms.mean(), 0.65 * steepest, rtol=0.02)


def test_centres_are_uniform_in_an_interval():
    lower, upper = -3.0, 5.0
    kernel, bias = values(centred(((lower,), (upper,))))[:2]
    centres = np.sort(-bias / kernel[0])
    assert lower <= centres[0] and centres[-1] <= upper
    share = (centres - lower) / (upper - lower)
    distance = np.abs(share - (np.arange(MANY) + 0.5) / MANY).max()
    assert distance < 1.63 / np.sqrt(MANY)  # Kolmogorov's bound for one sample in a hundred


@pytest.mark.parametrize("d", [2, 3, 6])
def test_all_units_change_sign_inside_the_box(d):
    box = (tuple(np.linspace(-4, 3, d)), tuple(np.linspace(-3, 9, d)))
    kernel, bias = values(centred(box))[:2]
    corners = np.array(list(itertools.product(*zip(*box, strict=True))))
    units = corners @ kernel + bias
    assert np.all(units.min(axis=0) < 0) and np.all(units.max(axis=0) > 0)
    # With centres uniform in the box, w·(x − x₀) has the mean 0 and the variance Σ (w side)² / 12.
    middle = np.mean(box, axis=0) @ kernel + bias
    assert abs(np.mean(middle > 0) - 0.5) < 0.05
    across = np.sum((kernel.T * np.ptp(box, 0)) ** 2, axis=1)
    np.testing.assert_allclose(np.mean(middle**2) / np.mean(across), 1 / 12, rtol=0.08)


def test_directions_favour_none():
    kernel = values(centred(((0.0,) * 3, (1.0,) * 3)))[0]
    units = kernel / np.linalg.norm(kernel, axis=0)
    np.testing.assert_allclose(units.mean(axis=1), 0.0, atol=0.05)
    np.testing.assert_allclose(units @ units.T / MANY, np.eye(3) / 3, atol=0.03)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "box", [((0.0, 0.0), (2e-6, 5e3)), ((-1.0, -1.0), (1.0, 1.0)), ((7.0, -40.0), (8.0, -39.0))]
)
def test_neither_units_nor_the_origin_of_x_matter(box, dtype):
    rounding = 200 * np.finfo(dtype).eps
    for found, expected in zip(in_the_box(box, dtype=dtype), in_the_box(SQUARE), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


def test_single_precision_is_double_precision_rounded():
    box = ((10.0, 0.0), (11.0, 3.0))
    narrow, wide = (values(centred(box, dtype=t))[:2] for t in ("float32", "float64"))
    assert narrow[0].dtype == narrow[1].dtype == np.float32
    np.testing.assert_array_equal(narrow[0], wide[0].astype(np.float32))
    # The centres are those of the rounded weights.
    np.testing.assert_allclose(narrow[1], wide[1], rtol=0, atol=3 * 11 * 2 * 2.0**-24)


def test_later_layers():
    model = centred(SQUARE, width=200, depth=3)
    _, _, second, bias_2, third, bias_3, output, bias_4 = values(model)
    plain = values(MLP(2, 1, width=200, depth=3, dtype="float64"))
    for found, expected in zip((second, third, output), plain[2::2], strict=True):
        np.testing.assert_array_equal(found, expected)
    for bias in (bias_2, bias_3):
        assert -0.5 <= bias.min() < -0.45 and 0.45 < bias.max() <= 0.5
    assert not np.array_equal(bias_2, bias_3)
    np.testing.assert_array_equal(bias_4, [0.0])


def test_seeds():
    first, again, other = (values(centred(SQUARE, width=5, seed=seed)) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert np.all(first[0] != other[0]) and np.all(first[1] != other[1])
    assert np.all(values(centred(SQUARE, width=5))[0] != values(MLP(2, 1, width=5))[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", [{}, {"initial_weights": "glorot"}, {"box": SQUARE}])
def test_without_centres_the_weights_are_those_of_glorot_and_zero(given, dtype):
    model = MLP(2, 3, width=7, depth=2, seed=11, dtype=dtype, **given)
    seeds = np.random.SeedSequence(11).generate_state(3)
    for layer, seed in enumerate(seeds):
        kernel, bias = values(model)[2 * layer : 2 * layer + 2]
        drawn = keras.initializers.GlorotNormal(seed=int(seed))(kernel.shape, dtype)
        np.testing.assert_array_equal(kernel, drawn)
        np.testing.assert_array_equal(bias, np.zeros_like(bias))


def test_a_plain_model_is_saved_as_before():
    assert not {"initial_weights", "box"} & MLP(2, 1).get_config().keys()
    assert "box" not in MLP(2, 1, initial_weights="glorot", box=SQUARE).get_config()


def test_the_configuration_draws_the_same_weights_anew():
    model = centred(SQUARE, width=4, depth=2, seed=5)
    before = values(model)
    model.trainable_variables[0].assign_add(np.full((2, 4), 0.5))
    for found, expected in zip(values(MLP.from_config(model.get_config())), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_box_may_be_given_in_several_ways():
    wanted = values(centred(((-1.0, -1.0), (1.0, 1.0)), width=3))
    boxes = [(-1, 1), ([-1, -1], [1, 1]), np.array([[-1, -1], [1, 1]]), Box([-1, -1], [1, 1])]
    for box in boxes:
        model = MLP(2, 1, width=3, dtype="float64", depth=1, initial_weights="centres", box=box)
        np.testing.assert_array_equal(values(model)[0], wanted[0])
        np.testing.assert_array_equal(values(model)[1], wanted[1])


def test_models_of_other_initial_weights_are_the_same_functions():
    box = ((0.0,), (1.0,))
    others = [{}, {"initial_weights": "glorot"}, {"initial_weights": "centres", "box": box}]
    others.append({"initial_weights": "centres", "box": ((0.0,), (2.0,))})
    keys = {make_network(MLP(1, 1, **given)).key for given in others}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"initial_weights": "centres"}, r"needs the box .*: box=\(lower, upper\)"),
        ({"initial_weights": "centers"}, f"{KNOWN}, or None.* got 'centers'"),
        ({"initial_weights": 3}, f"{KNOWN}, or None.* got 3"),
        ({"box": 1.0}, r"a pair \(lower, upper\) of 2 numbers each, or a Box, got 1.0"),
        ({"box": (0.0, 1.0, 2.0)}, "a pair"),
        ({"box": ([0.0], [1.0])}, "2 finite numbers each, one for each of the network's inputs"),
        ({"box": ([0.0, 0.0], [1.0, np.inf])}, "2 finite numbers each"),
        ({"box": (["a", "b"], [1.0, 2.0])}, "2 finite numbers each"),
        ({"box": (True, None)}, "2 finite numbers each"),
        ({"box": ([0.0, 2.0], [1.0, 2.0])}, r"lower must be below upper .* \[0.0, 2.0\] and"),
        (
            {"initial_weights": "centres", "box": ((0.0, 0.0), (1e-41, 1.0))},
            r"out of the range of float32; .*input_scaling=True",
        ),
    ],
)
def test_refusals(given, message):
    with pytest.raises(InputError, match=message):
        MLP(2, 1, **given)


def test_he_and_siren_have_the_variances_of_their_papers():
    he = [v.numpy() for v in MLP(60, 1, width=80, depth=2, initial_weights="he").variables]
    for kernel, bias in zip(he[0:4:2], he[1:4:2], strict=True):
        assert abs(kernel.var() * len(kernel) / 2 - 1) < 0.1
        assert not bias.any()
    options = {"activation": "sin", "initial_weights": "siren", "dtype": "float64"}
    siren = MLP(2, 1, width=400, depth=3, omega=30.0, **options)
    first, _, second, _, third, _, _, _ = (v.numpy() for v in siren.variables)
    assert np.abs(first).max() <= 1 / 2 and np.abs(first).max() > 0.49
    limit = np.sqrt(6 / 400) / 30
    for kernel in (second, third):
        assert 0.99 * limit < np.abs(kernel).max() <= limit
    # So that what the sine takes has unit variance in every layer but the first.
    x = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    a = np.sin(30 * (x @ first + siren.variables[1].numpy()))
    for kernel in (second, third):
        z = 30 * a @ kernel
        assert abs(z.var() - 1) < 0.15
        a = np.sin(z)


def test_slopes_begin_at_one_over_their_factor():
    plain, adaptive = MLP(2, 1, seed=4), MLP(2, 1, seed=4, adaptive="layer", slope_factor=10.0)
    x = np.random.default_rng(0).uniform(-1, 1, (9, 2)).astype("float32")
    np.testing.assert_allclose(adaptive(x), plain(x), rtol=1e-5, atol=1e-6)
    assert [v.shape for v in MLP(2, 1, width=5, adaptive="unit")._slopes] == [(5,), (5,)]
    slope = adaptive._slopes[0]
    slope.assign(0.3)
    first = adaptive._dense[0]
    first.kernel.assign(first.kernel / 3)
    np.testing.assert_allclose(adaptive(x), plain(x), rtol=1e-5, atol=1e-6)
    stretched = MLP(2, 1, seed=4, omega=2.0)
    for kernel in stretched.trainable_variables[0:-2:2]:
        kernel.assign(kernel / stretched.omega)
    np.testing.assert_allclose(MLP(2, 1, seed=4)(x), stretched(x), rtol=1e-5)
