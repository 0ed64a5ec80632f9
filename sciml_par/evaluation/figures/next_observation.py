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
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.observed import (
    Uncertain,
    check_known,
    linear_of,
    name_of_number,
    prediction_of,
)

_HEIGHT = 1.9  # inches
_MOST = 4
_MOST_POINTS = 2_500
_BEST: dict[str, Any] = {"marker": "*", "s": 40.0, "zorder": 4.0, "clip_on": False}


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
    figure_of = _on_a_line if shown.dimension == 1 else _on_a_plane
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


def _on_a_line(linear: Uncertain, curve: Prediction, ratios: np.ndarray, title: str) -> Figure:
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


def _on_a_plane(linear: Uncertain, curve: Prediction, ratios: np.ndarray, title: str) -> Figure:
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
