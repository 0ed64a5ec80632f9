"""The figure of many members over one coordinate: their mean, its band, and a few of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import (
    Entry,
    draw_line,
    line_entry,
    make_grid,
    patch_entry,
)
from sciml_par.evaluation.figures.parts.limits import error_limits, near, value_limits
from sciml_par.evaluation.figures.parts.lines import draw_exact, draw_members, name_of, set_limits
from sciml_par.evaluation.figures.parts.members import Spread, a_few, in_order, spread_of
from sciml_par.evaluation.figures.parts.shards import draw_marks, marks_of
from sciml_par.evaluation.figures.parts.style import (
    BAND,
    ERROR,
    INK,
    MEAN,
    PALE,
    coordinate,
    value_label,
)

_HEIGHTS = (2.1, 1.25)  # inches, of a prediction and of the deviation below it
# Over the mean, since a wide line below it would be hidden by the band.
_EXACT_ABOVE = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4.0, 3.0)), "zorder": 3.0}


def ensemble_lines(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw mean ± 2 deviations above a few members, and below it the deviation and the error.

    Members that are not sound, or that are not wholly to be seen, are drawn in colours and named.
    """
    m = curves[0].components
    grid = make_grid(_HEIGHTS * m, 1, [(row, 0) for row in range(2 * m)])
    entries: list[Entry] = []
    for component in range(m):
        spread = spread_of(curves, component)
        upper, lower = grid.panels[2 * component, 0], grid.panels[2 * component + 1, 0]
        drawn = _draw_values(upper, curves, component, spread)
        drawn[1:1] = _draw_widths(lower, curves[0], spread)
        upper.set_ylabel(value_label(curves[0], component))
        lower.set_xlim(upper.get_xlim())
        entries = entries or drawn
    grid.label_x(coordinate(curves[0], 0))
    return grid.finish(entries, title=title)


def _draw_values(
    axes: Axes, curves: Sequence[Prediction], component: int, spread: Spread
) -> list[Entry]:
    marks = marks_of(curves, range(len(curves)))
    set_limits(axes, curves, component, marks)
    odd = [i for i, c in enumerate(curves) if not c.sound or name_of(c, curves) != c.label]
    others = [curve for i, curve in enumerate(curves) if i not in odd]
    shown = [others[i] for i in a_few(len(others))]
    named = draw_members(axes, [curves[i] for i in odd], odd, component)
    limits = value_limits(curves, component)
    order = in_order(curves[0])
    x = curves[0].x[order, 0]
    for curve in shown:
        values = near(curve.u[order, component], limits)
        draw_line(axes, x, values, label=curve.label, **PALE)
    mean, width = spread.mean[order], spread.width[order]
    low, high = mean - width, mean + width
    axes.fill_between(x, low, high, color=MEAN, alpha=BAND, linewidth=0.0, zorder=2.2)
    for edge in (low, high):
        axes.plot(x, edge, color=MEAN, linewidth=0.7, zorder=2.6, label="_edge of the band")
    line = axes.plot(x, mean, color=MEAN, linewidth=1.5, zorder=2.8, label="mean")[0]
    several = f"{len(shown)} of {len(others)}" if len(shown) < len(others) else f"{len(shown)}"
    return [
        (line, "mean"),
        *draw_exact(axes, curves, component, **_EXACT_ABOVE),
        line_entry(f"{several} members", **PALE),
        *draw_marks(axes, marks, named=False),
        *named,
    ]


def _draw_widths(axes: Axes, curve: Prediction, spread: Spread) -> list[Entry]:
    """Draw 2σ and |mean − u*| on one log scale, so that one sees whether the one covers the other.

    Both are cut at the lower edge: an error that changes sign dips towards zero.
    """
    drawn = [spread.width] if spread.error is None else [spread.width, spread.error]
    low, high = error_limits(drawn, [curve.trained] * len(drawn))
    order = in_order(curve)
    x = curve.x[order, 0]
    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(low / 1.3, high)
    width = np.maximum(spread.width[order], low)
    axes.fill_between(x, low / 1.3, width, color=MEAN, alpha=BAND, linewidth=0.0)
    axes.plot(x, width, color=MEAN, linewidth=0.7, label="two deviations")
    axes.set_ylabel("$2\\sigma$" if spread.error is None else "$2\\sigma$, error")
    axes.set_title(spread.coverage, loc="right", fontsize="small", pad=2.0)
    band = patch_entry("± 2 deviations ($2\\sigma$)", MEAN, BAND)
    if spread.error is None:
        return [band]
    error = np.maximum(spread.error[order], low)
    return [band, draw_line(axes, x, error, label="|mean − exact|", color=ERROR, linewidth=1.2)]
