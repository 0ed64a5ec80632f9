"""The figure of predictions over the exact solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.data import Prediction
from sciml_par.evaluation.figures.layout import Entry, draw_line, line_entry, make_grid, patch_entry
from sciml_par.evaluation.figures.limits import near, range_of, remark, value_limits
from sciml_par.evaluation.figures.marks import (
    above_strip,
    by_shard,
    draw_marks,
    marks_of,
)
from sciml_par.evaluation.figures.panels import (
    MOST_PANELS,
    Panels,
    check_curves,
    grid_shape,
    in_order,
    same_points,
    share_panel,
    shown_of,
)
from sciml_par.evaluation.figures.planes import plane_predictions
from sciml_par.evaluation.figures.style import EXACT, INK, line_of, paper_style

_ENOUGH_FOR_MEAN = 4
_BAND = 0.25  # opacity of mean ± one standard deviation
_SAME_SCALE = 4.0  # panels share a y axis while their ranges differ by less than this factor


def plot_predictions(
    curves: Sequence[Prediction], *, title: str | None = None, panels: Panels = "auto"
) -> Figure:
    """Draw every member's prediction over the exact solution, with what it was trained on.

    Local: call it on one rank. Over one coordinate (d = 1): members with the same exact solution
    share a panel, others get a panel each (at most 16). Sub-domains are shaded; ticks at the lower
    edge are training points. Four or more members that share a panel, x, and the region they were
    trained on are overlaid by their mean ± one sample standard deviation (divisor P − 1), without
    those that are not sound. The y axis shows the range of the exact solution; a prediction may
    leave it where it was not trained. For one prediction with several shards the colours stand
    for the shards.

    Over two coordinates (d = 2): panels of prediction, exact solution and error, a row a member
    and component, at most four rows. Several outputs (m > 1) take one row each.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, all of one d and m.
    title : str, optional
        Title above the panels.
    panels : {"auto", "shared", "separate"}
        Whether members share a panel (d = 1); "auto" compares their exact solutions.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide with one column of panels, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, they differ in d or m, or d > 2.
    """
    found = check_curves(curves, "plot_predictions")
    with paper_style():
        if found[0].dimension == 2:
            return plane_predictions(found, title)
        if share_panel(found, panels):
            return _shared(found, title)
        return _separate(found, title)


@dataclass(frozen=True)
class _Drawn:
    """What the legend says of one panel."""

    exact: list[Entry]
    members: list[Entry]
    mean: list[Entry]
    marks: list[Entry]


def _shared(curves: Sequence[Prediction], title: str | None) -> Figure:
    components, named = curves[0].components, by_shard(curves)
    grid = make_grid(components, 1, [(c, 0) for c in range(components)], 2.1)
    panels = []
    for (component, _), axes in grid.panels.items():
        panels.append(_draw_panel(axes, curves, range(len(curves)), component, named=named))
        axes.set_ylabel(_value_label(component, components))
    grid.label_x("$x$")
    one = panels[0]
    # The members come last: of many, the legend leaves out the last.
    rest = one.members + one.marks if named else one.mean + one.marks + one.members
    return grid.finish(one.exact + rest, title=title)


def _separate(curves: Sequence[Prediction], title: str | None) -> Figure:
    shown, m = curves[:MOST_PANELS], curves[0].components
    blocks, columns = grid_shape(len(shown))
    place = {
        ((i // columns) * m + c, i % columns): (i, c) for i in range(len(shown)) for c in range(m)
    }
    grid = make_grid(blocks * m, columns, list(place), 2.1 if columns < 3 else 1.45)
    panels = []
    for cell, (i, component) in place.items():
        axes = grid.panels[cell]
        panels.append(_draw_panel(axes, shown[i : i + 1], [i], component, named=False))
        if component == 0:
            axes.set_title(_name(shown[i], shown[i : i + 1]))
    for component in range(m):
        row = {cell: axes for cell, axes in grid.panels.items() if place[cell][1] == component}
        _align(row, _value_label(component, m))
    grid.label_x("$x$")
    samples = [panel.members[0][0] for panel in panels[: 3 * m : m]]
    exact = _once(entry for panel in panels for entry in panel.exact)
    marks = _once(entry for panel in panels for entry in panel.marks)
    title = shown_of(len(shown), len(curves), title)
    return grid.finish([*exact, (samples, "prediction"), *marks], title=title)


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
    *,
    named: bool,
) -> _Drawn:
    marks = marks_of(curves, indices)
    limits = value_limits(curves, component)
    axes.set_xlim(range_of([curve.x for curve in curves], margin=0.02))
    axes.set_ylim(above_strip(limits, marks))
    members = []
    for index, curve in zip(indices, curves, strict=True):
        look = line_of(index, of=len(curves))
        if len(curves) == 1:
            look["linestyle"] = "-"
        if by_shard(curves):
            look["color"] = INK
        order = in_order(curve)
        values = near(curve.u[order, component], limits)
        name = _name(curve, curves)
        members.append(draw_line(axes, curve.x[order, 0], values, label=name, **look))
    return _Drawn(
        exact=_draw_exact(axes, curves, component),
        members=members,
        mean=_draw_mean(axes, curves, component) if _has_mean(curves) else [],
        marks=draw_marks(axes, marks, named=named),
    )


def _draw_exact(axes: Axes, curves: Sequence[Prediction], component: int) -> list[Entry]:
    different = {c.x.tobytes() + c.exact.tobytes(): c for c in curves if c.known}
    for curve in different.values():
        order = in_order(curve)
        x, values = curve.x[order, 0], curve.exact[order, component]
        # The underscore keeps Matplotlib's own legends from listing it once a member.
        draw_line(axes, x, values, label="_exact solution", **EXACT)
    return [line_entry("exact solution", **EXACT)] if different else []


def _name(curve: Prediction, curves: Sequence[Prediction]) -> str:
    """Return the label, with a remark if a component of the line is not wholly to be seen."""
    remarks = (
        remark(curve.u[:, component], value_limits(curves, component))
        for component in range(curve.components)
    )
    return curve.label + next((text for text in remarks if text), "")


def _draw_mean(axes: Axes, curves: Sequence[Prediction], component: int) -> list[Entry]:
    order = in_order(curves[0])
    x = curves[0].x[order, 0]
    values = np.stack([curve.u[order, component] for curve in curves if curve.sound])
    with np.errstate(all="ignore"):
        mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    low, high = mean - deviation, mean + deviation
    axes.fill_between(x, low, high, color=INK, alpha=_BAND, linewidth=0.0, zorder=2.2)
    line = axes.plot(x, mean, color=INK, linewidth=1.6, zorder=2.8, label="mean")[0]
    return [(line, "mean"), patch_entry("± std. deviation", INK, _BAND)]


def _has_mean(curves: Sequence[Prediction]) -> bool:
    """Tell whether a mean over members says something: the same x and the same training region."""
    sound = sum(curve.sound for curve in curves)
    if sound < _ENOUGH_FOR_MEAN or not same_points(curves):
        return False
    return all(np.array_equal(curve.trained, curves[0].trained) for curve in curves[1:])


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


def _value_label(component: int, components: int) -> str:
    return "$u(x)$" if components == 1 else f"$u_{{{component + 1}}}(x)$"
