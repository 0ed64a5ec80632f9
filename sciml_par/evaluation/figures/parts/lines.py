"""Draw lines over one coordinate or step: one each, or the median and range of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter

from sciml_par.evaluation.figures.parts.members import FEW, a_few
from sciml_par.evaluation.figures.parts.style import BAND, COUNT, ERROR, MEAN, PALE, line_of

_MOST_BARS = 150  # error bars; more are dots


@dataclass(frozen=True)
class Line:
    """One member's line, x and y: [n]; one that is `odd` is always named and in its colour."""

    label: str
    x: np.ndarray
    y: np.ndarray
    odd: bool = False


def draw_line(axes: Axes, x: np.ndarray, y: np.ndarray, label: str, **look: Any) -> None:
    """Draw a line, or one point."""
    axes.plot(x, y, label=label, marker="o" if len(x) == 1 else "", **look)


def log_axis(axes: Axes, low: float, high: float, *, only_decades: bool = False) -> None:
    """Make the y axis logarithmic, from a little below `low`, so that a line there is seen."""
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, high)
    if only_decades:
        axes.yaxis.set_minor_formatter(NullFormatter())


def count_steps(axes: Axes) -> None:
    """Label the x axis with whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(COUNT)


def draw_lines(axes: Axes, lines: Sequence[Line], *, alike: bool, without: float = 0.0) -> None:
    """Draw each line; of more than eight that are `alike`, median, range and eight of them thin."""
    even = [line for line in lines if not line.odd]
    many = alike and len(even) > FEW
    if many:
        _draw_range(axes, even, without)
    for i, line in enumerate(lines):
        if line.odd or not many:
            draw_line(axes, line.x, line.y, line.label, **line_of(i, of=len(lines)))


def _draw_range(axes: Axes, lines: Sequence[Line], without: float) -> None:
    x, values = lines[0].x, np.stack([line.y for line in lines])
    low, high = np.quantile(values, [without, 1.0 - without], axis=0)
    draw_line(axes, x, np.median(values, axis=0), "median", color=MEAN, linewidth=1.4, zorder=2.8)
    name = f"{without:.0%} to {1.0 - without:.0%}" if without else "least to greatest"
    draw_band(axes, x, low, high, name)
    draw_pale(axes, lines)


def draw_band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, label: str) -> None:
    """Shade a range; of very many points as dots, which make a smaller PDF."""
    axes.fill_between(
        x,
        low,
        high,
        color=MEAN,
        alpha=BAND,
        linewidth=0.0,
        zorder=2.2,
        rasterized=len(x) > 2000,
        label=label,
    )


def draw_pale(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw at most eight of the lines, thin and grey, with one entry of the legend."""
    shown = a_few(len(lines))
    several = f"{len(shown)} of {len(lines)}" if len(shown) < len(lines) else f"{len(shown)}"
    for k, i in enumerate(shown):
        label = "_member" if k else f"{several} members"
        draw_line(axes, lines[i].x, lines[i].y, label, **PALE)


def draw_observed(
    axes: Axes, x: np.ndarray, u: np.ndarray, noise: np.ndarray, label: str, *, hollow: bool = False
) -> None:
    """Draw values with bars of their deviations, as dots if these are 0 or very many."""
    if len(x) > _MOST_BARS or not noise.any():
        size = 3.0 if len(x) > _MOST_BARS else 9.0
        look: dict[str, Any] = {"s": size, "linewidths": 0.7 if hollow else 0.0, "zorder": 2.4}
        face = "none" if hollow else ERROR
        axes.scatter(x, u, label=label, facecolor=face, edgecolor=ERROR, rasterized=True, **look)
    elif len(x):
        axes.errorbar(
            x,
            u,
            noise,
            fmt="o",
            color=ERROR,
            markersize=2.2,
            markerfacecolor="white" if hollow else ERROR,
            elinewidth=0.7,
            capsize=1.2,
            capthick=0.7,
            zorder=2.4,
            label=f"{label} ± σ",
        )
