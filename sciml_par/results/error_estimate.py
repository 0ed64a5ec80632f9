"""The estimated error of a trained field, and how far the estimate is to be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray

_MOST = 0.5
"""The relative error of an estimate up to which the number itself is claimed."""

_SAME_POINT = 1e-6
"""Points this near, in extents of all, are one: those of single precision are rounded."""

_FAR = 1e9

_POINTS_AT_ONCE = 1 << 13
"""So that what thousands of features are at points does not fill the memory."""


def _in_blocks(function: Callable[[FloatArray], FloatArray], x: FloatArray) -> FloatArray:
    """Return a function at x: [n, d] -> [n, k], computed at some points at a time."""
    parts = range(0, max(len(x), 1), _POINTS_AT_ONCE)
    return np.concatenate([function(x[i : i + _POINTS_AT_ONCE]) for i in parts])


KNOWN, SURE = 2.0, 10.0
"""Reliabilities from which the order of magnitude, and the number itself, are claimed."""


_SHOWN = 6
"""Windows in a text."""


@dataclass(frozen=True, eq=False)
class ErrorByWindow:
    """How large error and residual are in the part of each window; see `networks.Windows`.

    Attributes
    ----------
    lower, upper : corners of the parts, [K, d].
    error : root mean square of e over a part, relative to that of u over the domain,
        dimensionless; NaN in a part outside of the domain, or if the error is not known: [K].
    residual : the share of a part in the loss at unseen points, of sum 1: [K].
    """

    lower: FloatArray
    upper: FloatArray
    error: FloatArray
    residual: FloatArray

    @property
    def worst(self) -> int:
        """The number of the window with the largest share in the residual."""
        return int(np.argmax(self.residual))

    @property
    def known(self) -> bool:
        """Whether there is an error in some window."""
        return bool(np.any(self.error > 0))

    def __repr__(self) -> str:
        order = np.argsort(-self.residual)[:_SHOWN]
        count = np.count_nonzero(self.residual)
        rows = [f"ErrorByWindow: {count} windows, those with the largest residuals:"]
        rows.append(f"{'window':>8}  {'error':>8}  {'residual':>8}  part")
        for k in order:
            part = " × ".join(
                f"[{a:.4g}, {b:.4g}]" for a, b in zip(self.lower[k], self.upper[k], strict=True)
            )
            rows.append(f"{k:8}  {self.error[k]:8.1e}  {self.residual[k]:8.1%}  {part}")
        return "\n".join(rows)


@dataclass(frozen=True, eq=False)
class ValuesAt:
    """e(x) at the evaluation points, as files hold it: x: [k, d], values: [k, m]."""

    x: FloatArray
    values: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the values at x: [n, d] -> [n, m]; NaN where x is not an evaluation point."""
        from scipy.spatial import KDTree

        low, high = self.x.min(axis=0), self.x.max(axis=0)
        size = np.where(high > low, high - low, 1.0)
        # A point that is not finite is far from all others.
        wanted = np.nan_to_num((x - low) / size, nan=_FAR, posinf=_FAR, neginf=_FAR)
        distance, nearest = KDTree((self.x - low) / size).query(wanted)
        return np.where((distance <= _SAME_POINT)[:, None], self.values[nearest], np.nan)


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """The error of a solution, estimated from its residual at unseen points.

    With u the solution and L′(u) the equation and conditions linearized at u, the estimate is the
    solution e of L′(u) e = −r(u) by other, richer functions. Let q be the factor by which the
    residual at points that neither has seen falls when u becomes u + e. The relative error of the
    estimate itself is about 1/q. It cannot see a wrong equation, nor that a nonlinear equation has
    another solution.

    Attributes
    ----------
    relative : ‖e‖ / ‖u + e‖ over the evaluation points (dimensionless); NaN if not known.
    absolute : root mean square of each component of e, in the units of u: [m]; NaN if not known.
    reliability : q, dimensionless; NaN where no estimate was made.
    own_error : the relative error of the estimate itself, as far as it is known, dimensionless: the
        relative difference of two corrections of different kinds, but from 3/q to 3/q^½.
    reason : why the error is not known; "" if it is.
    values : e at the evaluation points, [k, m].
    unknowns : the estimated error of each unknown, by name, in its own units.
    seconds : duration of the estimate.
    between : whether the estimate is the difference of two solutions of the same kind, each with
        functions and points of its own, which is an order of magnitude; `reliability` is then the
        fall of the residual since there were fewer features, or, for trained networks, since u = 0.
    undetermined : components that the equation and its conditions leave open, such as a pressure
        without a given value; `relative` is over the others, and `absolute` NaN of these.
    at_rounding : whether the residual of u is as small as rounding lets it be, so that q says
        nothing; then `relative` is ten times the larger of ‖e‖ / ‖u + e‖ and the residual of u
        relative to that of u = 0.
    by_window : error and residual in each window, of a network in `Windows`; else None.
    data_with_errors : whether u was fitted to observed values with errors, whose effect on u the
        estimate does not contain; `Result.uncertainty` has it.
    """

    relative: float
    absolute: FloatArray
    reliability: float
    reason: str = ""
    own_error: float = math.nan
    values: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    unknowns: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = math.nan
    at_rounding: bool = False
    between: bool = False
    undetermined: tuple[str, ...] = ()
    evaluate: Callable[[FloatArray], FloatArray] | None = None
    by_window: ErrorByWindow | None = None
    data_with_errors: bool = False

    @classmethod
    def not_known(
        cls, outputs: int, reason: str, *, reliability: float = math.nan, seconds: float = math.nan
    ) -> ErrorEstimate:
        """Return an estimate of an unknown error, with the reason."""
        nothing = np.full(outputs, math.nan)
        return cls(math.nan, nothing, reliability, reason=reason, seconds=seconds)

    def without_field(self) -> ErrorEstimate:
        """Return the same without what other processes cannot have."""
        return replace(self, evaluate=None)

    @property
    def known(self) -> bool:
        """Whether there is an estimate: q is at least 2, or the residual is at rounding."""
        return not self.reason

    def field(self, x: Any) -> FloatArray:
        """Return e at points x: [n, d], or [n] where d = 1 -> [n, m] (local).

        It is NaN of `undetermined` components.

        It is that of the network in double precision; `values` and `relative` hold the rounding of
        a prediction in single precision as well. Of a loaded result it is `values`.

        Raises
        ------
        InputError
            x are no points; the error is not known; or the estimate was read from files, which hold
            its values at the evaluation points, and x are others.
        """
        if self.evaluate is None or self.reason:
            why = self.reason or (
                "these files hold the size of the estimated error, but no values at points. Train "
                "with estimate=True and call field before the program ends."
            )
            raise InputError(f"ErrorEstimate.field: {why}")
        try:
            points = np.asarray(x, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"ErrorEstimate.field: expected points x of the shape [n, d]; got {x!r}."
            ) from error
        points = points[:, None] if points.ndim == 1 else points
        if not isinstance(self.evaluate, ValuesAt):
            return self.values_at(points)
        d = self.evaluate.x.shape[1]
        if points.ndim != 2 or points.shape[1] != d:
            raise InputError(
                f"ErrorEstimate.field: expected points x of the shape [n, {d}]; got "
                f"{list(points.shape)}."
            )
        values = self.evaluate(points)
        if others := int(np.isnan(values).any(axis=1).sum()):
            raise InputError(
                f"ErrorEstimate.field: files hold the estimated error at the evaluation points "
                f"only (on_own_domain.x of a member of result.members), and {others} of these "
                f"{len(points)} points are others. Train with estimate=True and call field "
                f"before the program ends."
            )
        return values

    def values_at(self, x: FloatArray) -> FloatArray:
        """Return e at x: [n, d] -> [n, m], NaN where it is not known (local)."""
        if self.evaluate is None:
            return np.full((len(x), len(self.absolute)), math.nan)
        return np.where(np.isnan(self.absolute), math.nan, _in_blocks(self.evaluate, x))

    def quantity(self, f: Callable[..., Any], x: FloatArray, k: int) -> FloatArray:
        """Return f(u + e, x) − f(u, x) at x: [n, d] -> [n, k], NaN if it is not known (local).

        It is not known of a loaded result, nor of what functions change that can be added to u.
        """
        quantity = getattr(self.evaluate, "quantity", None)
        if quantity is None or self.undetermined and self.between:
            return np.full((len(x), k), math.nan)
        return _in_blocks(lambda part: quantity(f, part), x)

    @property
    def sentence(self) -> str:
        """The estimate in a sentence."""
        if not self.known:
            return f"the error is not known: {self.reason}"
        text = self._size
        if self.undetermined:
            names = " and ".join(self.undetermined)
            text += (
                f", but for {names}, which the equation and its conditions leave open, as a "
                f"constant where only derivatives are given"
            )
        if self.data_with_errors:
            text += ", but for the errors of the observed values, which uncertainty() has"
        return text

    @property
    def _size(self) -> str:
        if self.at_rounding:
            return f"u is right to better than {self.relative:.0e} (its residual is at rounding)"
        if self.between:
            return (
                f"u is right to about {self.relative:.0e} (an order of magnitude: by so much two "
                f"solutions differ that have different functions and points)"
            )
        if self.reliability < SURE or not self.own_error <= _MOST:
            return (
                f"u is right to about {self.relative:.0e} (an order of magnitude: with the "
                f"estimate the residual at unseen points falls by a factor of "
                f"{self.reliability:.1f})"
            )
        return (
            f"u is right to {self.relative:.1e} (estimated; the estimate is checked to "
            f"{max(100 * self.own_error, 1.0):.0f} %)"
        )

    def __call__(self, *_: Any) -> Any:
        """Refuse: `Result.error` is a value."""
        raise InputError(
            "Result.error is a value, not a function; write result.error.relative, or "
            "result.error.field(x) for the error at points."
        )

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"ErrorEstimate: {self.sentence}"
