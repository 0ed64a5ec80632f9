"""The figures of predictions over the exact solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.bands import ensemble_lines
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import Entry, line_entry, make_grid
from sciml_par.evaluation.figures.parts.limits import range_of, value_limits
from sciml_par.evaluation.figures.parts.lines import draw_exact, draw_members, name_of, set_limits
from sciml_par.evaluation.figures.parts.members import (
    FEW,
    MOST_PANELS,
    Panels,
    a_few,
    check_curves,
    grid_shape,
    has_mean,
    share_panel,
    shown_of,
    too_many_dimensions,
)
from sciml_par.evaluation.figures.parts.shards import by_shard, draw_marks, marks_of
from sciml_par.evaluation.figures.parts.style import (
    EXACT,
    color_of,
    coordinate,
    exact_label,
    paper_style,
    symbol,
    value_label,
)
from sciml_par.evaluation.figures.planes import plane_ensemble, plane_predictions

_SAME_SCALE = 4.0  # panels share a y axis while their ranges differ by less than this factor
_HEIGHT = 2.6  # inches


def plot_predictions(
    curves: Sequence[Prediction],
    *,
    title: str | None = None,
    panels: Panels = "auto",
    equal_axes: bool | None = None,
) -> Figure:
    """Draw every member's prediction over the exact solution, with what it was trained on.

    Local: call it on one rank. Over one coordinate (d = 1): members with the same exact solution
    share a panel, others get a panel each (at most 16). Sub-domains are shaded; ticks at the lower
    edge are training points. The y axis shows the range of the exact solution; a prediction may
    leave it where it was not trained. For one prediction with several shards the colours stand
    for the shards.

    Four or more sound members that share a panel, x, and the region they were trained on are drawn
    as their mean ± two sample standard deviations (2σ, divisor M − 1) above at most eight of them.
    A panel below shows 2σ and the error |mean − u*| on one log scale, and the share of the points
    at which 2σ covers the error. Members that are not sound are named and are not in the mean.

    Over two coordinates (d = 2): panels of prediction, exact solution and error, a row a member
    and component, at most four rows; or, for four or more members as above, of mean, exact
    solution, error of the mean and 2σ. Several outputs (m > 1) take one row each.

    Over more (d > 2): the predicted over the exact values, where these are known.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, all of one d and m.
    title : str, optional
        Title above the panels.
    panels : {"auto", "shared", "separate"}
        Whether members share a panel, or a row (d = 2) of panels for their mean; "auto" compares
        their exact solutions.
    equal_axes : bool, optional
        Whether a length is as long on either axis (d = 2). By default it is, unless a coordinate is
        named "t" or "time", or one side is more than four times the other.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide with one column of panels, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, they differ in d or m, or d > 2 and no exact solution is known.
    """
    found = check_curves(curves, "plot_predictions")
    one, dimension = share_panel(found, panels), found[0].dimension
    if dimension > 2 and not any(curve.known for curve in found):
        raise too_many_dimensions(found[0], "plot_predictions")
    with paper_style():
        if dimension > 2:
            return scatter_predictions(found, title)
        if dimension == 2 and one and has_mean(found):
            return plane_ensemble(found, title, equal_axes)
        if dimension == 2:
            return plane_predictions(found, title, equal_axes)
        if one and has_mean(found):
            return ensemble_lines(found, title)
        return _shared(found, title) if one else _separate(found, title)


def _shared(curves: Sequence[Prediction], title: str | None) -> Figure:
    components, named = curves[0].components, by_shard(curves)
    grid = make_grid([2.1] * components, 1, [(c, 0) for c in range(components)])
    entries: list[Entry] = []
    for (component, _), axes in grid.panels.items():
        exact, members, marks = _draw_panel(axes, curves, range(len(curves)), component, named)
        axes.set_ylabel(value_label(curves[0], component))
        # Of many members, the legend leaves out the last.
        entries = entries or exact + (members + marks if named else marks + members)
    grid.label_x(coordinate(curves[0], 0))
    return grid.finish(entries, title=title)


def _separate(curves: Sequence[Prediction], title: str | None) -> Figure:
    shown, m = curves[:MOST_PANELS], curves[0].components
    blocks, columns = grid_shape(len(shown))
    place = {
        ((i // columns) * m + c, i % columns): (i, c) for i in range(len(shown)) for c in range(m)
    }
    grid = make_grid([2.1 if columns < 3 else 1.45] * blocks * m, columns, list(place))
    exacts: list[Entry] = []
    samples: list[Entry] = []
    others: list[Entry] = []
    for cell, (i, component) in place.items():
        axes, own = grid.panels[cell], shown[i : i + 1]
        exact, members, marks = _draw_panel(axes, own, [i], component, False)
        exacts, samples, others = exacts + exact, samples + members, others + marks
        if component == 0:
            grid.title(axes, name_of(shown[i], own))
    for component in range(m):
        row = {cell: axes for cell, axes in grid.panels.items() if place[cell][1] == component}
        _align(row, value_label(shown[0], component))
    grid.label_x(coordinate(shown[0], 0))
    prediction = ([line for line, _ in samples[: 3 * m : m]], "prediction")
    title = shown_of(len(shown), len(curves), title)
    return grid.finish([*_once(exacts), prediction, *_once(others)], title=title)


def _once(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entry of each label."""
    found: dict[str, Entry] = {}
    for entry in entries:
        found.setdefault(entry[1], entry)
    return list(found.values())


