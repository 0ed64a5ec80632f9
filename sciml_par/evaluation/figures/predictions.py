"""The figures of predictions over the exact solution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid
from sciml_par.evaluation.figures.parts.members import (
    MOST_PANELS,
    Panels,
    by_shard,
    check_curves,
    error_limits,
    has_mean,
    in_order,
    name_of,
    near,
    range_of,
    share_panel,
    shown_of,
    spread_of,
    too_many_dimensions,
    value_limits,
)
from sciml_par.evaluation.figures.parts.observed import HELD_OUT, Observed
from sciml_par.evaluation.figures.planes import plane_ensemble, plane_predictions
from sciml_par.evaluation.figures.scatters import can_be_scattered, scatter
from sciml_par.evaluation.metrics.norms import pointwise_error

_SAME_SCALE = 4.0  # panels share a y axis while their ranges differ by less than this factor
_MOST_COLUMNS = 4
_MANY, _MOST = 200, (0.01, 0.99)  # measured values, of which outliers are left out
_HEIGHT, _LOW, _BELOW = 2.1, 1.45, 1.25  # inches: a panel, one of many, and one of errors below it
_SCALE = 0.6  # inches, for the scale of the errors between two columns


@style.paper_style()
def plot_predictions(
    curves: Sequence[Prediction],
    *,
    title: str | None = None,
    panels: Panels = "auto",
    equal_axes: bool | None = None,
    observed: Sequence[Observed] = (),
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
    panels : {"auto", "shared", "separate"}
        Whether members share a panel, or a row (d = 2) of panels for their mean; "auto" compares
        their exact solutions.
    equal_axes : bool, optional
        Whether a length is as long on either axis (d = 2). By default it is, unless a coordinate is
        named "t" or "time", or one side is more than four times the other.
    observed : sequence of Observed
        Measured values, dots or bars in each panel (d = 1). Those that are held out, by their
        label, are hollow.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide with one column of panels, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, they differ in d or m, or d > 2 and neither an exact solution nor an
        estimated error is known.
    """
    curves = check_curves(curves, "plot_predictions")
    one, dimension = share_panel(curves, panels), curves[0].dimension
    if dimension > 2 and not any(can_be_scattered(curve) for curve in curves):
        raise too_many_dimensions(curves[0], "plot_predictions")
    mean = one and has_mean(curves)
    if dimension > 2:
        return scatter(curves, title)
    if dimension == 2:
        return (plane_ensemble if mean else plane_predictions)(curves, title, equal_axes)
    if one:
        return _blocks([curves], title, observed, mean=mean)
    shown = curves[:MOST_PANELS]
    title = shown_of(len(shown), len(curves), title)
    return _blocks([[curve] for curve in shown], title, observed, mean=False)


