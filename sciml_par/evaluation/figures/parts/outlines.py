"""Show over two coordinates where a network was trained: sub-domains and training points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.tri import Triangulation

from sciml_par.evaluation.figures.parts.data import Shard
from sciml_par.evaluation.figures.parts.layout import Entry, line_entry
from sciml_par.evaluation.figures.parts.style import INK, color_of

_INSET = 0.008  # of an axis, so that neighbours do not hide each other's edge
_POINTS = {"marker": "o", "linestyle": "", "markersize": 2.5, "markeredgewidth": 0.3}


def draw_shards(
    axes: Axes, shards: Sequence[Shard], *, points: bool, within: Path | None = None
) -> None:
    """Outline the sub-domains, and draw the training points small enough to see the field.

    Of the outlines, only what lies `within` the drawn part of the plane is seen, if that is given.
    """
    for number, shard in enumerate(shards):
        _draw_box(axes, shard, color_of(number) if len(shards) > 1 else "white", within)
    if not points:
        return
    for shard in shards:
        places = shard.training_points
        if places is None or not places.size:
            continue
        axes.scatter(
            places[:, 0],
            places[:, 1],
            s=min(3.0, max(0.4, 400.0 / len(places) / len(shards))),
            facecolors="white",
            edgecolors=INK,
            linewidths=0.2,
            rasterized=len(places) > 500,
            zorder=3.0,
        )


def shard_entries(shards: Sequence[Shard], *, points: bool) -> list[Entry]:
    """Return what the legend says: whose outlines there are, if of several shards, and points."""
    several = enumerate(shards) if len(shards) > 1 else ()
    entries = [line_entry(each.label, color=color_of(i), linewidth=2.0) for i, each in several]
    drawn = [each.training_points for each in shards if each.training_points is not None]
    if points and any(places.size for places in drawn):
        look = {"color": "white", "markeredgecolor": INK, **_POINTS}
        entries.append(line_entry("training points", **look))
    return entries


def outline_of(triangles: Triangulation) -> Path:
    """Return the part of the plane that triangles cover, those left out that are masked."""
    corners = np.stack([triangles.x, triangles.y], axis=1)[triangles.get_masked_triangles()]
    one, other = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    sense = one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
    corners[sense < 0] = corners[sense < 0][:, ::-1]  # all one way round, so that none is a hole
    closed = np.concatenate([corners, corners[:, :1]], axis=1)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(closed))
    return Path(closed.reshape(-1, 2), codes)


def _draw_box(axes: Axes, shard: Shard, color: str, within: Path | None) -> None:
    if shard.corners is None or _covers(shard.corners, axes):
        return
    low, size = shard.corners[0], shard.corners[1] - shard.corners[0]
    if within is not None:
        inset = _INSET * np.ptp([axes.get_xlim(), axes.get_ylim()], axis=1)
        low, size = low + inset, size - 2 * inset
    box = Rectangle((low[0], low[1]), size[0], size[1], fill=False, edgecolor=color, linewidth=2.4)
    axes.add_patch(box)
    if within is not None:
        box.set_clip_path(within, axes.transData)
        return
    # Only the inner half of the line is kept, so that neighbours do not hide each other's edge.
    box.set_clip_path(box)


def _covers(corners: tuple[np.ndarray, np.ndarray], axes: Axes) -> bool:
    lows, highs = np.array([axes.get_xlim(), axes.get_ylim()]).T
    inset = 0.05 * (highs - lows)
    return bool(np.all((corners[0] <= lows + inset) & (corners[1] >= highs - inset)))
