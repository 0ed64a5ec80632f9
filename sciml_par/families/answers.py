"""What an operator answers: the solution of a query, or of many, with the estimated error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par.assembly.solution import Solution
from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.result import Result

Array = npt.NDArray[np.float64]


class PointValues(NamedTuple):
    """Values at points, with estimated errors: `mean` and `error`, [n, k]; NaN if not known."""

    mean: Array
    error: Array


@dataclass(frozen=True, eq=False)
class Answer:
    """The solution u of one query of an `Operator`.

    Attributes
    ----------
    parameters : the inputs of the query.
    level : by which it was found: 0 by regression, 1 by Gauss–Newton in the reduced basis, 2 in the
        whole space, 3 by `solve`.
    error : the estimated error, as of a `Result`.
    result : of level 3, otherwise None.
    seconds : wall time of the answer.
    """

    parameters: Mapping[str, Any]
    level: int
    error: ErrorEstimate
    seconds: float
    result: Result | None = None
    _first: Problem | None = field(default=None, repr=False)
    """The one of the first query, whose fields have the same scales."""
    _problem: Callable[[], Problem] | None = field(default=None, repr=False)
    _parts: tuple[tuple[Any, ...], Array, Array] | None = field(default=None, repr=False)

    def predict(self, x: Any) -> PointValues:
        """Return u at x: [n, d], or [n] where d = 1 -> `mean` and `error`, [n, m] (local)."""
        if self.result is not None:
            return self.evaluate(lambda u, x: u(x), x)
        assert self._first is not None
        return self._at(x, self._first, Solution.__call__)

    def evaluate(self, f: Callable[..., Any], x: Any) -> PointValues:
        """Return f(u, x), in TensorFlow, at x: [n, d] -> `mean` and `error`, [n, k] (local).

        The error is |f(u + e, x) − f(u, x)| with the estimated error e.
        """
        if self.result is not None:
            found = self.result.evaluate(f, x)
            return PointValues(np.asarray(found.mean, np.float64), np.asarray(found.error))
        assert self._problem is not None
        return self._at(x, self._problem(), lambda u, points: u.quantity(f, points))

    def _at(
        self, x: Any, problem: Problem, values_of: Callable[[Solution, Array], Array]
    ) -> PointValues:
        """Return values of u at x, and how far those of u + e are from them."""
        assert self._parts is not None
        models, c, e = self._parts
        start = np.concatenate([c, np.zeros(len(e) - len(c))])
        points = as_points(x, problem.domain.dimension)
        values = values_of(Solution(problem, models, start), points)
        if not self.error.known:
            return PointValues(values, np.full_like(values, math.nan))
        better = values_of(Solution(problem, models, start + e), points)
        return PointValues(values, np.abs(better - values))

    def __call__(self, x: Any) -> Array:
        """Return u at x: [n, d] -> [n, m] (local)."""
        return self.predict(x).mean

    def __repr__(self) -> str:
        return f"Answer(level={self.level}, {self.error})"


class Answers:
    """The solutions of many queries by the reduced basis; `answers[i]` is one `Answer`.

    Attributes
    ----------
    relative : the estimated relative error of each, [Q]; NaN where it is not known.
    """

    def __init__(
        self, single: Callable[[int], Answer], values: Callable[[Array], Array], relative: Array
    ) -> None:
        self._single, self._values, self.relative = single, values, relative

    def predict(self, x: Any) -> Array:
        """Return u of all queries at x: [n, d] -> [Q, n, m] (local)."""
        return self._values(x)

    def __len__(self) -> int:
        return len(self.relative)

    def __getitem__(self, number: int) -> Answer:
        return self._single(range(len(self))[number])

    def __iter__(self) -> Iterator[Answer]:
        return map(self._single, range(len(self)))

    def __repr__(self) -> str:
        known = self.relative[np.isfinite(self.relative)]
        said = (
            f"median error {np.median(known):.1e}, largest {known.max():.1e}" if len(known) else ""
        )
        unknown = len(self) - len(known)
        more = f"{'; ' if said else ''}{unknown} not known" if unknown else ""
        return f"Answers({len(self)} queries: {said}{more})"


def as_points(x: Any, dimension: int) -> Array:
    """Return points as an array, [n, d]."""
    points = np.asarray(x, np.float64)
    points = points.reshape(-1, 1) if dimension == 1 and points.ndim < 2 else points
    if points.ndim != 2 or points.shape[1] != dimension:
        raise InputError(
            f"expected points x of the shape [n, {dimension}]; got {list(points.shape)}."
        )
    return points