def _blocks(
    blocks: Sequence[Sequence[Prediction]],
    title: str | None,
    observed: Sequence[Observed],
    *,
    mean: bool,
) -> Figure:
    """Draw a block for each group of members: a row a component, and one below it for errors."""
    m, first, several = blocks[0][0].components, blocks[0][0], len(blocks) > 1
    down = -(-len(blocks) // _MOST_COLUMNS)
    columns = -(-len(blocks) // down)
    below = mean or any(c.estimated_error is not None for block in blocks for c in block)
    heights = [_LOW if columns > 2 else _HEIGHT] + [_BELOW] * below
    tall = m * len(heights)
    places = [divmod(i, columns) for i in range(len(blocks))]
    cells = [(row * tall + k, column) for row, column in places for k in range(tall)]
    grid = make_grid(heights * (m * down), columns, cells)
    for k in range(m):
        values = []
        for block, (place, column) in zip(blocks, places, strict=True):
            row = place * tall + k * len(heights)
            axes = grid.panels[row, column]
            axes.set_xlim(range_of([curve.x for curve in block], margin=0.02))
            axes.set_ylim(value_limits(block, k))
            (_draw_mean if mean else _draw_members)(axes, block, k, several)
            _draw_observed(axes, observed, k)
            if several and k == 0:
                wide = column_width(columns) - (_SCALE if below else 0.0)
                grid.title(axes, name_of(block[0], block), wide=wide)
            if below:
                under = grid.panels[row + 1, column]
                (_draw_widths if mean else _draw_errors)(under, block, k)
                under.set_xlim(axes.get_xlim())
            values.append((axes, column == 0))
        _align(values, style.value_label(first, k))
    grid.label_x(style.coordinate(first, 0))
    return grid.finish(title)


def _align(panels: Sequence[tuple[Axes, bool]], label: str) -> None:
    """Give panels of like range the same limits; label the left ones."""
    low, high = np.array([axes.get_ylim() for axes, _ in panels]).T
    alike = np.ptp([low, high], axis=0).max() <= _SAME_SCALE * np.ptp([low, high], axis=0).min()
    for axes, left in panels:
        if alike:
            axes.set_ylim(low.min(), high.max())
            axes.tick_params(labelleft=left)
        axes.set_ylabel(label if left else "")


def _draw_members(axes: Axes, curves: Sequence[Prediction], k: int, several: bool) -> None:
    """Draw a line a member; with `several` panels, their titles name the members."""
    _draw_exact(axes, curves, k, **style.EXACT)
    for i, line in enumerate(_lines(curves, k)):
        look = style.line_of(i, of=len(curves)) | ({"color": style.INK} if by_shard(curves) else {})
        draw.line(axes, line.x, line.y, "prediction" if several else line.label, **look)
    draw.marks(axes, curves)


def _draw_observed(axes: Axes, observed: Sequence[Observed], k: int) -> None:
    """Draw measured values, and widen the axis to them; of very many, to all but outliers."""
    for term in observed:
        x, u, noise = term.of(k)
        if len(u):
            hollow = term.label.endswith(HELD_OUT)
            label = HELD_OUT if hollow else "observations"
            draw.observed(axes, x[:, 0], u, noise, label, hollow=hollow)
            values = u if len(u) < _MANY else np.quantile(u, _MOST)
            axes.set_ylim(range_of([np.array(axes.get_ylim()), np.array(range_of([values]))], 0.0))


def _draw_errors(axes: Axes, curves: Sequence[Prediction], k: int) -> None:
    """Draw |e| and, where u* is known, |u − u*| of each member on one log scale."""
    drawn: list[tuple[int, str, np.ndarray]] = []
    for i, curve in enumerate(curves):
        if curve.known:
            drawn.append((i, style.TRUE_ERROR, pointwise_error(curve.u[:, k], curve.exact[:, k])))
        if curve.estimated_error is not None:
            drawn.append((i, style.ESTIMATED, np.abs(curve.estimated_error[:, k])))
    low, high = error_limits([e for *_, e in drawn], [curves[i].trained for i, *_ in drawn])
    draw.log_axis(axes, low, high, only_decades=True)
    for i, name, error in drawn:
        order = in_order(curves[i])
        look: dict[str, Any] = {"linewidth": 1.0}
        if name == style.TRUE_ERROR:
            look = style.EXACT | {"alpha": 0.35}
        look["color"] = style.color_of(i) if len(curves) > 1 else style.ERROR
        draw.line(axes, curves[i].x[order, 0], np.maximum(error[order], low), name, **look)
    axes.set_ylabel("error")


def _draw_mean(axes: Axes, curves: Sequence[Prediction], k: int, several: bool) -> None:
    """Draw mean ± 2 deviations above a few members; others, and those off scale, in colours."""
    spread, order = spread_of(curves, k), in_order(curves[0])
    x, mean, width = curves[0].x[order, 0], spread.mean[order], spread.width[order]
    lines = _lines(curves, k)
    draw.line(axes, x, mean, "mean", color=style.MEAN, linewidth=1.5, zorder=2.8)
    draw.band(axes, x, mean - width, mean + width, "± 2 deviations ($2\\sigma$)")
    for edge in (mean - width, mean + width):
        draw.line(axes, x, edge, "_edge", color=style.MEAN, linewidth=0.7, zorder=2.6)
    _draw_exact(
        axes, curves, k, **style.DASHED
    )  # over the mean: the band would hide a wide line below
    draw.pale(axes, [line for line in lines if not line.odd])
    draw.marks(axes, curves)
    for i, line in enumerate(lines):
        if line.odd:
            draw.line(axes, line.x, line.y, line.label, **style.line_of(i))


def _draw_widths(axes: Axes, curves: Sequence[Prediction], k: int) -> None:
    """Draw 2σ and |mean − u*| on one log scale, which shows whether the one covers the other."""
    spread, first = spread_of(curves, k), curves[0]
    low, high = error_limits(spread.drawn, [first.trained] * len(spread.drawn))
    draw.log_axis(axes, low, high, only_decades=True)
    order = in_order(first)
    x, width = first.x[order, 0], np.maximum(spread.width[order], low)
    draw.band(axes, x, np.full(x.shape, low / 1.3), width, "_band")
    draw.line(axes, x, width, "_two deviations", color=style.MEAN, linewidth=0.7)
    axes.set_ylabel("$2\\sigma$" if len(spread.drawn) == 1 else "$2\\sigma$, error")
    axes.set_title(spread.coverage, loc="right", fontsize="small", pad=2.0)
    for error, name, color, dashes in (
        (spread.error, "|mean − exact|", style.ERROR, "-"),
        (spread.estimate, style.LARGEST, style.INK, ":"),
    ):
        if error is not None:
            look: dict[str, Any] = {"color": color, "linestyle": dashes, "zorder": 3.0}
            draw.line(axes, x, np.maximum(error[order], low), name, **look)


def _lines(curves: Sequence[Prediction], k: int) -> list[draw.Line]:
    limits, lines = value_limits(curves, k), []
    for curve in curves:
        order, name = in_order(curve), name_of(curve, curves)
        odd = not curve.sound or name != curve.label
        lines.append(draw.Line(name, curve.x[order, 0], near(curve.u[order, k], limits), odd))
    return lines


def _draw_exact(axes: Axes, curves: Sequence[Prediction], k: int, **look: Any) -> None:
    """Draw the exact solutions, each once."""
    different = {c.x.tobytes() + c.exact.tobytes(): c for c in curves if c.known}
    for curve in different.values():
        order = in_order(curve)
        draw.line(axes, curve.x[order, 0], curve.exact[order, k], "exact solution", **look)
