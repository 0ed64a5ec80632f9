"""The solvers of a Gauss–Newton step: the same step by each, on any number of ranks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from one_rank import GivenObjective

import sciml_par.parallel as sp
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.optimizers.least_squares import normal_equations
from sciml_par.training.optimizers.least_squares.linear_system import LinearSystem
from sciml_par.training.optimizers.least_squares.matrix_free import MatrixFree
from sciml_par.training.optimizers.least_squares.solvers import system_of

P = 70
EXACT = ("block cholesky", "qr")


class Linear(GivenObjective):
    """Two terms r_t = A_t θ − b_t of two members, whose rows are divided among the ranks."""

    def __init__(self, *, rows: tuple[int, int] = (90, 31), empty: bool = False, members: int = 2):
        rng = np.random.default_rng(3)
        self.group = sp.current_world().communicator
        self.members, self.ranks = members, Ranks(self.group)
        matrices = [rng.normal(size=(members, P, n)) / np.arange(1, P + 1)[:, None] for n in rows]
        values = [rng.normal(size=(members, n)) for n in rows]
        rank, size = self.group.rank, self.group.size
        parts = [_part(n, rank, size, empty) for n in rows]
        self.matrices = [m[:, :, part] for m, part in zip(matrices, parts, strict=True)]
        self.values = [v[:, part] for v, part in zip(values, parts, strict=True)]
        self.whole = np.concatenate(matrices, axis=2).transpose(0, 2, 1)
        self.right = np.concatenate(values, axis=1)

    def residuals(self, theta: Any, batch: Any) -> list[Any]:
        return [
            tf.linalg.matvec(tf.constant(m), theta, transpose_a=True) - v
            for m, v in zip(self.matrices, self.values, strict=True)
        ]

    def jacobian(self, theta: Any, batch: Any) -> list[Any]:
        return [tf.constant(m) for m in self.matrices]


def _part(n: int, rank: int, size: int, empty: bool) -> slice:
    """Uneven parts of n rows; with `empty`, all of them are the last rank's."""
    if empty:
        return slice(0, n if rank == size - 1 else 0)
    ends = [n * (k + 1) ** 2 // size**2 for k in range(size)]
    return slice(ends[rank - 1] if rank else 0, ends[rank])


DAMPING = (1e-3, 2e-2)


def _solutions(
    system: LinearSystem,
    problem: Linear,
    *,
    compiled: bool = False,
    start: float = 0.3,
    dampings: tuple[float, ...] = DAMPING,
) -> list[np.ndarray]:
    """d for r and for r², J 1, and the norms of columns."""
    theta = tf.fill([problem.members, P], tf.constant(start, tf.float64))
    scale = tf.constant(np.linspace(0.5, 2.0, P)) * tf.ones_like(theta)

    @tf.function(autograph=False, jit_compile=compiled)
    def compute(theta: Any) -> Any:
        at = system.linearize(problem, theta, ())
        factor = system.factorize(at, tf.constant(dampings[: problem.members], tf.float64), scale)
        squares = [r**2 for r in at.residuals]
        return (
            system.solve_gradient(at, factor),
            system.solve(at, factor, squares),
            at.gradient,
            at.terms,
            *system.along(at, tf.ones_like(theta)),
        )

    return [each.numpy() for each in compute(theta)]


def _expected(problem: Linear, start: float = 0.3) -> list[np.ndarray]:
    """The first two of `_solutions` by NumPy's least squares of [J; √λ D]."""
    found: list[list[np.ndarray]] = [[], []]
    scale = np.linspace(0.5, 2.0, P)
    for member, damping in enumerate(DAMPING[: problem.members]):
        j = problem.whole[member]
        r = j @ np.full(P, start) - problem.right[member]
        stacked = np.concatenate([j, np.sqrt(damping) * np.diag(scale)])
        for each, v in zip(found, (r, r**2), strict=True):
            each.append(np.linalg.lstsq(stacked, np.concatenate([v, np.zeros(P)]))[0])
    return [np.array(each) for each in found]


@lru_cache
def _by_normal_equations(empty: bool) -> list[np.ndarray]:
    return _solutions(system_of("normal equations"), Linear(empty=empty))


def _assert_close(found: Any, expected: Any, relative: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * np.abs(expected).max())


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("solver", EXACT)
def test_solvers_find_the_same_step(solver: str, empty: bool) -> None:
    problem = Linear(empty=empty)
    found = _solutions(system_of(solver), problem)
    for mine, theirs, expected in zip(
        found[:2], _by_normal_equations(empty)[:2], _expected(problem), strict=False
    ):
        _assert_close(mine, theirs, 1e-10)
        _assert_close(mine, expected, 1e-10)
    for mine, theirs in zip(found[2:], _by_normal_equations(empty)[2:], strict=True):
        if mine.size:
            _assert_close(mine, theirs, 1e-13)


@pytest.fixture(params=[True, False], ids=["LAPACK", "TensorFlow"])
def by_normal_equations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if not request.param:
        monkeypatch.setattr(normal_equations, "can_call_on_host", lambda: False)
    return system_of("normal equations")


@pytest.mark.parametrize("empty", [False, True])
def test_normal_equations_in_compiled_functions(by_normal_equations: Any, empty: bool) -> None:
    """Their gradients and terms are in test_kernel_form.py."""
    problem = Linear(empty=empty)
    found = _solutions(by_normal_equations, problem, compiled=True)
    for mine, expected in zip(found, _expected(problem), strict=False):
        _assert_close(mine, expected, 1e-10)


@pytest.mark.ranks(most=1, reason="local")
def test_a_matrix_that_is_not_definite_has_no_finite_solution(by_normal_equations: Any) -> None:
    problem = Linear()
    problem.matrices = [0 * m for m in problem.matrices]
    problem.matrices[0][1] = np.nan
    found = _solutions(by_normal_equations, problem, compiled=True, dampings=(0.0, 1.0))[0]
    assert not np.isfinite(found).all(axis=1).any()


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_conjugate_gradients_reach_their_tolerance() -> None:
    problem = Linear()
    for tolerance in (1e-3, 1e-8):
        system = MatrixFree(rank=10, iterations=1_000, tolerance=tolerance)
        found = _solutions(system, problem)[0]
        scale = np.linspace(0.5, 2.0, P)
        for member, damping in enumerate(DAMPING):
            j = problem.whole[member]
            right = j.T @ (j @ np.full(P, 0.3) - problem.right[member])
            left = right - j.T @ (j @ found[member]) - damping * scale**2 * found[member]
            reached = np.linalg.norm(left / scale) / np.linalg.norm(right / scale)
            assert 1e-4 * tolerance < reached <= 2 * tolerance


@pytest.mark.ranks(most=1, reason="as many iterations on any number of ranks")
def test_the_approximation_of_the_spectrum_saves_iterations() -> None:
    problem = Linear()
    errors = []
    for rank in (1, P):
        system = MatrixFree(rank=rank, iterations=3, tolerance=1e-14)
        found = _solutions(system, problem)[0]
        errors.append(np.abs(found - _expected(problem)[0]).max())
    assert errors[1] < 1e-6 * errors[0]


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_matrix_free_estimates_norms_of_columns_from_below() -> None:
    problem = Linear()
    theta = tf.zeros([2, P], tf.float64)
    exact = np.sum(problem.whole**2, axis=1)
    for rank, least in ((P, 1 - 1e-9), (40, 0.5)):
        system = MatrixFree(rank=rank)

        @tf.function(autograph=False)
        def compute(theta: Any, system: MatrixFree = system) -> Any:
            return system.squared_column_norms(system.linearize(problem, theta, ()))

        found = compute(theta).numpy()
        assert np.all(found <= exact * (1 + 1e-9))
        assert found.sum() >= least * exact.sum()


@pytest.mark.parametrize("solver", [*EXACT, "matrix free"])
def test_fewer_residuals_than_parameters(solver: str) -> None:
    """In compiled functions, and the same bits on all ranks."""
    problem = Linear(rows=(9, 2), members=1)
    system = MatrixFree(tolerance=1e-12) if solver == "matrix free" else system_of(solver)
    found = _solutions(system, problem, compiled=True)
    for mine, expected in zip(found, _expected(problem), strict=False):
        _assert_close(mine, expected, 1e-9)
        assert len(set(problem.group.allgather_object(mine.tobytes()))) == 1


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
@pytest.mark.parametrize("solver", [*EXACT, "matrix free"])
def test_a_residual_that_is_not_a_number_gives_no_solution_anywhere(solver: str) -> None:
    problem = Linear()
    if problem.group.rank == problem.group.size - 1:
        problem.matrices[0][1, 3, 0] = np.nan
    for solution in _solutions(system_of(solver), problem)[:2]:
        assert np.isfinite(solution[0]).all()
        assert np.isnan(solution[1]).all()


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
@pytest.mark.parametrize("solver", [*EXACT, "matrix free"])
def test_zero_residuals_give_no_step(solver: str) -> None:
    problem = Linear()
    problem.values = [0 * v for v in problem.values]
    for solution in _solutions(system_of(solver), problem, start=0.0)[:2]:
        assert np.all(solution == 0.0)


def test_panels_are_divided_among_the_ranks() -> None:
    problem = Linear()
    system = system_of("block cholesky")

    @tf.function(autograph=False)
    def compute(theta: Any) -> Any:
        at = system.linearize(problem, theta, ())
        return [*at.matrix.owned.values(), at.gradient]

    panels = compute(tf.zeros([2, P], tf.float64))[:-1]
    here = sum(int(tf.size(panel)) for panel in panels)
    total = int(sp.allreduce(tf.constant(here), sp.Sum))
    size = problem.group.size
    assert P * (P + 1) <= total <= 2 * P * P
    assert here <= 1.8 * total / size
