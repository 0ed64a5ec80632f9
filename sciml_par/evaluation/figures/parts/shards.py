"""Draw sub-domains and training points, on a line or in a plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.style import INK, NEUTRAL, color_of

_SHADE = 0.15  # opacity of a sub-domain
_EDGE = 0.05  # a sub-domain up to this share of an axis from both its ends covers it
_ROW = 0.055  # of the panel's height, for a row of ticks
_MOST_ROWS = 4


def by_shard(curves: Sequence[Prediction]) -> bool:
    """Return whether the colours stand for shards: one network, trained by several ranks."""
    return len(curves) == 1 and len(curves[0].shards) > 1


def draw_marks(axes: Axes, curves: Sequence[Prediction], *, ticks: bool = True) -> None:
    """Shade the sub-domains, and draw the training points as ticks below the data."""
    one = by_shard(curves)
    shards = [
        (color_of(k if one else i), shard)
        for i, curve in enumerate(curves)
        for k, shard in enumerate(curve.shards)
    ]
    shaded = _shade(axes, shards, named=one)
    if ticks:
        _draw_ticks(axes, shards, one_row=one, named=one and not shaded)
    elif one and not shaded:
        for color, shard in shards:
            _name(axes, shard.label, color, linewidth=2.0)


def _shade(axes: Axes, shards: Sequence[tuple[str, Shard]], *, named: bool) -> bool:
    """Shade each region that does not cover the whole axis; return whether there is one."""
    left, right = axes.get_xlim()
    inset = _EDGE * (right - left)
    regions = [
        (float(shard.corners[0][0]), float(shard.corners[1][0])) if shard.corners else (left, right)
        for _, shard in shards
    ]
    drawn = [low > left + inset or high < right - inset for low, high in regions]
    count = Counter(regions)
    for (color, shard), (low, high), seen in zip(shards, regions, drawn, strict=True):
        if not seen:
            continue
        common = count[low, high] > 1 and not named
        look: dict[str, Any] = {"facecolor": NEUTRAL if common else color, "linewidth": 0.0}
        axes.axvspan(low, high, alpha=_SHADE / count[low, high], zorder=0.5, **look)
        label = shard.label if named else "sub-domain"
        _name(axes, label, color if named else NEUTRAL, linewidth=6.0, alpha=2 * _SHADE)
    return any(drawn)


def _draw_ticks(
    axes: Axes, shards: Sequence[tuple[str, Shard]], *, one_row: bool, named: bool
) -> None:
    """Draw ticks for the points, and make room for them at the lower end of a linear y axis."""
    points = [
        np.empty(0) if shard.training_points is None else np.sort(shard.training_points[:, 0])
        for _, shard in shards
    ]
    if not any(each.size for each in points):
        return
    if len(shards) > 1 and all(np.array_equal(each, points[0]) for each in points):
        shards, points = [(NEUTRAL, shards[0][1])], points[:1]
    ends = sorted((each[0], each[-1]) for each in points if each.size)
    apart = all(one[1] <= other[0] for one, other in pairwise(ends))
    rows = 1 if one_row or apart else min(len(shards), _MOST_ROWS)
    for i, ((color, shard), places) in enumerate(zip(shards, points, strict=True)):
        bottom = _ROW * (i % rows + 0.2)
        axes.vlines(
            places,
            bottom,
            bottom + 0.7 * _ROW,
            color=color,
            linewidth=0.8,
            transform=axes.get_xaxis_transform(),
            rasterized=places.size > 2000,
            zorder=2.0,
            label="_training points",
        )
        if named:
            _name(axes, shard.label, color, linewidth=2.0)
    axes.plot([], [], color=INK, linestyle="", marker="|", label="training points")
    low, high = axes.get_ylim()
    axes.set_ylim(high - (high - low) / (1.0 - _ROW * rows), high)


def _name(axes: Axes, label: str, color: str, **look: Any) -> None:
    """Add an entry to the legend."""
    axes.plot([], [], color=color, label=label, solid_capstyle="butt", **look)


def draw_shards(axes: Axes, shards: Sequence[Shard], *, points: bool) -> None:
    """Outline the sub-domains, and draw the training points small enough to see the field."""
    for number, shard in enumerate(shards):
        several = len(shards) > 1
        _draw_box(axes, shard, color_of(number) if several else "white", named=several)
    sampled = [each.training_points for each in shards if each.training_points is not None]
    sampled = [each for each in sampled if each.size]
    if not points or not sampled:
        return
    for places in sampled:
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
    look: dict[str, Any] = {"markersize": 2.5, "markeredgecolor": INK, "markeredgewidth": 0.3}
    axes.plot([], [], "o", color="white", label="training points", **look)


def _draw_box(axes: Axes, shard: Shard, color: str, *, named: bool) -> None:
    if named:
        _name(axes, shard.label, color, linewidth=2.0)
    if shard.corners is None or _covers(shard.corners, axes):
        return
    low, size = shard.corners[0], shard.corners[1] - shard.corners[0]
    box = Rectangle((low[0], low[1]), size[0], size[1], fill=False, edgecolor=color, linewidth=2.4)
    axes.add_patch(box)
    # Only the inner half of the line is kept, so that neighbours do not hide each other's edge.
    box.set_clip_path(box)


def _covers(corners: tuple[np.ndarray, np.ndarray], axes: Axes) -> bool:
    lows, highs = np.array([axes.get_xlim(), axes.get_ylim()]).T
    inset = _EDGE * (highs - lows)
    return bool(np.all((corners[0] <= lows + inset) & (corners[1] >= highs - inset)))
