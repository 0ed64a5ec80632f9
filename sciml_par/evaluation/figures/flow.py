"""The figure of a vector field in the plane: streamlines over its length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.limits import error_limits
from sciml_par.evaluation.figures.parts.panels import MOST_PLANES, check_curves, shown_of
from sciml_par.evaluation.figures.parts.style import paper_style, symbol
from sciml_par.evaluation.figures.slices import TIMES

VECTORS = (("u", "v"), ("u_x", "u_y"), ("ux", "uy"), ("v_x", "v_y"), ("vx", "vy"))
"""Names of two components that are those of a vector in the plane."""


def vector_of(curve: Prediction) -> tuple[int, int] | None:
    """Return which components are a vector in the plane of the coordinates, or None."""
    if curve.dimension != 2 or any(name.lower() in TIMES for name in curve.coordinates):
        return None
    names = tuple(curve.fields)
    for first, second in VECTORS:
        if first in names and second in names:
            return names.index(first), names.index(second)
    return None


def plot_flow(curves: Sequence[Prediction], *, title: str | None = None) -> Figure:
    """Draw the length of a vector as colours and its direction as streamlines.

    Local: call it on one rank. A row a member, at most four: the prediction, and where it is known
    the exact field and the length of the difference. The vector are the components that are named
    u and v, or one of the other pairs in `VECTORS`.

    Parameters
    ----------
    curves : sequence of Prediction
        One a member, over two coordinates of space.
    title : str, optional
        Title above the panels.

    Returns
    -------
    matplotlib.figure.Figure
        7.2 inches wide, 3.5 where no exact solution is known. Pass it to `save_figure`.

    Raises
    ------
    InputError
        If there are no curves, or no two components are a vector.
    """
    found = check_curves(curves, "plot_flow")
    pair = vector_of(found[0])
    if pair is None:
        raise InputError(
            f"plot_flow: expected two coordinates of space and components named as one of "
            f"{', '.join(' and '.join(names) for names in VECTORS)}; got the coordinates "
            f"{', '.join(found[0].coordinates)} and the components {', '.join(found[0].fields)}."
        )
    shown = found[:MOST_PLANES]
    with paper_style():
        rows = [_row(curve, list(pair)) for curve in shown]
        return draw_panels(rows, title=shown_of(len(shown), len(found), title), equal=None)


def _row(curve: Prediction, pair: list[int]) -> list[Panel]:
    vector = curve.u[:, pair]
    fields = ", ".join(symbol(curve.fields[k]) for k in pair)
    length = np.linalg.norm(vector, axis=1)
    exact = curve.exact[:, pair]
    reference = np.linalg.norm(exact, axis=1) if curve.known else length
    norm = Normalize(0.0, float(np.nanmax(reference)))
    row = [Panel(curve, length, norm, curve.label, f"$|({fields})|$", arrows=vector)]
    if not curve.known:
        return row
    row.append(Panel(curve, reference, norm, "exact", arrows=exact))
    error = np.linalg.norm(vector - exact, axis=1)
    errors = LogNorm(*error_limits([error], [curve.trained]))
    return [*row, Panel(curve, error, errors, "length of the difference")]
