"""The error of a solution, by a second one with other random weights and other points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from sciml_par.results.error_estimate import ErrorEstimate

Array = npt.NDArray[Any]


class Values(Protocol):
    """A solution: its values at x: [n, d], and functions f(u, x) of it."""

    def __call__(self, x: Array, /) -> Array:
        """Return u, [n, m]."""

    def quantity(self, f: Callable[..., Any], x: Array, /) -> Array:
        """Return f(u, x), [n, k]."""


@dataclass(frozen=True)
class OfResult:
    """The solution of a result of one member."""

    result: Any

    def __call__(self, x: Array) -> Array:
        """Return u at x: [n, d] -> [n, m]."""
        return np.asarray(self.result.predict(x).mean, np.float64)

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return f(u, x) at x: [n, d] -> [n, k]."""
        return np.asarray(self.result.evaluate(f, x).mean, np.float64)

    @property
    def unknowns(self) -> dict[str, Any]:
        """The values of the unknowns, by name."""
        values = self.result.members[0].unknown_values
        found: dict[str, Any] = values.by_name(values.best)
        return found


_ROUNDING = 8.0
"""Units of rounding in which a value is wrong at least."""


@dataclass(frozen=True)
class Difference:
    """e(x) = c (v(x) − u(x)) / (1 + ρ²)^½ of solutions u and v; v has ρ times the residual of u.

    If both errors are independent and in proportion to the residuals, |u − v|² is the sum of their
    squares, and this with c = 1 is the size of the error of u. A larger c allows for errors that
    are alike.
    """

    first: Values
    second: Values
    factor: float

    @classmethod
    def of(cls, first: Values, second: Values, losses: tuple[float, float], caution: float) -> Self:
        """Return that of two solutions with these losses at unseen points, whose ratio is ρ²."""
        least = float(np.finfo(np.float64).tiny)  # in place of a loss of zero
        return cls(first, second, caution / math.sqrt(1 + losses[1] / max(losses[0], least)))

    def __call__(self, x: Array) -> Array:
        """Return e at x: [n, d] -> [n, m]."""
        return self.factor * (self.second(x) - self.first(x))

    def quantity(self, f: Callable[..., Any], x: Array) -> Array:
        """Return c (f(v, x) − f(u, x)) / (1 + ρ²)^½ at x: [n, d] -> [n, k]."""
        return self.factor * (self.second.quantity(f, x) - self.first.quantity(f, x))

    def estimate(
        self,
        at: tuple[Array, Array],
        *,
        fall: float,
        seconds: float,
        precision: str,
        free: Mapping[int, str],
        unknowns: dict[str, tuple[Any, Any]],
    ) -> ErrorEstimate:
        """Return the estimated error of u (local).

        Parameters
        ----------
        at : the evaluation points, [k, d], and which of them lie in the domain, [k].
        fall : of the residual at unseen points, as `ErrorEstimate.reliability` says.
        seconds : that the second solution took.
        precision : of both, whose rounding the error is at least.
        free : the components that are not determined, with their names.
        unknowns : the values of each unknown by both solutions.
        """
        x, inside = at
        values, u = self(x), self.first(x)[inside]
        relative, absolute = sizes_of(values[inside], u, list(free), precision)
        if not math.isfinite(relative):
            why = "two solutions with different random weights have no finite difference."
            return ErrorEstimate.not_known(values.shape[1], why, reliability=fall, seconds=seconds)
        return ErrorEstimate(
            relative,
            absolute,
            fall,
            values=np.where(np.isnan(absolute), math.nan, values),
            unknowns={n: self.factor * np.abs(b - a) for n, (a, b) in unknowns.items()},
            seconds=seconds,
            between=True,
            undetermined=tuple(free.values()),
            evaluate=self,
        )


def sizes_of(
    e: Array, u: Array, free: Sequence[int], precision: str = "float64"
) -> tuple[float, Array]:
    """Return ‖e‖ / ‖u‖ without the free components, and the root mean square of each: [m].

    Neither is smaller than some units of rounding; with u = 0 the first one is not finite.
    """
    least = _ROUNDING * float(np.finfo(precision).eps)
    kept = np.setdiff1d(np.arange(e.shape[1]), free)
    absolute = np.sqrt(np.maximum(np.mean(e**2, axis=0), least**2 * np.mean(u**2, axis=0)))
    absolute[list(free)] = math.nan
    with np.errstate(divide="ignore", invalid="ignore"):  # of u = 0
        relative = np.linalg.norm(e[:, kept]) / np.linalg.norm(u[:, kept])
    return float(np.maximum(relative, least)), absolute
