"""The figures of intervals of numbers: pairs of them with ellipses, and profiles of χ²."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sciml_par.errors import InputError
from sciml_par.evaluation._arrays import as_columns
from sciml_par.evaluation.figures.parts.layout import make_grid
from sciml_par.evaluation.figures.parts.observed import (
    Uncertain,
    check_known,
    linear_of,
    name_of_number,
)
from sciml_par.evaluation.figures.parts.style import BAND, ERROR, INK, MEAN, PALE, paper_style

_MOST = 6
_WIDE = 4.0
"""Deviations that a panel shows to each side, at least."""
_SHARES = (0.68, 0.95)
_ALONE = 2.3  # inches, the height of a single panel
_TRUE: dict[str, Any] = {
    "color": INK,
    "linewidth": 0.9,
    "linestyle": (0, (4.0, 2.0)),
    "zorder": 3.0,
}


def plot_corner(
    uncertainty: Uncertain, *, draws: ArrayLike | None = None, title: str | None = None
) -> Figure:
    """Draw the unknowns in pairs: linearized ellipses of 68 and 95 %, over draws if there are any.

    Local: call it on one rank. On the diagonal, the density of each number with its interval,
    whose ends are in the title. True values, where they are known, are dashed. An ellipse of 95 %
    holds both numbers together; an interval of 95 % holds one of them.

    Parameters
    ----------
    uncertainty : Uncertainty
        What `result.uncertainty()` returns. Of "randomized" its draws are shown. Of more than six
        numbers the first six are drawn.
    draws : array [M, q], optional
        Others, in units of the numbers.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide for one number, else 7.2. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If it is not known, there are no numbers, or the data do not determine them.
    """
    where = "plot_corner"
    check_known(uncertainty, where)
    linear = linear_of(uncertainty)
    _check_determined(linear, where)
    q = min(len(uncertainty.names), _MOST)
    shown = as_columns(draws, f"{where}: draws") if draws is not None else uncertainty.draws
    if shown.size and shown.shape[1] != len(uncertainty.names):
        raise InputError(
            f"{where}: expected draws [M, {len(uncertainty.names)}]; got {list(shown.shape)}."
        )
    cells = [(i, j) for i in range(q) for j in range(i + 1)]
    with paper_style():
        height = _ALONE if q == 1 else 6.6 / q
        grid = make_grid([height] * q, q, cells)
        limits = [_limits(linear, shown, i) for i in range(q)]
        for (i, j), axes in grid.panels.items():
            axes.set_xlim(limits[j])
            if i == j:
                _draw_density(axes, uncertainty, linear, shown, i)
                axes.set_title(_interval_text(uncertainty, i))
            else:
                axes.set_ylim(limits[i])
                _draw_pair(axes, linear, shown, i, j)
                _draw_true(axes, uncertainty.true, j, i)
            axes.locator_params(nbins=4 if q < 4 else 3)
            axes.tick_params(labelbottom=i == q - 1, labelleft=j == 0 and i > 0)
            axes.set_xlabel(name_of_number(uncertainty.names[j]) if i == q - 1 else "")
            axes.set_ylabel(name_of_number(uncertainty.names[i]) if j == 0 < i else "")
        return grid.finish(title)


def _check_determined(linear: Uncertain, where: str) -> None:
    if not len(linear.names):
        raise InputError(f"{where}: there are no unknown numbers; plot_bands draws the solution.")
    if not (np.isfinite(linear.deviations) & (linear.deviations > 0)).all():
        raise InputError(f"{where}: the data do not determine the unknowns; print it for which.")


def _limits(linear: Uncertain, draws: np.ndarray, i: int) -> tuple[float, float]:
    value, reach = linear.values[i], _WIDE * linear.deviations[i]
    seen = draws[:, i] if draws.size else linear.values[i : i + 1]
    true = linear.true[i]
    near = [true] if abs(true - value) < 3 * reach else []
    low = min(value - reach, seen.min(), *(each - 0.1 * reach for each in near))
    return float(low), float(max(value + reach, seen.max(), *(n + 0.1 * reach for n in near)))


def _interval_text(uncertainty: Uncertain, i: int) -> str:
    low, high = uncertainty.bounds[i]
    digits = _digits(uncertainty.deviations[i])
    value, low, high = (f"{each:.{digits}f}" for each in (uncertainty.values[i], low, high))
    return f"{name_of_number(uncertainty.names[i])} = {value}\n{low} to {high}"


def _digits(deviation: float) -> int:
    """Return the decimals that show two digits of a deviation."""
    return max(0, 1 - math.floor(math.log10(deviation))) if deviation > 0 else 6


def _draw_density(
    axes: Axes, uncertainty: Uncertain, linear: Uncertain, draws: np.ndarray, i: int
) -> None:
    low, high = axes.get_xlim()
    x = np.linspace(low, high, 201)
    deviation = linear.deviations[i]
    y = np.exp(-0.5 * ((x - linear.values[i]) / deviation) ** 2)
    if draws.size:
        bins = int(np.clip(np.sqrt(len(draws)), 4, 30))
        height = np.histogram(draws[:, i], bins, density=True)
        widths = height[0] * deviation * math.sqrt(2 * math.pi)
        axes.stairs(
            widths, height[1], fill=True, color=PALE["color"], alpha=0.45, label=_draws_text(draws)
        )
    axes.plot(x, y, color=MEAN, zorder=2.6, label="linearized")
    name = f"{100 * uncertainty.level:g} % interval"
    axes.axvspan(*uncertainty.bounds[i], color=MEAN, alpha=0.12, linewidth=0.0, label=name)
    axes.set_ylim(0.0, None)
    axes.set_yticks([])
    _draw_true(axes, uncertainty.true, i)


def _draws_text(draws: np.ndarray) -> str:
    return f"{len(draws)} draws"


def _draw_true(axes: Axes, true: np.ndarray, across: int, up: int | None = None) -> None:
    if np.isfinite(true[across]):
        axes.axvline(true[across], label="true value", **_TRUE)
    if up is not None and np.isfinite(true[up]):
        axes.axhline(true[up], **_TRUE)


def _draw_pair(axes: Axes, linear: Uncertain, draws: np.ndarray, i: int, j: int) -> None:
    if draws.size:
        look = {"color": PALE["color"], "s": 7.0, "linewidths": 0.0, "zorder": 2.0}
        axes.scatter(draws[:, j], draws[:, i], label=_draws_text(draws), **look)
    pair = linear.covariance[np.ix_([j, i], [j, i])]
    # In units of the deviations, which may differ by many powers of ten.
    deviations = linear.deviations[[j, i]]
    sizes, directions = np.linalg.eigh(pair / np.outer(deviations, deviations))
    t = np.linspace(0.0, 2 * np.pi, 200)
    circle = directions @ (np.sqrt(np.maximum(sizes, 0.0))[:, None] * [np.cos(t), np.sin(t)])
    for share, width in zip(_SHARES, (1.4, 0.8), strict=True):
        radius = math.sqrt(-2 * math.log(1 - share))
        x, y = linear.values[[j, i], None] + radius * deviations[:, None] * circle
        axes.plot(
            x, y, color=MEAN, linewidth=width, label=f"{100 * share:.0f} % ellipse", zorder=2.6
        )
        axes.fill(x, y, color=MEAN, alpha=BAND / 3, linewidth=0.0)
    axes.plot(*linear.values[[j, i]], marker="+", color=MEAN, markersize=5.0)


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

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide for one number, else 7.2. Pass it to `save_figure`.

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
    columns = min(3, len(names))
    cells = [divmod(i, columns) for i in range(len(names))]
    with paper_style():
        grid = make_grid([_ALONE] * (cells[-1][0] + 1), columns, cells)
        for i, axes in enumerate(grid.panels.values()):
            _draw_profile(axes, uncertainty, i)
            axes.set_xlabel(name_of_number(names[i]))
            axes.set_ylabel("Δχ²" if i % columns == 0 else "")
        return grid.finish(title)


def _draw_profile(axes: Axes, uncertainty: Uncertain, i: int) -> None:
    values, rise = uncertainty.profiles[uncertainty.names[i]]
    linear, end = linear_of(uncertainty), uncertainty.reach**2
    center, deviation = linear.values[i], linear.deviations[i]
    x = np.linspace(values.min(), values.max(), 201)
    axes.plot(values, rise, "o-", color=MEAN, markersize=2.5, label="profile", zorder=2.6)
    dashed: dict[str, Any] = {"color": ERROR, "linestyle": (0, (4.0, 2.0)), "linewidth": 1.0}
    axes.plot(x, ((x - center) / deviation) ** 2, label="linearized", **dashed)
    axes.axhline(end, color=INK, linewidth=0.7, label=f"{100 * uncertainty.level:g} %")
    low, high = np.clip(uncertainty.bounds[i], x[0], x[-1])
    axes.axvspan(low, high, color=MEAN, alpha=0.12, linewidth=0.0, label="interval")
    true = uncertainty.true[i]
    if x[0] <= true <= x[-1]:
        axes.axvline(true, label="true value", **{**_TRUE, "linestyle": (0, (1.0, 1.5))})
    axes.set_ylim(0.0, 2.5 * end)
    reached = values[rise <= 2.5 * end]
    axes.set_xlim(_around(reached, values, center, deviation))
    axes.set_title(_interval_text(uncertainty, i))
    axes.locator_params(axis="x", nbins=4)


def _around(
    reached: np.ndarray, values: np.ndarray, center: float, deviation: float
) -> tuple[float, float]:
    pad = 0.5 * deviation
    low, high = min(reached.min(), center) - pad, max(reached.max(), center) + pad
    return float(max(low, values.min())), float(min(high, values.max()))
