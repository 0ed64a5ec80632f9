"""Draw fields over two coordinates as colours: triangles, boxes, streamlines, colour bars."""

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
from matplotlib.tri import Triangulation

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import lines, style
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid
from sciml_par.evaluation.figures.parts.members import range_of

_ROW_HEIGHT, _HIGHER_ROW = 1.75, 2.4  # inches, where the axes are not equal
_LEAST_HEIGHT, _GREATEST_HEIGHT = 0.8, 3.2  # inches of a panel, where they are
_AROUND, _GAP = 0.4, 0.17  # inches above and below a panel, and between two
_BAR, _BAR_WIDTH = 0.6, 0.09  # inches, of a colour bar with its labels, and of its colours
MOST_UNLIKE = 4.0  # axes are equal while no side is longer than the other by more than this
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
    shards : whose sub-domains are outlined, with their training points.
    arrows : [n, 2], a vector at each point, whose streamlines are drawn; the points are a grid.
    boxes : lower and upper corners, [K, 2]; outlined, or `filled` with the values.
    dots : places of observations, [k, 2] each, and `star` : a place, [2], that stands out.
    """

    curve: Prediction
    values: np.ndarray
    norm: Normalize
    title: str
    symbol: str = ""
    shards: tuple[Shard, ...] = ()
    arrows: np.ndarray | None = None
    boxes: tuple[np.ndarray, np.ndarray] | None = None
    filled: bool = False
    dots: tuple[np.ndarray, ...] = ()
    star: np.ndarray | None = None

    @property
    def colors(self) -> dict[str, Any]:
        """The scale and the map of its colours."""
        return {"norm": self.norm, "cmap": "magma" if self._on_log_scale else "viridis"}

    @property
    def shown(self) -> np.ndarray:
        """The values; a log scale has no colour for zero."""
        return np.maximum(self.values, self.norm.vmin or 0) if self._on_log_scale else self.values

    @property
    def _on_log_scale(self) -> bool:
        return isinstance(self.norm, LogNorm)


def draw_maps(
    rows: Sequence[Sequence[Panel]], *, title: str | None, bar: str | None = None
) -> Figure:
    """Draw rows of panels, with a colour bar a norm; or, where `bar` names it, one for all."""
    columns, curve = max(len(row) for row in rows), rows[0][0].curve
    cells = {(r, c): panel for r, row in enumerate(rows) for c, panel in enumerate(row)}
    groups = [list(cells)]
    if not bar:  # one for neighbours in a row with one norm
        alike = groupby(cells, lambda cell: (cell[0], id(cells[cell].norm)))
        groups = [list(group) for _, group in alike]
    across, up = np.ptp(curve.x, axis=0)
    equal = max(across, up) <= MOST_UNLIKE * min(across, up) and not style.of_time(curve)
    wide = column_width(columns) - _BAR * max(1, len(groups) // len(rows)) / columns - _GAP
    height = _ROW_HEIGHT if columns > 2 else _HIGHER_ROW
    if equal:  # a length is as long on either axis
        height = float(np.clip(wide * up / across, _LEAST_HEIGHT, _GREATEST_HEIGHT)) + _AROUND
    engine = "compressed" if equal else "constrained"
    grid = make_grid([height] * len(rows), columns, list(cells), engine=engine)
    images = {}
    for (row, column), panel in cells.items():
        axes = grid.panels[row, column]
        axes.set_aspect("equal" if equal else "auto")
        images[row, column] = _draw(axes, panel)
        grid.title(axes, panel.title, panel.symbol, wide=wide)
        axes.locator_params(nbins=4 if columns < 4 else 2)
        axes.tick_params(labelleft=column == 0)
        axes.set_ylabel(style.coordinate(curve, 1) if column == 0 else "")
    long = (height - _AROUND) * (len(rows) if bar else 1)
    for group in groups:
        norm, values = cells[group[0]].norm, [cells[cell].values for cell in group]
        below = any((each < norm.vmin).any() for each in values)
        above = any((each > norm.vmax).any() for each in values)
        grid.figure.colorbar(
            images[group[0]],
            ax=[grid.panels[cell] for cell in group],
            pad=0.02,
            fraction=0.1,
            aspect=long / _BAR_WIDTH,
            extend=("neither", "min", "max", "both")[below + 2 * above],
            label=bar,
        )
    return grid.finish(title, x=style.coordinate(curve, 0))


def _draw(axes: Axes, panel: Panel) -> Any:
    """Draw a panel, and return its colours."""
    x = panel.curve.x
    axes.set_xlim(range_of([x[:, 0]], margin=0.0))
    axes.set_ylim(range_of([x[:, 1]], margin=0.0))
    low, high = panel.boxes or (np.empty((0, 2)),) * 2
    (a, c), (b, d) = low.T, high.T
    corners = list(np.array([(a, c), (b, c), (b, d), (a, d)]).transpose(2, 0, 1))
    if panel.filled:
        patches = PolyCollection(corners, edgecolors=style.INK, linewidths=0.25, **panel.colors)
        patches.set_array(panel.shown)
        axes.add_collection(patches)
        return patches
    try:
        triangles = Triangulation(x[:, 0], x[:, 1])
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"Prediction {panel.curve.label!r}: cannot colour a plane from these {len(x)} points "
            f"({error}). Pass three points or more that are not all on one line."
        ) from error
    lost = ~np.isfinite(panel.values)
    triangles.set_mask(lost[triangles.triangles].any(axis=1))
    kept = np.where(lost, 1.0, panel.shown)  # masked triangles still index their corners
    image = axes.tripcolor(triangles, kept, shading="gouraud", rasterized=True, **panel.colors)
    if corners:
        sides = np.max(high - low, axis=1)
        widths = np.clip(0.7 * np.sqrt(sides / sides.max()), 0.15, 0.7)  # small ones stay clear
        outlines: Any = {"facecolors": "none", "edgecolors": "white", "linewidths": widths}
        axes.add_collection(PolyCollection(corners, **outlines))
    if panel.arrows is not None:
        _draw_streamlines(axes, x, panel.arrows)
    _draw_shards(axes, panel.shards)
    for places in panel.dots:
        axes.scatter(*places.T, **style.DOTS)
    if panel.star is not None:
        axes.scatter(*panel.star, color=style.ERROR, **style.STAR)
    return image


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


def _draw_shards(axes: Axes, shards: Sequence[Shard]) -> None:
    """Outline the sub-domains, and draw the training points small enough to see the field."""
    lows, highs = np.array([axes.get_xlim(), axes.get_ylim()]).T
    inset, sampled = lines.EDGE * (highs - lows), False
    for number, shard in enumerate(shards):
        color = style.color_of(number) if len(shards) > 1 else "white"
        if len(shards) > 1:
            lines.name(axes, shard.label, color, linewidth=2.0)
        low, high = shard.corners or (lows, highs)
        if np.any((low > lows + inset) | (high < highs - inset)):
            look: Any = {"fill": False, "edgecolor": color, "linewidth": 2.4}
            box = axes.add_patch(Rectangle(tuple(low), *(high - low), **look))
            # The inner half of the line alone, so that neighbours do not hide each other's edge.
            box.set_clip_path(box)
        places = shard.training_points
        if places is not None and places.size:
            size, sampled = min(3.0, max(0.4, 400.0 / len(places) / len(shards))), True
            look = {"facecolors": "white", "edgecolors": style.INK, "linewidths": 0.2}
            look |= {"s": size, "zorder": 3.0, "rasterized": len(places) > 500}
            axes.scatter(places[:, 0], places[:, 1], **look)
    if sampled:
        look = {"markersize": 2.5, "markeredgecolor": style.INK, "markeredgewidth": 0.3}
        axes.plot([], [], "o", color="white", label="training points", **look)
