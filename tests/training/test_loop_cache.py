"""A second training of the same kind compiles nothing, and another kind is not mistaken for it."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from trainings import quick

import sciml_par.parallel as sp
from sciml_par.problems import Dirichlet, Interval, Problem, laplacian, poisson
from sciml_par.training import Adam, LevenbergMarquardt

pytestmark = pytest.mark.ranks(most=1, reason="loops are kept on each rank")
small = partial(quick, steps=20, points=11)


def compiled() -> int:
    """How many loops have been made, of all kinds and shapes."""
    programs = sp.current_world().kept.get("programs", {})
    return sum(map(len, programs.values()))


def test_a_second_training_compiles_nothing() -> None:
    """Not even with other data, weights, seed, learning rate, steps and cadence."""
    small(poisson(k=1))
    before = compiled()
    assert before > 0
    again = small(poisson(k=3), seed=5, optimizer=Adam(3e-3), steps=31, log_every=3)
    weighted = Problem(
        Interval(-1, 1), poisson().residuals, conditions=[Dirichlet(0.0, weight=7.0)], exact=np.sin
    )
    small(weighted)
    assert compiled() == before
    assert again.members[0].steps == 31
    assert again.members[0].losses[0] > 1e3, "the loss is that of k = 1"


@pytest.mark.parametrize("optimizer", [Adam(3e-2), LevenbergMarquardt()])
def test_other_numbers_of_conditions_compile_nothing(optimizer: Any) -> None:
    """u″ = 0 with u = k at both ends has the solution k."""
    counts = set()
    for k in (1, 2, 3):
        problem = Problem(
            Interval(0, 1),
            laplacian,
            conditions=[Dirichlet(k)],
            exact=partial(np.full_like, fill_value=k),
        )
        result = small(problem, optimizer=optimizer, steps=300, precision="float64")
        counts.add(compiled())
        assert result.members[0].prediction.relative_l2_error < 1e-2
    assert len(counts) == 1


factor = 1.0


def reads_a_global(u: Any, x: Any) -> Any:
    return factor * laplacian(u, x) - 1.0


class Model:
    """An object with attributes that anybody may change."""

    value = 1.0

    def residual(self, u: Any, x: Any) -> Any:
        return self.value * laplacian(u, x) - 1.0


MODEL = Model()


class Law:
    """What residuals read, in all the ways that a program may hold a number."""

    nu = 1.0
    table: ClassVar[dict[str, float]] = {"k": 1.0}
    array = np.ones(1)

    @staticmethod
    def static(u: Any, x: Any) -> Any:
        return Law.nu * laplacian(u, x) - 1.0


def set_all(value: float) -> None:
    global factor  # noqa: PLW0603
    factor = MODEL.value = Law.nu = Law.table["k"] = Law.array[0] = value


@pytest.mark.parametrize(
    "residual",
    [
        reads_a_global,
        MODEL.residual,
        lambda u, x: Law.array[0] * laplacian(u, x) - 1.0,
        pytest.param(Law.static, marks=pytest.mark.all),
        pytest.param(lambda u, x: Law.table["k"] * laplacian(u, x) - 1.0, marks=pytest.mark.all),
    ],
)
def test_a_loop_is_used_again_for_its_own_numbers_only(residual: Any) -> None:
    """The first loss with nu = 8 is that of a program that has 8 in its place."""
    problem = Problem(Interval(0, 1), residual, conditions=[Dirichlet(0.0)])
    found = []
    for value in (1.0, 8.0, 1.0):
        set_all(value)
        found.append(small(problem, steps=2).members[0].losses)
    expected = small(
        Problem(
            Interval(0, 1), lambda u, x: 8 * laplacian(u, x) - 1.0, conditions=[Dirichlet(0.0)]
        ),
        steps=2,
    )
    np.testing.assert_allclose(found[1], expected.members[0].losses, rtol=1e-5)
    assert not np.allclose(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_an_ansatz_that_reads_an_attribute_is_compiled_for_its_value() -> None:
    problem = Problem(
        Interval(0, 1), lambda u, x: u(x), ansatz=lambda N, x: Law.nu + x * (1 - x) * N(x)
    )
    found = []
    for value in (1.0, 8.0):
        set_all(value)
        found.append(small(problem, steps=2).members[0].losses[0])
    assert found[1] > 20 * found[0], "u is about 8 rather than 1"
