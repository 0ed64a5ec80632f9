"""The figures of predictions and of their errors, over any number of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import lines, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid
from sciml_par.evaluation.figures.parts.members import (
    a_few,
    by_shard,
    check_curves,
    error_limits,
    error_of,
    estimate_of,
    has_mean,
    name_of,
    range_of,
    remarked,
    share_panel,
    shown_of,
    spread_of,
    too_many_dimensions,
    value_limits,
)
from sciml_par.evaluation.figures.parts.observed import HELD_OUT, Observed
from sciml_par.evaluation.figures.planes import maps_of_errors, maps_of_mean, maps_of_members

_MOST_PANELS, _MOST_COLUMNS = 16, 4
_MANY, _MOST = 200, (0.01, 0.99)  # measured values, of which outliers are left out
_LEFT_OUT = 0.1  # of many members, there is always one whose error changes its sign nearby
_FAR = 100.0  # ranges of the axis; a renderer loses lines to 1e30 altogether
_HEIGHT, _LOW, _BELOW = 2.1, 1.45, 1.25  # inches: a panel, one of many, and one of errors below it
_SQUARE = 2.6  # inches, of dots
_SCALE = 0.6  # inches, for the scale of the errors between two columns


@style.paper_style()
def plot_predictions(
    curves: Sequence[Prediction], *, title: str | None = None, observed: Sequence[Observed] = ()
) -> Figure:
    """Draw every member's prediction over the exact solution, with its training points.

    Local: call it on one rank. Over one coordinate (d = 1): members with the same exact solution at
    the same points share a panel, others get a panel each (at most 16). Sub-domains are shaded;
    ticks at the lower edge are training points. The y axis shows the range of the exact solution; a
    prediction may leave it where it was not trained. For one prediction with several shards the
    colours stand for the shards. If an estimated error is known, a panel below shows |estimated
    error|, and |true error| if the exact solution is known.

    Four or more sound members that share a panel, x, and the region they were trained on are drawn
    as their mean ± two sample standard deviations (2σ, divisor M − 1) above at most eight of them.
    A panel below shows 2σ and the error |mean − u*| on one log scale, and the share of the points
    at which 2σ covers the error. Members that are not sound are named and are not in the mean.

    Over two coordinates (d = 2): panels of prediction, exact solution, error and estimated error, a
    row a member and component, at most four rows; or, for four or more members as above, of mean,
    exact solution, error of the mean and 2σ. Several outputs (m > 1) take one row each.

    Over more (d > 2): the predicted over the exact values, and |estimated error| over |true error|,
    a dot a point. If the exact solution is not known, |estimated error| over the time or, without a
    coordinate that is named "t" or "time", over the predicted values. At most eight members.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, all of one d and m.
    title : str, optional
        Title above the panels.
    observed : sequence of Observed
        Measured values, dots or bars in each panel (d = 1). Those that are held out, by their
        label, are hollow.

    Raises
    ------
    InputError
        If there are no curves, they differ in d or m, or d > 2 and neither an exact solution nor an
        estimated error is known.
    """
    curves = check_curves(curves, "plot_predictions")
    one, dimension = share_panel(curves), curves[0].dimension
    mean = one and has_mean(curves)
    if dimension > 2:
        return _scatter(curves, title)
    if dimension == 2:
        return (maps_of_mean if mean else maps_of_members)(curves, title)
    if one:
        return _blocks([curves], title, observed, mean=mean)
    shown = curves[:_MOST_PANELS]
    title = shown_of(len(shown), len(curves), title)
    return _blocks([[curve] for curve in shown], title, observed, mean=False)


@style.paper_style()
def plot_errors(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw the pointwise error |u(x) − u*(x)| of every member on a log scale.

    Local: call it on one rank. Over one coordinate (d = 1) all members share a panel, and the
    sub-domains are shaded. Errors of zero, and those more than three decades below their member's
    median, are drawn at the lower edge; extrapolation may leave the panel at the top. Of more than
    eight members at the same points, the median and the range from 10 % to 90 % of the members are
    drawn, and eight of them thin.

    Over two coordinates (d = 2): a panel a member, at most eight, with common colours. Several
    outputs (m > 1) take one row each, of at most four members; or one panel each of a single one.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, all of one d and m. Those without an exact solution are
        only named (d = 1), or left out and counted (d = 2).
    title : str, optional
        Title above the panels.

    Raises
    ------
    InputError
        If there are no curves, none has an exact solution, they differ in d or m, or d > 2.
    """
    curves = check_curves(curves, "plot_errors")
    first = curves[0]
    if first.dimension > 2:
        raise too_many_dimensions(first, "plot_errors")
    if not any(curve.known for curve in curves):
        raise InputError(
            "plot_errors: no prediction has an exact solution. Pass u_exact to Prediction, or use "
            "plot_predictions."
        )
    if first.dimension == 2:
        return maps_of_errors(curves, title)
    grid = make_grid([_HEIGHT] * first.components, 1)
    for (k, _), axes in grid.panels.items():
        _draw_errors(axes, curves, k)
        axes.set_ylabel(style.error_label(first, k))
    return grid.finish(title, x=style.coordinate(first, 0))


