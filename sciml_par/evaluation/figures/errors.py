"""The figure of pointwise errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.data import Prediction
from sciml_par.evaluation.figures.layout import Entry, draw_line, make_grid, text_entry
from sciml_par.evaluation.figures.limits import error_limits, range_of
from sciml_par.evaluation.figures.marks import by_shard, draw_marks, marks_of
from sciml_par.evaluation.figures.panels import check_curves, in_order
from sciml_par.evaluation.figures.planes import plane_errors
from sciml_par.evaluation.figures.style import INK, line_of, paper_style
from sciml_par.evaluation.metrics.norms import pointwise_error


def plot_errors(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw the pointwise error |u(x) − u*(x)| of every member on a log scale.

    Local: call it on one rank. Over one coordinate (d = 1) all members share a panel, and the
    sub-domains are shaded. Errors of zero, and those more than three decades below their member's
    median, are drawn at the lower edge; extrapolation may leave the panel at the top.

    Over two coordinates (d = 2): a panel a member, at most four, with common colours. Several
    outputs (m > 1) take one row each.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, all of one d and m. Those without an exact solution are
        only named (d = 1), or left out and counted (d = 2).
    title : str, optional
        Title above the panels.

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
    if not any(curve.known for curve in found):
        raise InputError(
            "plot_errors: no prediction has an exact solution. Pass u_exact to Prediction, or use "
            "plot_predictions."
        )
    with paper_style():
        if found[0].dimension == 2:
            return plane_errors(found, title)
        return _lines(found, title)


def _lines(curves: Sequence[Prediction], title: str | None) -> Figure:
    components = curves[0].components
    grid = make_grid(components, 1, [(c, 0) for c in range(components)], 2.1)
    entries: list[Entry] = []
    for (component, _), axes in grid.panels.items():
        drawn = _draw_panel(axes, curves, component)
        entries = entries or drawn
        name = "u" if components == 1 else f"u_{{{component + 1}}}"
        axes.set_ylabel(f"$|{name}(x) - {name}^*(x)|$")
    grid.label_x("$x$")
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
    members = [
        _draw_error(axes, curve, np.maximum(error, low), line_of(index, of=len(curves)))
        for index, (curve, error) in enumerate(zip(curves, errors, strict=True))
    ]
    return members + marks if named else marks + members


def _draw_error(axes: Axes, curve: Prediction, error: np.ndarray, look: dict[str, Any]) -> Entry:
    if not curve.known:
        return text_entry(f"{curve.label} (no exact solution)")
    if by_shard([curve]):
        look = {"color": INK}
    order = in_order(curve)
    return draw_line(axes, curve.x[order, 0], error[order], label=_name(curve), **look)


def _name(curve: Prediction) -> str:
    seen = np.all(np.isfinite(curve.u) & np.isfinite(curve.exact))
    return curve.label if seen else f"{curve.label} (not finite)"
