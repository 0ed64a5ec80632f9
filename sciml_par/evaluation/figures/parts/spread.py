"""What several members say together: their mean, their deviation and which of them to draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.panels import same_points
from sciml_par.evaluation.metrics.norms import pointwise_error

ENOUGH = 4  # members with a mean and a deviation
FEW = 8  # members that are told apart by colours
DEVIATIONS = 2.0  # the half width of the band


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
