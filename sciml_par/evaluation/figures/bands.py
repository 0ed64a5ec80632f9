"""The figure of a solution with its band, and the observations that it comes from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import Grid, make_grid
from sciml_par.evaluation.figures.parts.limits import range_of
from sciml_par.evaluation.figures.parts.lines import draw_band, draw_line, draw_observed
from sciml_par.evaluation.figures.parts.observed import (
    Observed,
    Uncertain,
    check_known,
    linear_of,
    prediction_of,
)
from sciml_par.evaluation.figures.parts.style import (
    DOTS,
    INK,
    MEAN,
    coordinate,
    paper_style,
    symbol,
    value_label,
)
from sciml_par.evaluation.figures.slices import in_space_and_time

_HEIGHT, _BELOW = 1.9, 1.25  # inches, of u and of differences from it
_SLICES, _SLICE = 4, 1.75
_POINTS = 101  # of a slice
_MARGIN = 0.02
_DASHED = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4.0, 3.0)), "zorder": 3.0}
_EXACT = "exact solution"


def plot_bands(uncertainty: Uncertain, *, title: str | None = None) -> Figure:
    """Draw the solution with its band, the observations ± σ and the exact solution.

    Local: call it on rank 0. Over one coordinate, another panel shows the differences from the
    solution, where a narrow band is seen. Over space and time (x, t), there are the solution at
    four times and the differences from it below; each observation is at the nearest of these
    times, moved there along the solution: its difference from the solution is as observed. Over
    two coordinates of space, half of the band's width is a map, with a dot for each observation.

    Parameters
    ----------
    uncertainty : Uncertainty
        What `result.uncertainty()` returns; of "profile" the bands are those of the linearization.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide over one coordinate with one component, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If it is not known, on a rank without the prediction, or for more than two coordinates.
    """
    where = "plot_bands"
    check_known(uncertainty, where)
    curve = prediction_of(uncertainty, where)
    source = linear_of(uncertainty) if uncertainty.method == "profile" else uncertainty
    with paper_style():
        if curve.dimension == 1:
            return _on_a_line(source, curve, title)
        if in_space_and_time(curve):
            return _at_times(source, curve, title)
        return _on_a_plane(source, curve, title)


def _on_a_line(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    order = np.argsort(curve.x[:, 0])
    order = order[curve.inside[order]]  # type: ignore[index]
    x = curve.x[order]
    low, high = source.bands(x)
    m = curve.components
    grid = make_grid([_HEIGHT, _BELOW], 1) if m == 1 else make_grid([_SLICE] * m, 2)
    for k in range(m):
        whole, less = ((0, 0), (1, 0)) if m == 1 else ((k, 0), (k, 1))
        seen = [_seen(source, each, k) for each in source.observations]
        line = _Line(x[:, 0], low[:, k], high[:, k], curve.exact[order, k])
        _draw_both(grid.panels[whole], grid.panels[less], line, seen, source.level)
        grid.panels[whole].set_ylabel(value_label(curve, k))
        grid.panels[less].set_ylabel(_difference(curve, k))
    grid.label_x(coordinate(curve, 0))
    return grid.finish(title)


class _Line:
    """Band and exact solution along a line, [n] each."""

    def __init__(self, x: np.ndarray, low: np.ndarray, high: np.ndarray, exact: np.ndarray) -> None:
        self.x, self.low, self.high, self.exact = x, low, high, exact
        self.middle = (low + high) / 2


Seen = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Places [n, d], observed values, their deviations and what the solution is there, [n] each."""


def _seen(source: Uncertain, observed: Observed, component: int) -> Seen:
    x, u, noise = observed.of(component)
    if not len(x):
        return x, u, noise, u
    low, high = source.bands(x)
    return x, u, noise, (low[:, component] + high[:, component]) / 2


def _draw_both(
    above: Axes,
    below: Axes,
    line: _Line,
    seen: Sequence[Seen],
    level: float,
    *,
    moved: bool = False,
) -> None:
    """Draw u with all that belongs to it, and the same less u below."""
    name = f"{100 * level:g} % band"
    for axes, less in ((above, np.zeros_like(line.middle)), (below, line.middle)):
        draw_line(axes, line.x, line.middle - less, "prediction", color=MEAN, zorder=2.6)
        draw_band(axes, line.x, line.low - less, line.high - less, name)
        if np.isfinite(line.exact).any():
            draw_line(axes, line.x, line.exact - less, _EXACT, **_DASHED)
        axes.set_xlim(range_of([line.x], margin=_MARGIN))
    said = " of times nearby" if moved else ""
    values = []
    for x, u, noise, there in seen:
        values.append(u + np.interp(x[:, 0], line.x, line.middle) - there if moved else u)
        draw_observed(above, x[:, 0], values[-1], noise, f"observations{said}")
        draw_observed(below, x[:, 0], u - there, noise, f"observations{said}")
    exact = line.exact[np.isfinite(line.exact)]
    above.set_ylim(range_of([line.low, line.high, exact, *values]))


