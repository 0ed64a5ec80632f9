"""Decide which members share a panel, and what several members say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.limits import finite
from sciml_par.evaluation.metrics.norms import pointwise_error

Panels = Literal["auto", "shared", "separate"]
MOST_PANELS = 16
MOST_PLANES = 4
_COLUMNS = 4
ENOUGH = 4  # members with a mean and a deviation
FEW = 8  # members that are told apart by colours
DEVIATIONS = 2.0  # the half width of the band


def check_curves(curves: Iterable[Prediction], where: str) -> tuple[Prediction, ...]:
    """Return `curves` as a tuple, all of one d and m, with NaN for values outside the domain."""
    found = check_items(curves, Prediction, where)
    shapes = {(curve.dimension, curve.components) for curve in found}
    if len(shapes) > 1:
        raise InputError(
            f"{where}: expected predictions of one (d, m); got {sorted(shapes)}. "
            "Draw a figure each."
        )
    return tuple(_inside(curve) for curve in found)


def too_many_dimensions(curve: Prediction, where: str) -> InputError:
    """Return the error that says what to do with a prediction that cannot be drawn."""
    return InputError(
        f"{where}: can draw over d = 1 or 2 coordinates; got d = {curve.dimension}. Hold all but "
        "one or two coordinates fixed, evaluate there, and pass those columns as x."
    )


def share_panel(curves: Sequence[Prediction], panels: Panels) -> bool:
    """Tell whether all members go into one panel: unless told, if their exact solutions agree."""
    if panels not in ("auto", "shared", "separate"):
        raise InputError(f"panels: expected 'auto', 'shared' or 'separate'; got {panels!r}.")
    if panels != "auto":
        return panels == "shared"
    known = [curve for curve in curves if curve.known]
    return all(_same_exact(known[0], other) for other in known[1:])


def grid_shape(count: int, most_columns: int = _COLUMNS) -> tuple[int, int]:
    """Return (rows, columns) that hold `count` panels with the fewest empty cells."""
    rows = -(-count // most_columns)
    return rows, -(-count // rows)


def shown_of(shown: int, total: int, title: str | None) -> str | None:
    """Return the title, saying how many members are left out, if any are."""
    if shown == total:
        return title
    note = f"{shown} of {total} shown"
    return f"{title} ({note})" if title else note


def in_order(curve: Prediction) -> np.ndarray:
    """Return the order of the rows by x, for a line over one coordinate."""
    return np.argsort(curve.x[:, 0], kind="stable")


def same_points(curves: Sequence[Prediction]) -> bool:
    """Tell whether all members are evaluated at the same points in the same order."""
    return all(np.array_equal(curve.x, curves[0].x) for curve in curves[1:])


def _inside(curve: Prediction) -> Prediction:
    outside = ~np.asarray(curve.inside)
    if not outside.any():
        return curve
    u, exact = (np.where(outside[:, np.newaxis], np.nan, a) for a in (curve.u, curve.exact))
    return replace(curve, u=u, u_exact=exact)


def _same_exact(one: Prediction, other: Prediction) -> bool:
    scale = float(np.max(np.abs(finite([one.exact])), initial=0.0)) or 1.0
    if np.array_equal(one.x, other.x):
        # The tolerance of a float32 evaluation of one formula.
        return bool(np.allclose(one.exact, other.exact, 0.0, 1e-5 * scale, equal_nan=True))
    if one.dimension > 1:
        return False
    return _same_curve(one, other, 0.05 * scale)


def _same_curve(one: Prediction, other: Prediction, tolerance: float) -> bool:
    """Compare u* of different points where they overlap; the tolerance covers interpolation."""
    order = in_order(one)
    x, z = one.x[order, 0], other.x[:, 0]
    within = (z >= x[0]) & (z <= x[-1])
    return all(
        np.allclose(np.interp(z[within], x, a[order]), b[within], 0.0, tolerance, equal_nan=True)
        for a, b in zip(one.exact.T, other.exact.T, strict=True)
    )


@dataclass(frozen=True)
class Spread:
    """Mean and deviation of the sound members at their common points, each [n].

    Attributes
    ----------
    mean : of the members.
    width : two sample standard deviations (divisor M − 1).
    error : |mean − u*|, or None where u* is not known.
    """

    mean: np.ndarray
    width: np.ndarray
    error: np.ndarray | None

    @property
    def coverage(self) -> str:
        """What share of the points the band covers, as text; empty where u* is not known."""
        if self.error is None:
            return ""
        counted = np.isfinite(self.error) & np.isfinite(self.width)
        share = float(np.mean(self.error[counted] <= self.width[counted])) if counted.any() else 0.0
        return f"error $\\leq 2\\sigma$ at {share:.0%}"


def has_mean(curves: Sequence[Prediction]) -> bool:
    """Tell whether a mean over members says something: the same x and the same training region."""
    sound = sum(curve.sound for curve in curves)
    if sound < ENOUGH or not same_points(curves):
        return False
    return all(np.array_equal(curve.trained, curves[0].trained) for curve in curves[1:])


def same_training_points(curves: Sequence[Prediction]) -> bool:
    """Tell whether all members were trained on the same points, as far as they tell."""
    points = [
        [
            None if each.training_points is None else each.training_points.tobytes()
            for each in c.shards
        ]
        for c in curves
    ]
    return all(own == points[0] for own in points[1:])


def spread_of(curves: Sequence[Prediction], component: int) -> Spread:
    """Return mean and deviation of those members that are sound."""
    values = np.stack([curve.u[:, component] for curve in curves if curve.sound])
    with np.errstate(all="ignore"):
        mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    known = next((curve for curve in curves if curve.known), None)
    error = None if known is None else pointwise_error(mean, known.exact[:, component])
    return Spread(mean, DEVIATIONS * deviation, error)


def a_few(count: int, most: int = FEW) -> list[int]:
    """Return the numbers of at most so many of `count` members, evenly chosen."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})
