"""Panels of fields over two coordinates, as colours: triangles, boxes, scales, axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullFormatter
from matplotlib.tri import Triangulation

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.layout import Engine, column_width, make_grid
from sciml_par.evaluation.figures.parts.members import range_of

_ROW_HEIGHT, _HIGHER_ROW = 1.75, 2.4  # inches, where the axes are not equal
_LEAST_HEIGHT, _GREATEST_HEIGHT = 0.8, 3.2  # inches of a panel, where they are
_AROUND = 0.4  # inches above and below a panel
_BAR, _BAR_WIDTH = 0.6, 0.09  # inches, of a colour bar with its labels, and of its colours
_GAP = 0.17  # inches between two panels
_MOST_UNLIKE = 4.0  # axes are equal while no side is longer than the other by more than this
_STREAMLINES: Any = {"color": "white", "linewidth": 0.6, "density": 0.9, "arrowsize": 0.6}
_STILL = 1e-3  # of the greatest length; a vector that is shorter has no line through it


@dataclass(frozen=True, eq=False)
class Panel:
    """A field over the points of a prediction.

    Attributes
    ----------
    curve : whose points they are.
    values : [n]; NaN leaves a hole. Of `filled` boxes, [K].
    norm : its colours; neighbours in a row with one norm share a colour bar.
    title, symbol : of the panel, "title: symbol".
    shards : whose sub-domains are outlined.
    points : whether their training points are drawn as well.
    arrows : [n, 2], a vector at each point, whose streamlines are drawn; the points are a grid.
    boxes : lower and upper corners, [K, 2]; outlined, or `filled` with the values.
    """

    curve: Prediction
    values: np.ndarray
    norm: Normalize
    title: str
    symbol: str = ""
    shards: tuple[Shard, ...] = ()
    points: bool = True
    arrows: np.ndarray | None = None
    boxes: tuple[np.ndarray, np.ndarray] | None = None
    filled: bool = False


def draw_panels(
    rows: Sequence[Sequence[Panel]],
    *,
    title: str | None,
    equal: bool | None = None,
    bar: str | None = None,
) -> Figure:
    """Draw rows of panels, with a colour bar a norm; or, where `bar` names it, one for all."""
    columns, curve = max(len(row) for row in rows), rows[0][0].curve
    cells = {(r, c): panel for r, row in enumerate(rows) for c, panel in enumerate(row)}
    groups = [list(cells)]
    if not bar:  # one for neighbours in a row with one norm
        alike = groupby(cells, lambda cell: (cell[0], id(cells[cell].norm)))
        groups = [list(group) for _, group in alike]
    across, up = np.ptp(curve.x, axis=0)
    if equal is None:
        equal = max(across, up) <= _MOST_UNLIKE * min(across, up) and not style.of_time(curve)
    wide = column_width(columns) - _BAR * max(1, len(groups) // len(rows)) / columns - _GAP
    height = _ROW_HEIGHT if columns > 2 else _HIGHER_ROW
    if equal:  # a length is as long on either axis
        height = float(np.clip(wide * up / across, _LEAST_HEIGHT, _GREATEST_HEIGHT)) + _AROUND
    engine: Engine = "compressed" if equal else "constrained"
    grid = make_grid([height] * len(rows), columns, list(cells), engine=engine)
    images = {cell: _draw(grid.panels[cell], panel, equal) for cell, panel in cells.items()}
    for group in groups:
        drawn = grid.figure.colorbar(
            images[group[0]],
            ax=[grid.panels[cell] for cell in group],
            pad=0.02,
            fraction=0.1,
            aspect=(height - _AROUND) * (len(rows) if bar else 1) / _BAR_WIDTH,
            extend=_extension([cells[cell] for cell in group]),
            label=bar,
        )
        if isinstance(cells[group[0]].norm, LogNorm):
            drawn.ax.yaxis.set_minor_formatter(NullFormatter())
    grid.label_x(style.coordinate(curve, 0))
    for (row, column), axes in grid.panels.items():
        grid.title(axes, cells[row, column].title, cells[row, column].symbol, wide=wide)
        axes.locator_params(nbins=4 if columns < 4 else 2)
        axes.tick_params(labelleft=column == 0)
        axes.set_ylabel(style.coordinate(curve, 1) if column == 0 else "")
    return grid.finish(title)


def _draw(axes: Axes, panel: Panel, equal: bool) -> Any:
    """Draw a panel, and return its colours."""
    x, norm = panel.curve.x, panel.norm
    axes.set_xlim(range_of([x[:, 0]], margin=0.0))
    axes.set_ylim(range_of([x[:, 1]], margin=0.0))
    axes.set_aspect("equal" if equal else "auto")
    logarithmic = isinstance(norm, LogNorm)
    # A log scale has no colour for zero.
    values = np.maximum(panel.values, norm.vmin or 0.0) if logarithmic else panel.values
    look: Any = {"norm": norm, "cmap": "magma" if logarithmic else "viridis"}
    if panel.boxes is not None and panel.filled:
        patches = PolyCollection(
            _corners(*panel.boxes), edgecolors=style.INK, linewidths=0.25, **look
        )
        patches.set_array(values)
        axes.add_collection(patches)
        return patches
    triangles, lost = triangulate(panel.curve), ~np.isfinite(panel.values)
    triangles.set_mask(lost[triangles.triangles].any(axis=1))
    kept = np.where(lost, 1.0, values)  # masked triangles still index their corners
    image = axes.tripcolor(triangles, kept, shading="gouraud", rasterized=True, **look)
    if panel.boxes is not None:
        sides = np.max(panel.boxes[1] - panel.boxes[0], axis=1)
        widths = np.clip(0.7 * np.sqrt(sides / sides.max()), 0.15, 0.7)  # small ones stay clear
        outlines: Any = {"facecolors": "none", "edgecolors": "white", "linewidths": widths}
        axes.add_collection(PolyCollection(_corners(*panel.boxes), **outlines))
    if panel.arrows is not None:
        _draw_streamlines(axes, x, panel.arrows)
    _draw_shards(axes, panel.shards, points=panel.points)
    return image


def _corners(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Return the corners of K rectangles, [4, 2] each."""
    (a, c), (b, d) = low.T, high.T
    return list(np.array([(a, c), (b, c), (b, d), (a, d)]).transpose(2, 0, 1))


