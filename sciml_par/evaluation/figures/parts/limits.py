"""Axis limits that show what matters: the solution, and not the extrapolation next to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sciml_par.evaluation.figures.parts.data import Prediction

_MARGIN = 0.08
_HUGE = 1e300  # beyond it, the arithmetic of the limits would overflow
_DIP = 1e-3  # an error this much below the median is the dip at a change of sign, or rounding
_RISE = 1e4  # extrapolation may raise an error axis by this factor


def finite(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the finite numbers of all arrays, as one vector."""
    flat = np.concatenate([np.empty(0), *(np.ravel(array) for array in arrays)])
    return np.asarray(np.clip(flat[np.isfinite(flat)], -_HUGE, _HUGE))


def range_of(arrays: Iterable[np.ndarray], margin: float = _MARGIN) -> tuple[float, float]:
    """Return the least and the greatest finite number, widened by a share `margin` of the range."""
    values = finite(arrays)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    pad = margin * _span(low, high)
    return low - pad, high + pad


def value_limits(curves: Sequence[Prediction], component: int) -> tuple[float, float]:
    """Return limits for u and u*: the range of u*, as far as it is known."""
    exact = finite(curve.exact[:, component] for curve in curves)
    inside = finite(curve.u[curve.trained, component] for curve in curves)
    if exact.size:
        low, high = float(exact.min()), float(exact.max())
        reach = _span(low, high)
        return range_of([exact, np.clip(inside, low - reach, high + reach)])
    return range_of([inside] if inside.size else [curve.u[:, component] for curve in curves])


def log_limits(values: np.ndarray) -> tuple[float, float]:
    """Return limits of a log axis around the positive `values`: at least one decade, at most 30."""
    positive = _positive(values)
    if not positive.size:
        return 1e-16, 1.0
    high = 1.5 * float(positive.max())
    return min(max(float(positive.min()) / 1.5, high * 1e-30), high / 10.0), high


def error_limits(
    errors: Sequence[np.ndarray], trained: Sequence[np.ndarray]
) -> tuple[float, float]:
    """Return the limits of the log axis for pointwise errors, [n] a member."""
    inside = [_positive(e[mask]) for e, mask in zip(errors, trained, strict=True)]
    inside = [part for part in inside if part.size]
    everything = _positive(np.concatenate(errors))
    if not inside:
        return log_limits(everything)
    low = min(max(float(part.min()), _DIP * float(np.median(part))) for part in inside)
    high = min(float(everything.max()), _RISE * max(float(part.max()) for part in inside))
    return log_limits(np.array([low, high]))


def near(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Bring what lies far outside the limits nearer: a renderer loses lines to 1e30 altogether."""
    reach = 100.0 * (limits[1] - limits[0])
    return np.asarray(np.clip(values, limits[0] - reach, limits[1] + reach))


def name_of(curve: Prediction, curves: Sequence[Prediction]) -> str:
    """Return the label, with a remark if a component of the line cannot be seen, or only partly."""
    values = curve.u[curve.inside]
    if not np.all(np.isfinite(values)):
        return f"{curve.label} (not finite)"
    for component in range(curve.components):
        low, high = value_limits(curves, component)
        if not np.any((values[:, component] >= low) & (values[:, component] <= high)):
            return f"{curve.label} (off scale)"
    return curve.label


def _positive(values: np.ndarray) -> np.ndarray:
    numbers = finite([values])
    return np.asarray(numbers[numbers > 0.0])


def _span(low: float, high: float) -> float:
    size = max(abs(low), abs(high))
    return high - low if high - low > 1e-12 * size else size or 1.0
