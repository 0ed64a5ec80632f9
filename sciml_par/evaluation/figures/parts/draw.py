"""Draw lines over one coordinate or step, with bands, observations, sub-domains and points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter

from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.members import FEW, a_few, by_shard

_MOST_BARS = 150  # error bars; more are dots
_SHADE = 0.15  # opacity of a sub-domain
EDGE = 0.05  # a sub-domain up to this share of an axis from both its ends covers it
_ROW = 0.055  # of the panel's height, for a row of ticks
_MOST_ROWS = 4


@dataclass(frozen=True)
class Line:
    """One member's line, x and y: [n]; one that is `odd` is always named and in its colour."""

    label: str
    x: np.ndarray
    y: np.ndarray
    odd: bool = False


def line(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, **look: Any) -> None:
    """Draw a line, or one point."""
    axes.plot(x, y, label=label, marker="o" if len(x) == 1 else "", **look)


def log_axis(axes: Axes, low: float, high: float, *, only_decades: bool = False) -> None:
    """Make the y axis logarithmic, from a little below `low`, so that a line there is seen."""
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, high)
    if only_decades:
        axes.yaxis.set_minor_formatter(NullFormatter())


def count_steps(axes: Axes) -> None:
    """Label the x axis with whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(style.COUNT)


def lines(axes: Axes, members: Sequence[Line], *, alike: bool, without: float = 0.0) -> None:
    """Draw each line; of more than eight that are `alike`, median, range and eight of them thin."""
    even = [one for one in members if not one.odd]
    many = alike and len(even) > FEW
    if many:
        x, values = even[0].x, np.stack([one.y for one in even])
        low, high = np.quantile(values, [without, 1.0 - without], axis=0)
        look = {"color": style.MEAN, "linewidth": 1.4, "zorder": 2.8}
        line(axes, x, np.median(values, axis=0), "median", **look)
        label = f"{without:.0%} to {1.0 - without:.0%}" if without else "least to greatest"
        band(axes, x, low, high, label)
        pale(axes, even)
    for i, one in enumerate(members):
        if one.odd or not many:
            line(axes, one.x, one.y, one.label, **style.line_of(i, of=len(members)))


def band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> None:
    """Shade a range; of very many points as dots, which make a smaller PDF."""
    look: Any = {
        "color": style.MEAN,
        "alpha": style.BAND,
        "linewidth": 0.0,
        "zorder": 2.2,
    }
    axes.fill_between(x, low, high, label=label, rasterized=len(x) > 2000, **look)


def pale(axes: Axes, members: Sequence[Line]) -> None:
    """Draw at most eight of the lines, thin and grey, with one entry of the legend."""
    shown = a_few(len(members))
    of_all = f" of {len(members)}" if len(shown) < len(members) else ""
    for k, i in enumerate(shown):
        label = "_member" if k else f"{len(shown)}{of_all} members"
        line(axes, members[i].x, members[i].y, label, **style.PALE)


def observed(
    axes: Axes, x: np.ndarray, u: np.ndarray, noise: np.ndarray, label: str, *, hollow: bool = False
) -> None:
    """Draw values with bars of their deviations, as dots if these are 0 or very many."""
    if not len(x):
        return
    look: Any = {"color": style.ERROR, "linestyle": "", "marker": "o", "zorder": 2.4}
    look |= {"markerfacecolor": "white" if hollow else style.ERROR, "markeredgewidth": 0.7}
    if len(x) > _MOST_BARS or not noise.any():
        size = 1.2 if len(x) > _MOST_BARS else 2.2
        axes.plot(x, u, label=label, markersize=size, rasterized=True, **look)
    else:
        bars: Any = {"elinewidth": 0.7, "capsize": 1.2, "capthick": 0.7, "markersize": 2.2}
        axes.errorbar(x, u, noise, label=f"{label} ± σ", **bars, **look)


def name(axes: Axes, label: str, color: str, **look: Any) -> None:
    """Add an entry to the legend."""
    axes.plot([], [], color=color, label=label, solid_capstyle="butt", **look)


def marks(axes: Axes, curves: Sequence[Prediction], *, ticks: bool = True) -> None:
    """Shade the sub-domains, and draw the training points as ticks below the data."""
    one = by_shard(curves)
    shards = [
        (style.color_of(k if one else i), shard)
        for i, curve in enumerate(curves)
        for k, shard in enumerate(curve.shards)
    ]
    shaded = _shade(axes, shards, named=one)
    if one and not shaded:
        for color, shard in shards:
            name(axes, shard.label, color, linewidth=2.0)
    if ticks:
        _draw_ticks(axes, shards, one_row=one)


def _shade(axes: Axes, shards: Sequence[tuple[str, Shard]], *, named: bool) -> bool:
    """Shade each region that does not cover the whole axis; return whether there is one."""
    left, right = axes.get_xlim()
    inset = EDGE * (right - left)
    regions = [
        (float(shard.corners[0][0]), float(shard.corners[1][0])) if shard.corners else (left, right)
        for _, shard in shards
    ]
    count, shaded = Counter(regions), False
    for (color, shard), (low, high) in zip(shards, regions, strict=True):
        if low <= left + inset and high >= right - inset:
            continue
        shaded, common = True, count[low, high] > 1 and not named
        look: Any = {"facecolor": style.NEUTRAL if common else color, "linewidth": 0.0}
        axes.axvspan(low, high, alpha=_SHADE / count[low, high], zorder=0.5, **look)
        label = shard.label if named else "sub-domain"
        name(axes, label, color if named else style.NEUTRAL, linewidth=6.0, alpha=2 * _SHADE)
    return shaded


def _draw_ticks(axes: Axes, shards: Sequence[tuple[str, Shard]], *, one_row: bool) -> None:
    """Draw ticks for the points, and make room for them at the lower end of a linear y axis."""
    none = np.empty((0, 1))
    points = [
        (color, np.sort((none if s.training_points is None else s.training_points)[:, 0]))
        for color, s in shards
    ]
    if not any(places.size for _, places in points):
        return
    if len(points) > 1 and all(np.array_equal(places, points[0][1]) for _, places in points):
        points = [(style.NEUTRAL, points[0][1])]
    ends = sorted((places[0], places[-1]) for _, places in points if places.size)
    apart = all(one[1] <= other[0] for one, other in pairwise(ends))
    rows = 1 if one_row or apart else min(len(points), _MOST_ROWS)
    for i, (color, places) in enumerate(points):
        bottom = _ROW * (i % rows + 0.2)
        look: Any = {"color": color, "linewidth": 0.8, "zorder": 2.0}
        look |= {"rasterized": places.size > 2000, "label": "_training points"}
        across = axes.get_xaxis_transform()
        axes.vlines(places, bottom, bottom + 0.7 * _ROW, transform=across, **look)
    axes.plot([], [], color=style.INK, linestyle="", marker="|", label="training points")
    low, high = axes.get_ylim()
    axes.set_ylim(high - (high - low) / (1.0 - _ROW * rows), high)
