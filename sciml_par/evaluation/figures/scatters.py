"""Figures of predictions over three and more coordinates: a dot a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.members import (
    a_few,
    error_limits,
    range_of,
    shown_of,
    value_limits,
)
from sciml_par.evaluation.metrics.norms import pointwise_error

_HEIGHT = 2.6  # inches of a panel

Members = Sequence[tuple[str, Prediction]]
"""Predictions with their colours."""


def can_be_scattered(curve: Prediction) -> bool:
    """Return whether the exact solution or an estimated error is known."""
    return curve.known or curve.estimated_error is not None


def scatter(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw u over u*, and the estimated error, in a colour a member; a row a component."""
    told = [curve for curve in curves if can_be_scattered(curve)]
    shown = [(style.color_of(i), told[place]) for i, place in enumerate(a_few(len(told)))]
    known = [(color, curve) for color, curve in shown if curve.known]
    estimated = [(color, curve) for color, curve in shown if curve.estimated_error is not None]
    drawn = [(_draw_values, known)] * bool(known) + [(_draw_estimates, estimated)] * bool(estimated)
    grid = make_grid([_HEIGHT] * curves[0].components, len(drawn))
    for (k, column), axes in grid.panels.items():
        how, members = drawn[column]
        how(axes, members, k)
    return grid.finish(shown_of(len(shown), len(curves), title))


def _draw_values(axes: Axes, members: Members, k: int) -> None:
    """Draw the predicted over the exact values, with the diagonal."""
    first, curves = members[0][1], [curve for _, curve in members]
    ends = range_of([curve.exact[:, k] for curve in curves])
    axes.plot(ends, ends, label="exact solution", **style.EXACT)
    axes.set(xlim=ends, ylim=value_limits(curves, k))
    for color, curve in members:
        _draw_dots(axes, curve.exact[:, k], curve.u[:, k], curve.label, color)
    axes.set(xlabel=style.exact_label(first, k), ylabel=style.math(first.fields[k]))


def _draw_estimates(axes: Axes, members: Members, k: int) -> None:
    """Draw |e| over |u − u*| with the diagonal; over time or u if a true error is not known."""
    first, curves = members[0][1], [curve for _, curve in members]
    estimates = [np.abs(np.asarray(curve.estimated_error)[:, k]) for curve in curves]
    across, label = [curve.u[:, k] for curve in curves], style.math(first.fields[k])
    for time in style.of_time(first)[:1]:
        across, label = [curve.x[:, time] for curve in curves], style.coordinate(first, time)
    known, errors, trained = all(c.known for c in curves), estimates, [c.trained for c in curves]
    if known:
        across = [pointwise_error(curve.u[:, k], curve.exact[:, k]) for curve in curves]
        label, errors, trained = style.TRUE_ERROR, [*estimates, *across], 2 * trained
    low, high = error_limits(errors, trained)
    draw.log_axis(axes, low, high, only_decades=True)
    if known:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(axes.get_ylim())
        axes.plot((low, high), (low, high), label="estimated = true error", **style.EXACT)
        across = [np.maximum(error, low) for error in across]
    for (color, curve), x, e in zip(members, across, estimates, strict=True):
        _draw_dots(axes, x, np.maximum(e, low), curve.label, color)
    which = f" of {style.math(first.fields[k])}" if first.components > 1 else ""
    axes.set(xlabel=label, ylabel=style.ESTIMATED + which)


def _draw_dots(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, color: str) -> None:
    """Draw a dot a point, which is one in the PDF as well; the legend has a larger one."""
    look: dict[str, Any] = {"color": color, "markeredgewidth": 0.0}
    axes.plot(x, y, ".", label=f"_{label}", markersize=2.0, rasterized=True, **look)
    axes.plot([], [], ".", label=label, markersize=8.0, **look)
