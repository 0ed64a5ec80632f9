"""The figures of a solution with its band, and of where a further observation would tell most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sciml_par._checks import check_positive
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import lines, style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.maps import Panel, draw_maps
from sciml_par.evaluation.figures.parts.members import check_curves, range_of
from sciml_par.evaluation.figures.parts.observed import (
    Observed,
    Uncertain,
    check_known,
    linear_of,
    name_of_number,
    prediction_of,
)
from sciml_par.evaluation.figures.slices import SLICES, in_space_and_time

_HEIGHT, _SLICE, _BELOW = 1.9, 1.75, 1.25  # inches, of u and of differences from it
_POINTS = 101  # of a slice
_MOST, _MOST_POINTS = 4, 2_500  # unknowns, and points where a further observation is tried


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

    Raises
    ------
    InputError
        If it is not known, on a rank without the prediction, or for more than two coordinates.
    """
    check_known(uncertainty, "plot_bands")
    (curve,) = check_curves([prediction_of(uncertainty, "plot_bands")], "plot_bands")
    source = linear_of(uncertainty) if uncertainty.method == "profile" else uncertainty
    m, middles = curve.components, np.empty(0)
    if curve.dimension == 1:
        grid = make_grid([_HEIGHT, _BELOW], 1) if m == 1 else make_grid([_SLICE] * m, 2)
        panels = [[pair] for pair in zip(*[iter(grid.panels.values())] * 2, strict=True)]
        places, exact = [curve.x[curve.inside]], [curve.exact[curve.inside]]
    elif in_space_and_time(curve):
        from scipy.interpolate import RegularGridInterpolator  # megabytes, for few figures

        grid = make_grid([_SLICE, _BELOW] * m, SLICES)
        at = grid.panels
        panels = [[(at[2 * k, i], at[2 * k + 1, i]) for i in range(SLICES)] for k in range(m)]
        across, known = (np.unique(curve.x[:, axis]) for axis in (0, 1))
        times = _times(source.observations, known)
        middles, x = (times[1:] + times[:-1]) / 2, np.linspace(across[0], across[-1], _POINTS)
        places = [np.column_stack([x, np.full(_POINTS, t)]) for t in times]
        table = curve.exact[np.lexsort((curve.x[:, 1], curve.x[:, 0]))]
        table = table.reshape(across.size, known.size, m)
        exact = [RegularGridInterpolator((across, known), table)(each) for each in places]
        for t, (axes, _) in zip(times, panels[0], strict=True):
            axes.set_title(f"${style.symbol(curve.coordinates[1])} = {t:.2g}$")
    else:
        return _bands_on_a_plane(source, curve, title)
    for i, x in enumerate(places):
        low, high = source.bands(x)
        for k in range(m):
            observed = [
                tuple(values[np.searchsorted(middles, at[:, -1]) == i] for values in (at, *rest))
                for at, *rest in (term.of(k) for term in source.observations)
            ]
            line = x[:, 0], low[:, k], high[:, k], exact[i][:, k]
            _draw_band(panels[k][i], line, source, [o for o in observed if len(o[0])], k)
    for k, pairs in enumerate(panels):
        which = f" of {style.math(curve.fields[k])}" if m > 1 else ""
        label = style.value_label(curve, k, coordinates=curve.dimension)
        for row, name in zip(zip(*pairs, strict=True), (label, "difference" + which), strict=True):
            row[0].set_ylabel(name)
            lines.align(row, len(row))
    return grid.finish(title, x=style.coordinate(curve, 0))


def _times(observations: Sequence[Observed], known: np.ndarray) -> np.ndarray:
    """Return four times, each with as many observations near it, or equally spaced."""
    observed = np.concatenate([np.empty(0), *(term.x[:, 1] for term in observations)])
    shares = (np.arange(SLICES) + 0.5) / SLICES
    middle = np.unique(np.quantile(observed, shares)) if observed.size else np.empty(0)
    equally = known[0] + (known[-1] - known[0]) * shares
    return np.asarray(equally if len(middle) < SLICES else middle)


def _draw_band(
    pair: tuple[Axes, Axes],
    line: tuple[np.ndarray, ...],
    source: Uncertain,
    observed: Sequence[tuple[np.ndarray, ...]],
    k: int,
) -> None:
    """Draw u with its band, exact solution and observations, and the same less u below.

    The line is x, the edges of the band and the exact solution. An observation of another time has
    the same distance from the line as from the solution where it was made.
    """
    (above, below), (x, low, high, exact) = pair, line
    middle, shown = (low + high) / 2, [low, high, exact]
    for axes, less in ((above, np.zeros_like(middle)), (below, middle)):
        lines.line(axes, x, middle - less, "prediction", color=style.MEAN, zorder=2.6)
        lines.band(axes, x, low - less, high - less, f"{100 * source.level:g} % band")
        if np.isfinite(exact).any():
            lines.line(axes, x, exact - less, "exact solution", **style.DASHED)
        axes.set_xlim(range_of([x], margin=0.02))
        axes.locator_params(axis="x", nbins=4)
    for at, u, noise in observed:
        moved = at.shape[1] > 1
        difference = u - sum(edge[:, k] for edge in source.bands(at)) / 2
        values = np.interp(at[:, 0], x, middle) + difference if moved else u
        label = "observations of times nearby" if moved else "observations"
        lines.observed(above, at[:, 0], values, noise, label)
        lines.observed(below, at[:, 0], difference, noise, label)
        shown.append(values)
    above.set_ylim(range_of(shown))


