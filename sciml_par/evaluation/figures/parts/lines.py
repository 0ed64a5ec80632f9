"""Lines over one coordinate: the exact solution and members' predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import Entry, draw_line, line_entry
from sciml_par.evaluation.figures.parts.limits import near, range_of, remark, value_limits
from sciml_par.evaluation.figures.parts.marks import Mark, above_strip, by_shard
from sciml_par.evaluation.figures.parts.panels import in_order
from sciml_par.evaluation.figures.parts.style import EXACT, INK, line_of


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
