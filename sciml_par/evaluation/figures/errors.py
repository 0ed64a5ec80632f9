"""The figure of pointwise errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import Entry, draw_line, make_grid, text_entry
from sciml_par.evaluation.figures.parts.limits import error_limits, range_of
from sciml_par.evaluation.figures.parts.lines import Line, draw_lines
from sciml_par.evaluation.figures.parts.members import (
    check_curves,
    has_mean,
    in_order,
    too_many_dimensions,
)
from sciml_par.evaluation.figures.parts.shards import by_shard, draw_marks, marks_of
from sciml_par.evaluation.figures.parts.style import INK, coordinate, error_label, paper_style
from sciml_par.evaluation.figures.planes import plane_errors
from sciml_par.evaluation.metrics.norms import pointwise_error

_LEFT_OUT = 0.1  # of many members, there is always one whose error changes its sign nearby


def plot_errors(
    curves: Sequence[Prediction], *, title: str | None = None, equal_axes: bool | None = None
) -> Figure:
    """Draw the pointwise error |u(x) − u*(x)| of every member on a log scale.

    Local: call it on one rank. Over one coordinate (d = 1) all members share a panel, and the
    sub-domains are shaded. Errors of zero, and those more than three decades below their member's
    median, are drawn at the lower edge; extrapolation may leave the panel at the top. Of more than
    eight members at the same points, the median and the range from 10 % to 90 % of the members are
    drawn, and eight of them thin.

    Over two coordinates (d = 2): a panel a member, at most eight, with common colours. Several
    outputs (m > 1) take one row each, of at most four members.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, all of one d and m. Those without an exact solution are
        only named (d = 1), or left out and counted (d = 2).
    title : str, optional
        Title above the panels.
    equal_axes : bool, optional
        As in `plot_predictions`.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide with one column of panels, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, none has an exact solution, they differ in d or m, or d > 2.
    """
    found = check_curves(curves, "plot_errors")
    if found[0].dimension > 2:
        raise too_many_dimensions(found[0], "plot_errors")
    if not any(curve.known for curve in found):
        raise InputError(
            "plot_errors: no prediction has an exact solution. Pass u_exact to Prediction, or use "
            "plot_predictions."
        )
    with paper_style():
        if found[0].dimension == 2:
            return plane_errors(found, title, equal_axes)
        return _lines(found, title)


def _lines(curves: Sequence[Prediction], title: str | None) -> Figure:
    components = curves[0].components
    grid = make_grid([2.1] * components, 1, [(c, 0) for c in range(components)])
    entries: list[Entry] = []
    for (component, _), axes in grid.panels.items():
        drawn = _draw_panel(axes, curves, component)
        entries = entries or drawn
        axes.set_ylabel(error_label(curves[0], component))
    grid.label_x(coordinate(curves[0], 0))
    return grid.finish(entries, title=title)


def _draw_panel(axes: Axes, curves: Sequence[Prediction], component: int) -> list[Entry]:
    errors = [pointwise_error(c.u[:, component], c.exact[:, component]) for c in curves]
    low, high = error_limits(errors, [curve.trained for curve in curves])
    axes.set_yscale("log")
    axes.set_xlim(range_of([curve.x for curve in curves], margin=0.02))
    # A little below the floor, so that a line that lies on it is seen.
    axes.set_ylim(low / 1.3, high)
    named = by_shard(curves)
    marks = draw_marks(axes, marks_of(curves, range(len(curves))), named=named, ticks=False)
    lines = [_line(curve, np.maximum(e, low)) for curve, e in zip(curves, errors, strict=True)]
    if named:
        look = {"color": INK}
        return [draw_line(axes, lines[0].x, lines[0].y, label=lines[0].label, **look), *marks]
    unknown = [
        text_entry(f"{curve.label} (no exact solution)") for curve in curves if not curve.known
    ]
    seen = [line for line, curve in zip(lines, curves, strict=True) if curve.known]
    return [*marks, *draw_lines(axes, seen, alike=has_mean(curves), without=_LEFT_OUT), *unknown]


def _line(curve: Prediction, error: np.ndarray) -> Line:
    order, inside = in_order(curve), curve.inside
    seen = bool(np.all(np.isfinite(curve.u[inside]) & np.isfinite(curve.exact[inside])))
    label = curve.label if seen else f"{curve.label} (not finite)"
    return Line(label, curve.x[order, 0], error[order], odd=not (seen and curve.sound))
