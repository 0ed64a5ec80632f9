"""Networks with skip connections: slices have second derivatives in compiled loops as well."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from engine import Engine

import sciml_par.parallel as sp
from sciml_par.problems import Box, Dirichlet, Problem, laplacian
from sciml_par.training.loss.known import Gradient


def network() -> keras.Model:
    x = keras.Input((2,), dtype="float64")
    options: dict[str, Any] = {"activation": "tanh", "dtype": "float64"}
    h = keras.layers.Dense(5, **options)(x)
    h = keras.layers.Concatenate(dtype="float64")([h, x, tf.keras.ops.sin(x)])
    h = keras.layers.Dense(5, **options)(h)
    return keras.Model(x, keras.layers.Dense(1, dtype="float64")(h))


@pytest.mark.ranks(most=1, reason="the gradient is local")
def test_compiled_gradients_are_those_of_a_graph() -> None:
    """With tapes through everything: the network has no jet."""
    problem = Problem(
        Box([0, 0], [1, 2]),
        lambda u, x: laplacian(u, x) - tf.slice(x, [0, 1], [-1, 1]) * u(x),
        conditions=[Dirichlet(0.3)],
        ansatz=lambda u, x: x[:, 0:1] * u(x),
        input_scaling=True,
    )
    engine = Engine(problem, sp.current_world().alone, network(), points=12)
    batch = engine.feed.whole(0)
    found = []
    for compiled in (True, False):

        def terms_and_gradient(theta: Any, batch: Any) -> tuple[Any, Any]:
            known = engine.objective.evaluate(Gradient, theta, batch)
            return known.terms, known.gradient

        function = tf.function(terms_and_gradient, jit_compile=compiled, autograph=False)
        terms, gradient = function(engine.parameters, batch)
        assert np.linalg.norm(gradient) > 1e-2
        found.append(np.concatenate([terms, gradient], axis=1))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10, atol=1e-12)


@pytest.mark.ranks(most=1, reason="the Jacobian is local")
def test_compiled_jacobians_need_no_loop_over_the_points(caplog: pytest.LogCaptureFixture) -> None:
    problem = Problem(Box([0, 0], [1, 2]), laplacian, conditions=[Dirichlet(0.3)])
    model = network()
    engine = Engine(problem, sp.current_world().alone, model, points=12)
    x = tf.constant(engine.feed.arrays[0][0])

    def slopes(of: Any) -> tuple[Any, Any]:
        """Of Σ_j ∂u/∂x_j by the bias of the output, and by the points: [n, 2]."""
        with tf.GradientTape() as outer:
            outer.watch(of)
            with tf.GradientTape() as inner:
                inner.watch(of)
                u = model(of[None])
            slope = tf.reduce_sum(inner.gradient(u, of) * tf.constant([1.0, 2.0], of.dtype))
        return outer.gradient(slope, of), slope

    compiled = tf.function(lambda: tf.vectorized_map(slopes, x), jit_compile=True, autograph=False)
    with caplog.at_level("WARNING", logger="tensorflow"):
        found = compiled()
    assert "while_loop" not in caplog.text
    one_by_one = [slopes(each) for each in x]
    for place in (0, 1):
        wanted = np.stack([each[place] for each in one_by_one])
        np.testing.assert_allclose(found[place], wanted, rtol=1e-10, atol=1e-12)
