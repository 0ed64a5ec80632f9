"""The figures of losses, weights of terms and accuracies during a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts.curves import AccuracyCurve, LossCurve
from sciml_par.evaluation.figures.parts.layout import (
    Entry,
    column_width,
    draw_line,
    line_entry,
    make_grid,
    wrap,
)
from sciml_par.evaluation.figures.parts.limits import log_limits
from sciml_par.evaluation.figures.parts.lines import Line, draw_line_of, draw_lines, thinned
from sciml_par.evaluation.figures.parts.members import FEW
from sciml_par.evaluation.figures.parts.style import INK, NEUTRAL, line_of, paper_style

_RATE = 0.5  # inches, for the axis of the learning rate
_GAP = 0.05  # inches between the names of phases
_LEAST_WIDTH = 0.3  # inches of a phase whose name is written
_BEST: dict[str, Any] = {
    "color": "#e69f00",
    "marker": "*",
    "markersize": 8.0,
    "markeredgecolor": INK,
    "markeredgewidth": 0.5,
    "linestyle": "",
    "zorder": 3.0,
}
_TRAINING = {"linestyle": "-", "linewidth": 0.7, "alpha": 0.5}


def plot_losses(losses: Sequence[LossCurve], *, title: str | None = None) -> Figure:
    """Draw the loss, on a log scale, over the step: a line a member, and for one also its terms.

    Local: call it on one rank. A loss of zero is drawn at the lower edge. Losses that are negative
    or not finite leave a gap, and the legend says so. Of more than eight members with the same
    steps, the median and the range over the members are drawn, and eight of them thin. Of more than
    1000 records, the least and the greatest of neighbours are drawn, so that every spike is seen.

    The terms and the learning rate are drawn where there is one loss; the best step is marked where
    there are at most eight; the phases are those of the first loss.

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
    return _plot(check_items(losses, LossCurve, "plot_losses"), "loss", title)


def plot_weights(weights: Sequence[LossCurve], *, title: str | None = None) -> Figure:
    """Draw what the terms of a loss are multiplied by, on a log scale, over the step.

    Local: call it on one rank.
    """
    found = check_items(weights, LossCurve, "plot_weights")
    return _plot(found, "weight of the term", title)


def _plot(found: Sequence[LossCurve], ylabel: str, title: str | None) -> Figure:
    with paper_style():
        grid = make_grid([2.3], 1, [(0, 0)])
        axes = grid.panels[0, 0]
        entries = _draw(axes, found)
        axes.set_ylabel(ylabel)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        grid.label_x("step")
        return grid.finish(entries, title=title)


def _draw(axes: Axes, losses: Sequence[LossCurve]) -> list[Entry]:
    first = losses[0]
    terms = dict(first.terms or {}) if len(losses) == 1 else {}
    best = np.array([curve.best_loss or np.nan for curve in losses])
    drawn = [*(curve.loss for curve in losses), *terms.values(), best]
    low, high = log_limits(np.concatenate(drawn))
    axes.set_yscale("log")
    # A little below the floor, so that a line that lies on it is seen.
    axes.set_ylim(low / 1.3, high)
    axes.set_xlim(*_steps(losses))
    lines = [_line(curve.label, curve.step, curve.loss, low) for curve in losses]
    if terms:
        look = {"color": INK, "linewidth": 1.4, "zorder": 2.6}
        parts = [_line(name, first.step, values, low) for name, values in terms.items()]
        entries = [draw_line_of(axes, lines[0], **look)]
        entries += [draw_line_of(axes, p, **line_of(i, of=FEW)) for i, p in enumerate(parts)]
    else:
        alike = all(np.array_equal(curve.step, first.step) for curve in losses)
        entries = draw_lines(axes, lines, alike=alike)
    entries += _mark_best(axes, losses)
    _mark_phases(axes, first)
    return entries + _draw_rate(axes, first) if len(losses) == 1 else entries


