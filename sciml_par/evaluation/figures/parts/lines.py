"""Prepare lines over one coordinate, step or rank: one each, or the median and range of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import Entry, draw_line, line_entry, patch_entry
from sciml_par.evaluation.figures.parts.limits import near, range_of, remark, value_limits
from sciml_par.evaluation.figures.parts.members import FEW, a_few, in_order
from sciml_par.evaluation.figures.parts.shards import Mark, above_strip, by_shard
from sciml_par.evaluation.figures.parts.style import BAND, EXACT, INK, MEAN, PALE, line_of

_MOST_GROUPS = 500  # a column of a paper has about 500 dots


@dataclass(frozen=True)
class Line:
    """One member's line, x and y: [n]; one that is `odd` is always named and in its colour."""

    label: str
    x: np.ndarray
    y: np.ndarray
    odd: bool = False


def draw_lines(
    axes: Axes, lines: Sequence[Line], *, alike: bool, without: float = 0.0
) -> list[Entry]:
    """Draw each line; of more than eight that are `alike`, median, range, and eight of them thin.

    Lines are alike if the range over them at each x says something. Those that are odd count apart.
    The range is `without` that share of the members at either end.
    """
    even = [line for line in lines if not line.odd]
    if not alike or len(even) <= FEW:
        even, odd = [], list(enumerate(lines))
    else:
        odd = [(i, line) for i, line in enumerate(lines) if line.odd]
    named = [draw_line_of(axes, line, **line_of(i, of=len(lines))) for i, line in odd]
    return _draw_range(axes, even, without) + named if even else named


def draw_line_of(axes: Axes, line: Line, **look: Any) -> Entry:
    """Draw one line, and return its entry."""
    return draw_line(axes, *thinned(line.x, line.y), label=line.label, **look)


def thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep of each group of neighbours the least and the greatest value, if there are very many."""
    size = _group(len(x))
    if size == 1:
        return x, y
    start = np.arange(0, len(x), size)
    groups = np.pad(y, (0, len(start) * size - len(x)), mode="edge").reshape(-1, size)
    # Of a group with a NaN, this is the place of the NaN, so that the gap is kept.
    found = np.concatenate([start + groups.argmin(axis=1), start + groups.argmax(axis=1)])
    kept = np.unique(np.minimum([*found, 0, len(x) - 1], len(x) - 1))
    return x[kept], y[kept]


def _group(count: int) -> int:
    """Return of how many neighbours two values are drawn; one draws all."""
    return -(-count // _MOST_GROUPS) if count > 2 * _MOST_GROUPS else 1


def _draw_range(axes: Axes, lines: Sequence[Line], without: float) -> list[Entry]:
    values = np.stack([line.y for line in lines])
    x, start = lines[0].x, np.arange(0, len(lines[0].x), _group(len(lines[0].x)))
    ends = np.quantile(values, [without, 1.0 - without], axis=0)
    low, high = np.minimum.reduceat(ends[0], start), np.maximum.reduceat(ends[1], start)
    axes.fill_between(x[start], low, high, color=MEAN, alpha=BAND, linewidth=0.0, zorder=2.2)
    shown = a_few(len(lines))
    for i in shown:
        draw_line_of(axes, lines[i], **PALE)
    look = {"color": MEAN, "linewidth": 1.4, "zorder": 2.8}
    median = draw_line_of(axes, Line("median", x, np.median(values, axis=0)), **look)
    several = line_entry(f"{len(shown)} of {len(lines)} members", **PALE)
    name = f"{without:.0%} to {1.0 - without:.0%}" if without else "least to greatest"
    return [median, patch_entry(name, MEAN, BAND), several]


def set_limits(
    axes: Axes, curves: Sequence[Prediction], component: int, marks: Sequence[Mark]
) -> None:
    """Set the limits to the solution, and leave room for the ticks of the training points."""
    axes.set_xlim(range_of([curve.x for curve in curves], margin=0.02))
    axes.set_ylim(above_strip(value_limits(curves, component), marks))


def draw_members(
    axes: Axes, curves: Sequence[Prediction], indices: Sequence[int], component: int
) -> list[Entry]:
    """Draw a line a member; `indices` are the members' places in the whole figure."""
    limits = value_limits(curves, component)
    entries = []
    for index, curve in zip(indices, curves, strict=True):
        look = line_of(index, of=len(curves))
        if len(curves) == 1:
            look["linestyle"] = "-"
        if by_shard(curves):
            look["color"] = INK
        order = in_order(curve)
        values = near(curve.u[order, component], limits)
        name = name_of(curve, curves)
        entries.append(draw_line(axes, curve.x[order, 0], values, label=name, **look))
    return entries


def draw_exact(
    axes: Axes, curves: Sequence[Prediction], component: int, **look: Any
) -> list[Entry]:
    """Draw the exact solutions, each once; `look` replaces their usual look."""
    look = look or EXACT
    different = {c.x.tobytes() + c.exact.tobytes(): c for c in curves if c.known}
    for curve in different.values():
        order = in_order(curve)
        x, values = curve.x[order, 0], curve.exact[order, component]
        # The underscore keeps Matplotlib's own legends from listing it once a member.
        draw_line(axes, x, values, label="_exact solution", **look)
    return [line_entry("exact solution", **look)] if different else []


def name_of(curve: Prediction, curves: Sequence[Prediction]) -> str:
    """Return the label, with a remark if a component of the line is not wholly to be seen."""
    remarks = (
        remark(curve.u[curve.inside, component], value_limits(curves, component))
        for component in range(curve.components)
    )
    return curve.label + next((text for text in remarks if text), "")
