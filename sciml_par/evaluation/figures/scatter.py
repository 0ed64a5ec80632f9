"""The figure of predictions over more than two coordinates: predicted against exact values."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.layout import Entry, line_entry, make_grid
from sciml_par.evaluation.figures.parts.limits import range_of, value_limits
from sciml_par.evaluation.figures.parts.panels import shown_of
from sciml_par.evaluation.figures.parts.spread import FEW, a_few
from sciml_par.evaluation.figures.parts.style import EXACT, color_of, exact_label, symbol

_HEIGHT = 2.6  # inches


def scatter_predictions(curves: Sequence[Prediction], title: str | None) -> Figure:
    """Draw u over u* at every point, in a colour a member, with the diagonal; a row a component."""
    known = [curve for curve in curves if curve.known]
    shown = [known[i] for i in a_few(len(known))] if len(known) > FEW else known
    m = known[0].components
    grid = make_grid([_HEIGHT] * m, 1, [(row, 0) for row in range(m)])
    for (component, _), axes in grid.panels.items():
        ends = range_of([curve.exact[:, component] for curve in shown])
        axes.plot(ends, ends, label="_exact solution", **EXACT)
        axes.set_xlim(ends)
        axes.set_ylim(value_limits(shown, component))
        for index, curve in enumerate(shown):
            axes.plot(
                curve.exact[:, component],
                curve.u[:, component],
                color=color_of(index),
                label=curve.label,
                linestyle="",
                marker=".",
                markersize=2.0,
                markeredgewidth=0.0,
                rasterized=True,
                zorder=2.0,
            )
        axes.set_ylabel(f"${symbol(curves[0].fields[component])}$")
        axes.set_xlabel(exact_label(curves[0], component))
    entries: list[Entry] = [
        line_entry(curve.label, color=color_of(i), linestyle="", marker=".")
        for i, curve in enumerate(shown)
    ]
    title = shown_of(len(shown), len(curves), title)
    return grid.finish([line_entry("exact solution", **EXACT), *entries], title=title)
