"""Draw lines over one coordinate or step, with bands, observations, sub-domains and points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.members import FEW, a_few, by_shard

_MOST_BARS = 150  # error bars; more are dots
_SHADE = 0.15  # opacity of a sub-domain
EDGE = 0.05  # a sub-domain up to this share of an axis from both its ends covers it
_SAME_SCALE = 4.0  # panels share a y axis while their ranges differ by less than this factor
_ROW, _MOST_ROWS = 0.055, 4  # of the panel's height, for a row of ticks


class Line(NamedTuple):
    """One member's line, x and y: [n]; one that is `odd` is always named and in its colour."""

    label: str
    x: np.ndarray
    y: np.ndarray
    odd: bool = False


def line(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, **look: Any) -> None:
    """Draw a line, or one point."""
    axes.plot(x, y, label=label, marker="o" if len(x) == 1 else "", **look)


def log_axis(axes: Axes, low: float, high: float) -> None:
    """Make the y axis logarithmic, from a little below `low`, so that a line there is seen."""
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, high)


def align(panels: Sequence[Axes], columns: int) -> None:
    """Give panels of like range, and all on a log scale, one y axis; label the left ones."""
    limits, first = np.array([axes.get_ylim() for axes in panels]), panels[0]
    sizes = np.ptp(limits, axis=1)
    alike = first.get_yscale() == "log" or sizes.max() <= _SAME_SCALE * sizes.min()
    for i, axes in enumerate(panels):
        if alike:
            axes.set_ylim(limits[:, 0].min(), limits[:, 1].max())
            axes.tick_params(labelleft=i % columns == 0)
        axes.set_ylabel(first.get_ylabel() if i % columns == 0 else "")


def lines(axes: Axes, members: Sequence[Line], *, alike: bool, without: float = 0.0) -> None:
    """Draw each line; of more than eight that are `alike`, median, range and eight of them thin."""
    even = [one for one in members if not one.odd]
    many = alike and len(even) > FEW
    if many:
        x, values = even[0].x, np.stack([one.y for one in even])
        low, high = np.quantile(values, [without, 1.0 - without], axis=0)
        middle: dict[str, Any] = {"color": style.MEAN, "linewidth": 1.4, "zorder": 2.8}
        line(axes, x, np.median(values, axis=0), "median", **middle)
        label = f"{without:.0%} to {1.0 - without:.0%}" if without else "least to greatest"
        band(axes, x, low, high, label)
        pale(axes, even)
    for i, one in enumerate(members):
        if one.odd or not many:
            line(axes, *one[1:3], one.label, **style.line_of(i, of=len(members)))


def band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> None:
    """Shade a range; of very many points as dots, which make a smaller PDF."""
    look: Any = {"color": style.MEAN, "alpha": style.BAND, "linewidth": 0.0, "zorder": 2.2}
    axes.fill_between(x, low, high, label=label, rasterized=len(x) > 2000, **look)


def pale(axes: Axes, members: Sequence[Line]) -> None:
    """Draw at most eight of the lines, thin and grey, with one entry of the legend."""
    shown = a_few(len(members))
    of_all = f" of {len(members)}" if len(shown) < len(members) else ""
    for k, i in enumerate(shown):
        label = "_member" if k else f"{len(shown)}{of_all} members"
        line(axes, *members[i][1:3], label, **style.PALE)


def observed(
    axes: Axes, x: np.ndarray, u: np.ndarray, noise: np.ndarray, label: str, *, hollow: bool = False
) -> None:
    """Draw values with bars of their deviations, as dots if these are 0 or very many."""
    if not len(x):
        return
    many = len(x) > _MOST_BARS
    look: Any = {"color": style.ERROR, "linestyle": "", "marker": "o", "zorder": 2.4}
    look |= {"markerfacecolor": "white" if hollow else style.ERROR, "markeredgewidth": 0.7}
    look |= {"markersize": 1.2 if many else 2.2}
    if many or not noise.any():
        axes.plot(x, u, label=label, rasterized=True, **look)
    else:
        bars: Any = {"elinewidth": 0.7, "capsize": 1.2, "capthick": 0.7}
        axes.errorbar(x, u, noise, label=f"{label} ± σ", **bars, **look)


def name(axes: Axes, label: str, color: str, **look: Any) -> None:
    """Add an entry to the legend."""
    axes.plot([], [], color=color, label=label, solid_capstyle="butt", **look)


def marks(axes: Axes, curves: Sequence[Prediction], *, ticks: bool = True) -> None:
    """Shade the sub-domains, and draw the training points as ticks below the data."""
    one, (left, right) = by_shard(curves), axes.get_xlim()
    shards = [
        (style.color_of(k if one else i), shard)
        for i, curve in enumerate(curves)
        for k, shard in enumerate(curve.shards)
    ]
    corners = [shard.corners or (np.array([left]), np.array([right])) for _, shard in shards]
    regions = [(float(low[0]), float(high[0])) for low, high in corners]
    inset, count = EDGE * (right - left), Counter(regions)
    shaded = [low > left + inset or high < right - inset for low, high in regions]
    entry: dict[str, Any] = {"linewidth": 6.0, "alpha": 2 * _SHADE}
    for (color, shard), region, partly in zip(shards, regions, shaded, strict=True):
        if partly:
            of_one = color if one or count[region] == 1 else style.NEUTRAL
            look: dict[str, Any] = {"alpha": _SHADE / count[region], "linewidth": 0.0}
            axes.axvspan(*region, facecolor=of_one, zorder=0.5, **look)
        if one:
            name(axes, shard.label, color, **entry if any(shaded) else {"linewidth": 2.0})
    if any(shaded) and not one:
        name(axes, "sub-domain", style.NEUTRAL, **entry)
    if ticks:
        points = [(c, s.training_points) for c, s in shards if s.training_points is not None]
        _draw_ticks(axes, [(c, np.sort(x[:, 0])) for c, x in points if x.size], one_row=one)


def _draw_ticks(axes: Axes, points: list[tuple[str, np.ndarray]], *, one_row: bool) -> None:
    """Draw ticks for the points, and make room for them at the lower end of a linear y axis."""
    if not points:
        return
    if len(points) > 1 and all(np.array_equal(places, points[0][1]) for _, places in points):
        points = [(style.NEUTRAL, points[0][1])]
    ends = sorted((places[0], places[-1]) for _, places in points)
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
