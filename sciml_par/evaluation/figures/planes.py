"""Figures over two coordinates: the fields of each panel, and the streamlines of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts import style
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.members import (
    MOST_PLANES,
    a_few,
    check_curves,
    error_limits,
    shown_of,
    spread_of,
    value_limits,
)
from sciml_par.evaluation.metrics.norms import pointwise_error

_COLUMNS = 4  # of panels of errors
VECTORS = (("u", "v"), ("u_x", "u_y"), ("ux", "uy"), ("v_x", "v_y"), ("vx", "vy"))
"""Names of two components that are those of a vector in the plane."""


def plane_predictions(
    curves: Sequence[Prediction], title: str | None, equal: bool | None
) -> Figure:
    """Draw a row a member and component: prediction, exact solution, error, estimated error."""
    m, rows = curves[0].components, []
    shown = curves[: max(1, MOST_PLANES // m)]
    errors = _error_norm(shown)
    for curve, k in ((curve, k) for curve in shown for k in range(m)):
        norm, name = Normalize(*value_limits([curve], k)), style.math(curve.fields[k])
        row = [Panel(curve, curve.u[:, k], norm, _name(curve, k), name, curve.shards)]
        if curve.known:
            row.append(Panel(curve, curve.exact[:, k], norm, "exact", style.exact_label(curve, k)))
            row.append(Panel(curve, _error(curve, k), errors, style.error_label(curve, k)))
        if curve.estimated_error is not None:
            row.append(Panel(curve, np.abs(curve.estimated_error[:, k]), errors, style.ESTIMATED))
        rows.append(row)
    return draw_panels(rows, title=shown_of(len(shown), len(curves), title), equal=equal)


def plane_ensemble(curves: Sequence[Prediction], title: str | None, equal: bool | None) -> Figure:
    """Draw a row a component: the members' mean, exact solution, its error, two deviations."""
    first, sound = curves[0], [curve for curve in curves if curve.sound]
    known = next((curve for curve in curves if curve.known), None)
    points = [[np.asarray(shard.training_points) for shard in c.shards] for c in curves]
    same = all(
        len(sets) == len(points[0]) and all(map(np.array_equal, sets, points[0])) for sets in points
    )
    # The training points of one member would say nothing of the others'.
    shards, rows = first.shards if same else (), []
    for k, field in enumerate(first.fields):
        spread = spread_of(curves, k)
        norm, name = Normalize(*value_limits(sound, k)), style.math(field)
        errors = LogNorm(*error_limits(spread.drawn, [first.trained] * len(spread.drawn)))
        row = [Panel(first, spread.mean, norm, f"mean of {len(sound)}", name, shards)]
        if known is None or spread.error is None:
            members = [sound[i] for i in a_few(len(sound), 2)]
            row += [Panel(curve, curve.u[:, k], norm, curve.label, name) for curve in members]
            row.append(Panel(first, spread.width, errors, "2 deviations", "$2\\sigma$"))
        else:
            row.append(Panel(first, known.exact[:, k], norm, "exact", style.exact_label(first, k)))
            row.append(Panel(first, spread.error, errors, "|mean − exact|"))
            row.append(Panel(first, spread.width, errors, f"2σ: {spread.coverage}"))
        if spread.estimate is not None:
            row.append(Panel(first, spread.estimate, errors, style.LARGEST))
        rows.append(row)
    return draw_panels(rows, title=title, equal=equal)


def plane_errors(curves: Sequence[Prediction], title: str | None, equal: bool | None) -> Figure:
    """Draw a panel of the pointwise error a member, with common colours, four in a row."""
    known = [curve for curve in curves if curve.known]
    m = known[0].components
    shown = known[: 2 * _COLUMNS if m == 1 else _COLUMNS]
    norm = _error_norm(shown)
    names = [""] if m == 1 else [style.math(name) for name in shown[0].fields]
    rows = [
        [
            Panel(c, _error(c, k), norm, _name(c, k), names[k], c.shards, points=False)
            for c in shown[start : start + _COLUMNS]
        ]
        for start in range(0, len(shown), _COLUMNS)
        for k in range(m)
    ]
    label = style.error_label(shown[0], 0) if m == 1 else "pointwise error"
    title = shown_of(len(shown), len(curves), title)
    return draw_panels(rows, title=title, equal=equal, bar=label)


def _error_norm(curves: Sequence[Prediction]) -> LogNorm:
    """Return the colours' common scale, so that errors compare between members."""
    pairs = [(_error(c, k), c.trained) for c in curves if c.known for k in range(c.components)]
    for c in curves:
        if c.estimated_error is not None:
            pairs += [(np.abs(e), c.trained) for e in c.estimated_error.T]
    return LogNorm(*error_limits([e for e, _ in pairs], [mask for _, mask in pairs]))


def _error(curve: Prediction, k: int) -> np.ndarray:
    return pointwise_error(curve.u[:, k], curve.exact[:, k])


def _name(curve: Prediction, k: int) -> str:
    seen = np.all(np.isfinite(curve.u[curve.inside, k]))
    return curve.label if seen else f"{curve.label} (not finite)"


def vector_of(curve: Prediction) -> tuple[int, int] | None:
    """Return which components are a vector in the plane of the coordinates, or None."""
    names = tuple(curve.fields)
    pair = next((pair for pair in VECTORS if set(pair) <= set(names)), None)
    if curve.dimension != 2 or style.of_time(curve) or pair is None:
        return None
    return names.index(pair[0]), names.index(pair[1])


@style.paper_style()
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
    curves = check_curves(curves, "plot_flow")
    pair = vector_of(curves[0])
    if pair is None:
        raise InputError(
            f"plot_flow: expected two coordinates of space and components named as one of "
            f"{', '.join(' and '.join(names) for names in VECTORS)}; got the coordinates "
            f"{', '.join(curves[0].coordinates)} and the components {', '.join(curves[0].fields)}."
        )
    shown, columns, rows = curves[:MOST_PLANES], list(pair), []
    for curve in shown:
        vector, exact = curve.u[:, columns], curve.exact[:, columns]
        length = np.linalg.norm(vector, axis=1)
        reference = np.linalg.norm(exact, axis=1) if curve.known else length
        norm = Normalize(0.0, float(np.nanmax(reference)))
        name = f"$|({', '.join(style.symbol(curve.fields[k]) for k in pair)})|$"
        row = [Panel(curve, length, norm, curve.label, name, arrows=vector)]
        if curve.known:
            error = np.linalg.norm(vector - exact, axis=1)
            errors = LogNorm(*error_limits([error], [curve.trained]))
            row.append(Panel(curve, reference, norm, "exact", arrows=exact))
            row.append(Panel(curve, error, errors, "length of the difference"))
        rows.append(row)
    return draw_panels(rows, title=shown_of(len(shown), len(curves), title))
