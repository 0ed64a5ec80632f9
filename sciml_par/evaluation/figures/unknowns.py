"""The figure of unknown coefficients over steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sciml_par.evaluation._arrays import check_items
from sciml_par.evaluation.figures.parts import draw, style
from sciml_par.evaluation.figures.parts.curves import UnknownCurve
from sciml_par.evaluation.figures.parts.layout import make_panels
from sciml_par.evaluation.figures.parts.members import finite, range_of

_HEIGHT, _ALONE = 1.5, 2.3  # inches of a row
_MOST_PANELS = 8
_SPREAD_OF_LOG = 100.0


@style.paper_style()
def plot_unknowns(curves: Sequence[UnknownCurve], *, title: str | None = None) -> Figure:
    """Draw each coefficient over the step, in a separate panel, with a line for each run.

    Local: call it on one rank. The true value is a dashed line. Values that are all positive and
    reach over two decades are on a log scale. Of more than eight coefficients the first eight are
    drawn; of more than eight runs with the same steps, median and range.

    Parameters
    ----------
    curves : sequence of UnknownCurve
        One for each coefficient and run.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        3.5 inches wide, or 7.2 for two coefficients and more. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves.
    """
    curves = check_items(curves, UnknownCurve, "plot_unknowns")
    names = list(dict.fromkeys(curve.name for curve in curves))[:_MOST_PANELS]
    grid = make_panels(len(names), 2, _HEIGHT if len(names) > 2 else _ALONE)
    for name, axes in zip(names, grid.panels.values(), strict=True):
        _draw(axes, [curve for curve in curves if curve.name == name])
        axes.set_ylabel(name)
        draw.count_steps(axes)
    grid.label_x("step")
    return grid.finish(title)


def _draw(axes: Axes, curves: Sequence[UnknownCurve]) -> None:
    true = sorted({curve.true for curve in curves if curve.true is not None})
    values = finite([*(curve.value for curve in curves), np.array(true)])
    if values.size and values.min() > 0 and values.max() > _SPREAD_OF_LOG * values.min():
        axes.set_yscale("log")
    elif values.size:
        axes.set_ylim(range_of([values], margin=0.05))
    alike = all(np.array_equal(curve.step, curves[0].step) for curve in curves)
    draw.lines(
        axes, [draw.Line(curve.label, curve.step, curve.value) for curve in curves], alike=alike
    )
    for value in true:
        axes.axhline(value, label="true value", **style.DASHED)
