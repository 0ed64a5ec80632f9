"""Which members share a panel, their mean and deviation, and the axis limits that show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.metrics.norms import pointwise_error

MOST_PLANES = 4
ENOUGH = 4  # members with a mean and a deviation
FEW = 8  # members that are told apart by colours
DEVIATIONS = 2.0  # the half width of the band
_MARGIN = 0.08
_HUGE = 1e300  # beyond it, the arithmetic of the limits would overflow
_DIP = 1e-3  # an error this much below the median is the dip at a change of sign, or rounding
_RISE = 1e4  # extrapolation may raise an error axis by this factor


def check_curves(curves: Iterable[Prediction], where: str) -> tuple[Prediction, ...]:
    """Return `curves`, all of one d and m, NaN outside the domain, and in order of x if d = 1."""
    curves = check_items(curves, Prediction, where)
    shapes = {(curve.dimension, curve.components) for curve in curves}
    if len(shapes) > 1:
        raise InputError(
            f"{where}: expected predictions of one (d, m); got {sorted(shapes)}. "
            "Draw a figure each."
        )
    return tuple(map(_in_order, curves))


def _in_order(curve: Prediction) -> Prediction:
    """Return a prediction with NaN outside the domain, and in order of x if d = 1."""
    x, inside = curve.x, np.asarray(curve.inside)
    order = np.argsort(x[:, 0], kind="stable")
    if inside.all() and (curve.dimension > 1 or np.array_equal(order, np.arange(len(x)))):
        return curve
    order = order if curve.dimension == 1 else np.arange(len(x))
    changed: dict[str, Any] = {
        name: np.where(inside[order, None], values[order], np.nan)
        for name in ("u", "u_exact", "estimated_error")
        if (values := getattr(curve, name)) is not None
    }
    return replace(curve, x=x[order], inside=inside[order], **changed)


def too_many_dimensions(curve: Prediction, where: str) -> InputError:
    """Return the error that says what to do with a prediction that cannot be drawn."""
    return InputError(
        f"{where}: can draw over d = 1 or 2 coordinates; got d = {curve.dimension}. Hold all but "
        "one or two coordinates fixed, evaluate there, and pass those columns as x."
    )


def share_panel(curves: Sequence[Prediction]) -> bool:
    """Return whether all members share a panel: if their known exact solutions agree."""
    known = [curve for curve in curves if curve.known]
    if not known:
        return True
    x, exact = known[0].x, known[0].exact
    # The tolerance of a float32 evaluation of one formula.
    tolerance = 1e-5 * (float(np.max(np.abs(finite([exact])), initial=0.0)) or 1.0)
    return all(
        np.array_equal(x, other.x)
        and np.allclose(exact, other.exact, 0.0, tolerance, equal_nan=True)
        for other in known[1:]
    )


def shown_of(shown: int, total: int, title: str | None) -> str | None:
    """Return the title, with the number of members shown if some are left out."""
    note = f"{shown} of {total} shown"
    return title if shown == total else f"{title} ({note})" if title else note


def by_shard(curves: Sequence[Prediction]) -> bool:
    """Return whether the colours stand for shards: one network, trained by several ranks."""
    return len(curves) == 1 and len(curves[0].shards) > 1


def has_mean(curves: Sequence[Prediction]) -> bool:
    """Return whether the mean is meaningful: four sound members of one x and training region."""
    first = curves[0]
    return sum(curve.sound for curve in curves) >= ENOUGH and all(
        np.array_equal(curve.x, first.x) and np.array_equal(curve.trained, first.trained)
        for curve in curves[1:]
    )


def sound_members(curves: Sequence[Prediction]) -> Sequence[Prediction]:
    """Return the members of the mean, or the first one if there is none."""
    return [curve for curve in curves if curve.sound] if has_mean(curves) else curves[:1]


def a_few(count: int, most: int = FEW) -> list[int]:
    """Return at most `most` of the numbers below `count`, evenly chosen."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})


def error_of(curve: Prediction, k: int) -> np.ndarray:
    """Return |u − u*| of a component, [n]."""
    return pointwise_error(curve.u[:, k], curve.exact[:, k])


def estimate_of(curve: Prediction, k: int) -> np.ndarray | None:
    """Return |estimated error| of a component, [n], or None if it is not known."""
    return None if curve.estimated_error is None else np.abs(curve.estimated_error[:, k])


class Spread(NamedTuple):
    """Mean of the sound members, two deviations, error of the mean, largest estimate; [n] each."""

    mean: np.ndarray
    width: np.ndarray
    error: np.ndarray | None
    estimate: np.ndarray | None
    coverage: str  # the share of the points at which the band covers the error


def spread_of(curves: Sequence[Prediction], k: int) -> Spread:
    """Return mean and deviation (divisor M − 1) of the sound members."""
    sound = [curve for curve in curves if curve.sound]
    values = np.stack([curve.u[:, k] for curve in sound])
    with np.errstate(all="ignore"):
        mean, width = values.mean(axis=0), DEVIATIONS * values.std(axis=0, ddof=1)
    estimates = [each for curve in sound if (each := estimate_of(curve, k)) is not None]
    largest = np.max(estimates, axis=0) if len(estimates) == len(sound) else None
    known = next((curve for curve in curves if curve.known), None)
    if known is None:
        return Spread(mean, width, None, largest, "")
    error = pointwise_error(mean, known.exact[:, k])
    counted = np.isfinite(error) & np.isfinite(width)
    share = float(np.mean(error[counted] <= width[counted])) if counted.any() else 0.0
    return Spread(mean, width, error, largest, f"error ≤ 2σ at {share:.0%}")


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


def error_limits(errors: Iterable[tuple[Prediction, np.ndarray | None]]) -> tuple[float, float]:
    """Return the limits of the log axis for pointwise errors, [n] of a member each."""
    pairs = [(curve, error) for curve, error in errors if error is not None]
    inside = [part for curve, e in pairs if (part := _positive(e[curve.trained])).size]
    everything = _positive(np.concatenate([np.empty(0), *(error for _, error in pairs)]))
    if not inside:
        return log_limits(everything)
    low = min(max(float(part.min()), _DIP * float(np.median(part))) for part in inside)
    high = min(float(everything.max()), _RISE * max(float(part.max()) for part in inside))
    return log_limits(np.array([low, high]))


def remarked(label: str, values: np.ndarray) -> str:
    """Return a label, with a remark if some of the values cannot be seen."""
    return label if np.isfinite(values).all() else f"{label} (not finite)"


def name_of(curve: Prediction, curves: Sequence[Prediction]) -> str:
    """Return the label, with a remark if a component of the line cannot be seen, or only partly."""
    values = curve.u[curve.inside]
    if not np.all(np.isfinite(values)):
        return remarked(curve.label, values)
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
