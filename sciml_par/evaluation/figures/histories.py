"""The figures of losses, weights and accuracies over steps or epochs, and of times over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.curves import AccuracyCurve, LossCurve, ScalingCurve
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid, make_panels, wrap
from sciml_par.evaluation.figures.parts.members import FEW, log_limits

_HEIGHT = 2.3  # inches
_RATE = 0.5  # inches, for the axis of the learning rate
_LEAST_WIDTH = 0.3  # inches of a phase whose name is written
_BEST: dict[str, Any] = {"color": "#e69f00", "marker": "*", "markersize": 8.0, "linestyle": ""}
_BEST |= {"markeredgecolor": style.INK, "markeredgewidth": 0.5, "zorder": 3.0}
_TRAINING: dict[str, Any] = {"linestyle": "-", "linewidth": 0.7, "alpha": 0.5}
_LOOKS: dict[str, dict[str, Any]] = {
    "measured": {"linestyle": "-", "marker": "o", "zorder": 3.0},
    "modelled": {"linestyle": (0, (4.0, 1.5)), "marker": "", "linewidth": 1.0, "zorder": 2.5},
    "published": {"linestyle": ":", "marker": "s", "linewidth": 0.9, "zorder": 2.0},
}
_LOOKS["published"]["markerfacecolor"] = "white"
_IDEAL: dict[str, Any] = {"color": style.NEUTRAL, "linewidth": 0.6, "zorder": 1.0, "label": "ideal"}


@style.paper_style()
def plot_losses(losses: Sequence[LossCurve], *, title: str | None = None) -> Figure:
    """Draw the loss, on a log scale, over the step: a line a member, and for one also its terms.

    Local: call it on one rank. A loss of zero is drawn at the lower edge. Losses that are negative
    or not finite leave a gap, and the legend says so. Of more than eight members with the same
    steps, the median and the range over the members are drawn, and eight of them thin.

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


@style.paper_style()
def plot_weights(weights: Sequence[LossCurve], *, title: str | None = None) -> Figure:
    """Draw the weights of the terms of a loss, on a log scale, over the step."""
    weights = check_items(weights, LossCurve, "plot_weights")
    return _plot(weights, "weight of the term", title)


def _plot(found: Sequence[LossCurve], ylabel: str, title: str | None) -> Figure:
    grid = make_grid([_HEIGHT], 1)
    axes = grid.panels[0, 0]
    _draw(axes, found)
    axes.set_ylabel(ylabel)
    draw.count_steps(axes)
    grid.label_x("step")
    # A line of text above the panel for the names of the phases.
    return grid.finish(title, 0.15 * bool(axes.texts))


def _draw(axes: Axes, losses: Sequence[LossCurve]) -> None:
    first, alone = losses[0], len(losses) == 1
    terms = dict(first.terms or {}) if alone else {}
    best = np.array([curve.best_loss or np.nan for curve in losses])
    low, high = log_limits(np.concatenate([*(c.loss for c in losses), *terms.values(), best]))
    draw.log_axis(axes, low, high)
    start, end = min(c.step[0] for c in losses), max(c.step[-1] for c in losses)
    pad = 0.02 * (end - start) or 1.0
    axes.set_xlim(start - pad, end + pad)
    lines = [_line(curve.label, curve.step, curve.loss, low) for curve in losses]
    if terms:
        look = {"color": style.INK, "linewidth": 1.4, "zorder": 2.6}
        draw.line(axes, lines[0].x, lines[0].y, lines[0].label, **look)
        for i, (name, values) in enumerate(terms.items()):
            part = _line(name, first.step, values, low)
            draw.line(axes, part.x, part.y, part.label, **style.line_of(i, of=FEW))
    else:
        alike = all(np.array_equal(curve.step, first.step) for curve in losses)
        draw.lines(axes, lines, alike=alike)
    for curve in losses if len(losses) <= FEW else ():
        if curve.best_step is not None:
            nearest = curve.loss[np.argmin(np.abs(curve.step - curve.best_step))]
            loss = nearest if curve.best_loss is None else curve.best_loss
            name = f"best, step {curve.best_step:,.0f}" if alone else "best"
            axes.plot(curve.best_step, loss, label=name, **_BEST)
    _mark_phases(axes, first)
    if alone and first.learning_rate is not None:
        _draw_rate(axes, first.step, first.learning_rate)


