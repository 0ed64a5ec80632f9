"""Panels over two coordinates: fields as colours, for predictions and for errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.tri import Triangulation

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.data import Prediction, Shard
from sciml_par.evaluation.figures.layout import Entry, Grid, line_entry, make_grid
from sciml_par.evaluation.figures.limits import error_limits, range_of, value_limits
from sciml_par.evaluation.figures.panels import MOST_PLANES, shown_of
from sciml_par.evaluation.figures.style import INK, color_of
from sciml_par.evaluation.metrics.norms import pointwise_error

_VALUES, _ERRORS = "viridis", "magma"
_ROW_HEIGHT = 1.75


def plane_predictions(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw a row a member and component: prediction, exact solution, error.

    Fields are interpolated linearly on the Delaunay triangulation of the points, which fills
    their convex hull: a hole in the domain is painted over. Errors below the scale have its lowest
    colour.
    """
    m = curves[0].components
    shown = curves[: max(1, MOST_PLANES // m)]
    rows = [(curve, component) for curve in shown for component in range(m)]
    columns = 3 if any(curve.known for curve, _ in rows) else 1
    cells = [(r, c) for r, (curve, _) in enumerate(rows) for c in range(3 if curve.known else 1)]
    grid = make_grid(len(rows), columns, cells, _ROW_HEIGHT if columns > 1 else 2.4)
    errors = _error_norm(shown)
    for row, (curve, component) in enumerate(rows):
        _draw_row(grid, row, curve, component, errors)
    _label_axes(grid)
    return grid.finish(_shard_entries(shown), title=shown_of(len(shown), len(curves), title))


def plane_errors(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw a panel of the pointwise error a member, in columns; a row a component."""
    known = [curve for curve in curves if curve.known]
    shown, m = known[:MOST_PLANES], known[0].components
    cells = [(row, column) for row in range(m) for column in range(len(shown))]
    grid = make_grid(m, len(shown), cells, 2.4 if len(shown) < 3 else _ROW_HEIGHT)
    norm = _error_norm(shown)
    for (component, column), axes in grid.panels.items():
        curve = shown[column]
        image = _paint(axes, curve, _error(curve, component), norm, _ERRORS)
        _outline(axes, curve)
        part = "" if m == 1 else f", $u_{{{component + 1}}}$"
        axes.set_title(curve.label + _remark(curve.u[:, component]) + part)
        axes.locator_params(nbins=4)
    panels = list(grid.panels.values())
    _color_bar(grid, image, panels, extend="min", label="$|u(x) - u^*(x)|$")
    _label_axes(grid)
    return grid.finish(_shard_entries(shown), title=shown_of(len(shown), len(curves), title))


def _draw_row(grid: Grid, row: int, curve: Prediction, component: int, errors: LogNorm) -> None:
    name = "u" if curve.components == 1 else f"u_{{{component + 1}}}"
    low, high = value_limits([curve], component)
    norm = Normalize(low, high)
    values = curve.u[:, component]
    first = grid.panels[row, 0]
    image = _paint(first, curve, values, norm, _VALUES)
    first.set_title(f"{curve.label}{_remark(values)}: ${name}$")
    _outline(first, curve)
    beyond = bool(np.any((values < low) | (values > high)))
    together = [first]
    if curve.known:
        together.append(grid.panels[row, 1])
        _paint(grid.panels[row, 1], curve, curve.exact[:, component], norm, _VALUES)
        grid.panels[row, 1].set_title(f"exact solution ${name}^*$")
        last = grid.panels[row, 2]
        error = _paint(last, curve, _error(curve, component), errors, _ERRORS)
        last.set_title(f"$|{name} - {name}^*|$")
        _color_bar(grid, error, [last], extend="min")
    _color_bar(grid, image, together, extend="both" if beyond else "neither")


def _paint(axes: Axes, curve: Prediction, values: np.ndarray, norm: Normalize, colors: str) -> Any:
    triangles = _triangulate(curve)
    lost = ~np.isfinite(values)
    triangles.set_mask(lost[triangles.triangles].any(axis=1))
    # A log scale has no colour for zero; masked triangles still index their corners.
    floor = float(norm.vmin or 0.0) if isinstance(norm, LogNorm) else -np.inf
    kept = np.where(lost, 1.0, np.maximum(values, floor))
    axes.set_xlim(range_of([curve.x[:, 0]], margin=0.0))
    axes.set_ylim(range_of([curve.x[:, 1]], margin=0.0))
    return axes.tripcolor(
        triangles, kept, shading="gouraud", norm=norm, cmap=colors, rasterized=True
    )


def _triangulate(curve: Prediction) -> Triangulation:
    try:
        return Triangulation(curve.x[:, 0], curve.x[:, 1])
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"Prediction {curve.label!r}: cannot colour a plane from these {len(curve.x)} points "
            f"({error}). Pass three points or more that are not all on one line."
        ) from error


def _outline(axes: Axes, curve: Prediction) -> None:
    coloured = len(curve.shards) > 1
    for number, shard in enumerate(curve.shards):
        color = color_of(number) if coloured else "white"
        _draw_box(axes, shard, color)
        points = shard.training_points
        if points is not None and points.size:
            axes.scatter(
                points[:, 0],
                points[:, 1],
                s=min(7.0, max(1.0, 700.0 / len(points))),
                facecolors=color,
                edgecolors="white" if coloured else INK,
                linewidths=0.4 if len(points) < 500 else 0.0,
                zorder=3.0,
            )


def _draw_box(axes: Axes, shard: Shard, color: str) -> None:
    if shard.corners is None or _covers(shard.corners, axes):
        return
    low, size = shard.corners[0], shard.corners[1] - shard.corners[0]
    box = Rectangle((low[0], low[1]), size[0], size[1], fill=False, edgecolor=color, linewidth=3.0)
    axes.add_patch(box)
    # Only the inner half of the line is kept, so that neighbours do not hide each other's edge.
    box.set_clip_path(box)


def _covers(corners: tuple[np.ndarray, np.ndarray], axes: Axes) -> bool:
    lows, highs = np.array([axes.get_xlim(), axes.get_ylim()]).T
    inset = 0.05 * (highs - lows)
    return bool(np.all((corners[0] <= lows + inset) & (corners[1] >= highs - inset)))


def _shard_entries(curves: Sequence[Prediction]) -> list[Entry]:
    """Return the entries of one network's shards; in an ensemble, panels name their members."""
    shards = curves[0].shards
    if len(curves) > 1 or len(shards) < 2:
        return []
    look = {"marker": "o", "markersize": 4.0, "linewidth": 2.0}
    return [line_entry(shard.label, color=color_of(i), **look) for i, shard in enumerate(shards)]


def _error_norm(curves: Sequence[Prediction]) -> LogNorm:
    """Return the colours' common scale, so that errors compare between members."""
    pairs = [(_error(c, k), c.trained) for c in curves if c.known for k in range(c.components)]
    if not pairs:
        return LogNorm(1e-16, 1.0)
    return LogNorm(*error_limits([e for e, _ in pairs], [mask for _, mask in pairs]))


def _color_bar(grid: Grid, image: Any, axes: list[Axes], **options: Any) -> None:
    grid.figure.colorbar(image, ax=axes, pad=0.02, fraction=0.08, aspect=16, **options)


def _error(curve: Prediction, component: int) -> np.ndarray:
    return pointwise_error(curve.u[:, component], curve.exact[:, component])


def _remark(values: np.ndarray) -> str:
    return "" if np.all(np.isfinite(values)) else " (not finite)"


def _label_axes(grid: Grid) -> None:
    grid.label_x("$x_1$")
    for (_, column), axes in grid.panels.items():
        axes.tick_params(labelleft=column == 0)
        axes.set_ylabel("$x_2$" if column == 0 else "")
