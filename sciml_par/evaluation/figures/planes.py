"""The figures of fields over two coordinates: maps of members, streamlines, windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.maps import Panel, draw_maps
from sciml_par.evaluation.figures.parts.members import (
    MOST_PLANES,
    a_few,
    check_curves,
    error_limits,
    error_of,
    estimate_of,
    remarked,
    shown_of,
    spread_of,
    value_limits,
)

_COLUMNS = 4  # of panels of errors
_DECADES = 4.0  # of the errors of windows, below the largest one
_CLOSER = 8.0  # sides of the smallest window, to the edge of the panel around it


def maps_of_members(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw a row a member and component: prediction, exact solution, error, estimated error."""
    m, rows = curves[0].components, []
    shown = curves[: max(1, MOST_PLANES // m)]
    pairs = [(c, each(c, k)) for c in shown for k in range(m) for each in (error_of, estimate_of)]
    errors = LogNorm(*error_limits(pairs))  # one for all, so that they compare between members
    for curve, k in ((curve, k) for curve in shown for k in range(m)):
        norm, name = Normalize(*value_limits([curve], k)), style.math(curve.fields[k])
        label = remarked(curve.label, curve.u[curve.inside, k])
        row = [Panel(curve, curve.u[:, k], norm, label, name, curve.shards)]
        if curve.known:
            row.append(Panel(curve, curve.exact[:, k], norm, "exact", style.exact_label(curve, k)))
            row.append(Panel(curve, error_of(curve, k), errors, style.error_label(curve, k)))
        if (estimate := estimate_of(curve, k)) is not None:
            row.append(Panel(curve, estimate, errors, style.ESTIMATED))
        rows.append(row)
    return draw_maps(rows, title=shown_of(len(shown), len(curves), title))


def maps_of_mean(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw a row a component: the members' mean, exact solution, its error, two deviations."""
    first, sound = curves[0], [curve for curve in curves if curve.sound]
    known = next((curve for curve in curves if curve.known), None)
    points = [[np.asarray(shard.training_points) for shard in c.shards] for c in curves]
    same = all(len(s) == len(points[0]) and all(map(np.array_equal, s, points[0])) for s in points)
    # The training points of one member would say nothing of the others'.
    shards, rows = first.shards if same else (), []
    for k, field in enumerate(first.fields):
        mean, width, error, estimate, coverage = spread_of(curves, k)
        norm, name = Normalize(*value_limits(sound, k)), style.math(field)
        errors = LogNorm(*error_limits((first, each) for each in (width, error, estimate)))
        row = [Panel(first, mean, norm, f"mean of {len(sound)}", name, shards)]
        if known is None or error is None:
            members = [sound[i] for i in a_few(len(sound), 2)]
            row += [Panel(curve, curve.u[:, k], norm, curve.label, name) for curve in members]
            row.append(Panel(first, width, errors, "2 deviations", "$2\\sigma$"))
        else:
            row.append(Panel(first, known.exact[:, k], norm, "exact", style.exact_label(first, k)))
            row.append(Panel(first, error, errors, "|mean − exact|"))
            row.append(Panel(first, width, errors, f"2σ: {coverage}"))
        if estimate is not None:
            row.append(Panel(first, estimate, errors, style.LARGEST))
        rows.append(row)
    return draw_maps(rows, title=title)


def maps_of_errors(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw a panel of the pointwise error a member, with common colours, four in a row."""
    known = [curve for curve in curves if curve.known]
    m = known[0].components
    shown = known[: 2 * _COLUMNS if m == 1 else _COLUMNS]
    errors = LogNorm(*error_limits((c, error_of(c, k)) for c in shown for k in range(m)))
    panels = []
    for k, curve in ((k, curve) for k in range(m) for curve in shown):
        shards = tuple(replace(shard, training_points=None) for shard in curve.shards)
        name = style.math(curve.fields[k]) if m > 1 else ""
        label = remarked(curve.label, curve.u[curve.inside, k])
        panels.append(Panel(curve, error_of(curve, k), errors, label, name, shards))
    wide = _COLUMNS if m == 1 or len(shown) == 1 else len(shown)
    rows = [panels[start : start + wide] for start in range(0, len(panels), wide)]
    bar = style.error_label(shown[0], 0) if m == 1 else "pointwise error"
    return draw_maps(rows, title=shown_of(len(shown), len(curves), title), bar=bar)


@style.paper_style()
def plot_flow(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw the length of a vector as colours and its direction as streamlines.

    Local: call it on one rank. A row a member, at most four: the prediction, and where it is known
    the exact field and the length of the difference. The vector are the components that are named
    u and v, u_x and u_y, ux and uy, v_x and v_y, or vx and vy.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, over two coordinates of space.
    title : str, optional
        Title above the panels.

    Raises
    ------
    InputError
        If there are no curves, or no two components are a vector.
    """
    curves = check_curves(curves, "plot_flow")
    pair = style.vector_of(curves[0])
    if pair is None or len(pair) != 2:
        raise InputError(
            f"plot_flow: expected two coordinates of space and components named as one of "
            f"{', '.join(' and '.join(names[:2]) for names in style.VECTORS)}; got the coordinates "
            f"{', '.join(curves[0].coordinates)} and the components {', '.join(curves[0].fields)}."
        )
    shown, rows = curves[:MOST_PLANES], []
    for curve in shown:
        u, exact = curve.u[:, pair], curve.exact[:, pair]
        length, reference, error = (np.linalg.norm(v, axis=1) for v in (u, exact, u - exact))
        norm = Normalize(0.0, float(np.nanmax(reference if curve.known else length)))
        name = f"$|({', '.join(style.symbol(curve.fields[k]) for k in pair)})|$"
        row = [Panel(curve, length, norm, curve.label, name, arrows=u)]
        if curve.known:
            errors = LogNorm(*error_limits([(curve, error)]))
            row.append(Panel(curve, reference, norm, "exact", arrows=exact))
            row.append(Panel(curve, error, errors, "length of the difference"))
        rows.append(row)
    return draw_maps(rows, title=shown_of(len(shown), len(curves), title))


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
    near = sides.min() < sides.max() / _CLOSER
    figure = draw_maps([[over, errors, closer] if near else [over, errors]], title=title)
    if near:
        axes, smallest = figure.axes[2], np.isclose(sides, sides.min())
        middle, reach = (low + high)[smallest].mean(axis=0) / 2, _CLOSER * sides.min()
        axes.set(xlim=middle[0] + [-reach, reach], ylim=middle[1] + [-reach, reach])
        axes.tick_params(labelleft=True)
        axes.ticklabel_format(style="plain", useOffset=False)
    return figure
