"""The figure of pointwise errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.members import (
    by_shard,
    check_curves,
    error_limits,
    has_mean,
    in_order,
    range_of,
    too_many_dimensions,
)
from sciml_par.evaluation.figures.planes import plane_errors
from sciml_par.evaluation.metrics.norms import pointwise_error

_LEFT_OUT = 0.1  # of many members, there is always one whose error changes its sign nearby


@style.paper_style()
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
    curves = check_curves(curves, "plot_errors")
    if curves[0].dimension > 2:
        raise too_many_dimensions(curves[0], "plot_errors")
    if not any(curve.known for curve in curves):
        raise InputError(
            "plot_errors: no prediction has an exact solution. Pass u_exact to Prediction, or use "
            "plot_predictions."
        )
    if curves[0].dimension == 2:
        return plane_errors(curves, title, equal_axes)
    grid = make_grid([2.1] * curves[0].components, 1)
    for (component, _), axes in grid.panels.items():
        _draw_panel(axes, curves, component)
        axes.set_ylabel(style.error_label(curves[0], component))
    grid.label_x(style.coordinate(curves[0], 0))
    return grid.finish(title)


def _draw_panel(axes: Axes, curves: Sequence[Prediction], component: int) -> None:
    errors = [pointwise_error(c.u[:, component], c.exact[:, component]) for c in curves]
    low, high = error_limits(errors, [curve.trained for curve in curves])
    draw.log_axis(axes, low, high)
    axes.set_xlim(range_of([curve.x for curve in curves], margin=0.02))
    lines = [_line(curve, np.maximum(e, low)) for curve, e in zip(curves, errors, strict=True)]
    if by_shard(curves):
        draw.line(axes, lines[0].x, lines[0].y, lines[0].label, color=style.INK)
    else:
        seen = [line for line, curve in zip(lines, curves, strict=True) if curve.known]
        draw.lines(axes, seen, alike=has_mean(curves), without=_LEFT_OUT)
    draw.marks(axes, curves, ticks=False)
    for curve in curves:
        if not curve.known:
            axes.plot([], [], alpha=0.0, label=f"{curve.label} (no exact solution)")


def _line(curve: Prediction, error: np.ndarray) -> draw.Line:
    order, inside = in_order(curve), curve.inside
    seen = bool(np.all(np.isfinite(curve.u[inside]) & np.isfinite(curve.exact[inside])))
    label = curve.label if seen else f"{curve.label} (not finite)"
    return draw.Line(label, curve.x[order, 0], error[order], odd=not (seen and curve.sound))
