"""The figures of losses, weights, unknowns and accuracies over steps, and of times over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts import lines, style
from sciml_par.evaluation.figures.parts.curves import LossCurve, ScalingCurve, UnknownCurve
from sciml_par.evaluation.figures.parts.layout import make_grid, make_panels
from sciml_par.evaluation.figures.parts.members import FEW, finite, log_limits, range_of

_HEIGHT, _ROW = 2.3, 1.5  # inches of a panel, and of one in several rows
_MOST_PANELS = 8
_SPREAD_OF_LOG = 100.0
_BEST: dict[str, Any] = {"color": "#e69f00", "marker": "*", "markersize": 8.0, "linestyle": ""}
_BEST |= {"markeredgecolor": style.INK, "markeredgewidth": 0.5, "zorder": 3.0}
_LOOKS: dict[str, dict[str, Any]] = {
    "measured": {"linestyle": "-", "marker": "o", "zorder": 3.0},
    "modelled": {"linestyle": (0, (4.0, 1.5)), "marker": "", "linewidth": 1.0, "zorder": 2.5},
    "published": {"linestyle": ":", "marker": "s", "linewidth": 0.9, "markerfacecolor": "white"},
}
_IDEAL: dict[str, Any] = {"color": style.NEUTRAL, "linewidth": 0.6, "zorder": 1.0, "label": "ideal"}


@style.paper_style()
def plot_losses(losses: Sequence[LossCurve], *, title: str | None = None) -> Figure:
    """Draw the loss, on a log scale, over the step: a line a member, and for one also its terms.

    Local: call it on one rank. A loss of zero is drawn at the lower edge. Losses that are negative
    or not finite leave a gap, and the legend says so. Of more than eight members with the same
    steps, the median and the range over the members are drawn, and eight of them thin. The best
    step is marked where there are at most eight.

    Parameters
    ----------
    losses : sequence of LossCurve
        One a member; their steps may differ.
    title : str, optional
        Title above the panel.

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


def _plot(losses: Sequence[LossCurve], ylabel: str, title: str | None) -> Figure:
    grid = make_grid([_HEIGHT], 1)
    axes, first, alone = grid.panels[0, 0], losses[0], len(losses) == 1
    terms = dict(first.terms or {}) if alone else {}
    best = np.array([curve.best_loss or np.nan for curve in losses])
    low, high = log_limits(np.concatenate([*(c.loss for c in losses), *terms.values(), best]))
    lines.log_axis(axes, low, high)
    start, end = min(c.step[0] for c in losses), max(c.step[-1] for c in losses)
    pad = 0.02 * (end - start) or 1.0
    axes.set_xlim(start - pad, end + pad)
    named = [(curve.label, curve.step, curve.loss) for curve in losses]
    drawn = []
    for label, step, values in named + [(name, first.step, v) for name, v in terms.items()]:
        bad = (
            "not finite" if not np.isfinite(values).all() else "negative" * bool((values < 0).any())
        )
        kept = np.where(values >= 0.0, np.maximum(values, low), np.nan)
        drawn.append(lines.Line(f"{label} ({bad})" if bad else label, step, kept, bool(bad)))
    if terms:
        total, *parts = drawn
        look: dict[str, Any] = {"color": style.INK, "linewidth": 1.4, "zorder": 2.6}
        lines.line(axes, total.x, total.y, total.label, **look)
        for i, part in enumerate(parts):
            lines.line(axes, part.x, part.y, part.label, **style.line_of(i, of=FEW))
    else:
        alike = all(np.array_equal(curve.step, first.step) for curve in losses)
        lines.lines(axes, drawn, alike=alike)
    for curve in losses if len(losses) <= FEW else ():
        if curve.best_step is not None:
            nearest = curve.loss[np.argmin(np.abs(curve.step - curve.best_step))]
            loss = nearest if curve.best_loss is None else curve.best_loss
            name = f"best, step {curve.best_step:,.0f}" if alone else "best"
            axes.plot(curve.best_step, loss, label=name, **_BEST)
    axes.set_ylabel(ylabel)
    _count(axes)
    return grid.finish(title, x="step")


