"""Products with the Jacobian that is never formed, against the one that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import Engine, StackedObjective
from test_jacobian import CASES, MODELS

import sciml_par.parallel as sp

pytestmark = pytest.mark.ranks(most=1, reason="products of a rank's own points")


@pytest.mark.long_after(2)
@pytest.mark.parametrize(
    ("case", "model"),
    [
        ("poisson", "mlp"),
        ("poisson", "skip"),
        ("nonlinear, mixed derivatives", "mlp"),
        ("system", "frozen"),
        ("ansatz", "chain"),
        ("tapes", "mlp"),
        ("unknowns", "mlp"),
        ("mean over the points", "mlp"),
        ("does not see the network", "mlp"),
    ],
)
def test_products_agree_with_the_jacobian(case: str, model: str) -> None:
    _check(case, model, 1)


@pytest.mark.long
def test_products_of_members() -> None:
    _check("ansatz", "mlp", 2)
    _check("unknowns", "mlp", 2)


def _check(case: str, model: str, members: int) -> None:
    engine = Engine(CASES[case], sp.current_world().communicator, MODELS[model], points=9)
    objective, batch = _stacked(engine, members), engine.feed.whole(0)
    objective.prepare_jacobian(engine.parameters, batch)
    rng = np.random.default_rng(1)
    p = engine.parameters.shape[1]
    theta = engine.parameters + 0.1 * rng.normal(size=[members, p])
    direction = tf.constant(rng.normal(size=[members, p]))

    # Not compiled: what is computed is small, and what is to be compiled is large.
    def compute(theta: Any, direction: Any) -> Any:
        residuals, jacobian = objective.residuals_and_jacobian(theta, batch)
        squares = [r**2 for r in residuals]
        return (
            jacobian,
            squares,
            objective.jacobian_times(theta, batch, direction),
            objective.transposed_times(theta, batch, squares),
            objective.normal_times(theta, batch, direction),
        )

    jacobian, squares, along, back, normal = compute(theta, direction)
    expected = [tf.linalg.matvec(j, direction, transpose_a=True) for j in jacobian]
    for mine, theirs in zip(along, expected, strict=True):
        _assert_close(mine, theirs)
    sums = [tf.linalg.matvec(j, v) for j, v in zip(jacobian, squares, strict=True)]
    _assert_close(back, tf.add_n(sums))
    sums = [tf.linalg.matvec(j, v) for j, v in zip(jacobian, expected, strict=True)]
    _assert_close(normal, tf.add_n(sums))


def _stacked(engine: Engine, members: int) -> StackedObjective:
    made = engine.objective
    return StackedObjective(
        made._field,
        made._terms,
        layout=made.layout,
        members=members,
        stacked=engine.feed.stacked,
        communicator=engine.group,
        jacobians=made._jacobians,
    )


def _assert_close(found: Any, expected: Any) -> None:
    scale = np.abs(expected).max() + 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)
