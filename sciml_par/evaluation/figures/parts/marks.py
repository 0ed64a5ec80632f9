"""Show in a panel over x where a network was trained: sub-domains shaded, points as ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.layout import Entry, patch_entry
from sciml_par.evaluation.figures.parts.style import INK, NEUTRAL, color_of

SHADE = 0.15  # opacity of a sub-domain; twice that in the legend, where its patch is small
_TALLEST_ROW, _TALLEST_STRIP = 0.055, 0.2  # shares of the panel's height


@dataclass(frozen=True)
class Mark:
    """A shard, its colour, and the row of ticks that its points go to."""

    shard: Shard
    color: str
    row: int

    @property
    def points(self) -> np.ndarray:
        """The training points, [k]."""
        points = self.shard.training_points
        return np.empty(0) if points is None else points[:, 0]


def by_shard(curves: Sequence[Prediction]) -> bool:
    """Tell whether the colours stand for shards: one network, trained by several ranks."""
    return len(curves) == 1 and len(curves[0].shards) > 1


def marks_of(curves: Sequence[Prediction], indices: Sequence[int]) -> list[Mark]:
    """Return the marks of one panel; `indices` are the members' places in the whole figure."""
    if by_shard(curves):
        return [Mark(shard, color_of(i), 0) for i, shard in enumerate(curves[0].shards)]
    own = zip(indices, curves, strict=True)
    marks = [Mark(shard, color_of(i), 0) for i, curve in own for shard in curve.shards]
    if len(marks) > 1 and _same_points(marks):
        return [Mark(mark.shard, NEUTRAL, 0) for mark in marks]
    return _in_rows(marks)


def draw_marks(
    axes: Axes, marks: Sequence[Mark], *, named: bool, ticks: bool = True
) -> list[Entry]:
    """Shade the sub-domains and draw the ticks; set the limits of the x axis before."""
    regions = _regions(marks, axes.get_xlim())
    for (low, high), color in regions.items():
        axes.axvspan(low, high, facecolor=color, alpha=SHADE, linewidth=0.0, zorder=0.5)
    ticked = [mark for mark in marks if ticks and mark.points.size]
    _draw_ticks(axes, ticked, strip_height(marks) / max(_rows(marks), 1))
    entries: list[Entry] = []
    if named:
        entries = [_shard_entry(mark, bool(regions), bool(ticked)) for mark in marks]
    elif regions:
        entries = [patch_entry("sub-domain", NEUTRAL, 2 * SHADE)]
    return entries + ([(_tick(INK), "training points")] if ticked else [])


def strip_height(marks: Sequence[Mark]) -> float:
    """Return the share of the panel's height that the ticks need at its lower edge."""
    return min(_TALLEST_ROW * _rows(marks), _TALLEST_STRIP)


def above_strip(limits: tuple[float, float], marks: Sequence[Mark]) -> tuple[float, float]:
    """Lower the lower limit of a linear y axis, so that the ticks stay below the data."""
    low, high = limits
    return high - (high - low) / (1.0 - strip_height(marks)), high


def _regions(marks: Sequence[Mark], window: tuple[float, float]) -> dict[tuple[float, float], str]:
    """Return what to shade: colour by interval, leaving out what would shade the whole panel."""
    found: dict[tuple[float, float], str] = {}
    inset = 0.05 * (window[1] - window[0])
    for mark in marks:
        if mark.shard.corners is None:
            continue
        low, high = (float(corner[0]) for corner in mark.shard.corners)
        if low > window[0] + inset or high < window[1] - inset:
            found[low, high] = NEUTRAL if (low, high) in found else mark.color
    return found


def _draw_ticks(axes: Axes, marks: Sequence[Mark], height: float) -> None:
    different: dict[tuple[int, bytes], Mark] = {}
    for mark in marks:
        different.setdefault((mark.row, mark.points.tobytes()), mark)
    for mark in different.values():
        bottom = height * (mark.row + 0.2)
        axes.vlines(
            mark.points,
            bottom,
            bottom + 0.7 * height,
            color=mark.color,
            linewidth=0.8,
            transform=axes.get_xaxis_transform(),
            rasterized=mark.points.size > 2000,
            zorder=2.0,
            label="_training points",
        )


def _shard_entry(mark: Mark, shaded: bool, ticked: bool) -> Entry:
    patch = Patch(facecolor=mark.color, alpha=2 * SHADE, linewidth=0.0)
    shown = (patch,) if shaded or not ticked else ()
    return (*shown, _tick(mark.color)) if ticked else shown, mark.shard.label


def _tick(color: str) -> Line2D:
    return Line2D([], [], color=color, linestyle="", marker="|", markersize=6.0)


def _rows(marks: Sequence[Mark]) -> int:
    return max((mark.row + 1 for mark in marks if mark.points.size), default=0)


def _in_rows(marks: Sequence[Mark]) -> list[Mark]:
    """Put each mark into the lowest row in which its points do not reach over another's."""
    taken: list[list[tuple[float, float]]] = [[] for _ in marks]
    placed = []
    for mark in marks:
        row = 0
        if mark.points.size:
            low, high = float(mark.points.min()), float(mark.points.max())
            free = (all(high <= a or low >= b for a, b in spans) for spans in taken)
            row = list(free).index(True)
            taken[row].append((low, high))
        placed.append(replace(mark, row=row))
    return placed


def _same_points(marks: Sequence[Mark]) -> bool:
    first = np.sort(marks[0].points)
    return first.size > 0 and all(np.array_equal(np.sort(mark.points), first) for mark in marks)
