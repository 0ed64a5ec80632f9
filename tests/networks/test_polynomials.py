"""Polynomials on a box and in windows: three ways to the same derivatives, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sciml_par._partial_operators import operator_of_matrix
from sciml_par._tape import jet as jet_by_tapes
from sciml_par.assembly.asked import Request
from sciml_par.assembly.columns import jets_of
from sciml_par.errors import InputError
from sciml_par.networks import Polynomials, Windows, network_named
from sciml_par.problems import poisson
from sciml_par.training import LeastSquares, Result, train

BOX = ([0.0, 0.0], [1.0, 2.0])
BREAKS = [[0.0, 0.3, 0.5, 1.0], [0.0, 1.0, 2.0]]
MODELS: dict[str, Any] = {
    "on the box": partial(Polynomials, degree=5, box=BOX),
    "of degrees by axis": partial(Polynomials, degree=(3, 4), box=BOX, breaks=BREAKS),
    "some cells dropped": partial(Polynomials, degree=3, box=BOX, breaks=BREAKS, dropped=[1, 4]),
}


def points(n: int) -> np.ndarray:
    """In cells that are kept, some of them in steps between windows."""
    x = np.random.default_rng(1).uniform(size=(n, 2)) * [1, 2]
    return x[~((x[:, 0] < 0.3) & (x[:, 1] > 1) | (x[:, 0] > 0.5) & (x[:, 1] < 1))]


@pytest.mark.parametrize("name", MODELS)
def test_derivatives(name: str) -> None:
    model = MODELS[name](2, 2)
    rng = np.random.default_rng(0)
    model.coefficients.assign(rng.normal(size=model.coefficients.shape))
    x, second = points(80), np.array([np.eye(2), [[0, 0.5], [0.5, 0]], [[0, 0], [0, 1]]])
    theta = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    u, du, operators = (each.numpy() for each in model.jet(theta, tf.constant(x), second))
    expected = jet_by_tapes(partial(model.apply, theta), tf.constant(x), second)
    for part, by_tapes in zip((u, du, operators), expected, strict=True):
        np.testing.assert_allclose(part, by_tapes, atol=1e-12 * np.abs(by_tapes).max())
    request = Request(x, tuple(map(operator_of_matrix, second)))
    z = jets_of(model, model.coefficients.numpy(), request).transpose(2, 1, 0)
    closed = np.concatenate([u[..., None], du, operators], axis=2)
    np.testing.assert_allclose(z, closed, atol=1e-13 * np.abs(closed).max())
    np.testing.assert_array_equal(model(x), u)


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_of_higher_order(name: str) -> None:
    """As beams and dispersive waves have them, against differences of lower ones."""
    model, rng, h = MODELS[name](2, 1), np.random.default_rng(0), 1e-5
    c, step = rng.normal(size=model.coefficients.shape), np.array([h, 0.0])
    lower = (((0, 0), 1.0), ((1, 1), 2.0)), (((0, 0, 1), 1.0),), (((0, 1, 1), 1.0),)
    higher = tuple(tuple(((0, *axes), w) for axes, w in operator) for operator in lower)
    x = points(80)
    ends = [jets_of(model, c, Request(x + s, lower))[3:] for s in (step, -step)]
    closed = jets_of(model, c, Request(x, higher))[3:]
    difference = np.abs((ends[0] - ends[1]) / (2 * h) - closed).max(axis=(1, 2))
    assert np.all(difference < 1e-4 * np.abs(closed).max(axis=(1, 2)))


@pytest.mark.parametrize("name", MODELS)
def test_windows_add_up_to_one(name: str) -> None:
    model = MODELS[name](2, 1)
    c = np.zeros(model.coefficients.shape)
    c[:, 0] = 1.0
    model.coefficients.assign(c)
    np.testing.assert_allclose(model(points(200)), 1.0, atol=1e-14)


def test_windows_of_polynomials_and_polynomials_by_name() -> None:
    model = Windows(partial(Polynomials, degree=6), parts=(2, 3))(2, 1, box=BOX)
    assert model.coefficients.shape == (6, 28, 1)
    np.testing.assert_allclose(model.cells.breaks[1], [0, 2 / 3, 4 / 3, 2])
    with pytest.raises(InputError, match="not split or enriched"):
        Windows(partial(Polynomials, degree=6)).split(1)(2, 1)
    assert network_named("polynomials", degree=3)(2, 1).width == 10
    with pytest.raises(InputError, match="width=5 is of other networks"):
        network_named("polynomials", width=5)


def test_exponents_of_few_variables_at_a_time() -> None:
    assert Polynomials(2, 1, degree=10).width == 66
    found = Polynomials(5, 1, degree=4, interacting=2).exponents
    assert len(found) == 1 + 5 * 4 + 10 * 6
    assert np.count_nonzero(found, axis=1).max() == 2
    assert found.sum(axis=1).max() == 4
    np.testing.assert_array_equal(found[0], 0)


def test_they_are_trained_saved_and_read_as_other_networks(tmp_path: Any) -> None:
    """One step of least squares finds sin πx to the degree that polynomials have."""
    result = train(
        poisson(k=1),
        network=partial(Polynomials, degree=14),
        optimizer=LeastSquares(),
        points=40,
        steps=2,
        precision="float64",
        progress=False,
        estimate=False,
    )
    assert result.relative_l2_error < 1e-5
    result.save(tmp_path / "result")
    x = np.linspace(-1, 1, 20)[:, None]
    again = Result.load(tmp_path / "result")
    np.testing.assert_array_equal(again.predict(x).mean, result.predict(x).mean)
    model = Polynomials.from_config(result.networks[0].get_config())
    model.set_weights(result.networks[0].get_weights())
    np.testing.assert_array_equal(model(x), result.networks[0](x))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"degree": (3, 4, 5)}, "has 3 numbers, and the points have 2 coordinates"),
        ({"degree": -1}, "degree"),
        ({"exponents": [[0, -1]]}, "must not be negative"),
        ({"breaks": [[0, 1], [1, 0]]}, "2 increasing sequences"),
        ({"breaks": [[0, 1]]}, "2 increasing sequences"),
        ({"overlap": 0.6}, r"in \(0, 0.5\]"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Polynomials(2, 1, **arguments)
