"""The distribution of parameters by data with errors, from the rows of equations and of data."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.unknowns import names_of_numbers
from sciml_par.results.linearized import Linearized
from sciml_par.results.uncertainty import relative_steps, unknown_before_the_end
from sciml_par.training.uncertainty.constraint import free_directions
from sciml_par.training.weights.of_noise import statistical_terms

Array = npt.NDArray[Any]

_PHYSICS, _KNOWN, _UNKNOWN = KINDS = ("physics", "known", "unknown")
_MOST_RELATIVE = 100.0
MOST_PARAMETERS = 2_500


@dataclass(frozen=True)
class Factors:
    """R of the QR factors of [J r] over all ranks.

    Attributes
    ----------
    physics : of equations and conditions.
    known, unknown : of data in units of their deviations, and of those in units of a guess.
    rows : the numbers of these two.
    """

    physics: Array
    known: Array
    unknown: Array
    rows: tuple[int, int]

    def data(self, scale: float) -> Array:
        """Return the rows of all data, where the guess is to be multiplied by `scale`."""
        return np.vstack([self.known, self.unknown / scale])


def factors_of(problem: Problem, rows: Sequence[Array], weights: Sequence[float]) -> Factors:
    """Return the factors of [J r] of each term, [n, p + 1], with these √(w/N) of rows (local)."""
    found: dict[str, list[Array]] = {kind: [rows[0][:0]] for kind in KINDS}
    for term, each, weight in zip(problem.terms, rows, weights, strict=True):
        kind = _kind_of(problem, term.name)
        found[kind].append(each if kind == _PHYSICS else each / weight)
    physics, known, unknown = (stacked_triangle(found[kind]) for kind in KINDS)
    counts = sum(map(len, found[_KNOWN])), sum(map(len, found[_UNKNOWN]))
    return Factors(physics, known, unknown, counts)


def linearized_by(factors: Factors, problem: Problem, theta: Array, began: float) -> Linearized:
    """Return the distribution of parameters θ: [p], unknowns last, by the factors there (local)."""
    names = names_of_numbers(problem.unknowns)
    q = len(names)
    # By τ = λ^½, the loss lets equation and conditions deviate.
    tolerance = math.sqrt(weight_of_a_row(problem))
    solve = partial(free_directions, factors.physics, unknowns=q, tolerance=tolerance)
    found, scale, left, reason = solve(factors.data(1.0)), 1.0, math.inf, ""
    known, guessed = factors.rows
    if guessed:
        left = guessed - found.freedom * guessed / (known + guessed)
        if left < 1.0:
            reason = (
                f"noise='unknown' needs more observations than there are degrees of freedom; "
                f"there are {guessed} values and {found.freedom:.0f} degrees of freedom"
            )
        else:
            scale = float(np.linalg.norm(factors.unknown[:, -1])) / math.sqrt(left)
            found = solve(factors.data(scale))
    answer = Linearized(
        steps=found.steps,
        shift=found.shift[len(theta) - q :],
        parameters=np.asarray(theta[len(theta) - q :], np.float64),
        unknowns=dict(problem.unknowns),
        rows=known + guessed,
        chi_square=float(np.sum(factors.data(scale)[:, -1] ** 2)),
        freedom=found.freedom,
        degrees=left,
        scale=scale,
        dependence=found.dependence,
        reason=reason,
        seconds=time.perf_counter() - began,
    )
    answer = replace(answer, steps=_limited(answer))
    return replace(answer, reason=reason or unknown_before_the_end(answer, names))


def _limited(found: Linearized) -> Array:
    """Return the steps, none of which changes an unknown by more than 100 times its value.

    What nothing determines has steps of any size, in which u would be a difference of huge numbers.
    """
    relative = relative_steps(found.steps_of_unknowns, found.slopes, found.values)
    largest = np.max(np.abs(relative), axis=1, initial=_MOST_RELATIVE)
    return found.steps * (_MOST_RELATIVE / largest)[:, None]


def _kind_of(problem: Problem, name: str) -> str:
    """Return the kind of a term's rows."""
    if name not in statistical_terms(problem):
        return _PHYSICS
    return _UNKNOWN if noise_is_unknown(problem, name) else _KNOWN


def noise_is_unknown(problem: Problem, name: str) -> bool:
    """Return whether the deviation of the data of a condition's term was guessed."""
    named = {term.name: condition for condition, term in problem.terms_of_conditions}
    return bool(getattr(named[name], "noise_unknown", False))


def weight_of_a_row(problem: Problem) -> float:
    """Return λ of the loss L_f + λ χ², the weight of one row of data."""
    rows = statistical_terms(problem)
    return max(term.weight / rows[term.name] for term in problem.terms if term.name in rows)


def stacked_triangle(matrices: Sequence[Array]) -> Array:
    """Return R of the QR factors of matrices below each other, or these if that is less."""
    whole = np.vstack(matrices).astype(np.float64)
    return np.asarray(np.linalg.qr(whole, mode="r")) if len(whole) > whole.shape[1] else whole