def _draw_panel(
    axes: Axes,
    curves: Sequence[Prediction],
    indices: Sequence[int],
    component: int,
    named: bool,
) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """Draw a panel; return what the legend says of exact solution, members and marks."""
    marks = marks_of(curves, indices)
    set_limits(axes, curves, component, marks)
    members = draw_members(axes, curves, indices, component)
    exact = draw_exact(axes, curves, component)
    return exact, members, draw_marks(axes, marks, named=named)


def _align(cells: dict[tuple[int, int], Axes], label: str) -> None:
    """Give panels of like range the same limits; label the left ones."""
    limits = np.array([axes.get_ylim() for axes in cells.values()])
    spans = limits[:, 1] - limits[:, 0]
    alike = spans.max() <= _SAME_SCALE * spans.min()
    for (_, column), axes in cells.items():
        if alike:
            axes.set_ylim(limits[:, 0].min(), limits[:, 1].max())
            axes.tick_params(labelleft=column == 0)
        if column == 0:
            axes.set_ylabel(label)


def scatter_predictions(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw u over u* at every point, in a colour a member, with the diagonal; a row a component."""
    known = [curve for curve in curves if curve.known]
    shown = [known[i] for i in a_few(len(known))] if len(known) > FEW else known
    m = known[0].components
    grid = make_grid([_HEIGHT] * m, 1, [(row, 0) for row in range(m)])
    for (component, _), axes in grid.panels.items():
        ends = range_of([curve.exact[:, component] for curve in shown])
        axes.plot(ends, ends, label="_exact solution", **EXACT)
        axes.set_xlim(ends)
        axes.set_ylim(value_limits(shown, component))
        for index, curve in enumerate(shown):
            axes.plot(
                curve.exact[:, component],
                curve.u[:, component],
                color=color_of(index),
                label=curve.label,
                linestyle="",
                marker=".",
                markersize=2.0,
                markeredgewidth=0.0,
                rasterized=True,
                zorder=2.0,
            )
        axes.set_ylabel(f"${symbol(curves[0].fields[component])}$")
        axes.set_xlabel(exact_label(curves[0], component))
    entries: list[Entry] = [
        line_entry(curve.label, color=color_of(i), linestyle="", marker=".")
        for i, curve in enumerate(shown)
    ]
    title = shown_of(len(shown), len(curves), title)
    return grid.finish([line_entry("exact solution", **EXACT), *entries], title=title)
