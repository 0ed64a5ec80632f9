"""Which members share a panel, and the mean and deviation of several."""

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


def _inside(curve: Prediction) -> Prediction:
    outside = ~np.asarray(curve.inside)[:, np.newaxis]
    if not outside.any():
        return curve
    exact, estimate = (
        None if each is None else np.where(outside, np.nan, each)
        for each in (curve.u_exact, curve.estimated_error)
    )
    u = np.where(outside, np.nan, curve.u)
    return replace(curve, u=u, u_exact=exact, estimated_error=estimate)


def too_many_dimensions(curve: Prediction, where: str) -> InputError:
    """Return the error that says what to do with a prediction that cannot be drawn."""
    return InputError(
        f"{where}: can draw over d = 1 or 2 coordinates; got d = {curve.dimension}. Hold all but "
        "one or two coordinates fixed, evaluate there, and pass those columns as x."
    )


def share_panel(curves: Sequence[Prediction], panels: Panels) -> bool:
    """Return whether all members share a panel: by default, if their exact solutions agree."""
    if panels not in ("auto", "shared", "separate"):
        raise InputError(f"panels: expected 'auto', 'shared' or 'separate'; got {panels!r}.")
    if panels != "auto":
        return panels == "shared"
    known = [curve for curve in curves if curve.known]
    return all(_same_exact(known[0], other) for other in known[1:])


def _same_exact(one: Prediction, other: Prediction) -> bool:
    scale = float(np.max(np.abs(finite([one.exact])), initial=0.0)) or 1.0
    # The tolerance of a float32 evaluation of one formula.
    return np.array_equal(one.x, other.x) and bool(
        np.allclose(one.exact, other.exact, 0.0, 1e-5 * scale, equal_nan=True)
    )


def shown_of(shown: int, total: int, title: str | None) -> str | None:
    """Return the title, with the number of members shown if some are left out."""
    if shown == total:
        return title
    note = f"{shown} of {total} shown"
    return f"{title} ({note})" if title else note


def in_order(curve: Prediction) -> np.ndarray:
    """Return the order of the rows by x, for a line over one coordinate."""
    return np.argsort(curve.x[:, 0], kind="stable")


def has_mean(curves: Sequence[Prediction]) -> bool:
    """Return whether the mean is meaningful: four sound members of one x and training region."""
    first = curves[0]
    return sum(curve.sound for curve in curves) >= ENOUGH and all(
        np.array_equal(curve.x, first.x) and np.array_equal(curve.trained, first.trained)
        for curve in curves[1:]
    )


@dataclass(frozen=True)
class Spread:
    """Mean and deviation of the sound members at their common points, each [n].

    Attributes
    ----------
    mean : of the members.
    width : two sample standard deviations (divisor M − 1).
    error : |mean − u*|, or None where u* is not known.
    estimate : the largest estimated error of the members, or None if one is not known.
    """

    mean: np.ndarray
    width: np.ndarray
    error: np.ndarray | None
    estimate: np.ndarray | None

    @property
    def drawn(self) -> list[np.ndarray]:
        """What is known of width, error and estimate."""
        return [each for each in (self.width, self.error, self.estimate) if each is not None]

    @property
    def coverage(self) -> str:
        """The share of the points at which the band covers the error; "" if u* is not known."""
        if self.error is None:
            return ""
        counted = np.isfinite(self.error) & np.isfinite(self.width)
        share = float(np.mean(self.error[counted] <= self.width[counted])) if counted.any() else 0.0
        return f"error ≤ 2σ at {share:.0%}"


def spread_of(curves: Sequence[Prediction], component: int) -> Spread:
    """Return mean and deviation of the sound members."""
    sound = [curve for curve in curves if curve.sound]
    values = np.stack([curve.u[:, component] for curve in sound])
    with np.errstate(all="ignore"):
        mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    known = next((curve for curve in curves if curve.known), None)
    error = None if known is None else pointwise_error(mean, known.exact[:, component])
    estimates = [c.estimated_error[:, component] for c in sound if c.estimated_error is not None]
    largest = np.max(np.abs(estimates), axis=0) if len(estimates) == len(sound) else None
    return Spread(mean, DEVIATIONS * deviation, error, largest)


def a_few(count: int, most: int = FEW) -> list[int]:
    """Return at most `most` of the numbers below `count`, evenly chosen."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})