def _count(axes: Axes) -> None:
    """Label the x axis with whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(style.COUNT)


@style.paper_style()
def plot_unknowns(curves: Sequence[UnknownCurve], *, title: str | None = None) -> Figure:
    """Draw each coefficient over the step, in a separate panel, with a line for each run.

    Local: call it on one rank. The true value is a dashed line. Values that are all positive and
    reach over two decades are on a log scale. Of more than eight coefficients the first eight are
    drawn; of more than eight runs with the same steps, median and range.

    Parameters
    ----------
    curves : sequence of UnknownCurve
        One for each coefficient and run.
    title : str, optional
        Title above the panels.

    Raises
    ------
    InputError
        If there are no curves.
    """
    curves = check_items(curves, UnknownCurve, "plot_unknowns")
    names = list(dict.fromkeys(curve.name for curve in curves))[:_MOST_PANELS]
    grid = make_panels(len(names), 2, _ROW if len(names) > 2 else _HEIGHT)
    for name, axes in zip(names, grid.panels.values(), strict=True):
        runs = [curve for curve in curves if curve.name == name]
        true = sorted({curve.true for curve in runs if curve.true is not None})
        values = finite([*(curve.value for curve in runs), np.array(true)])
        if values.size and values.min() > 0 and values.max() > _SPREAD_OF_LOG * values.min():
            axes.set_yscale("log")
        elif values.size:
            axes.set_ylim(range_of([values], margin=0.05))
        alike = all(np.array_equal(curve.step, runs[0].step) for curve in runs)
        drawn = [lines.Line(curve.label, curve.step, curve.value) for curve in runs]
        lines.lines(axes, drawn, alike=alike)
        for value in true:
            axes.axhline(value, label="true value", **style.DASHED)
        axes.set_ylabel(name)
        _count(axes)
    return grid.finish(title, x="step")


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
    labels = dict.fromkeys(curve.label for curve in curves)
    colors = {label: style.color_of(i) for i, label in enumerate(labels)}
    least, most = min(c.ranks[0] for c in curves), max(c.ranks[-1] for c in curves)
    grid = make_panels(len(groups), 2, _HEIGHT)
    for axes, ((in_time, scaling), group) in zip(grid.panels.values(), groups.items(), strict=True):
        for label, color in colors.items():
            axes.plot([], [], color=color, linewidth=2.0, label=label)
        for kind in (kind for kind in _LOOKS if any(curve.kind == kind for curve in curves)):
            axes.plot([], [], color=style.INK, label=kind, markersize=4.0, **_LOOKS[kind])
        values = [np.asarray(curve.time if in_time else curve.efficiency) for curve in group]
        for curve, each in zip(group, values, strict=True):
            look = {"color": colors[curve.label], "markersize": 4.0, **_LOOKS[curve.kind]}
            axes.plot(curve.ranks, each, label=f"_{curve.label}, {curve.kind}", **look)
            if in_time and scaling and curve.kind == "measured":
                ends = np.array([curve.ranks[0], max(each.ranks[-1] for each in group)], float)
                fall = ends[0] / ends if scaling == "strong" else np.ones(2)
                axes.plot(ends, each[0] * fall, **_IDEAL)
        if in_time:
            lines.log_axis(axes, *log_limits(np.concatenate(values)))
        else:
            axes.set_ylim(0.0, max(1.0, *(float(each.max()) for each in values)) * 1.05)
            axes.axhline(1.0, **_IDEAL)
        axes.set_xscale("log", base=2)
        axes.set_xlim(least / 1.2, most * 1.2)
        axes.xaxis.set_major_locator(LogLocator(2.0, numticks=8))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(style.COUNT)
        axes.set_ylabel("seconds a step" if in_time else "parallel efficiency")
        axes.set_title(f"{scaling} scaling" if scaling else "")
    return grid.finish(title, x="ranks")
