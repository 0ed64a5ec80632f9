"""The figure of windows over a solution, and of the error in each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.members import check_curves, value_limits

_DECADES = 4.0
"""Of errors, below the largest one."""
_CLOSER = 8.0
"""Sides of the smallest window, to the edge of the panel around it."""


@style.paper_style()
def plot_windows(
    curve: Prediction,
    lower: ArrayLike,
    upper: ArrayLike,
    error: ArrayLike,
    *,
    title: str | None = None,
) -> Figure:
    """Draw a field with the parts of its windows, and the error in each of them on a log scale.

    Local: call it on one rank. If the smallest part is less than an eighth of the largest one, a
    third panel shows the errors around it. Of several components, the first one is drawn.

    Parameters
    ----------
    curve : Prediction
        The field, over two coordinates.
    lower, upper : arrays [K, 2]
        Corners of the parts.
    error : array [K]
        Such as `ErrorByWindow.error`. A part whose error is NaN has no window, and is left out.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        7.2 inches wide. Pass it to `save_figure`.

    Raises
    ------
    InputError
        The field is not over two coordinates, the arrays have other shapes, or no error is known.
    """
    low, high, values = (np.asarray(each, np.float64) for each in (lower, upper, error))
    if curve.dimension != 2 or low.shape != (len(values), 2) or high.shape != low.shape:
        raise InputError(
            f"plot_windows: expected a field over two coordinates and corners of the shape [K, 2]; "
            f"got one over {curve.dimension}, and {low.shape} and {high.shape} for {len(values)} "
            f"errors."
        )
    known = np.isfinite(values) & (values > 0)
    if not known.any():
        raise InputError("plot_windows: the error is known in no window.")
    low, high, values = low[known], high[known], values[known]
    (field,) = check_curves([curve], "plot_windows")
    boxes, name = (low, high), style.math(field.fields[0])
    colors = Normalize(*value_limits([field], 0))
    over = Panel(field, field.u[:, 0], colors, "windows over the field", name, boxes=boxes)
    norm = LogNorm(max(values.min(), values.max() / 10**_DECADES), values.max())
    errors = Panel(field, values, norm, "error by window", boxes=boxes, filled=True)
    closer = replace(errors, title="error, near the smallest window")
    sides = (high - low).max(axis=1)
    shown = [over, errors, closer] if sides.min() < sides.max() / _CLOSER else [over, errors]
    figure = draw_panels([shown], title=title)
    if len(shown) == 3:
        axes, smallest = figure.axes[2], np.isclose(sides, sides.min())
        middle, reach = (low + high)[smallest].mean(axis=0) / 2, _CLOSER * sides.min()
        axes.set(xlim=middle[0] + [-reach, reach], ylim=middle[1] + [-reach, reach])
        axes.tick_params(labelleft=True)
        axes.ticklabel_format(style="plain", useOffset=False)
    return figure
