"""The figures of a solution with its band, and of where a further observation would tell most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sciml_par._checks import check_positive
from sciml_par.errors import InputError
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
    name_of_number,
    prediction_of,
)
from sciml_par.evaluation.figures.slices import SLICES, in_space_and_time

_HEIGHT, _BELOW = 1.9, 1.25  # inches, of u and of differences from it
_SLICE = 1.75
_POINTS = 101  # of a slice
_MARGIN = 0.02
_MOST = 4
_MOST_POINTS = 2_500
_BEST: dict[str, Any] = {"marker": "*", "s": 40.0, "zorder": 4.0, "clip_on": False}


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


@style.paper_style()
def plot_next_observation(
    uncertainty: Uncertain, *, noise: float | None = None, title: str | None = None
) -> Figure:
    """Draw the deviation of each unknown with one more observation at x, relative to the present.

    Local: call it on rank 0. A value of 0.9 at x: an observation there reduces the deviation by a
    tenth. The dots are the present observations; the star is the least value. Over one coordinate
    a curve for each unknown, with a row for each component that would be observed; over two a map
    for each pair of them, of at most four unknowns.

    Parameters
    ----------
    uncertainty : Uncertainty
        What `result.uncertainty()` returns.
    noise : float, optional
        The standard deviation of the further observation, in units of the solution; by default the
        median of the present ones of the same component.
    title : str, optional
        Title above the panels; by default it says what they show.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide over one coordinate, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If it is not known, on a rank without the prediction, for more than two coordinates, or if
        no deviation is given and there are no observations.
    """
    where = "plot_next_observation"
    check_known(uncertainty, where)
    curve, linear = prediction_of(uncertainty, where), linear_of(uncertainty)
    shown = _thinned(curve)
    ratios = np.stack(
        [
            linear.deviations_after(shown.x, noise=sigma)[:, k, :_MOST]
            for k, sigma in enumerate(_noise_of_each(linear, shown.components, noise))
        ],
        axis=1,
    )
    ratios = ratios / linear.deviations[:_MOST]
    ratios[~np.asarray(shown.inside)] = np.nan
    title = title or "Deviations with one more observation, relative to the present ones"
    figure_of = _ratios_on_a_line if shown.dimension == 1 else _ratios_on_a_plane
    return figure_of(linear, shown, ratios, title)


def _noise_of_each(linear: Uncertain, components: int, noise: float | None) -> list[float]:
    """Return the deviation of a further observation of each component."""
    if noise is not None:
        check_positive("plot_next_observation", noise=noise)
        return [float(noise)] * components
    every = [each.noise.ravel() for each in linear.observations]
    if not every:
        raise InputError(
            "plot_next_observation: there are no observations here whose deviation a further one "
            "could have. Give it as noise=σ."
        )
    of_each = [
        [sigma for term in linear.observations if len(sigma := term.of(k)[2])]
        for k in range(components)
    ]
    return [float(np.median(np.concatenate(sigmas or every))) for sigmas in of_each]


def _thinned(curve: Prediction) -> Prediction:
    """Return a prediction at fewer points, of a grid every other line."""
    x, inside = curve.x, np.asarray(curve.inside)
    chosen = np.arange(len(x))
    if curve.dimension == 1:
        chosen = np.argsort(x[:, 0])
    elif len(x) > _MOST_POINTS:
        kept = np.ones(len(x), bool)
        for axis in (0, 1):
            lines, place = np.unique(x[:, axis], return_inverse=True)
            count = min(len(lines), int(np.sqrt(_MOST_POINTS)))
            kept &= np.isin(place, np.round(np.linspace(0, len(lines) - 1, count)))
        chosen = np.flatnonzero(kept)
        if np.count_nonzero(inside[chosen]) < _MOST_POINTS // 4:  # not a grid
            chosen = np.sort(np.random.default_rng(0).permutation(len(x))[:_MOST_POINTS])
    names: Any = {"coordinates": curve.coordinates, "fields": curve.fields}
    return Prediction("x", x[chosen], curve.u[chosen], inside=inside[chosen], **names)


def _ratios_on_a_line(
    linear: Uncertain, curve: Prediction, ratios: np.ndarray, title: str
) -> Figure:
    m, q = ratios.shape[1:]
    grid = make_grid([_HEIGHT] * m, 1)
    reach = 1.0 - np.nanmin(ratios)
    bottom, x = 1.0 - 1.12 * reach, curve.x[:, 0]
    for (k, _), axes in grid.panels.items():
        for i in range(q):
            draw.line(axes, x, ratios[:, k, i], name_of_number(linear.names[i]), **style.line_of(i))
        for i in range(q):
            at = np.nanargmin(ratios[:, k, i])
            axes.scatter(x[at], ratios[at, k, i], color=style.INK, label="least", **_BEST)
        axes.set(xlim=(x[0], x[-1]), ylim=(bottom, 1.0 + 0.05 * reach))
        for places in (term.of(k)[0][:, 0] for term in linear.observations):
            if len(places):
                y = np.full(len(places), bottom)
                axes.scatter(places, y, label="present observations", **style.DOTS)
        axes.set_ylabel(f"observing ${style.symbol(curve.fields[k])}$")
    grid.label_x(style.coordinate(curve, 0))
    return grid.finish(title)


def _ratios_on_a_plane(
    linear: Uncertain, curve: Prediction, ratios: np.ndarray, title: str
) -> Figure:
    m, q = ratios.shape[1:]
    norm = Normalize(float(np.nanmin(ratios)), 1.0)
    names = [name_of_number(name) for name in linear.names[:q]]
    rows = [
        [
            Panel(curve, ratios[:, k, i], norm, f"{names[i]}, observing ${style.symbol(field)}$")
            for i in range(q)
        ]
        for k, field in enumerate(curve.fields)
    ]
    figure = draw_panels(rows, title=title, bar="relative deviation")
    for place, axes in enumerate(figure.axes[: m * q]):
        k, i = divmod(place, q)
        draw_places(axes, linear.observations, k)
        axes.scatter(*curve.x[np.nanargmin(ratios[:, k, i])], color=style.ERROR, **_BEST)
    return figure
