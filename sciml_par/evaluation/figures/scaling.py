"""The figure of parallel efficiencies and times of a step over the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts.curves import ScalingCurve
from sciml_par.evaluation.figures.parts.layout import Entry, line_entry, make_grid
from sciml_par.evaluation.figures.parts.limits import log_limits
from sciml_par.evaluation.figures.parts.style import INK, NEUTRAL, color_of, paper_style

_HEIGHT = 2.3  # inches
_LOOKS: dict[str, dict[str, Any]] = {
    "measured": {"linestyle": "-", "marker": "o", "markersize": 4.0, "zorder": 3.0},
    "modelled": {"linestyle": (0, (4.0, 1.5)), "marker": "", "linewidth": 1.0, "zorder": 2.5},
    "published": {
        "linestyle": ":",
        "marker": "s",
        "markersize": 4.0,
        "markerfacecolor": "white",
        "linewidth": 0.9,
        "zorder": 2.0,
    },
}


def plot_scaling(curves: Sequence[ScalingCurve], *, title: str | None = None) -> Figure:
    """Draw parallel efficiencies and times of a step over the number of ranks.

    Local: call it on one rank. A panel each for efficiencies and times, and for weak and strong
    scaling, as far as there are curves; ranks on a scale of powers of two. Measured numbers are
    full circles on a line, modelled ones a dashed line, published ones open squares on a dotted
    line; curves of one label have one colour. A thin line shows the ideal: an efficiency of 1; in
    strong scaling a time in inverse proportion to the ranks, in weak scaling a constant one, from
    the first measured time of each label on.

    Parameters
    ----------
    curves : sequence of ScalingCurve
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide with one panel, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves.
    """
    found = check_items(curves, ScalingCurve, "plot_scaling")
    groups: dict[tuple[bool, str], list[ScalingCurve]] = {}
    for curve in sorted(found, key=_panel_of):
        groups.setdefault(_panel_of(curve), []).append(curve)
    labels = list(dict.fromkeys(curve.label for curve in found))
    colors = {label: color_of(i) for i, label in enumerate(labels)}
    columns = min(len(groups), 2)
    cells = [(i // columns, i % columns) for i in range(len(groups))]
    with paper_style():
        grid = make_grid([_HEIGHT] * -(-len(groups) // columns), columns, cells)
        for cell, (in_time, scaling) in zip(cells, groups, strict=True):
            axes = grid.panels[cell]
            _draw(axes, groups[in_time, scaling], colors, in_time)
            axes.set_ylabel("seconds a step" if in_time else "parallel efficiency")
            axes.set_title(f"{scaling} scaling" if scaling else "")
        _share_ranks(list(grid.panels.values()), found)
        grid.label_x("ranks")
        return grid.finish(_entries(found, colors), title=title)


def _panel_of(curve: ScalingCurve) -> tuple[bool, str]:
    """Efficiencies come before times; none, strong and weak scaling in this order."""
    return curve.time is not None, curve.scaling or ""


def _draw(
    axes: Axes, curves: Sequence[ScalingCurve], colors: dict[str, str], in_time: bool
) -> None:
    for curve in curves:
        values = curve.time if in_time else curve.efficiency
        assert values is not None
        look = {"color": colors[curve.label], **_LOOKS[curve.kind]}
        axes.plot(curve.ranks, values, label=f"{curve.label}, {curve.kind}", **look)
    if in_time:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(log_limits(np.concatenate([c.time for c in curves if c.time is not None])))
        _draw_ideal_times(axes, curves)
        return
    greatest = max(float(np.max(c.efficiency)) for c in curves if c.efficiency is not None)
    axes.set_ylim(0.0, max(1.0, greatest) * 1.05)
    axes.axhline(1.0, color=NEUTRAL, linewidth=0.6, zorder=1.0, label="_ideal")


def _draw_ideal_times(axes: Axes, curves: Sequence[ScalingCurve]) -> None:
    for curve in curves:
        if curve.kind != "measured" or curve.scaling is None or curve.time is None:
            continue
        last = max(float(other.ranks[-1]) for other in curves)
        ranks = np.array([float(curve.ranks[0]), last])
        ideal = curve.time[0] * (ranks[0] / ranks if curve.scaling == "strong" else ranks**0.0)
        axes.plot(ranks, ideal, color=NEUTRAL, linewidth=0.6, zorder=1.0, label="_ideal")


def _share_ranks(panels: Sequence[Axes], curves: Sequence[ScalingCurve]) -> None:
    least = min(float(curve.ranks[0]) for curve in curves)
    greatest = max(float(curve.ranks[-1]) for curve in curves)
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xlim(least / 1.2, greatest * 1.2)
        axes.xaxis.set_major_locator(LogLocator(2.0, numticks=8))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _entries(curves: Sequence[ScalingCurve], colors: dict[str, str]) -> list[Entry]:
    """Return the colours by label, then the marks by kind, and the ideal."""
    kinds = [kind for kind in _LOOKS if any(curve.kind == kind for curve in curves)]
    entries = [line_entry(label, color=color, linewidth=2.0) for label, color in colors.items()]
    entries += [line_entry(kind, color=INK, **_LOOKS[kind]) for kind in kinds]
    return [*entries, line_entry("ideal", color=NEUTRAL, linewidth=0.6)]