def _bands_on_a_plane(source: Uncertain, curve: Prediction, title: str | None) -> Figure:
    """Draw a row a component: the solution, and half of the width of its band."""
    outside = ~np.asarray(curve.inside)[:, None]
    low, high = (np.where(outside, np.nan, edge) for edge in source.bands(curve.x))
    rows = []
    for k, field in enumerate(curve.fields):
        values, half = (low[:, k] + high[:, k]) / 2, (high[:, k] - low[:, k]) / 2
        dots = tuple(term.of(k)[0] for term in source.observations)
        of_values = Normalize(*range_of([values], margin=0.0))
        of_half = Normalize(0.0, range_of([half], margin=0.0)[1])
        name = f"half of the {100 * source.level:g} % band"
        rows.append(
            [
                Panel(curve, values, of_values, "prediction", style.math(field), dots=dots),
                Panel(curve, half, of_half, name, dots=dots),
            ]
        )
    return draw_maps(rows, title=title)


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

    Raises
    ------
    InputError
        If it is not known, on a rank without the prediction, for more than two coordinates, or if
        no deviation is given and there are no observations.
    """
    where = "plot_next_observation"
    check_known(uncertainty, where)
    (curve,) = check_curves([prediction_of(uncertainty, where)], where)
    linear, shown = linear_of(uncertainty), _places(curve)
    sigmas = _noise_of_each(linear, shown.components, noise)
    after = [linear.deviations_after(shown.x, noise=s)[:, k, :_MOST] for k, s in enumerate(sigmas)]
    ratios = np.stack(after, axis=1) / linear.deviations[:_MOST]  # [n, m, q]
    ratios[~np.asarray(shown.inside)] = np.nan
    title = title or "Deviations with one more observation, relative to the present ones"
    names = [name_of_number(name) for name in linear.names[:_MOST]]
    dots = [
        tuple(at for term in linear.observations if len(at := term.of(k)[0]))
        for k in range(shown.components)
    ]
    best = np.nanargmin(ratios, axis=0)
    observing = [f"observing {style.math(field)}" for field in shown.fields]
    if shown.dimension == 2:
        norm, rows = Normalize(float(np.nanmin(ratios)), 1.0), []
        for k, what in enumerate(observing):
            found = zip(names, ratios[:, k].T, shown.x[best[k]], strict=True)
            look: dict[str, Any] = {"dots": dots[k]}
            rows.append(
                [Panel(shown, r, norm, f"{n}, {what}", star=x, **look) for n, r, x in found]
            )
        return draw_maps(rows, title=title, bar="relative deviation")
    grid = make_grid([_HEIGHT] * shown.components, 1)
    reach, x = 1.0 - np.nanmin(ratios), shown.x[:, 0]
    bottom = 1.0 - 1.12 * reach
    for (k, _), axes in grid.panels.items():
        for i, name in enumerate(names):
            lines.line(axes, x, ratios[:, k, i], name, **style.line_of(i))
        least = ratios[best[k], k, np.arange(len(names))]
        axes.scatter(x[best[k]], least, color=style.INK, label="least", **style.STAR)
        for at in dots[k]:
            y = np.full(len(at), bottom)
            axes.scatter(at[:, 0], y, label="present observations", **style.DOTS)
        axes.set(xlim=(x[0], x[-1]), ylim=(bottom, 1.0 + 0.05 * reach), ylabel=observing[k])
    return grid.finish(title, x=style.coordinate(shown, 0))


def _noise_of_each(linear: Uncertain, components: int, noise: float | None) -> list[float]:
    """Return the deviation of a further observation of each component."""
    if noise is not None:
        check_positive("plot_next_observation", noise=noise)
        return [float(noise)] * components
    if not linear.observations:
        raise InputError(
            "plot_next_observation: there are no observations here whose deviation a further one "
            "could have. Give it as noise=σ."
        )
    every = np.concatenate([each.noise.ravel() for each in linear.observations])
    of_each = [
        np.concatenate([term.of(k)[2] for term in linear.observations]) for k in range(components)
    ]
    return [float(np.median(sigmas if sigmas.size else every)) for sigmas in of_each]


def _places(curve: Prediction) -> Prediction:
    """Return the points of a prediction; of very many in the plane, a coarse grid over them."""
    x, inside = curve.x, np.asarray(curve.inside)
    if curve.dimension == 1 or len(x) <= _MOST_POINTS:
        return curve
    from scipy.spatial import cKDTree  # megabytes, for few figures

    low, size = x.min(axis=0), np.ptp(x, axis=0)
    side = np.linspace(0.0, 1.0, int(np.sqrt(_MOST_POINTS)))
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    _, nearest = cKDTree((x - low) / size).query(grid)
    x, u, inside = low + size * grid, curve.u[nearest], inside[nearest]
    names: Any = {"coordinates": curve.coordinates, "fields": curve.fields}
    return Prediction(curve.label, x, u, inside=inside, **names)
