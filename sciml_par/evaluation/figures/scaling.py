"""The figure of parallel efficiencies and times of a step over the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.curves import ScalingCurve
from sciml_par.evaluation.figures.parts.layout import make_panels
from sciml_par.evaluation.figures.parts.members import log_limits

_LOOKS: dict[str, dict[str, Any]] = {
    "measured": {"linestyle": "-", "marker": "o", "zorder": 3.0},
    "modelled": {"linestyle": (0, (4.0, 1.5)), "marker": "", "linewidth": 1.0, "zorder": 2.5},
    "published": {"linestyle": ":", "marker": "s", "linewidth": 0.9, "zorder": 2.0},
}
_LOOKS["published"]["markerfacecolor"] = "white"
_IDEAL: dict[str, Any] = {"color": style.NEUTRAL, "linewidth": 0.6, "zorder": 1.0, "label": "ideal"}


@style.paper_style()
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
    curves = check_items(curves, ScalingCurve, "plot_scaling")
    groups: dict[tuple[bool, str], list[ScalingCurve]] = {}
    # Efficiencies come before times; none, strong and weak scaling in this order.
    for curve in sorted(curves, key=lambda each: (each.time is not None, each.scaling or "")):
        groups.setdefault((curve.time is not None, curve.scaling or ""), []).append(curve)
    colors = {
        label: style.color_of(i) for i, label in enumerate(dict.fromkeys(c.label for c in curves))
    }
    grid = make_panels(len(groups), 2, 2.3)
    for axes, (in_time, scaling) in zip(grid.panels.values(), groups, strict=True):
        for label, color in colors.items():
            axes.plot([], [], color=color, linewidth=2.0, label=label)
        for kind in (kind for kind in _LOOKS if any(curve.kind == kind for curve in curves)):
            axes.plot([], [], color=style.INK, label=kind, markersize=4.0, **_LOOKS[kind])
        _draw(axes, groups[in_time, scaling], colors, in_time=in_time)
        least, most = min(c.ranks[0] for c in curves), max(c.ranks[-1] for c in curves)
        axes.set_xscale("log", base=2)
        axes.set_xlim(least / 1.2, most * 1.2)
        axes.xaxis.set_major_locator(LogLocator(2.0, numticks=8))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(style.COUNT)
        axes.set_ylabel("seconds a step" if in_time else "parallel efficiency")
        axes.set_title(f"{scaling} scaling" if scaling else "")
    grid.label_x("ranks")
    return grid.finish(title)


def _draw(
    axes: Axes, curves: Sequence[ScalingCurve], colors: dict[str, str], *, in_time: bool
) -> None:
    values = [np.asarray(curve.time if in_time else curve.efficiency) for curve in curves]
    for curve, each in zip(curves, values, strict=True):
        look = {"color": colors[curve.label], "markersize": 4.0, **_LOOKS[curve.kind]}
        axes.plot(curve.ranks, each, label=f"_{curve.label}, {curve.kind}", **look)
    if not in_time:
        axes.set_ylim(0.0, max(1.0, *(float(each.max()) for each in values)) * 1.05)
        axes.axhline(1.0, **_IDEAL)
        return
    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(log_limits(np.concatenate(values)))
    last = max(float(curve.ranks[-1]) for curve in curves)
    for curve, each in zip(curves, values, strict=True):
        if curve.kind == "measured" and curve.scaling is not None:
            ranks = np.array([float(curve.ranks[0]), last])
            fall = ranks[0] / ranks if curve.scaling == "strong" else np.ones(2)
            axes.plot(ranks, each[0] * fall, **_IDEAL)
