"""The figure that shows where a further observation would tell most."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sciml_par._checks import check_positive
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.bands import draw_places
from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.lines import draw_line
from sciml_par.evaluation.figures.parts.observed import (
    Uncertain,
    check_known,
    linear_of,
    name_of_number,
    prediction_of,
)
from sciml_par.evaluation.figures.parts.style import (
    DOTS,
    INK,
    coordinate,
    line_of,
    paper_style,
    symbol,
)

_HEIGHT = 1.9  # inches
_MOST = 4
_MOST_POINTS = 2_500
_WORD = "relative deviation"
_BEST: dict[str, Any] = {
    "marker": "*",
    "s": 40.0,
    "color": "#d55e00",
    "zorder": 4.0,
    "clip_on": False,
}


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
    with paper_style():
        draw = _on_a_line if shown.dimension == 1 else _on_a_plane
        return draw(linear, shown, ratios, title)


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
    found = []
    for k in range(components):
        own = [sigma for each in linear.observations if len(sigma := each.of(k)[2])]
        found.append(float(np.median(np.concatenate(own or every))))
    return found


def _thinned(curve: Prediction) -> Prediction:
    """Return a prediction at fewer points, of a grid every other line."""
    x, inside = curve.x, np.asarray(curve.inside)
    if curve.dimension == 1:
        order = np.argsort(x[:, 0])
        return Prediction("x", x[order], curve.u[order], inside=inside[order], **_names(curve))
    chosen = np.ones(len(x), bool)
    if len(x) > _MOST_POINTS:
        kept = []
        for axis in (0, 1):
            lines, place = np.unique(x[:, axis], return_inverse=True)
            last = len(lines) - 1
            count = min(len(lines), int(np.sqrt(_MOST_POINTS)))
            wanted = np.unique(np.round(np.linspace(0, last, count)))
            kept.append(np.isin(place, wanted))
        chosen = kept[0] & kept[1]
        if np.count_nonzero(chosen & inside) < _MOST_POINTS // 4:  # not a grid
            chosen = np.zeros(len(x), bool)
            chosen[np.random.default_rng(0).choice(len(x), _MOST_POINTS, replace=False)] = True
    return Prediction("x", x[chosen], curve.u[chosen], inside=inside[chosen], **_names(curve))


def _names(curve: Prediction) -> dict[str, Any]:
    return {"coordinates": curve.coordinates, "fields": curve.fields}


def _on_a_line(
    linear: Uncertain, curve: Prediction, ratios: np.ndarray, title: str | None
) -> Figure:
    m, q = ratios.shape[1:]
    grid = make_grid([_HEIGHT] * m, 1)
    low = np.nanmin(ratios)
    for k in range(m):
        axes = grid.panels[k, 0]
        for i in range(q):
            name = name_of_number(linear.names[i])
            draw_line(axes, curve.x[:, 0], ratios[:, k, i], name, **line_of(i))
        for i in range(q):
            at = np.nanargmin(ratios[:, k, i])
            star = {**_BEST, "color": INK, "label": "least"}
            axes.scatter(curve.x[at, 0], ratios[at, k, i], **star)
        bottom = low - 0.12 * (1.0 - low)
        axes.set_ylim(bottom, 1.0 + 0.05 * (1.0 - low))
        for each in linear.observations:
            x = each.of(k)[0]
            if len(x):
                y = np.full(len(x), bottom)
                axes.scatter(x[:, 0], y, label="present observations", **DOTS)
        axes.set_xlim(curve.x[0, 0], curve.x[-1, 0])
        axes.set_ylabel(f"observing ${symbol(curve.fields[k])}$")
    grid.label_x(coordinate(curve, 0))
    return grid.finish(title)


def _on_a_plane(
    linear: Uncertain, curve: Prediction, ratios: np.ndarray, title: str | None
) -> Figure:
    m, q = ratios.shape[1:]
    norm = Normalize(float(np.nanmin(ratios)), 1.0)
    rows = [
        [Panel(curve, ratios[:, k, i], norm, _panel_title(linear, curve, k, i)) for i in range(q)]
        for k in range(m)
    ]
    figure = draw_panels(rows, title=title, equal=None, bar=_WORD)
    for k in range(m):
        for i in range(q):
            axes = figure.axes[k * q + i]
            draw_places(axes, linear.observations, k)
            at = np.nanargmin(ratios[:, k, i])
            axes.scatter(*curve.x[at], **_BEST)
    return figure


def _panel_title(linear: Uncertain, curve: Prediction, k: int, i: int) -> str:
    name = name_of_number(linear.names[i])
    return f"{name}, observing ${symbol(curve.fields[k])}$"