def _draw_errors(axes: Axes, curves: Sequence[Prediction], k: int) -> None:
    """Draw the errors of a component, of the members whose exact solution is known."""
    errors = [error_of(curve, k) for curve in curves]
    low, high = error_limits(zip(curves, errors, strict=True))
    lines.log_axis(axes, low, high)
    axes.set_xlim(range_of([curve.x for curve in curves], margin=0.02))
    drawn = []
    for curve, error in zip(curves, errors, strict=True):
        label = remarked(curve.label, error[curve.inside])
        odd = label != curve.label or not curve.sound
        drawn.append(lines.Line(label, curve.x[:, 0], np.maximum(error, low), odd))
    if by_shard(curves):
        lines.line(axes, drawn[0].x, drawn[0].y, drawn[0].label, color=style.INK)
    else:
        seen_ones = [line for line, curve in zip(drawn, curves, strict=True) if curve.known]
        lines.lines(axes, seen_ones, alike=has_mean(curves), without=_LEFT_OUT)
    lines.marks(axes, curves, ticks=False)
    for curve in curves:
        if not curve.known:
            axes.plot([], [], alpha=0.0, label=f"{curve.label} (no exact solution)")


def _blocks(
    blocks: Sequence[Sequence[Prediction]],
    title: str | None,
    observed: Sequence[Observed],
    *,
    mean: bool,
) -> Figure:
    """Draw a block for each group of members: a row a component, and one below it for errors."""
    first, several = blocks[0][0], len(blocks) > 1
    down = -(-len(blocks) // _MOST_COLUMNS)
    columns = -(-len(blocks) // down)
    below = mean or any(c.estimated_error is not None for block in blocks for c in block)
    heights = [_LOW if columns > 2 else _HEIGHT] + [_BELOW] * below
    tall = first.components * len(heights)
    places = [divmod(i, columns) for i in range(len(blocks))]
    cells = [(row * tall + k, column) for row, column in places for k in range(tall)]
    grid = make_grid(heights * (first.components * down), columns, cells)
    for k in range(first.components):
        rows = [
            [grid.panels[place * tall + k * len(heights) + row, column] for place, column in places]
            for row in range(len(heights))
        ]
        for i, block in enumerate(blocks):
            axes = rows[0][i]
            axes.set_ylim(value_limits(block, k))
            for each in rows:
                each[i].set_xlim(range_of([curve.x for curve in block], margin=0.02))
            _draw_block(axes, block, k, several=several, mean=mean)
            _draw_observed(axes, observed, k)
            if several and k == 0:
                wide = column_width(columns) - (_SCALE if below else 0.0)
                grid.title(axes, name_of(block[0], block), wide=wide)
            if below:
                _draw_below(rows[1][i], block, k, mean=mean)
        rows[0][0].set_ylabel(style.value_label(first, k))
        for row in rows:
            lines.align(row, columns)
    return grid.finish(title, x=style.coordinate(first, 0))


def _draw_block(
    axes: Axes, curves: Sequence[Prediction], k: int, *, several: bool, mean: bool
) -> None:
    """Draw a line a member, or their mean ± 2 deviations above a few of them.

    With `several` panels, their titles name the members. Members that are not in the mean, and
    those off scale, have colours.
    """
    limits, x = np.array(value_limits(curves, k)), curves[0].x[:, 0]
    ends, drawn = limits + _FAR * np.ptp(limits) * np.array([-1, 1]), []
    for curve in curves:
        name = name_of(curve, curves)
        odd = not curve.sound or name != curve.label
        drawn.append(lines.Line(name, curve.x[:, 0], np.clip(curve.u[:, k], *ends), odd))
    exact = {c.x.tobytes() + c.exact.tobytes(): c for c in curves if c.known}  # each once
    if mean:
        spread = spread_of(curves, k)
        edges = spread.mean - spread.width, spread.mean + spread.width
        lines.line(axes, x, spread.mean, "mean", color=style.MEAN, linewidth=1.5, zorder=2.8)
        lines.band(axes, x, *edges, "± 2 deviations ($2\\sigma$)")
        for edge in edges:
            lines.line(axes, x, edge, "_edge", color=style.MEAN, linewidth=0.7, zorder=2.6)
    for c in exact.values():  # over the mean: the band would hide a wide line below
        look = style.DASHED if mean else style.EXACT
        lines.line(axes, c.x[:, 0], c.exact[:, k], "exact solution", **look)
    if mean:
        lines.pale(axes, [line for line in drawn if not line.odd])
        lines.marks(axes, curves)
    for i, line in enumerate(drawn):
        if line.odd or not mean:
            look = style.line_of(i, of=1 if mean else len(curves))
            look |= {"color": style.INK} if by_shard(curves) else {}
            lines.line(axes, line.x, line.y, "prediction" if several else line.label, **look)
    if not mean:
        lines.marks(axes, curves)


def _draw_observed(axes: Axes, observed: Sequence[Observed], k: int) -> None:
    """Draw measured values, and widen the axis to them; of very many, to all but outliers."""
    for term in observed:
        x, u, noise = term.of(k)
        if len(u):
            hollow = term.label.endswith(HELD_OUT)
            label = HELD_OUT if hollow else "observations"
            lines.observed(axes, x[:, 0], u, noise, label, hollow=hollow)
            values = u if len(u) < _MANY else np.quantile(u, _MOST)
            axes.set_ylim(range_of([np.array(axes.get_ylim()), np.array(range_of([values]))], 0.0))


def _draw_below(axes: Axes, curves: Sequence[Prediction], k: int, *, mean: bool) -> None:
    """Draw |e| and |u − u*| of each member on one log scale; of a mean, its error and 2σ.

    One sees whether the estimate is right, and whether 2σ covers the error.
    """
    first = curves[0]
    drawn: list[tuple[Prediction, np.ndarray | None, str, dict[str, Any]]] = []
    if mean:
        _, width, error, estimate, coverage = spread_of(curves, k)
        drawn.append((first, width, "_two deviations", {"color": style.MEAN, "linewidth": 0.7}))
        drawn.append((first, error, "|mean − exact|", {"color": style.ERROR, "zorder": 3.0}))
        dotted = {"color": style.INK, "linestyle": ":", "zorder": 3.0}
        drawn.append((first, estimate, style.LARGEST, dotted))
        axes.set_title(coverage, loc="right", fontsize="small", pad=2.0)
    for i, curve in enumerate(() if mean else curves):
        color: dict[str, Any] = {"color": style.color_of(i) if len(curves) > 1 else style.ERROR}
        if curve.known:
            look: dict[str, Any] = style.EXACT | {"alpha": 0.35} | color
            drawn.append((curve, error_of(curve, k), style.TRUE_ERROR, look))
        drawn.append((curve, estimate_of(curve, k), style.ESTIMATED, {"linewidth": 1.0} | color))
    low, high = error_limits(each[:2] for each in drawn)
    lines.log_axis(axes, low, high)
    for curve, values, name, look in drawn:
        if values is not None:
            lines.line(axes, curve.x[:, 0], np.maximum(values, low), name, **look)
    if mean:
        x = first.x[:, 0]
        lines.band(axes, x, np.full(x.shape, low / 1.3), np.maximum(width, low), "_band")
    alone = mean and error is None and estimate is None
    axes.set_ylabel("$2\\sigma$" + ", error" * (not alone) if mean else "error")


def can_be_scattered(curve: Prediction) -> bool:
    """Return whether the exact solution or an estimated error is known."""
    return curve.known or curve.estimated_error is not None


def _scatter(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw u over u*, and the estimated error, in a colour a member; a row a component."""
    able = [curve for curve in curves if can_be_scattered(curve)]
    if not able:
        raise too_many_dimensions(curves[0], "plot_predictions")
    shown = [(style.color_of(i), able[place]) for i, place in enumerate(a_few(len(able)))]
    known = [(color, curve) for color, curve in shown if curve.known]
    estimated = [(color, curve) for color, curve in shown if curve.estimated_error is not None]
    columns = [(_dots_of_values, known)] * bool(known)
    columns += [(_dots_of_estimates, estimated)] * bool(estimated)
    grid = make_grid([_SQUARE] * curves[0].components, len(columns))
    for (k, column), axes in grid.panels.items():
        how, members = columns[column]
        how(axes, members, k)
    return grid.finish(shown_of(len(shown), len(curves), title))


def _dots_of_values(axes: Axes, members: Sequence[tuple[str, Prediction]], k: int) -> None:
    """Draw the predicted over the exact values, with the diagonal."""
    curves = [curve for _, curve in members]
    ends = range_of([curve.exact[:, k] for curve in curves])
    axes.plot(ends, ends, label="exact solution", **style.EXACT)
    axes.set(xlim=ends, ylim=value_limits(curves, k))
    for color, curve in members:
        _draw_dots(axes, curve.exact[:, k], curve.u[:, k], curve.label, color)
    axes.set_xlabel(style.exact_label(curves[0], k))
    axes.set_ylabel(style.math(curves[0].fields[k]))


def _dots_of_estimates(axes: Axes, members: Sequence[tuple[str, Prediction]], k: int) -> None:
    """Draw |e| over |u − u*| with the diagonal; over time or u if a true error is not known."""
    first, time = members[0][1], style.of_time(members[0][1])
    known = all(curve.known for _, curve in members)
    estimates = [np.abs(np.asarray(curve.estimated_error)[:, k]) for _, curve in members]
    pairs = [(curve, e) for (_, curve), e in zip(members, estimates, strict=True)]
    pairs += [(curve, error_of(curve, k)) for _, curve in members if known]
    low, high = error_limits(pairs)
    lines.log_axis(axes, low, high)
    label = style.coordinate(first, time[0]) if time else style.math(first.fields[k])
    if known:
        label = style.TRUE_ERROR
        axes.set(xscale="log", xlim=axes.get_ylim())
        axes.plot((low, high), (low, high), label="estimated = true error", **style.EXACT)
    for (color, curve), e in zip(members, estimates, strict=True):
        across = curve.x[:, time[0]] if time else curve.u[:, k]
        x = np.maximum(error_of(curve, k), low) if known else across
        _draw_dots(axes, x, np.maximum(e, low), curve.label, color)
    which = f" of {style.math(first.fields[k])}" if first.components > 1 else ""
    axes.set(xlabel=label, ylabel=style.ESTIMATED + which)


def _draw_dots(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, color: str) -> None:
    """Draw a dot a point, which is one in the PDF as well; the legend has a larger one."""
    look: dict[str, Any] = {"color": color, "markeredgewidth": 0.0}
    axes.plot(x, y, ".", label=f"_{label}", markersize=2.0, rasterized=True, **look)
    axes.plot([], [], ".", label=label, markersize=8.0, **look)
