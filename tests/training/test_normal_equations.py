"""The linear systems of Gauss–Newton steps, against NumPy's solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from one_rank import GivenObjective

import sciml_par.parallel as sp
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.optimizers.least_squares import normal_equations
from sciml_par.training.optimizers.least_squares.normal_equations import NormalEquations

MEMBERS, PARAMETERS, DAMPING = 2, 5, 0.3


class Given(GivenObjective):
    """An objective whose residuals and Jacobians are given: of each rank other rows."""

    def __init__(self, rank: int) -> None:
        self.ranks = Ranks(sp.current_world().communicator)
        rng = np.random.default_rng([7, rank])
        rows = (3 + rank, 2 * (rank % 2))  # the second term has no rows on the even ranks
        self.of_terms = [rng.normal(size=(MEMBERS, n)) for n in rows]
        self.slopes = [rng.normal(size=(MEMBERS, PARAMETERS, n)) for n in rows]

    def residuals(self, parameters: Any, batch: Any) -> Any:
        return [tf.constant(r) for r in self.of_terms]

    def jacobian(self, parameters: Any, batch: Any) -> Any:
        return [tf.constant(j) for j in self.slopes]


@pytest.mark.parametrize("on_host", [True, False], ids=["LAPACK", "TensorFlow"])
def test_normal_equations_have_numpys_solutions(
    on_host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not on_host:
        monkeypatch.setattr(normal_equations, "can_call_on_host", lambda: False)
    everyone = [Given(rank) for rank in range(sp.size())]
    here: Any = everyone[sp.rank()]
    system = NormalEquations()
    rng = np.random.default_rng(1)
    scale = rng.uniform(0.5, 2.0, size=(MEMBERS, PARAMETERS))
    v = [[rng.normal(size=r.shape) for r in each.of_terms] for each in everyone]

    @tf.function(jit_compile=True, autograph=False)
    def solve() -> Any:
        theta = tf.zeros([MEMBERS, PARAMETERS], tf.float64)
        line = system.linearize(here, theta, ())
        damping = tf.fill([MEMBERS], tf.constant(DAMPING, tf.float64))
        factor = system.factorize(line, damping, tf.constant(scale))
        first = system.solve_gradient(line, factor)
        mine = [tf.constant(each) for each in v[sp.rank()]]
        return line.terms, line.gradient, first, system.solve(line, factor, mine)

    terms, gradient, first, second = (each.numpy() for each in solve())
    for j in range(MEMBERS):
        rows = [np.concatenate([k[j] for k in each.slopes], axis=1) for each in everyone]
        r = np.concatenate([np.concatenate([k[j] for k in each.of_terms]) for each in everyone])
        right = np.concatenate([np.concatenate([k[j] for k in each]) for each in v])
        jt = np.concatenate(rows, axis=1)
        matrix = jt @ jt.T + DAMPING * np.diag(scale[j] ** 2)
        squares = [sum(np.sum(e.of_terms[t][j] ** 2) for e in everyone) for t in range(2)]
        np.testing.assert_allclose(terms[j], squares, rtol=1e-13)
        np.testing.assert_allclose(gradient[j], jt @ r, rtol=1e-12)
        np.testing.assert_allclose(first[j], np.linalg.solve(matrix, jt @ r), rtol=1e-11)
        np.testing.assert_allclose(second[j], np.linalg.solve(matrix, jt @ right), rtol=1e-11)


@pytest.mark.ranks(most=1, reason="local")
@pytest.mark.parametrize("on_host", [True, False], ids=["LAPACK", "TensorFlow"])
def test_a_matrix_that_is_not_definite_has_no_finite_solution(
    on_host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not on_host:
        monkeypatch.setattr(normal_equations, "can_call_on_host", lambda: False)
    here: Any = Given(0)
    here.slopes = [np.zeros_like(j) for j in here.slopes]
    here.slopes[0][1] = np.nan
    system = NormalEquations()

    @tf.function(jit_compile=True, autograph=False)
    def solve() -> Any:
        theta = tf.zeros([MEMBERS, PARAMETERS], tf.float64)
        line = system.linearize(here, theta, ())
        damping = tf.constant([0.0, 1.0], tf.float64)
        factor = system.factorize(line, damping, tf.ones_like(theta))
        return system.solve_gradient(line, factor)

    found = solve().numpy()
    assert not np.isfinite(found).all(axis=1).any()
