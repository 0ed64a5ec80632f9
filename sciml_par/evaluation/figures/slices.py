"""The figures of fields over more than a plane: slices and maps at several times, open bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import lines, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid
from sciml_par.evaluation.figures.parts.maps import MOST_UNLIKE, Panel, draw_maps
from sciml_par.evaluation.figures.parts.members import (
    DEVIATIONS,
    MOST_PLANES,
    check_curves,
    error_limits,
    range_of,
    shown_of,
    sound_members,
    value_limits,
)
from sciml_par.evaluation.metrics.norms import pointwise_error

SLICES = 4
_FEWEST = 9
_MAP, _LINES, _BODY = 1.5, 1.55, 2.5  # inches: heights of a map, the slices below it, and a body
_DOT, _LARGEST = 60.0, 12.0  # points: a dot by its share of the diagonal, so that dots touch


def in_space_and_time(curve: Prediction) -> bool:
    """Return whether the points are a grid over one coordinate of space and then the time."""
    if curve.dimension != 2 or 1 not in style.of_time(curve):
        return False
    x, t = (np.unique(curve.x[:, axis]) for axis in (0, 1))
    return bool(x.size * t.size == len(curve.x) and min(x.size, t.size) > 1)


def in_plane_and_time(curve: Prediction) -> bool:
    """Return whether the points are as many in the plane at each of several times."""
    if curve.dimension != 3 or 2 not in style.of_time(curve):
        return False
    counts = np.unique(curve.x[:, 2], return_counts=True)[1]
    return bool(counts.size > 1 and counts.min() == counts.max() > _FEWEST)


def in_space(curve: Prediction) -> bool:
    """Return whether the points have three coordinates, none of which is the time."""
    return curve.dimension == 3 and not style.of_time(curve)


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
        panels = [grid.panels[2 * k + 1, i] for i in range(SLICES)]
        _draw_slices(grid.panels[2 * k, 0], panels, members, k)
    return grid.finish(title)


def _draw_slices(
    on_map: Axes, panels: Sequence[Axes], members: Sequence[Prediction], k: int
) -> None:
    """Draw a component as a map over time and space, and in a panel for each of four times."""
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
    for i, axes in enumerate(panels, start=1):
        at = round(i * (t.size - 1) / SLICES)
        on_map.axvline(t[at], color="white", linewidth=1.0, linestyle=(0, (1.5, 1.5)))
        lines.line(axes, x, mean[at], name, color=style.MEAN, linewidth=1.8)
        if several:
            width = DEVIATIONS * values[:, at].std(axis=0, ddof=1)
            lines.band(axes, x, mean[at] - width, mean[at] + width, "± 2 deviations")
        if first.known:
            lines.line(axes, x, exact[at], "exact solution", **style.DASHED)
        axes.set_title(f"${style.symbol(first.coordinates[1])} = {t[at]:.3g}$")
        axes.set(xlim=(x[0], x[-1]), ylim=(low - room, high + room))
        axes.set_xlabel(style.coordinate(first, 0))
        axes.locator_params(nbins=4)
        axes.tick_params(labelleft=i == 1)
    panels[0].set_ylabel(style.value_label(first, k, coordinates=2))


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
    time, rows = style.symbol(first.coordinates[2]), []
    for k in range(min(first.components, MOST_PLANES)):
        name = style.symbol(first.fields[k])
        shown = [(u[:, k], Normalize(*value_limits(members, k)), name)]
        if first.known:
            error = pointwise_error(u[:, k], first.exact[:, k])
            errors = LogNorm(*error_limits([(first, error)]))
            shown.append((error, errors, f"|{name} - {name}^*|"))
        for values, norm, symbol in shown:
            row = []
            for each in times:
                at = first.x[:, 2] == each
                names = first.coordinates[:2]
                curve = Prediction(first.label, first.x[at, :2], values[at], coordinates=names)
                label = f"${symbol}$, ${time} = {each:.3g}$"
                row.append(Panel(curve, values[at], norm, "", label))
            rows.append(row)
    return draw_maps(rows, title=title)


@style.paper_style()
def plot_body(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw fields in a body in space as colours, with their errors where these are known.

    Local: call it on one rank. The quarter of the body that is nearest is cut out, so that the
    inside is seen. A row a member and field, at most four. Components that are named u, v and w, or
    u_x, u_y and u_z, are a vector, whose length and length of the difference are drawn.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, over three coordinates of space.
    title : str, optional
        Title above the panels.

    Raises
    ------
    InputError
        If there are no curves, or not over three coordinates of space.
    """
    curves = check_curves(curves, "plot_body")
    if not in_space(curves[0]):
        raise InputError(
            f"plot_body: expected three coordinates of space; got "
            f"{', '.join(curves[0].coordinates)}."
        )
    vector = style.vector_of(curves[0]) or []
    fields = [vector] * bool(vector)
    fields += [[k] for k in range(curves[0].components) if k not in vector]
    shown, rows = curves[: max(1, MOST_PLANES // len(fields))], []
    known = all(curve.known for curve in shown)
    for curve, field in ((curve, field) for curve in shown for field in fields):
        name, u = ", ".join(style.symbol(curve.fields[k]) for k in field), curve.u[:, field]
        several = len(field) > 1
        values, name = (np.linalg.norm(u, axis=1), f"({name})") if several else (u[:, 0], name)
        norm = Normalize(*range_of([values[curve.inside]], margin=0.0))
        symbol = f"$|{name}|$" if several else f"${name}$"
        rows.append([Panel(curve, values, norm, curve.label, symbol)])
        if known:
            error = np.linalg.norm(u - curve.exact[:, field], axis=1)
            errors = LogNorm(*error_limits([(curve, error)]))
            rows[-1].append(Panel(curve, error, errors, f"error of ${name}$"))
    grid = make_grid([_BODY] * len(rows), len(rows[0]), projection="3d")
    for (row, column), axes in grid.panels.items():
        panel = rows[row][column]
        _draw_body(axes, panel, column_width(grid.columns))
        grid.title(axes, panel.title, panel.symbol)
    return grid.finish(shown_of(len(shown), len(curves), title))


def _draw_body(axes: Any, panel: Panel, wide: float) -> None:
    """Draw a dot a point, without the quarter towards the reader."""
    x, inside = panel.curve.x, np.asarray(panel.curve.inside)
    middle, extent = (x.max(axis=0) + x.min(axis=0)) / 2, np.ptp(x, axis=0)
    cut = (x[:, 0] > middle[0]) & (x[:, 1] < middle[1])
    kept = inside & np.isfinite(panel.values) & ~cut
    shape = extent if max(extent) <= MOST_UNLIKE * min(extent) else np.ones(3)
    spacing = (np.prod(shape) / max(1, inside.sum())) ** (1 / 3) / np.linalg.norm(shape)
    axes.set_box_aspect(shape)
    axes.tick_params(pad=-2.0)
    axes.locator_params(nbins=3)
    for axis, label in enumerate("xyz"):
        getattr(axes, f"set_{label}label")(style.coordinate(panel.curve, axis), labelpad=-6.0)
    look: dict[str, Any] = {"marker": "s", "linewidths": 0.0, "depthshade": False}
    look |= {"s": min(_LARGEST, _DOT * wide * spacing) ** 2, "rasterized": True}
    image = axes.scatter(*x[kept].T, c=panel.shown[kept], **panel.colors, **look)
    axes.figure.colorbar(image, ax=axes, shrink=0.7, pad=0.12, aspect=18)
