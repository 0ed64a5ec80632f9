"""Products with the Jacobian that is never formed, against the one that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import Engine
from test_jacobian import CASES, MODELS

import sciml_par.parallel as sp
from sciml_par.training.loss.known import Jacobian, LinearMap

pytestmark = pytest.mark.ranks(most=1, reason="products of a rank's own points")


@pytest.mark.parametrize(
    ("case", "model"),
    [
        ("poisson", "mlp"),
        ("poisson", "skip"),
        pytest.param("unknowns", "mlp", marks=pytest.mark.long),
        pytest.param("mean over the points", "mlp", marks=pytest.mark.long),
    ],
)
def test_products_agree_with_the_jacobian(case: str, model: str) -> None:
    _check(case, model, 1)


@pytest.mark.long
def test_products_of_members() -> None:
    _check("unknowns", "mlp", 2)


def _check(case: str, model: str, members: int) -> None:
    engine = Engine(CASES[case], sp.current_world().communicator, MODELS[model], points=9)
    objective, batch = engine.objective_of(members), engine.feed.whole(0)
    objective.prepare(Jacobian, engine.parameters, batch)
    rng = np.random.default_rng(1)
    p = engine.parameters.shape[1]
    theta = engine.parameters + 0.1 * rng.normal(size=[members, p])
    direction = tf.constant(rng.normal(size=[members, p]))

    # Not compiled: what is computed is small, and what is to be compiled is large.
    def compute(theta: Any, direction: Any) -> Any:
        known = objective.evaluate(Jacobian, theta, batch)
        squares = [r**2 for r in known.residuals]
        products = objective.evaluate(LinearMap, theta, batch)
        return (
            known.jacobian,
            squares,
            products.times(direction),
            products.transposed_times(squares),
            products.normal_times(direction),
        )

    jacobian, squares, along, back, normal = compute(theta, direction)
    expected = [tf.linalg.matvec(j, direction, transpose_a=True) for j in jacobian]
    for mine, theirs in zip(along, expected, strict=True):
        _assert_close(mine, theirs)
    sums = [tf.linalg.matvec(j, v) for j, v in zip(jacobian, squares, strict=True)]
    _assert_close(back, tf.add_n(sums))
    sums = [tf.linalg.matvec(j, v) for j, v in zip(jacobian, expected, strict=True)]
    _assert_close(normal, tf.add_n(sums))


def _assert_close(found: Any, expected: Any) -> None:
    scale = np.abs(expected).max() + 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)
