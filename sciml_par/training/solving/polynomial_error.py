"""The error of a solution by polynomials: from higher degrees, and from errors of the data."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.assembly.solution import Solution
from sciml_par.assembly.system import System
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.linearized import Linearized
from sciml_par.training.estimate.by_correction import Corrected, estimate_by, if_converged
from sciml_par.training.estimate.two_solutions import Difference
from sciml_par.training.optimizers.least_squares.least_squares import LastStep
from sciml_par.training.solving.ladder import fall_of
from sciml_par.training.solving.polynomial_stage import (
    MOST_DIMENSIONS,
    OF_ERROR,
    PolynomialSolver,
    Stage,
    operations,
)
from sciml_par.training.solving.refinement import refined
from sciml_par.training.uncertainty.from_rows import MOST_PARAMETERS, factors_of, linearized_by
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[np.float64]

_RICHER, _RICHER_OTHERWISE, _RICHER_IN_WINDOWS = 1.35, 2, (2, 4)
_MOST_COLUMNS = 3_000
"""The degree of polynomials that tell the error: so many times as high on the box in up to three
dimensions up to so many columns, and higher by so much otherwise."""
_HEAVIER = 10.0
"""The factor of √w of equations beside data with errors, which leaves 1 % of what these change."""
_WITH_CORNERS = 1e-11
"""The least error that is claimed of solutions with functions of corners."""
CAUTION, _INDEPENDENT, _ABOVE_RESIDUAL = 2.0, 1e-8, 10.0
"""The most that the error is of the change of u divided by the fall of the residual; the least
column of a factor; and the residual of a change of u by itself, from which u is determined."""
SEVERAL = (
    "the equation and its conditions have a family of solutions near this one, as two modes of the "
    "same frequency and all their sums are; a condition that tells them apart, as a symmetry or a "
    "value, makes u unique. The unknowns may be determined."
)
CONVERGES = 3.0
"""The fall of the residual, from which an estimate by little richer polynomials tells an order of
magnitude."""


def error_of(
    solver: PolynomialSolver, stage: Stage, inside: Any, *, fall: float, most_operations: float
) -> ErrorEstimate:
    """Return the estimated error of a stage (local).

    inside : which points of the evaluation lie in the domain, [k].
    fall : of the residual since the stage before, which shows whether polynomials converge.
    most_operations : of the factorization in windows, if a smaller degree can keep to it.
    """
    began, solution = time.perf_counter(), stage.solution
    richer, degree = _richer(solver, stage, most_operations)
    at, unseen = solver.equations(richer, degree, OF_ERROR)
    singular, jets = bool(solver.open_names), solution.jets(unseen)
    system = System(at, richer, solution.jets(at), singular=singular)
    data, terms = statistical_terms(solver.problem), solver.problem.terms
    if data:  # u lies between these and the equations; how far, heavier equations tell
        system = system.weighted([1.0 if each.name in data else _HEAVIER for each in terms])
    start = np.concatenate([np.zeros(richer.coefficients.shape).ravel(), stage.steps.p])
    step = system.step(system.linearized(start))
    if stage.windows > 1 and not data and richer.cells == stage.model.cells:
        solver.ahead = stage, richer.cells, degree, step
    c, p = system.split(start - step[0])
    richer.coefficients.assign(c)
    both = Solution.of(solver.problem, stage.model, richer, p=p)
    if data:
        # Errors of the data leave a residual that no richer functions make smaller.
        return Difference(solution, both, 1.0).estimate(
            (stage.x, inside),
            fall=fall_of(stage.judged.zero_loss, stage.judged.validation_loss),
            seconds=time.perf_counter() - began,
            precision="float64",
            free=solver.open_names,
            unknowns={n: (u, both.unknowns[n]) for n, u in solution.unknowns.items()},
        )
    of_correction = Solution.of(solver.problem, richer, p=p).jets(unseen)
    together = [
        [z + dz for z, dz in zip(*of_term, strict=True)]
        for of_term in zip(jets, of_correction, strict=True)
    ]
    coefficients, behind = stage.steps.c.ravel(), np.zeros(c.size)
    last_c, last_p = np.split(stage.steps.direction, [coefficients.size])

    def again() -> Solution:
        further = System(unseen, richer, together, singular=singular)
        nothing = np.concatenate([np.zeros(richer.coefficients.shape).ravel(), p])
        step = further.step(further.linearized(nothing))[0]
        return both.at(both.theta - np.pad(step, (coefficients.size, 0)))

    corrected = Corrected(
        both,
        np.concatenate([coefficients, behind, stage.steps.p]),
        solver.loss_of(unseen, jets, stage.steps.p),
        solver.loss_of(unseen, together, p),
        stage.judged.zero_loss,
        LastStep(np.concatenate([last_c, behind, last_p]), stage.steps.size),
        again,
    )
    divided = richer.cells != stage.model.cells
    # Beside a corner the residual falls slowly, and more where cells are divided once more.
    fall = max(fall, fall_of(corrected.before, corrected.after)) if divided else fall
    prediction = Prediction("prediction", stage.x, stage.u, inside=inside)
    of = corrected, solver.problem, prediction, began, solver.free
    error = estimate_by(*of, converges=fall > CONVERGES, opened=solver.opened)
    if richer.corners and 0.0 < error.relative < _WITH_CORNERS:
        # Columns that nearly depend on each other amplify rounding.
        absolute = _WITH_CORNERS / error.relative * error.absolute
        error = replace(error, relative=_WITH_CORNERS, absolute=absolute)
    if len(solver.open_names) == solver.problem.outputs:
        return error
    return if_converged(error, corrected, (stage.x, inside), [*solver.open_names])


def change_of(
    solver: PolynomialSolver, stage: Stage, before: Stage, inside: Any, fall: float
) -> ErrorEstimate:
    """Return the error by the change since a stage with fewer polynomials (local).

    If it falls at least by half as much as the residual, by q, it is 2/q of the change or less.
    That of `error_of`, with more polynomials, takes several times as long as the stage.
    """
    u, former = stage.solution, before.solution
    return Difference(u, former, CAUTION / fall).estimate(
        (stage.x, inside),
        fall=fall,
        seconds=0.0,
        precision="float64",
        free=solver.open_names,
        unknowns={n: (value, former.unknowns[n]) for n, value in u.unknowns.items()},
    )


def with_others(stage: Stage) -> bool:
    """Return whether u can change without a residual, as a double mode, if unknowns follow (local).

    With J = [A B] of u and of unknowns, and V d the change of u at points in relation to the norm
    of all components, the least |A d − B q| / |V d| is about as small as the residual.
    """
    import scipy.linalg as sl

    system, x = stage.system, stage.problem.domain.sample(2 * stage.model.width, seed=1)
    j, u = system.dense(stage.steps.terms).T, stage.solution(x)
    a, b = np.split(j, [-system.unknowns], axis=1)
    # As of an error: in relation to its own size, one that is zero would be rounding alone.
    values = system.values(x)[:, : a.shape[1]] / max(np.linalg.norm(u), np.finfo(np.float64).tiny)
    r, order = sl.qr(values, mode="r", pivoting=True, check_finite=False)
    rank = np.count_nonzero(np.abs(r.diagonal()) > _INDEPENDENT * abs(r[0, 0]))
    r, order = r[:rank, :rank], order[:rank]
    a = sl.solve_triangular(r, a[:, order].T, trans=1, check_finite=False).T
    q = np.linalg.qr(b)[0]
    least = np.linalg.svd(a - q @ (q.T @ a), compute_uv=False)[-1]
    return bool(least < _ABOVE_RESIDUAL * math.sqrt(stage.steps.loss))


def linearized_of(stage: Stage) -> Linearized | None:
    """Return how errors of the data move coefficients and unknowns; None without any (local)."""
    began, system, problem = time.perf_counter(), stage.system, stage.problem
    if not statistical_terms(problem) or not problem.residuals:
        return None
    if stage.theta.size > MOST_PARAMETERS:
        return Linearized.not_known(f"{stage.theta.size:,} coefficients are too many to linearize")
    terms = stage.steps.terms
    j, ends = system.dense(terms).T, np.cumsum([term.residuals.size for term in terms])
    rows = [
        np.column_stack([of_term, term.residuals.ravel()])
        for of_term, term in zip(np.split(j, ends[:-1]), terms, strict=True)
    ]
    factors = factors_of(problem, rows, [each.factors[0] for each in system.equations.rows])
    return linearized_by(factors, problem, stage.theta, began)


def _richer(solver: PolynomialSolver, stage: Stage, most_operations: float) -> tuple[Any, int]:
    """Return polynomials of a higher degree or in smaller windows, and the degree."""
    if math.prod(stage.model.cells.shape) == 1:
        least, d = stage.degree + _RICHER_OTHERWISE, stage.x.shape[1]
        degree = max(least, math.ceil(_RICHER * stage.degree) if d <= MOST_DIMENSIONS else 0)
        most = _MOST_COLUMNS / stage.system.outputs
        while (richer := solver.on_box(degree)).width > most and degree > least:
            degree -= 1
        return richer, degree
    former = [np.array(b) for b in stage.model.cells.breaks]
    breaks, degree = refined(stage, smooth=solver.smooth)
    # Where cells are to be divided, as at a corner, a higher degree would not lower the residual.
    few, many = (stage.degree + more for more in _RICHER_IN_WINDOWS)
    divided = degree == stage.degree
    choices = [(breaks, few), (former, few)] if divided else [(former, many), (former, few)]
    for breaks, degree in choices:
        richer = solver.in_windows(breaks, degree)
        if operations(richer, solver.problem) <= most_operations:
            break
    return richer, degree
