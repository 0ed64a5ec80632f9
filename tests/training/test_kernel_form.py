"""Gauss–Newton steps by as many equations as there are residuals, against those by p equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from engine import Engine, make_feed

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Problem, laplacian
from sciml_par.training import SPRING, LevenbergMarquardt, Points
from sciml_par.training.loop.loop_cache import _key
from sciml_par.training.loss.known import Jacobian, Residuals
from sciml_par.training.optimizers.least_squares.kernel_form import KernelForm
from sciml_par.training.optimizers.least_squares.normal_equations import NormalEquations
from sciml_par.training.optimizers.least_squares.solvers import make_system

DOMAIN = Box([0, 0], [1, 2])


def system(*, outputs: int = 2) -> Problem:
    """Several residuals at a point, two terms, not linear."""
    return Problem(
        DOMAIN,
        lambda u, x: laplacian(u, x) - u(x) ** 3 + x[:, :1] * x[:, 1:],
        conditions=[Dirichlet(0.3, where=lambda x: x[:, 0] == 0.0, weight=30.0)],
        outputs=outputs,
    )


def network(d: int, m: int, **_: Any) -> MLP:
    return MLP(d, m, width=3, depth=1, seed=7, dtype="float64")


def engine(points: int, boundary: int = 6, *, alone: bool = False, **options: Any) -> Engine:
    world = sp.current_world()
    given = Points(DOMAIN.sample(points, seed=1), boundary)
    group = world.alone if alone else world.communicator
    return Engine(system(), group, network, points=given, **options)


class _Stack:
    """What of a stack tells its loop from others."""

    key, numbers, parameters = "problem", (0,), np.zeros([1, 17])

    def __init__(self, feed: Any) -> None:
        self.feed = feed


def dense(here: Engine) -> tuple[Any, Any]:
    """r: [N] and J: [N, p] of all points on one rank."""
    batch = here.feed.whole(0)
    here.objective.prepare(Jacobian, here.parameters, batch)
    r, slopes = here.residuals_and_jacobian(here.parameters, batch)
    return tf.concat(r, axis=1)[0].numpy(), tf.concat(slopes, axis=2)[0].numpy().T


@pytest.mark.parametrize(
    ("points", "scaled"),
    [pytest.param(1, True, id="one, scaled"), pytest.param(3, False, id="fewer")],
)
def test_both_forms_solve_the_same_equations_on_any_number_of_ranks(
    points: int, scaled: bool
) -> None:
    """p = 17; the residuals are 2 (n + 1 or so)."""
    shared, serial = engine(points), engine(points, alone=True)
    r, jacobian = dense(serial)
    p = jacobian.shape[1]
    damping = 1e-3
    scale = np.linspace(0.5, 3.0, p) if scaled else np.ones(p)
    expected = np.linalg.solve(
        jacobian.T @ jacobian + damping * np.diag(scale**2), jacobian.T @ np.stack([r, r**2]).T
    ).T
    batch = shared.feed.whole(0)
    shared.objective.prepare(Jacobian, shared.parameters, batch)
    counts = shared.objective.residuals_of_ranks(batch)
    assert sum(counts) == len(r)

    @tf.function(autograph=False)
    def compute(parameters: Any) -> Any:
        found = []
        for form in (KernelForm(counts, scaled), NormalEquations()):
            line = form.linearize(shared.objective, parameters, batch)
            factor = form.factorize(
                line, tf.constant([damping], tf.float64), tf.constant(scale[None])
            )
            found.append(
                (
                    form.solve_gradient(line, factor),
                    form.solve(line, factor, [v**2 for v in line.residuals]),
                    line.gradient,
                    line.terms,
                )
            )
        return found

    for by_gradient, by_squares, gradient, terms in compute(shared.parameters):
        size = np.abs(expected).max()
        np.testing.assert_allclose(by_gradient[0], expected[0], rtol=0, atol=1e-9 * size)
        np.testing.assert_allclose(by_squares[0], expected[1], rtol=0, atol=1e-9 * size)
        np.testing.assert_allclose(gradient[0], jacobian.T @ r, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(np.sum(terms), r @ r, rtol=1e-12)


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_auto_takes_the_smaller_system_by_the_residuals_of_all_ranks() -> None:
    kinds = []
    for points in (3, 23):
        here = engine(points)
        made = make_system("auto", here.objective, here.feed.whole(0), 17, scaled=False)
        kinds.append(type(made))
        counts = here.objective.residuals_of_ranks(here.feed.whole(0))
        own = here.objective.evaluate(Residuals, here.parameters, here.feed.whole(0)).residuals
        assert counts[here.group.rank] == sum(r.shape[1] for r in own)
        assert len(counts) == here.group.size
    assert kinds == [KernelForm, NormalEquations]


@pytest.mark.ranks(most=1, reason="the division of points is computed, not exchanged")
def test_loops_for_other_numbers_of_residuals_elsewhere_are_others() -> None:
    """The first of two ranks has 3 points both times, and the second one 3 or 2."""
    feeds = [
        make_feed(system(), n, rank=0, size=2, seed=0, dtype="float64")
        for n in (DOMAIN.sample(6, seed=1), DOMAIN.sample(5, seed=1))
    ]
    assert [len(each.interior) for each in feeds] == [3, 3]
    assert [feed.rows_of_ranks[0] for feed in feeds] == [(3, 3), (3, 2)]
    group = sp.current_world().communicator
    keys = [_key(_Stack(feed), LevenbergMarquardt(), group, None) for feed in feeds]
    assert keys[0] != keys[1]
    assert keys[0] == _key(_Stack(feeds[0]), LevenbergMarquardt(), group, None)


@pytest.mark.ranks(most=1, reason="arguments are checked on each rank")
def test_unknown_solvers_are_refused() -> None:
    for kind in (LevenbergMarquardt, SPRING):
        with pytest.raises(InputError, match="'normal equations', 'kernel'.*; got 'svd'"):
            kind(solver="svd")
    assert LevenbergMarquardt(solver="kernel").key != LevenbergMarquardt().key
    assert LevenbergMarquardt(solver="kernel").describe()["solver"] == "'kernel'"
