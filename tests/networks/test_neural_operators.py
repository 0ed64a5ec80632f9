"""FNO and DeepONet: against NumPy's Fourier transform, in `fit`, in files; refused arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError
from sciml_par.networks import FNO, MLP, DeepONet
from sciml_par.networks.models.fno import SpectralConvolution

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("sizes", [(16,), (15,), (16, 12), (13, 15)])
def test_a_spectral_convolution_is_a_product_in_numpys_frequencies(sizes: tuple[int, ...]) -> None:
    d, m = len(sizes), 4
    layer = SpectralConvolution(3, m, d, 0, dtype="float64")
    v = RNG.normal(size=(2, *sizes, 3))
    real, imaginary = layer.matrices.numpy()
    r, axes = real + 1j * imaginary, tuple(range(1, d + 1))
    frequencies = np.fft.rfftn(v, axes=axes)
    expected = np.zeros_like(frequencies)
    first = range(m) if d == 1 else [*range(m), *range(-m, 0)]
    modes = [(i,) for i in first] if d == 1 else [(i, j) for i in first for j in range(m)]
    assert len(modes) == len(r)
    for number, mode in enumerate(modes):
        at = (slice(None), *mode)
        expected[at] = frequencies[at] @ r[number]
    np.testing.assert_allclose(layer(v), np.fft.irfftn(expected, sizes, axes), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("sizes", "c"), [((16,), 1), ((9, 8), 2)])
def test_an_fno_is_fitted_saved_and_loaded(sizes: Any, c: int, tmp_path: Path) -> None:
    model = FNO(c, 2, dimension=len(sizes), modes=3, width=6, depth=2, seed=1)
    a = RNG.normal(size=(20, *sizes, c)).astype(np.float32)
    u = np.repeat(np.roll(a, 2, axis=1)[..., :1], 2, axis=-1)
    model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=len(sizes) == 1)
    losses = model.fit(a, u, epochs=15, batch_size=10, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    model.save(tmp_path / "fno.keras")
    loaded = keras.models.load_model(tmp_path / "fno.keras")
    assert isinstance(loaded, FNO) and loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded(a), model(a))


def test_weights_of_an_fno_serve_finer_grids_and_have_gradients() -> None:
    model = FNO(1, 1, width=6, depth=1, modes=3, dtype="float64")
    coarse, fine = (np.sin(2 * np.pi * np.arange(n) / n)[None, :, None] for n in (32, 64))
    # But for the coordinate, whose step from 1 to 0 other grids see otherwise.
    np.testing.assert_allclose(model(fine)[:, ::2], model(coarse), rtol=0, atol=5e-3)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(model(coarse) ** 2)
    gradients = tape.gradient(value, model.trainable_variables)
    assert all(np.abs(g).max() > 0 for g in gradients)


def test_seeds_of_an_fno() -> None:
    one, same, other = (FNO(1, 1, width=4, modes=2, seed=seed) for seed in (0, 0, 1))
    for a, b, c in zip(one.get_weights(), same.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
        assert not a.any() or not np.array_equal(a, c)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"dimension": 3}, "a dimension of 1 or 2; got 3"),
        ({"modes": 0}, "modes must be an integer"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"layers": 3}, "there is no argument 'layers'"),
    ],
)
def test_arguments_of_an_fno_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        FNO(1, 1, **arguments)


@pytest.mark.parametrize("shape", [(2, 15, 1), (2, 16, 16, 1)])
def test_grids_that_an_fno_cannot_take_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="at least 16 points, for modes=8"):
        FNO(1, 1, modes=8)(np.zeros(shape, np.float32))


def test_a_deeponet_is_the_product_of_its_parts(tmp_path: Path) -> None:
    branch = keras.Sequential([keras.layers.Dense(16, "tanh"), keras.layers.Dense(5)])
    model = DeepONet(branch=branch, trunk=MLP(1, 5))
    c = RNG.normal(size=(60, 2)).astype(np.float32)
    sensors, x = np.linspace(0, 1, 9), RNG.uniform(size=(60, 7, 1)).astype(np.float32)
    a = c[:, :1] + c[:, 1:] * sensors.astype(np.float32)
    u = c[:, None, :1] * x + c[:, None, 1:] * x**2 / 2
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    losses = model.fit((a, x), u, epochs=30, batch_size=20, verbose=0).history["loss"]
    assert losses[-1] < 0.2 * losses[0]
    product = np.einsum(
        "bk,bnk->bn", branch(a), model.trunk(x.reshape(-1, 1)).numpy().reshape(60, 7, 5)
    )
    found = model((a, x)).numpy()
    np.testing.assert_allclose(found[..., 0], product + float(model.bias), rtol=0, atol=1e-5)
    np.testing.assert_allclose(model((a, x[:, 0])), found[:, 0], rtol=0, atol=1e-5)
    model.save(tmp_path / "deeponet.keras")
    loaded = keras.models.load_model(tmp_path / "deeponet.keras")
    np.testing.assert_array_equal(loaded((a, x)), found)


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="branch to be a Keras model"):
        DeepONet(branch=lambda a: a, trunk=MLP(1, 5))
    model = DeepONet(branch=MLP(3, 4), trunk=MLP(1, 5))
    with pytest.raises(InputError, match="they have 4 and 5"):
        model((np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)))
