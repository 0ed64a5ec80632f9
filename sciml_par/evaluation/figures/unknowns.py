"""The figure of unknown coefficients over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts.curves import UnknownCurve
from sciml_par.evaluation.figures.parts.layout import Entry, line_entry, make_grid
from sciml_par.evaluation.figures.parts.lines import Line, draw_lines
from sciml_par.evaluation.figures.parts.style import INK, paper_style

_HEIGHT = 1.5  # inches of a row
_MOST_PANELS = 8
_SPREAD_OF_LOG = 100.0
_MARGIN = 0.05
_TRUE: dict[str, Any] = {
    "color": INK,
    "linewidth": 0.9,
    "linestyle": (0, (4.0, 2.0)),
    "zorder": 3.0,
}


def plot_unknowns(curves: Sequence[UnknownCurve], *, title: str | None = None) -> Figure:
    """Draw each coefficient over the step, in a panel of its own, with a line for each run.

    Local: call it on one rank. The true value is a dashed line. Values that are all positive and
    reach over two decades are on a log scale. Of more than eight coefficients the first eight are
    drawn; of more than eight runs with the same steps, median and range.

    Parameters
    ----------
    curves : sequence of UnknownCurve
        One for each coefficient and run.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide, or 7.2 for two coefficients and more. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves.
    """
    found = check_items(curves, UnknownCurve, "plot_unknowns")
    names = list(dict.fromkeys(curve.name for curve in found))[:_MOST_PANELS]
    columns = min(2, len(names))
    cells = [divmod(i, columns) for i in range(len(names))]
    rows = cells[-1][0] + 1
    height = _HEIGHT if rows > 1 else 2 * _HEIGHT - 0.7
    with paper_style():
        grid = make_grid([height] * rows, columns, cells)
        entries: list[Entry] = []
        for name, cell in zip(names, cells, strict=True):
            axes = grid.panels[cell]
            entries = _draw(axes, [curve for curve in found if curve.name == name]) or entries
            axes.set_ylabel(name)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if any(curve.true is not None for curve in found):
            entries = [*entries, line_entry("true value", **_TRUE)]
        grid.label_x("step")
        return grid.finish(entries, title=title)


def _draw(axes: Axes, curves: Sequence[UnknownCurve]) -> list[Entry]:
    true = sorted({curve.true for curve in curves if curve.true is not None})
    values = np.concatenate([*(curve.value for curve in curves), np.array(true)])
    _set_scale(axes, values[np.isfinite(values)])
    for value in true:
        axes.axhline(value, label="_true value", **_TRUE)
    alike = all(np.array_equal(curve.step, curves[0].step) for curve in curves)
    lines = [Line(curve.label, curve.step, curve.value) for curve in curves]
    return draw_lines(axes, lines, alike=alike)


def _set_scale(axes: Axes, values: np.ndarray) -> None:
    if values.size == 0:
        return
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > _SPREAD_OF_LOG * low:
        axes.set_yscale("log")
        return
    pad = _MARGIN * (high - low) or _MARGIN * (abs(high) or 1.0)
    axes.set_ylim(low - pad, high + pad)
