"""The figures of intervals of numbers: pairs of them with ellipses, and profiles of χ²."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.layout import make_grid, make_panels
from sciml_par.evaluation.figures.parts.members import range_of
from sciml_par.evaluation.figures.parts.observed import (
    Uncertain,
    check_known,
    linear_of,
    name_of_number,
)

_MOST = 6
_WIDE = 4.0  # deviations that a panel shows to each side, at least
_SHARES = (0.68, 0.95)
_ALONE = 2.3  # inches, the height of a single panel
_SPAN: dict[str, Any] = {"color": style.MEAN, "alpha": 0.12, "linewidth": 0.0}


@style.paper_style()
def plot_corner(uncertainty: Uncertain, *, title: str | None = None) -> Figure:
    """Draw the unknowns in pairs: linearized ellipses of 68 and 95 %, over draws if there are any.

    Local: call it on one rank. On the diagonal, the density of each number with its interval,
    whose ends are in the title. True values, where they are known, are dashed. An ellipse of 95 %
    holds both numbers together; an interval of 95 % holds one of them. Of "randomized" its draws
    are shown. Of more than six numbers the first six are drawn.

    Parameters
    ----------
    uncertainty : Uncertainty
        What `result.uncertainty()` returns.
    title : str, optional
        Title above the panels.

    Raises
    ------
    InputError
        If it is not known, there are no numbers, or the data do not determine them.
    """
    where = "plot_corner"
    check_known(uncertainty, where)
    linear, draws = linear_of(uncertainty), uncertainty.draws
    if not len(linear.names):
        raise InputError(f"{where}: there are no unknown numbers; plot_bands draws the solution.")
    if not (np.isfinite(linear.deviations) & (linear.deviations > 0)).all():
        raise InputError(f"{where}: the data do not determine the unknowns; print it for which.")
    q = min(len(linear.names), _MOST)
    labels = [name_of_number(name) for name in linear.names[:q]]
    limits = []
    for i in range(q):
        value, true, reach = linear.values[i], linear.true[i], _WIDE * linear.deviations[i]
        ends = np.array([-reach, reach])
        near = true + 0.1 * ends if abs(true - value) < 3 * reach else value + ends
        limits.append(range_of([value + ends, near, draws[:, i] if draws.size else ends[:0]], 0.0))
    cells = [(i, j) for i in range(q) for j in range(i + 1)]
    grid = make_grid([_ALONE if q == 1 else 6.6 / q] * q, q, cells)
    for (i, j), axes in grid.panels.items():
        axes.set_xlim(limits[j])
        if i == j:
            _draw_density(axes, uncertainty, linear, i)
            axes.set_title(_interval_text(uncertainty, i))
        else:
            axes.set_ylim(limits[i])
            _draw_pair(axes, linear, draws, i, j)
        for rule, k in ((axes.axvline, j), (axes.axhline, i))[: 1 + (i != j)]:
            if np.isfinite(uncertainty.true[k]):
                rule(uncertainty.true[k], label="true value", **style.DASHED)
        axes.locator_params(nbins=4 if q < 4 else 3)
        axes.tick_params(labelbottom=i == q - 1, labelleft=j == 0 and i > 0)
        axes.set_xlabel(labels[j] if i == q - 1 else "")
        axes.set_ylabel(labels[i] if j == 0 < i else "")
    return grid.finish(title)


def _interval_text(uncertainty: Uncertain, i: int) -> str:
    deviation = uncertainty.deviations[i]
    # Two digits of the deviation.
    digits = max(0, 1 - math.floor(math.log10(deviation))) if deviation > 0 else 6
    numbers = (uncertainty.values[i], *uncertainty.bounds[i])
    value, low, high = (f"{number:.{digits}f}" for number in numbers)
    return f"{name_of_number(uncertainty.names[i])} = {value}\n{low} to {high}"


def _draw_density(axes: Axes, uncertainty: Uncertain, linear: Uncertain, i: int) -> None:
    x, deviation = np.linspace(*axes.get_xlim(), 201), linear.deviations[i]
    draws = uncertainty.draws
    if draws.size:
        bins = int(np.clip(np.sqrt(len(draws)), 4, 30))
        heights, edges = np.histogram(draws[:, i], bins, density=True)
        look: dict[str, Any] = {"fill": True, "color": style.PALE["color"], "alpha": 0.45}
        heights = heights * deviation * math.sqrt(2 * math.pi)
        axes.stairs(heights, edges, label=f"{len(draws)} draws", **look)
    y = np.exp(-0.5 * ((x - linear.values[i]) / deviation) ** 2)
    axes.plot(x, y, color=style.MEAN, zorder=2.6, label="linearized")
    name = f"{100 * uncertainty.level:g} % interval"
    axes.axvspan(*uncertainty.bounds[i], label=name, **_SPAN)
    axes.set_ylim(0.0, None)
    axes.set_yticks([])


def _draw_pair(axes: Axes, linear: Uncertain, draws: np.ndarray, i: int, j: int) -> None:
    if draws.size:
        look = {"color": style.PALE["color"], "s": 7.0, "linewidths": 0.0, "zorder": 2.0}
        axes.scatter(draws[:, j], draws[:, i], label=f"{len(draws)} draws", **look)
    pair, center = linear.covariance[np.ix_([j, i], [j, i])], linear.values[[j, i]]
    # In units of the deviations, which may differ by many powers of ten.
    deviations = linear.deviations[[j, i]]
    sizes, directions = np.linalg.eigh(pair / np.outer(deviations, deviations))
    t = np.linspace(0.0, 2 * np.pi, 200)
    circle = directions @ (np.sqrt(np.maximum(sizes, 0.0))[:, None] * [np.cos(t), np.sin(t)])
    for share, width in zip(_SHARES, (1.4, 0.8), strict=True):
        radius = math.sqrt(-2 * math.log(1 - share))
        x, y = center[:, None] + radius * deviations[:, None] * circle
        look = {"color": style.MEAN, "linewidth": width, "zorder": 2.6}
        axes.plot(x, y, label=f"{100 * share:.0f} % ellipse", **look)
        axes.fill(x, y, color=style.MEAN, alpha=style.BAND / 3, linewidth=0.0)
    axes.plot(*center, marker="+", color=style.MEAN, markersize=5.0)


@style.paper_style()
def plot_profiles(uncertainty: Uncertain, *, title: str | None = None) -> Figure:
    """Draw how far χ² rises above its least value where each unknown is held at other values.

    Local: call it on one rank. The parabola of the linearization is dashed, the line is the rise
    that ends an interval of the level, and the interval is shaded. True values are dotted. Where
    curve and parabola differ, the problem is not linear within its errors.

    Parameters
    ----------
    uncertainty : Uncertainty
        What `result.uncertainty(method="profile")` returns. Of more than six numbers the first six
        are drawn.
    title : str, optional
        Title above the panels.

    Raises
    ------
    InputError
        If it is not known, or has no profiles.
    """
    where = "plot_profiles"
    check_known(uncertainty, where)
    if not uncertainty.profiles:
        raise InputError(
            f"{where}: expected what result.uncertainty(method='profile') returns; got one of "
            f"method {uncertainty.method!r}."
        )
    names = uncertainty.names[:_MOST]
    grid = make_panels(len(names), 3, _ALONE)
    for i, axes in enumerate(grid.panels.values()):
        _draw_profile(axes, uncertainty, i)
        axes.set_xlabel(name_of_number(names[i]))
        axes.set_ylabel("Δχ²" if i % grid.columns == 0 else "")
    return grid.finish(title)


def _draw_profile(axes: Axes, uncertainty: Uncertain, i: int) -> None:
    values, rise = uncertainty.profiles[uncertainty.names[i]]
    linear, end, true = linear_of(uncertainty), uncertainty.reach**2, uncertainty.true[i]
    center, deviation = linear.values[i], linear.deviations[i]
    x = np.linspace(values.min(), values.max(), 201)
    axes.plot(values, rise, "o-", color=style.MEAN, markersize=2.5, label="profile", zorder=2.6)
    parabola, look = ((x - center) / deviation) ** 2, style.DASHED | {"color": style.ERROR}
    axes.plot(x, parabola, label="linearized", **look)
    axes.axhline(end, color=style.INK, linewidth=0.7, label=f"{100 * uncertainty.level:g} %")
    axes.axvspan(*np.clip(uncertainty.bounds[i], x[0], x[-1]), label="interval", **_SPAN)
    if x[0] <= true <= x[-1]:
        axes.axvline(true, label="true value", **style.DASHED | {"linestyle": (0, (1.0, 1.5))})
    near = [*values[rise <= 2.5 * end], center]
    reach = min(near) - 0.5 * deviation, max(near) + 0.5 * deviation
    axes.set(xlim=np.clip(reach, x[0], x[-1]), ylim=(0.0, 2.5 * end))
    axes.set_title(_interval_text(uncertainty, i))
    axes.locator_params(axis="x", nbins=4)
