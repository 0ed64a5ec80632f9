"""The figure of windows over a solution, and of the error in each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.fields import triangulate
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid
from sciml_par.evaluation.figures.parts.limits import range_of, value_limits
from sciml_par.evaluation.figures.parts.style import INK, coordinate, paper_style, symbol

_DECADES = 4.0
"""Of errors, below the largest one."""
_CLOSER = 8.0
"""Sides of the smallest window, to the edge of the panel around it."""
_AROUND = 0.55  # inches above and below a panel, with its colour bar


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
    sides = (high - low).max(axis=1)
    closer = sides.min() < sides.max() / _CLOSER
    wide, tall = np.ptp(curve.x, axis=0)
    columns = 3 if closer else 2
    with paper_style():
        height = float(np.clip(column_width(columns) * tall / wide, 1.0, 3.2)) + _AROUND
        grid = make_grid([height], columns, engine="compressed")
        _draw_field(grid.panels[0, 0], curve, low, high)
        norm = LogNorm(max(values.min(), values.max() / 10**_DECADES), values.max())
        for column in range(1, columns):
            drawn = _draw_errors(grid.panels[0, column], low, high, values, norm)
        extend = "min" if values.min() < norm.vmin else "neither"
        grid.figure.colorbar(
            drawn,
            ax=[grid.panels[0, column] for column in range(1, columns)],
            location="bottom",
            aspect=30 * (columns - 1),
            pad=0.03,
            extend=extend,
        )
        names = ("error by window", "error, near the smallest window")
        grid.title(grid.panels[0, 0], "windows over the field", f"${symbol(curve.fields[0])}$")
        for column in range(columns):
            axes = grid.panels[0, column]
            if column:
                grid.title(axes, names[column - 1])
            axes.set_xlim(range_of([curve.x[:, 0]], margin=0.0))
            axes.set_ylim(range_of([curve.x[:, 1]], margin=0.0))
            axes.set_aspect("equal" if max(wide, tall) <= 4 * min(wide, tall) else "auto")
            axes.locator_params(nbins=4)
            axes.tick_params(labelleft=column != 1)
            axes.set_ylabel(coordinate(curve, 1) if column == 0 else "")
        if closer:
            _zoom(grid.panels[0, 2], low, high, sides)
        grid.label_x(coordinate(curve, 0))
        return grid.finish(title)


def _draw_field(axes: Axes, curve: Prediction, low: np.ndarray, high: np.ndarray) -> None:
    values = curve.u[:, 0]
    triangles = triangulate(curve)
    lost = ~np.isfinite(values)
    if curve.inside is not None:
        lost |= ~curve.inside
    triangles.set_mask(lost[triangles.triangles].any(axis=1))
    image = axes.tripcolor(
        triangles,
        np.where(lost, 0.0, values),
        shading="gouraud",
        norm=Normalize(*value_limits([curve], 0)),
        cmap="viridis",
        rasterized=True,
    )
    sides = (high - low).max(axis=1)
    # Small parts would be black otherwise.
    widths = np.clip(0.7 * np.sqrt(sides / sides.max()), 0.15, 0.7)
    look: Any = {"facecolors": "none", "edgecolors": "white", "linewidths": widths}
    axes.add_collection(PolyCollection(_corners(low, high), **look))
    axes.figure.colorbar(image, ax=axes, location="bottom", aspect=30, pad=0.03)


def _draw_errors(
    axes: Axes, low: np.ndarray, high: np.ndarray, values: np.ndarray, norm: LogNorm
) -> PolyCollection:
    drawn = PolyCollection(_corners(low, high), norm=norm, cmap="magma", linewidths=0.25)
    drawn.set_array(np.maximum(values, norm.vmin or 0.0))
    drawn.set_edgecolor(INK)
    axes.add_collection(drawn)
    return drawn


def _zoom(axes: Axes, low: np.ndarray, high: np.ndarray, sides: np.ndarray) -> None:
    smallest = np.isclose(sides, sides.min())
    middle = (low[smallest].mean(axis=0) + high[smallest].mean(axis=0)) / 2
    reach = _CLOSER * sides.min()
    axes.set_xlim(middle[0] - reach, middle[0] + reach)
    axes.set_ylim(middle[1] - reach, middle[1] + reach)
    axes.ticklabel_format(style="plain", useOffset=False)
    axes.locator_params(nbins=3)


def _corners(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Return the corners of K rectangles, [4, 2] each."""
    (a, c), (b, d) = low.T, high.T
    return list(np.array([(a, c), (b, c), (b, d), (a, d)]).transpose(2, 0, 1))