def _line(label: str, step: np.ndarray, values: np.ndarray, low: float) -> Line:
    remark = _remark(values)
    kept = np.where(values >= 0.0, np.maximum(values, low), np.nan)
    return Line(label + remark, step, kept, odd=bool(remark))


def _mark_best(axes: Axes, losses: Sequence[LossCurve]) -> list[Entry]:
    marked = [curve for curve in losses if curve.best_step is not None]
    if not marked or len(losses) > FEW:
        return []
    for curve in marked:
        axes.plot(*_best(curve), label="_best", **_BEST)
    one = f"best, step {marked[0].best_step:,.0f}" if len(losses) == 1 else "best"
    return [line_entry(one, **_BEST)]


def _best(curve: LossCurve) -> tuple[float, float]:
    """Return the best step, and the loss there."""
    step = float(curve.best_step or 0.0)
    if curve.best_loss is not None:
        return step, float(curve.best_loss)
    nearest = int(np.argmin(np.abs(curve.step - step)))
    return step, float(curve.loss[nearest])


def _mark_phases(axes: Axes, curve: LossCurve) -> None:
    """Draw a line where a phase begins, unless it is at the first step, and its name above it."""
    low, high = axes.get_xlim()
    starts = [max(start, float(curve.step[0])) for start, _ in curve.phases]
    ends = [*starts, high][1:]
    width = column_width(1, 0.0 if curve.learning_rate is None else _RATE)
    for start, end, (_, name) in zip(starts, ends, curve.phases, strict=True):
        if start > curve.step[0]:
            axes.axvline(start, color=NEUTRAL, linewidth=0.6, zorder=1.0, label="_phase")
        wide = width * (end - start) / (high - low) - _GAP
        if wide >= _LEAST_WIDTH:
            text = wrap(name, wide, size=7.0, lines=2)
            axes.annotate(
                text,
                (start, 1.0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(0.0, 2.0),
                textcoords="offset points",
                va="bottom",
                fontsize="small",
                color=NEUTRAL,
            )


def _draw_rate(axes: Axes, curve: LossCurve) -> list[Entry]:
    """Draw the learning rate over an axis of its own at the right."""
    if curve.learning_rate is None:
        return []
    look: dict[str, Any] = {"color": NEUTRAL, "linewidth": 0.8, "linestyle": ":"}
    right = axes.twinx()
    right.set_yscale("log")
    low, high = log_limits(curve.learning_rate)
    right.set_ylim(low, high)
    right.set_ylabel("learning rate", color=NEUTRAL)
    right.tick_params(labelcolor=NEUTRAL)
    values = np.where(curve.learning_rate > 0.0, curve.learning_rate, np.nan)
    return [draw_line(right, *thinned(curve.step, values), label="learning rate", **look)]


def _remark(loss: np.ndarray) -> str:
    if not np.all(np.isfinite(loss)):
        return " (not finite)"
    return " (negative)" if np.any(loss < 0.0) else ""


def _steps(losses: Sequence[LossCurve]) -> tuple[float, float]:
    first = float(min(curve.step[0] for curve in losses))
    last = float(max(curve.step[-1] for curve in losses))
    pad = 0.02 * (last - first) or 1.0
    return first - pad, last + pad


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
        entries = _draw_accuracies(axes, found)
        axes.set_ylabel("accuracy")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        grid.label_x("epoch")
        return grid.finish(entries, title=title)


def _draw_accuracies(axes: Axes, curves: Sequence[AccuracyCurve]) -> list[Entry]:
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
    axes.set_ylim(*_limits_of_accuracies(curves))
    return entries


def _limits_of_accuracies(curves: Sequence[AccuracyCurve]) -> tuple[float, float]:
    """From a little below the least accuracy to a little above 1, so that a line at 1 is seen."""
    least = min(
        float(np.min(values))
        for curve in curves
        for values in (curve.accuracy, curve.training_accuracy)
        if values is not None
    )
    reach = max(1.0 - least, 0.01)
    return max(1.0 - 1.05 * reach, -0.02), 1.0 + 0.03 * reach
