"""The figure of a solution with its band, and the observations that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.members import range_of
from sciml_par.evaluation.figures.parts.observed import (
    Observed,
    Uncertain,
    check_known,
    linear_of,
    prediction_of,
)
from sciml_par.evaluation.figures.slices import SLICES, in_space_and_time

_HEIGHT, _BELOW = 1.9, 1.25  # inches, of u and of differences from it
_SLICE = 1.75
_POINTS = 101  # of a slice
_MARGIN = 0.02


@style.paper_style()
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
    if curve.dimension == 1:
        return _on_a_line(source, curve, title)
    if in_space_and_time(curve):
        return _at_times(source, curve, title)
    return _on_a_plane(source, curve, title)


@dataclass(frozen=True)
class _Values:
    """Observations: places [n, d], values, deviations and what the solution is there, [n] each."""

    x: np.ndarray
    u: np.ndarray
    noise: np.ndarray
    solution: np.ndarray

    def where(self, chosen: np.ndarray) -> _Values:
        return _Values(*(values[chosen] for values in vars(self).values()))


def _seen(source: Uncertain, component: int) -> list[_Values]:
    """Return the observations of a component."""
    observations = []
    for x, u, noise in (term.of(component) for term in source.observations):
        if len(x):
            low, high = source.bands(x)
            observations.append(_Values(x, u, noise, (low + high)[:, component] / 2))
    return observations


def _on_a_line(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    order = np.argsort(curve.x[:, 0])
    order = order[np.asarray(curve.inside)[order]]
    x, m = curve.x[order], curve.components
    low, high = source.bands(x)
    grid = make_grid([_HEIGHT, _BELOW], 1) if m == 1 else make_grid([_SLICE] * m, 2)
    pairs = list(zip(*[iter(grid.panels.values())] * 2, strict=True))
    for k, (above, below) in enumerate(pairs):
        line = x[:, 0], low[:, k], high[:, k], curve.exact[order, k]
        _draw_both(above, below, line, _seen(source, k), source.level)
        above.set_ylabel(style.value_label(curve, k))
        below.set_ylabel(_difference(curve, k))
    grid.label_x(style.coordinate(curve, 0))
    return grid.finish(title)


def _draw_both(
    above: Axes,
    below: Axes,
    line: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    observations: Sequence[_Values],
    level: float,
    *,
    said: str = "",
) -> None:
    """Draw u with its band, exact solution and observations, and the same less u below.

    The line is x, the edges of the band and the exact solution. An observation of another time, as
    `said`, has the same distance from the line as from the solution where it was made.
    """
    x, low, high, exact = line
    middle = (low + high) / 2
    moved = [np.interp(o.x[:, 0], x, middle) + o.u - o.solution for o in observations]
    values = moved if said else [o.u for o in observations]
    for axes, less in ((above, np.zeros_like(middle)), (below, middle)):
        draw.line(axes, x, middle - less, "prediction", color=style.MEAN, zorder=2.6)
        draw.band(axes, x, low - less, high - less, f"{100 * level:g} % band")
        if np.isfinite(exact).any():
            draw.line(axes, x, exact - less, "exact solution", **style.DASHED)
        axes.set_xlim(range_of([x], margin=_MARGIN))
        for o, value in zip(observations, values, strict=True):
            y = value if axes is above else o.u - o.solution
            draw.observed(axes, o.x[:, 0], y, o.noise, f"observations{said}")
    above.set_ylim(range_of([low, high, exact, *values]))


def _difference(curve: Prediction, k: int) -> str:
    return "difference" + (f" of {style.math(curve.fields[k])}" if curve.components > 1 else "")


def _at_times(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    m = curve.components
    grid = make_grid([_SLICE, _BELOW] * m, SLICES)
    across, known = (np.unique(curve.x[:, axis]) for axis in (0, 1))
    times = _times(source.observations, known)
    middles = (times[1:] + times[:-1]) / 2
    order = np.lexsort((curve.x[:, 0], curve.x[:, 1]))
    x = np.linspace(across[0], across[-1], _POINTS)
    for k in range(m):
        exact = curve.exact[order, k].reshape(known.size, across.size)
        panels = [(grid.panels[2 * k, i], grid.panels[2 * k + 1, i]) for i in range(SLICES)]
        for i, (t, (above, below)) in enumerate(zip(times, panels, strict=True)):
            near = [o.where(np.searchsorted(middles, o.x[:, 1]) == i) for o in _seen(source, k)]
            low, high = source.bands(np.column_stack([x, np.full(_POINTS, t)]))
            at = np.interp(x, across, [np.interp(t, known, column) for column in exact.T])
            line = x, low[:, k], high[:, k], at
            _draw_both(above, below, line, near, source.level, said=" of times nearby")
            if k == 0:
                above.set_title(f"${style.symbol(curve.coordinates[1])} = {t:.2g}$")
        for row in zip(*panels, strict=True):  # one y axis a row
            limits = range_of([np.array([axes.get_ylim() for axes in row])], margin=0.0)
            for axes in row:
                axes.set_ylim(limits)
                axes.tick_params(labelleft=axes is row[0])
                axes.locator_params(axis="x", nbins=4)
        panels[0][0].set_ylabel(style.value_label(curve, k, coordinates=2))
        panels[0][1].set_ylabel(_difference(curve, k))
    grid.label_x(style.coordinate(curve, 0))
    return grid.finish(title)


def _times(observations: Sequence[Observed], known: np.ndarray) -> np.ndarray:
    """Return four times, each with as many observations near it, or equally spaced."""
    observed = np.concatenate([np.empty(0), *(term.x[:, 1] for term in observations)])
    shares = (np.arange(SLICES) + 0.5) / SLICES
    middle = np.unique(np.quantile(observed, shares)) if observed.size else np.empty(0)
    equally = known[0] + (known[-1] - known[0]) * shares
    return np.asarray(equally if len(middle) < SLICES else middle)


def _on_a_plane(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    outside = ~np.asarray(curve.inside)[:, None]
    low, high = (np.where(outside, np.nan, edge) for edge in source.bands(curve.x))
    word, rows = f"half of the {100 * source.level:g} % band", []
    for k, field in enumerate(curve.fields):
        values, half = (low[:, k] + high[:, k]) / 2, (high[:, k] - low[:, k]) / 2
        of_values = Normalize(*range_of([values], margin=0.0))
        of_half = Normalize(0.0, range_of([half], margin=0.0)[1])
        name = style.math(field)
        row = [
            Panel(curve, values, of_values, "prediction", name),
            Panel(curve, half, of_half, word),
        ]
        rows.append(row)
    figure = draw_panels(rows, title=title)
    for i, axes in enumerate(figure.axes[: 2 * curve.components]):
        draw_places(axes, source.observations, i // 2)
    return figure


def draw_places(axes: Axes, observations: Sequence[Observed], component: int) -> None:
    """Draw a dot for each observation of a component over a map."""
    for x in (term.of(component)[0] for term in observations):
        if len(x):
            axes.scatter(x[:, 0], x[:, 1], **style.DOTS)
