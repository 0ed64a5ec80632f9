"""Residuals that differentiate by TensorFlow's own means train as those with operators do."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Interval, Problem, laplacian
from sciml_par.training import Ensemble, LevenbergMarquardt


def _tapes(u: Any, x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            value = u(x)
        slope = inner.gradient(value, x)
    return outer.gradient(slope, x) + tf.sin(3 * x)


def _gradients(u: Any, x: Any) -> Any:
    return tf.gradients(tf.gradients(u(x), x)[0], x)[0] + tf.sin(3 * x)


def _train(residual: Any) -> np.ndarray:
    result = sp.train(
        Problem(Interval(0, 1), residual, conditions=[Dirichlet(0.0)]),
        mode=Ensemble(members_per_rank=2),
        network=partial(MLP, width=3, depth=1),
        points=12,
        steps=3,
        optimizer=LevenbergMarquardt(),
        precision="float64",
        progress=False,
    )
    return np.array([member.loss for member in result.members])


@pytest.mark.long
@pytest.mark.ranks(most=1, reason="the same on any number of ranks")
def test_tapes_and_gradients_in_a_residual_are_the_operators() -> None:
    expected = _train(lambda u, x: laplacian(u, x) + tf.sin(3 * x))
    for residual in (_tapes, _gradients):
        np.testing.assert_allclose(_train(residual), expected, rtol=1e-6)
