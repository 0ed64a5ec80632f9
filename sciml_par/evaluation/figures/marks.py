"""Show in a panel over x where a network was trained: sub-domains shaded, points as ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from sciml_par.evaluation.figures.data import Prediction, Shard
from sciml_par.evaluation.figures.legend import Entry, patch_entry, tick_entry
from sciml_par.evaluation.figures.style import INK, color_of

SHADE = 0.15  # opacity of a sub-domain
NEUTRAL = "#7f7f7f"
_TALLEST_ROW, _TALLEST_STRIP = 0.055, 0.2  # shares of the panel's height


@dataclass(frozen=True)
class Mark:
    """A shard, its colour, and the row of ticks that its points go to."""

    shard: Shard
    color: str
    row: int


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


def draw_marks(axes: Axes, marks: Sequence[Mark], *, ticks: bool = True) -> None:
    """Shade the sub-domains and draw the ticks; set the limits of the axes before."""
    for (low, high), color in _regions(marks, axes.get_xlim()).items():
        axes.axvspan(low, high, facecolor=color, alpha=SHADE, linewidth=0.0, zorder=0.5)
    rows = _rows(marks)
    height = strip_height(marks) / max(rows, 1)
    seen: set[tuple[int, bytes]] = set()
    for mark in marks:
        points = _points(mark)
        key = (mark.row, points.tobytes())
        if ticks and points.size and key not in seen:
            seen.add(key)
            _draw_ticks(axes, points, mark, height)


def strip_height(marks: Sequence[Mark]) -> float:
    """Return the share of the panel's height that the ticks need at its lower edge."""
    return min(_TALLEST_ROW * _rows(marks), _TALLEST_STRIP)


def above_strip(limits: tuple[float, float], marks: Sequence[Mark]) -> tuple[float, float]:
    """Lower the lower limit of a linear y axis, so that the ticks stay below the data."""
    low, high = limits
    return high - (high - low) / (1.0 - strip_height(marks)), high


def mark_entries(
    marks: Sequence[Mark], *, named: bool, window: tuple[float, float], ticks: bool = True
) -> list[Entry]:
    """Return the legend's entries for shards: one a shard if `named`, else one a kind of mark."""
    regions = _regions(marks, window)
    has_points = ticks and any(_points(mark).size for mark in marks)
    entries = [tick_entry("training points", INK)] if has_points else []
    if named:
        return [_shard_entry(mark, bool(regions), has_points) for mark in marks] + entries
    return entries + ([patch_entry("sub-domain", NEUTRAL, 2 * SHADE)] if regions else [])


def _shard_entry(mark: Mark, shaded: bool, ticked: bool) -> Entry:
    patch, _ = patch_entry("", mark.color, 2 * SHADE)
    tick, _ = tick_entry("", mark.color)
    kept = tuple(artist for artist, wanted in ((patch, shaded), (tick, ticked)) if wanted)
    return kept or (patch,), mark.shard.label


def _regions(marks: Sequence[Mark], window: tuple[float, float]) -> dict[tuple[float, float], str]:
    """Return what to shade: colour by interval, leaving out what would shade the whole panel."""
    found: dict[tuple[float, float], str] = {}
    for mark in marks:
        corners = mark.shard.corners
        if corners is None:
            continue
        region = (float(corners[0][0]), float(corners[1][0]))
        inset = 0.05 * (window[1] - window[0])
        if region[0] > window[0] + inset or region[1] < window[1] - inset:
            found[region] = NEUTRAL if region in found else mark.color
    return found


def _draw_ticks(axes: Axes, points: np.ndarray, mark: Mark, height: float) -> None:
    bottom = height * (mark.row + 0.2)
    axes.vlines(
        points,
        bottom,
        bottom + 0.7 * height,
        color=mark.color,
        linewidth=0.8,
        transform=axes.get_xaxis_transform(),
        rasterized=points.size > 2000,
        zorder=2.0,
        label="_training points",
    )


def _rows(marks: Sequence[Mark]) -> int:
    return max((mark.row + 1 for mark in marks if _points(mark).size), default=0)


def _in_rows(marks: Sequence[Mark]) -> list[Mark]:
    """Put each mark into the lowest row in which its points do not reach over another's."""
    taken: list[list[tuple[float, float]]] = []
    placed = []
    for mark in marks:
        row, points = 0, _points(mark)
        if points.size:
            low, high = float(points.min()), float(points.max())
            free = [all(high <= a or low >= b for a, b in spans) for spans in taken]
            row = free.index(True) if True in free else len(taken)
            if row == len(taken):
                taken.append([])
            taken[row].append((low, high))
        placed.append(Mark(mark.shard, mark.color, row))
    return placed


def _points(mark: Mark) -> np.ndarray:
    points = mark.shard.training_points
    return np.empty(0) if points is None else points[:, 0]


def _same_points(marks: Sequence[Mark]) -> bool:
    first = np.sort(_points(marks[0]))
    return first.size > 0 and all(np.array_equal(np.sort(_points(mark)), first) for mark in marks)