def _difference(curve: Prediction, k: int) -> str:
    return "difference" if curve.components == 1 else f"difference of ${symbol(curve.fields[k])}$"


def _at_times(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    m = curve.components
    grid = make_grid([_SLICE, _BELOW] * m, _SLICES)
    times = _times(source.observations, np.unique(curve.x[:, 1]))
    middles = (times[1:] + times[:-1]) / 2
    for k in range(m):
        seen = [_seen(source, each, k) for each in source.observations]
        limits: list[tuple[float, float]] = []
        for i, t in enumerate(times):
            near = [_only(each, np.searchsorted(middles, each[0][:, 1]) == i) for each in seen]
            above, below = grid.panels[2 * k, i], grid.panels[2 * k + 1, i]
            line = _line_at(source, curve, k, float(t))
            _draw_both(above, below, line, near, source.level, moved=True)
            limits += [above.get_ylim(), below.get_ylim()]
            if k == 0:
                above.set_title(f"${symbol(curve.coordinates[1])} = {t:.2g}$")
        for row in (0, 1):
            _share(grid, 2 * k + row, limits[row::2])
        grid.panels[2 * k, 0].set_ylabel(value_label(curve, k, coordinates=2))
        grid.panels[2 * k + 1, 0].set_ylabel(_difference(curve, k))
    grid.label_x(coordinate(curve, 0))
    return grid.finish(title)


def _share(grid: Grid, row: int, limits: Sequence[tuple[float, float]]) -> None:
    """Give a row one y axis."""
    for i in range(_SLICES):
        axes = grid.panels[row, i]
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.tick_params(labelleft=i == 0)
        axes.locator_params(axis="x", nbins=4)


def _times(observations: Sequence[Observed], known: np.ndarray) -> np.ndarray:
    """Return four times, each with as many observations near it, or equally spaced."""
    observed = np.concatenate([np.empty(0), *(each.x[:, 1] for each in observations)])
    shares = (np.arange(_SLICES) + 0.5) / _SLICES
    found = np.unique(np.quantile(observed, shares)) if observed.size else np.empty(0)
    if len(found) < _SLICES:
        found = known[0] + (known[-1] - known[0]) * shares
    return np.asarray(found)


def _only(seen: Seen, chosen: np.ndarray) -> Seen:
    x, u, noise, there = (each[chosen] for each in seen)
    return x, u, noise, there


def _line_at(source: Uncertain, curve: Prediction, k: int, t: float) -> _Line:
    across, times = np.unique(curve.x[:, 0]), np.unique(curve.x[:, 1])
    x = np.linspace(across[0], across[-1], _POINTS)
    low, high = source.bands(np.column_stack([x, np.full(_POINTS, t)]))
    order = np.lexsort((curve.x[:, 0], curve.x[:, 1]))
    exact = curve.exact[order, k].reshape(times.size, across.size)
    at = [np.interp(t, times, column) for column in exact.T]
    return _Line(x, low[:, k], high[:, k], np.interp(x, across, at))


def _on_a_plane(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    low, high = source.bands(curve.x)
    rows = []
    for k in range(curve.components):
        name = symbol(curve.fields[k])
        values, half = (low[:, k] + high[:, k]) / 2, (high[:, k] - low[:, k]) / 2
        for each in (values, half):
            each[~np.asarray(curve.inside)] = np.nan
        of_values = Normalize(*range_of([values], margin=0.0))
        of_half = Normalize(0.0, range_of([half], margin=0.0)[1])
        word = f"half of the {100 * source.level:g} % band"
        rows.append(
            [
                Panel(curve, values, of_values, "prediction", f"${name}$"),
                Panel(curve, half, of_half, word),
            ]
        )
    figure = draw_panels(rows, title=title, equal=None)
    for k in range(curve.components):
        for axes in figure.axes[2 * k : 2 * k + 2]:
            draw_places(axes, source.observations, k)
    return figure


def draw_places(axes: Axes, observations: Sequence[Observed], component: int | None) -> None:
    """Draw a dot for each observation of a component, or of any, over a map."""
    for each in observations:
        x = each.x if component is None else each.of(component)[0]
        if len(x):
            axes.scatter(x[:, 0], x[:, 1], **DOTS)
