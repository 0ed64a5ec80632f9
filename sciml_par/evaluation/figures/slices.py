"""The figures of a field over space and time: slices or maps at several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.members import (
    DEVIATIONS,
    MOST_PLANES,
    check_curves,
    error_limits,
    sound_members,
    value_limits,
)
from sciml_par.evaluation.metrics.norms import pointwise_error

SLICES = 4
_FEWEST = 9
_MAP, _LINES = 1.5, 1.55  # inches, the heights of a map and of the slices below it


def in_space_and_time(curve: Prediction) -> bool:
    """Return whether the points are a grid over one coordinate of space and then the time."""
    if curve.dimension != 2 or 1 not in style.of_time(curve):
        return False
    x, t = (np.unique(curve.x[:, axis]) for axis in (0, 1))
    return bool(x.size * t.size == len(curve.x) and min(x.size, t.size) > 1)


@style.paper_style()
def plot_slices(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw a field over time and space as a map, and as lines over space at four times.

    Local: call it on one rank. The lines of the map are where the slices below it are. The exact
    solution, where it is known, is dashed. Of four or more sound members at the same points, their
    mean is drawn, with ± 2 sample standard deviations; else the first member.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, over the coordinates (x, t), at points that are a grid.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        7.2 inches wide. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, or not over space and time, or not on a grid.
    """
    curves = check_curves(curves, "plot_slices")
    if not all(in_space_and_time(curve) for curve in curves):
        raise InputError(
            "plot_slices: expected predictions at a grid of points over two coordinates, of which "
            "the second is named 't' or 'time'."
        )
    members, m = sound_members(curves), curves[0].components
    grid = make_grid([_MAP, _LINES] * m, SLICES, wide=range(0, 2 * m, 2))
    for k in range(m):
        lines = [grid.panels[2 * k + 1, i] for i in range(SLICES)]
        _draw_component(grid.panels[2 * k, 0], lines, members, k)
    return grid.finish(title)


def _draw_component(
    on_map: Axes, lines: Sequence[Axes], members: Sequence[Prediction], k: int
) -> None:
    first, several = members[0], len(members) > 1
    x, t = np.unique(first.x[:, 0]), np.unique(first.x[:, 1])
    order = np.lexsort((first.x[:, 0], first.x[:, 1]))
    values = np.stack([curve.u[order, k] for curve in members]).reshape(-1, t.size, x.size)
    exact = first.exact[order, k].reshape(t.size, x.size)
    mean, (low, high) = values.mean(axis=0), value_limits(members, k)
    colors: Any = {"norm": Normalize(low, high), "cmap": "viridis", "shading": "gouraud"}
    image = on_map.pcolormesh(t, x, mean.T, rasterized=True, **colors)
    name = style.math(first.fields[k])
    on_map.figure.colorbar(image, ax=on_map, pad=0.01, aspect=18, label=name)
    on_map.set_xlabel(style.coordinate(first, 1), labelpad=1.0)
    on_map.set(ylabel=style.coordinate(first, 0), xlim=(t[0], t[-1]))
    room = 0.06 * (high - low)
    name = f"mean of {len(members)}" if several else first.label
    for i, axes in enumerate(lines, start=1):
        at = round(i * (t.size - 1) / SLICES)
        on_map.axvline(t[at], color="white", linewidth=1.0, linestyle=(0, (1.5, 1.5)))
        draw.line(axes, x, mean[at], name, color=style.MEAN, linewidth=1.8)
        if several:
            width = DEVIATIONS * values[:, at].std(axis=0, ddof=1)
            draw.band(axes, x, mean[at] - width, mean[at] + width, "± 2 deviations")
        if first.known:
            draw.line(axes, x, exact[at], "exact solution", **style.DASHED)
        axes.set_title(f"${style.symbol(first.coordinates[1])} = {t[at]:.3g}$")
        axes.set(
            xlim=(x[0], x[-1]), ylim=(low - room, high + room), xlabel=style.coordinate(first, 0)
        )
        axes.locator_params(nbins=4)
        axes.tick_params(labelleft=i == 1)
    lines[0].set_ylabel(style.value_label(first, k, coordinates=2))


def in_plane_and_time(curve: Prediction) -> bool:
    """Return whether the points are as many in the plane at each of several times."""
    if curve.dimension != 3 or 2 not in style.of_time(curve):
        return False
    counts = np.unique(curve.x[:, 2], return_counts=True)[1]
    return bool(counts.size > 1 and counts.min() == counts.max() > _FEWEST)


@style.paper_style()
def plot_times(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw a field over a plane and time as maps at four times, with the error where it is known.

    Local: call it on one rank. A row a component, at most four, and below it its error; of the
    first member, or of the mean of four or more sound members at the same points.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, over the coordinates (x, y, t), at as many points for each of the times.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        7.2 inches wide. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, or not over a plane and time, or not at common times.
    """
    curves = check_curves(curves, "plot_times")
    if not all(in_plane_and_time(curve) for curve in curves):
        raise InputError(
            "plot_times: expected predictions over three coordinates, of which the third is named "
            "'t' or 'time', at as many points for each of several times."
        )
    members = sound_members(curves)
    first, t = members[0], np.unique(members[0].x[:, 2])
    u = np.mean([curve.u for curve in members], axis=0)
    times = t[np.unique(np.linspace(0, t.size - 1, SLICES).round().astype(int))]
    rows = []
    for k in range(min(first.components, MOST_PLANES)):
        name = style.symbol(first.fields[k])
        rows.append(_maps(first, u[:, k], times, Normalize(*value_limits(members, k)), name))
        if first.known:
            error = pointwise_error(u[:, k], first.exact[:, k])
            norm = LogNorm(*error_limits([error], [first.trained]))
            rows.append(_maps(first, error, times, norm, f"|{name} - {name}^*|"))
    return draw_panels(rows, title=title)


def _maps(
    curve: Prediction, values: np.ndarray, times: np.ndarray, norm: Normalize, name: str
) -> list[Panel]:
    """Return a panel of the values, [n], at each time."""
    panels = []
    for time in times:
        rows = curve.x[:, 2] == time
        at = Prediction(
            curve.label, curve.x[rows, :2], values[rows], coordinates=curve.coordinates[:2]
        )
        label = f"${name}$, ${style.symbol(curve.coordinates[2])} = {time:.3g}$"
        panels.append(Panel(at, values[rows], norm, "", label))
    return panels
