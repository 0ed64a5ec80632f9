"""Show where a network was trained: sub-domains and training points, on a line or in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.layout import Entry, line_entry, patch_entry
from sciml_par.evaluation.figures.parts.style import INK, NEUTRAL, color_of

SHADE = 0.15  # opacity of a sub-domain; twice that in the legend, where its patch is small
_ROW = 0.055  # of the panel's height, for the ticks of a row
_MOST_ROWS = 4
_POINTS = {"marker": "o", "linestyle": "", "markersize": 2.5, "markeredgewidth": 0.3}


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
    _draw_ticks(axes, ticked)
    entries: list[Entry] = []
    if named:
        entries = [_shard_entry(mark, bool(regions), bool(ticked)) for mark in marks]
    elif regions:
        entries = [patch_entry("sub-domain", NEUTRAL, 2 * SHADE)]
    return entries + ([(_tick(INK), "training points")] if ticked else [])


def strip_height(marks: Sequence[Mark]) -> float:
    """Return the share of the panel's height that the ticks need at its lower edge."""
    return _ROW * _rows(marks)


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


def _draw_ticks(axes: Axes, marks: Sequence[Mark]) -> None:
    different: dict[tuple[int, bytes], Mark] = {}
    for mark in marks:
        different.setdefault((mark.row, mark.points.tobytes()), mark)
    for mark in different.values():
        bottom = _ROW * (mark.row + 0.2)
        axes.vlines(
            mark.points,
            bottom,
            bottom + 0.7 * _ROW,
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
    """Put all marks into one row if their points are apart, else into rows by turns."""
    ends = sorted((mark.points.min(), mark.points.max()) for mark in marks if mark.points.size)
    apart = all(one[1] <= other[0] for one, other in pairwise(ends))
    return [replace(mark, row=0 if apart else i % _MOST_ROWS) for i, mark in enumerate(marks)]


def _same_points(marks: Sequence[Mark]) -> bool:
    first = np.sort(marks[0].points)
    return first.size > 0 and all(np.array_equal(np.sort(mark.points), first) for mark in marks)


def draw_shards(axes: Axes, shards: Sequence[Shard], *, points: bool) -> None:
    """Outline the sub-domains, and draw the training points small enough to see the field."""
    for number, shard in enumerate(shards):
        _draw_box(axes, shard, color_of(number) if len(shards) > 1 else "white")
    if not points:
        return
    for shard in shards:
        places = shard.training_points
        if places is None or not places.size:
            continue
        axes.scatter(
            places[:, 0],
            places[:, 1],
            s=min(3.0, max(0.4, 400.0 / len(places) / len(shards))),
            facecolors="white",
            edgecolors=INK,
            linewidths=0.2,
            rasterized=len(places) > 500,
            zorder=3.0,
        )


def shard_entries(shards: Sequence[Shard], *, points: bool) -> list[Entry]:
    """Return what the legend says: whose outlines there are, if of several shards, and points."""
    several = enumerate(shards) if len(shards) > 1 else ()
    entries = [line_entry(each.label, color=color_of(i), linewidth=2.0) for i, each in several]
    drawn = [each.training_points for each in shards if each.training_points is not None]
    if points and any(places.size for places in drawn):
        look = {"color": "white", "markeredgecolor": INK, **_POINTS}
        entries.append(line_entry("training points", **look))
    return entries


def _draw_box(axes: Axes, shard: Shard, color: str) -> None:
    if shard.corners is None or _covers(shard.corners, axes):
        return
    low, size = shard.corners[0], shard.corners[1] - shard.corners[0]
    box = Rectangle((low[0], low[1]), size[0], size[1], fill=False, edgecolor=color, linewidth=2.4)
    axes.add_patch(box)
    # Only the inner half of the line is kept, so that neighbours do not hide each other's edge.
    box.set_clip_path(box)


def _covers(corners: tuple[np.ndarray, np.ndarray], axes: Axes) -> bool:
    lows, highs = np.array([axes.get_xlim(), axes.get_ylim()]).T
    inset = 0.05 * (highs - lows)
    return bool(np.all((corners[0] <= lows + inset) & (corners[1] >= highs - inset)))
