"""The figure of accuracies over epochs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sciml_par.evaluation.figures.parts.curves import AccuracyCurve
from sciml_par.evaluation.figures.parts.layout import Entry, draw_line, line_entry, make_grid
from sciml_par.evaluation.figures.parts.panels import check_items
from sciml_par.evaluation.figures.parts.style import NEUTRAL, line_of, paper_style

_TRAINING = {"linestyle": "-", "linewidth": 0.7, "alpha": 0.5}


def plot_accuracies(curves: Sequence[AccuracyCurve], *, title: str | None = None) -> Figure:
    """Draw one line a run, the accuracy over the epoch, and a thin pale one for the training data.

    Local: call it on one rank.

    Parameters
    ----------
    curves : sequence of AccuracyCurve
        One a run; their numbers of epochs may differ.
    title : str, optional
        Title above the panel.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves.
    """
    found = check_items(curves, AccuracyCurve, "plot_accuracies")
    with paper_style():
        grid = make_grid([2.3], 1, [(0, 0)])
        axes = grid.panels[0, 0]
        entries = _draw(axes, found)
        axes.set_ylabel("accuracy")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        grid.label_x("epoch")
        return grid.finish(entries, title=title)


def _draw(axes: Axes, curves: Sequence[AccuracyCurve]) -> list[Entry]:
    entries: list[Entry] = []
    for index, curve in enumerate(curves):
        look = line_of(index, of=len(curves))
        epoch = np.arange(1, curve.accuracy.size + 1)
        entries.append(draw_line(axes, epoch, curve.accuracy, label=curve.label, **look))
        if curve.training_accuracy is not None:
            pale = {**look, **_TRAINING}
            draw_line(axes, epoch, curve.training_accuracy, label="_training data", **pale)
    if any(curve.training_accuracy is not None for curve in curves):
        entries.append(line_entry("training data", color=NEUTRAL, **_TRAINING))
    axes.set_ylim(*_limits(curves))
    return entries


def _limits(curves: Sequence[AccuracyCurve]) -> tuple[float, float]:
    """From a little below the least accuracy to a little above 1, so that a line at 1 is seen."""
    least = min(
        float(np.min(values))
        for curve in curves
        for values in (curve.accuracy, curve.training_accuracy)
        if values is not None
    )
    reach = max(1.0 - least, 0.01)
    return max(1.0 - 1.05 * reach, -0.02), 1.0 + 0.03 * reach