def _line(label: str, step: np.ndarray, values: np.ndarray, low: float) -> draw.Line:
    remark = ""
    if not np.all(np.isfinite(values)):
        remark = " (not finite)"
    elif np.any(values < 0.0):
        remark = " (negative)"
    kept = np.where(values >= 0.0, np.maximum(values, low), np.nan)
    return draw.Line(label + remark, step, kept, odd=bool(remark))


def _mark_phases(axes: Axes, curve: LossCurve) -> None:
    """Draw a line where a phase begins, unless it is at the first step, and its name above it."""
    low, high = axes.get_xlim()
    starts = [max(start, float(curve.step[0])) for start, _ in curve.phases]
    inches = column_width(1) - (0.0 if curve.learning_rate is None else _RATE)
    for start, end, (_, name) in zip(starts, [*starts, high][1:], curve.phases, strict=True):
        if start > curve.step[0]:
            axes.axvline(start, color=style.NEUTRAL, linewidth=0.6, zorder=1.0, label="_phase")
        wide = inches * (end - start) / (high - low) - 0.05
        if wide >= _LEAST_WIDTH:
            place: dict[str, Any] = {"xycoords": axes.get_xaxis_transform(), "xytext": (0.0, 2.0)}
            place |= {"textcoords": "offset points", "va": "bottom"}
            text = wrap(name, wide, size=7.0, lines=2)
            axes.annotate(text, (start, 1.0), fontsize="small", color=style.NEUTRAL, **place)


def _draw_rate(axes: Axes, step: np.ndarray, rate: np.ndarray) -> None:
    """Draw the learning rate over a separate axis at the right."""
    look: dict[str, Any] = {"color": style.NEUTRAL, "linewidth": 0.8, "linestyle": ":"}
    right = axes.twinx()
    right.set_yscale("log")
    right.set_ylim(log_limits(rate))
    right.set_ylabel("learning rate", color=style.NEUTRAL)
    right.tick_params(labelcolor=style.NEUTRAL)
    draw.line(right, step, np.where(rate > 0.0, rate, np.nan), "_learning rate", **look)
    axes.plot([], [], label="learning rate", **look)


@style.paper_style()
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
    curves = check_items(curves, AccuracyCurve, "plot_accuracies")
    grid = make_grid([_HEIGHT], 1)
    axes = grid.panels[0, 0]
    for index, curve in enumerate(curves):
        look = style.line_of(index, of=len(curves))
        epoch = np.arange(1, curve.accuracy.size + 1)
        draw.line(axes, epoch, curve.accuracy, curve.label, **look)
        if curve.training_accuracy is not None:
            draw.line(axes, epoch, curve.training_accuracy, "_training", **(look | _TRAINING))
    if any(curve.training_accuracy is not None for curve in curves):
        axes.plot([], [], color=style.NEUTRAL, label="training data", **_TRAINING)
    drawn = [a for c in curves for a in (c.accuracy, c.training_accuracy) if a is not None]
    reach = max(1.0 - min(float(np.min(values)) for values in drawn), 0.01)
    axes.set_ylim(max(1.0 - 1.05 * reach, -0.02), 1.0 + 0.03 * reach)
    axes.set_ylabel("accuracy")
    draw.count_steps(axes)
    grid.label_x("epoch")
    return grid.finish(title)


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
        _draw_scaling(axes, groups[in_time, scaling], colors, in_time=in_time)
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


def _draw_scaling(
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
