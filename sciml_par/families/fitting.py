"""Inputs of a family from data, and the ones that minimize a cost, in the reduced basis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares, minimize
from scipy.stats import t as students_t

from sciml_par._tensorflow import tf
from sciml_par.assembly.equations import Equations
from sciml_par.errors import InputError
from sciml_par.families.answers import Answer
from sciml_par.families.basis import Basis
from sciml_par.families.reduced import RowsInBasis
from sciml_par.families.space import family_terms
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknown_arguments import uses_unknowns

Array = npt.NDArray[np.float64]

_STARTS, _ENDS, _LEAST = 1024, 2, 1e-12
"""Queries among which starts are chosen by regression; of these, from how many steps begin; and the
least square of changes of residuals by a coordinate of order one."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Inputs that were found from data.

    Attributes
    ----------
    values : the estimate of each input, by name.
    deviations : its standard deviation by the noise of the data, by name, in its units.
    chi_squared : Σ r² at the estimate, in units of the noise, without priors.
    answer : the solution with these inputs and its numerical error.
    """

    values: dict[str, Any]
    deviations: dict[str, Any]
    chi_squared: float
    answer: Answer
    _theta: Array
    _covariance: Array
    _freedom: float
    _show: Callable[[Array], dict[str, Any]]

    def intervals(self, probability: float = 0.95) -> dict[str, tuple[Any, Any]]:
        """Return lower and upper ends for each input, by name (local).

        By linearization about the estimate, of numbers over decades in the logarithm, and with
        Student's t where the noise was estimated from the residuals. Functions have them point by
        point.
        """
        if not 0 < probability < 1:
            raise InputError(f"intervals: probability must be in (0, 1); got {probability!r}.")
        factor = students_t.ppf((1 + probability) / 2, self._freedom)
        reach = factor * np.sqrt(np.diag(self._covariance))
        low, high = (self._show(self._theta + sign * reach) for sign in (-1, 1))
        return {name: (low[name], high[name]) for name in low}


def fit(
    problem: Problem, basis: Basis, answered: Callable[..., Answer], data: Observations
) -> Fitted:
    """Return the inputs that minimize χ² of data and priors; see `Operator.fit`."""
    family = basis.space.inputs
    term = problem.with_condition(data, weight=1.0).terms[-1]
    rows = _rows_of(term, basis)

    @lru_cache(maxsize=1)
    def at(theta: bytes) -> tuple[Array, Array]:
        """Return r and ∂r/∂θ of data, then of priors."""
        coordinates = np.frombuffer(theta)
        vector, slope = family.of_coordinates(coordinates)
        a, _ = basis.solve(vector[None])
        of = tf.constant(a), tf.constant(vector[None])
        r, by_a = (np.asarray(v)[0] for v in rows.linearized(*of))
        by_vector = by_a @ basis.reduced.by_inputs(a, vector[None])[0]
        if uses_unknowns(term.function):
            by_vector = by_vector + np.asarray(rows.by_inputs(*of))[0]
        of_prior, slope_of_prior = family.prior_rows(coordinates)
        return np.concatenate([r, of_prior]), np.vstack([by_vector @ slope, slope_of_prior])

    drawn = family.draw(_STARTS, seed=7)
    of_drawn = tf.constant(basis.start(drawn)), tf.constant(drawn)
    left = np.sum(np.asarray(rows.residuals(*of_drawn)) ** 2, axis=1)
    begins = [family.to_coordinates(drawn[number]) for number in np.argsort(left)[:_ENDS]]
    ends = [
        least_squares(
            lambda theta: at(theta.tobytes())[0],
            np.clip(begin, *family.limits),
            jac=lambda theta: at(theta.tobytes())[1],
            bounds=family.limits,
            x_scale="jac",
        )
        for begin in begins
    ]
    best = min(ends, key=lambda end: float(end.cost))
    count, theta = data.u.size, best.x
    r = best.fun[:count]
    freedom = math.inf if data.noise is not None else max(count - len(theta), 1)
    scale = 1.0 if data.noise is not None else float(r @ r) / freedom
    # What data do not determine has a large deviation, and not none.
    sizes, directions = np.linalg.eigh(best.jac.T @ best.jac)
    covariance = scale * (directions / np.maximum(sizes, _LEAST)) @ directions.T
    _, slope = family.of_coordinates(theta)
    deviations = np.sqrt(np.einsum("ij,jk,ik->i", slope, covariance, slope))
    spread = {n: deviations[place] for n, place in family.places.items()}
    spread = {n: float(v[0]) if v.size == 1 else v for n, v in spread.items()}
    found = family.one_at(theta)
    of = answered(**found), theta, covariance, freedom, family.one_at
    return Fitted(found, spread, float(r @ r), *of)


def _rows_of(term: Term, basis: Basis) -> RowsInBasis:
    """Return the rows of data as functions of coordinates and inputs."""
    space, arrays = basis.space, term.points(0)
    n = len(arrays[0])
    inputs = np.tile(space.inputs.draw(1, 0), (n, 1))
    terms = family_terms([term], space.inputs)
    equations = Equations(space.problem, [(*arrays, inputs)], [np.ones(n)], {}, terms=terms)
    to_rows, functions = space.inputs.to_rows, [(space.model, basis.v)]
    return RowsInBasis(space.problem, equations, to_rows, functions)


def minimized(
    basis: Basis, answered: Callable[..., Answer], cost: Callable[[Answer], float]
) -> Answer:
    """Return the answer of least cost; see `Operator.minimize`."""
    family = basis.space.inputs

    def of(theta: Array) -> Answer:
        return answered(**family.one_at(theta))

    drawn = family.draw(64, seed=8)
    starts = np.array([family.to_coordinates(each) for each in drawn])
    begin = starts[int(np.argmin([cost(of(theta)) for theta in starts]))]
    bounds = np.clip(np.stack(family.limits, axis=1), -4.0, 4.0)
    found = minimize(
        lambda theta: cost(of(theta)), begin, method="L-BFGS-B", bounds=bounds, jac="2-point"
    )
    return of(found.x)