def _draw_streamlines(axes: Axes, x: np.ndarray, vectors: np.ndarray) -> None:
    """Draw the lines along a vector field, where its points are a grid."""
    across, up = (np.unique(x[:, axis]) for axis in (0, 1))
    if across.size * up.size != len(x):
        return
    order = np.lexsort((x[:, 0], x[:, 1]))
    u, v = (vectors[order, k].reshape(up.size, across.size) for k in (0, 1))
    speed = np.hypot(u, v)
    u = np.where(speed <= _STILL * np.nanmax(speed), np.nan, u)
    # The lines want equal distances to the last digit.
    across, up = (np.linspace(each[0], each[-1], each.size) for each in (across, up))
    axes.streamplot(across, up, u, v, **_STREAMLINES)


def _draw_shards(axes: Axes, shards: Sequence[Shard], *, points: bool) -> None:
    """Outline the sub-domains, and draw the training points small enough to see the field."""
    lows, highs = np.array([axes.get_xlim(), axes.get_ylim()]).T
    inset = draw.EDGE * (highs - lows)
    for number, shard in enumerate(shards):
        color = style.color_of(number) if len(shards) > 1 else "white"
        if len(shards) > 1:
            draw.name(axes, shard.label, color, linewidth=2.0)
        low, high = shard.corners or (lows, highs)
        if np.all((low <= lows + inset) & (high >= highs - inset)):
            continue
        look: Any = {"fill": False, "edgecolor": color, "linewidth": 2.4}
        box = Rectangle((low[0], low[1]), *(high - low), **look)
        axes.add_patch(box)
        # Only the inner half of the line is kept, so that neighbours do not hide each other's edge.
        box.set_clip_path(box)
    sets = [shard.training_points for shard in shards if points]
    sampled = [places for places in sets if places is not None and places.size]
    for places in sampled:
        size = min(3.0, max(0.4, 400.0 / len(places) / len(shards)))
        look = {"facecolors": "white", "edgecolors": style.INK, "linewidths": 0.2, "zorder": 3.0}
        look |= {"s": size, "rasterized": len(places) > 500}
        axes.scatter(places[:, 0], places[:, 1], **look)
    if sampled:
        look = {"markersize": 2.5, "markeredgecolor": style.INK, "markeredgewidth": 0.3}
        axes.plot([], [], "o", color="white", label="training points", **look)


def triangulate(curve: Prediction) -> Triangulation:
    """Return the triangles between the points of a prediction."""
    try:
        return Triangulation(curve.x[:, 0], curve.x[:, 1])
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"Prediction {curve.label!r}: cannot colour a plane from these {len(curve.x)} points "
            f"({error}). Pass three points or more that are not all on one line."
        ) from error


def _extension(panels: Sequence[Panel]) -> str:
    """Return at which ends of a colour bar there are values beyond it."""
    low, high = panels[0].norm.vmin, panels[0].norm.vmax
    below = any(bool(np.any(panel.values < low)) for panel in panels)
    above = any(bool(np.any(panel.values > high)) for panel in panels)
    return "both" if below and above else "min" if below else "max" if above else "neither"
