"""A function that jumps inside an operator is refused by `solve`, and `train` says so."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from trainings import prepared

from sciml_par.errors import InputError
from sciml_par.problems import (
    Ball,
    Box,
    Dirichlet,
    Interval,
    Problem,
    derivative,
    divergence,
    gradient,
)
from sciml_par.training import solve

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")


def rod(conductivity: Any) -> Problem:
    """(k u′)′ = 0; where k jumps, u = x has no residual and a wrong flux."""
    return Problem(
        Interval(0, 1),
        lambda u, x: derivative(lambda z: conductivity(z) * derivative(u, z, 0), x, 0),
        conditions=[Dirichlet(0.0, on="left"), Dirichlet(1.0, on="right")],
    )


def jump(x: Any) -> Any:
    return tf.where(x < 0.5, tf.ones_like(x), 10 * tf.ones_like(x))


def test_solve_says_where_a_coefficient_jumps() -> None:
    with pytest.raises(InputError, match=r"'residual' jumps at x = 0\.5, .* with Interface"):
        solve(rod(jump), progress=False)


def test_train_warns_of_it() -> None:
    assert any("jumps at x = 0.5" in each for each in prepared(rod(jump))[1])


def test_an_oblique_jump_in_a_domain_with_a_hole_is_seen() -> None:
    def flux(u: Any, x: Any) -> Any:
        return jump((x[:, :1] + x[:, 1:]) / 1.8) * gradient(u, x)

    plate = Problem(
        Box([0, 0], [1, 1]) - Ball([0.5, 0.5], 0.2),
        lambda u, x: divergence(lambda z: flux(u, z), x) - 1,
        conditions=[Dirichlet(0.0)],
    )
    with pytest.raises(InputError, match="jumps at"):
        solve(plate, progress=False)


def test_a_jump_outside_of_the_domain_is_none() -> None:
    """At the edge of the hole, where the line leaves the domain."""
    disc = Ball([0.5, 0.5], 0.2)

    def coefficient(x: Any) -> Any:
        return jump(0.5 * tf.norm(x - 0.5, axis=1, keepdims=True) / 0.2)

    plate = Problem(
        Box([0, 0], [1, 1]) - disc,
        lambda u, x: divergence(lambda z: coefficient(z) * gradient(u, z), x) - 1,
        conditions=[Dirichlet(0.0)],
    )
    assert prepared(plate)[1] == []


def test_a_steep_rise_is_none() -> None:
    steep = rod(lambda x: 1 + 9 * tf.sigmoid((x - 0.5) / 1e-3))
    result = solve(steep, tolerance=1e-2, progress=False)
    assert result.error.relative < 1e-2
    assert result.predict([[0.5]]).mean == pytest.approx(0.909, abs=5e-3)


def test_a_kink_is_none() -> None:
    def kinked(x: Any) -> Any:
        return 1 + tf.abs(x - 0.5)

    assert solve(rod(kinked), tolerance=1e-2, progress=False).error.relative < 1e-2
