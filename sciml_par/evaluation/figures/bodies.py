"""The figure of fields in a body in space, which is cut open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.fields import Panel
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import column_width, make_grid
from sciml_par.evaluation.figures.parts.members import (
    MOST_PLANES,
    check_curves,
    error_limits,
    range_of,
    shown_of,
)

_VECTORS = (("u", "v", "w"), ("u_x", "u_y", "u_z"), ("ux", "uy", "uz"), ("v_x", "v_y", "v_z"))
_HEIGHT = 2.5  # inches of a row
_DOT, _LARGEST = 60.0, 12.0  # points: a dot by its share of the diagonal, so that dots touch
_LONGEST = 4.0  # axes are equal while no side is longer than another by more than this


def in_space(curve: Prediction) -> bool:
    """Return whether the points have three coordinates, none of which is the time."""
    return curve.dimension == 3 and not style.of_time(curve)


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

    Returns
    -------
    matplotlib.figure.Figure
        7.2 inches wide, 3.5 where no exact solution is known. Pass it to `save_figure`.

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
    names = list(curves[0].fields)
    vector = next((v for v in _VECTORS if set(v) <= set(names)), ())
    fields = [[names.index(name) for name in vector]] if vector else []
    fields += [[k] for k, name in enumerate(names) if name not in vector]
    shown = curves[: max(1, MOST_PLANES // len(fields))]
    known = all(curve.known for curve in shown)
    rows = [_row(curve, field, known) for curve in shown for field in fields]
    grid = make_grid([_HEIGHT] * len(rows), len(rows[0]), projection="3d")
    for (row, column), axes in grid.panels.items():
        panel = rows[row][column]
        image = _draw(axes, panel, column_width(grid.columns))
        bar = grid.figure.colorbar(image, ax=axes, shrink=0.7, pad=0.12, aspect=18)
        if isinstance(panel.norm, LogNorm):
            bar.ax.yaxis.set_minor_formatter(NullFormatter())
        grid.title(axes, panel.title, panel.symbol)
    return grid.finish(shown_of(len(shown), len(curves), title))


def _row(curve: Prediction, field: list[int], known: bool) -> list[Panel]:
    """Return the panels of a field: its values, and the error if it is known."""
    name, u = ", ".join(style.symbol(curve.fields[k]) for k in field), curve.u[:, field]
    values = u[:, 0]
    if len(field) > 1:
        values, name = np.linalg.norm(u, axis=1), f"({name})"
    norm = Normalize(*range_of([values[curve.inside]], margin=0.0))
    shown = f"$|{name}|$" if len(field) > 1 else f"${name}$"
    row = [Panel(curve, values, norm, curve.label, shown)]
    if known:
        error = np.linalg.norm(u - curve.exact[:, field], axis=1)
        errors = LogNorm(*error_limits([error], [curve.trained]))
        row.append(Panel(curve, error, errors, f"error of ${name}$"))
    return row


def _draw(axes: Any, panel: Panel, wide: float) -> Any:
    """Draw a dot a point, without the quarter towards the reader, and return the colours."""
    curve, norm, logarithmic = panel.curve, panel.norm, isinstance(panel.norm, LogNorm)
    x, inside = curve.x, np.asarray(curve.inside)
    middle, extent = (x.max(axis=0) + x.min(axis=0)) / 2, np.ptp(x, axis=0)
    cut = (x[:, 0] > middle[0]) & (x[:, 1] < middle[1])
    kept = inside & np.isfinite(panel.values) & ~cut
    shape = extent if max(extent) <= _LONGEST * min(extent) else np.ones(3)
    spacing = (np.prod(shape) / max(1, inside.sum())) ** (1 / 3) / np.linalg.norm(shape)
    axes.set_box_aspect(shape)
    axes.tick_params(pad=-2.0)
    axes.locator_params(nbins=3)
    for axis, label in enumerate("xyz"):
        getattr(axes, f"set_{label}label")(style.coordinate(curve, axis), labelpad=-6.0)
    values = np.maximum(panel.values, norm.vmin or 0.0) if logarithmic else panel.values
    look: dict[str, Any] = {"norm": norm, "cmap": "magma" if logarithmic else "viridis"}
    look |= {"marker": "s", "linewidths": 0.0, "depthshade": False, "rasterized": True}
    size = min(_LARGEST, _DOT * wide * spacing) ** 2
    return axes.scatter(*x[kept].T, c=values[kept], s=size, **look)
