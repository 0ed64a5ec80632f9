"""The figure of losses over steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sciml_par.evaluation.figures.data import LossCurve
from sciml_par.evaluation.figures.layout import Entry, draw_line, make_grid
from sciml_par.evaluation.figures.limits import log_limits
from sciml_par.evaluation.figures.panels import check_items
from sciml_par.evaluation.figures.style import line_of, paper_style


def plot_losses(losses: Sequence[LossCurve], *, title: str | None = None) -> Figure:
    """Draw one line a member: the loss, on a log scale, over the step.

    Local: call it on one rank. A loss of zero is drawn at the lower edge. Losses that are negative
    or not finite leave a gap, and the legend says so.

    Parameters
    ----------
    losses : sequence of LossCurve
        One a member; their steps may differ.
    title : str, optional
        Title above the panel.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no losses.
    """
    found = check_items(losses, LossCurve, "plot_losses")
    with paper_style():
        grid = make_grid(1, 1, [(0, 0)], 2.3)
        axes = grid.panels[0, 0]
        entries = _draw(axes, found)
        axes.set_ylabel("loss")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        grid.label_x("step")
        return grid.finish(entries, title=title)


def _draw(axes: Axes, losses: Sequence[LossCurve]) -> list[Entry]:
    low, high = log_limits(np.concatenate([curve.loss for curve in losses]))
    axes.set_yscale("log")
    # A little below the floor, so that a line that lies on it is seen.
    axes.set_ylim(low / 1.3, high)
    entries: list[Entry] = []
    for index, curve in enumerate(losses):
        values = np.where(curve.loss >= 0.0, np.maximum(curve.loss, low), np.nan)
        label = curve.label + _remark(curve.loss)
        look = line_of(index, of=len(losses))
        entries.append(draw_line(axes, curve.step, values, label=label, **look))
    axes.set_xlim(*_steps(losses))
    return entries


def _remark(loss: np.ndarray) -> str:
    if not np.all(np.isfinite(loss)):
        return " (not finite)"
    return " (negative)" if np.any(loss < 0.0) else ""


def _steps(losses: Sequence[LossCurve]) -> tuple[float, float]:
    first = float(min(curve.step[0] for curve in losses))
    last = float(max(curve.step[-1] for curve in losses))
    pad = 0.02 * (last - first) or 1.0
    return first - pad, last + pad
