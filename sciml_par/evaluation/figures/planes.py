"""Figures over two coordinates: which fields stand in which panel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sciml_par.evaluation.figures.fields import Panel, draw_panels
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.limits import error_limits, value_limits
from sciml_par.evaluation.figures.parts.panels import MOST_PLANES, shown_of
from sciml_par.evaluation.figures.parts.spread import a_few, same_training_points, spread_of
from sciml_par.evaluation.figures.parts.style import error_label, exact_label, symbol
from sciml_par.evaluation.metrics.norms import pointwise_error

_COLUMNS = 4  # of panels of errors


def plane_predictions(
    curves: Sequence[Prediction], title: str | None, equal: bool | None
) -> Figure:
    """Draw a row a member and component: prediction, exact solution, error.

    Fields are interpolated linearly on the Delaunay triangulation of the points, which fills
    their convex hull: a hole is painted over, unless points in it are given as outside. Errors
    below the scale have its lowest colour.
    """
    m = curves[0].components
    shown = curves[: max(1, MOST_PLANES // m)]
    errors = _error_norm(shown)
    rows = [_member(curve, k, errors) for curve in shown for k in range(m)]
    return draw_panels(rows, title=shown_of(len(shown), len(curves), title), equal=equal)


def plane_ensemble(curves: Sequence[Prediction], title: str | None, equal: bool | None) -> Figure:
    """Draw a row a component: the members' mean, exact solution, error of the mean, 2 deviations.

    Without an exact solution, there are the mean, two of the members, and two deviations.
    """
    rows = [_ensemble(curves, k) for k in range(curves[0].components)]
    return draw_panels(rows, title=title, equal=equal)


def plane_errors(curves: Sequence[Prediction], title: str | None, equal: bool | None) -> Figure:
    """Draw a panel of the pointwise error a member, with common colours, four in a row."""
    known = [curve for curve in curves if curve.known]
    m = known[0].components
    shown = known[: 2 * _COLUMNS if m == 1 else _COLUMNS]
    norm, rows = _error_norm(shown), []
    for start in range(0, len(shown), _COLUMNS):
        for k in range(m):
            part = shown[start : start + _COLUMNS]
            rows.append([_error_panel(curve, k, norm) for curve in part])
    label = error_label(shown[0], 0) if m == 1 else "pointwise error"
    title = shown_of(len(shown), len(curves), title)
    return draw_panels(rows, title=title, equal=equal, bar=label)


def _member(curve: Prediction, k: int, errors: LogNorm) -> list[Panel]:
    norm, name = Normalize(*value_limits([curve], k)), f"${symbol(curve.fields[k])}$"
    row = [Panel(curve, curve.u[:, k], norm, _name(curve, k), name, curve.shards)]
    if curve.known:
        row.append(Panel(curve, curve.exact[:, k], norm, "exact", exact_label(curve, k)))
        row.append(Panel(curve, _error(curve, k), errors, error_label(curve, k)))
    return row


def _ensemble(curves: Sequence[Prediction], k: int) -> list[Panel]:
    spread, sound, first = spread_of(curves, k), [c for c in curves if c.sound], curves[0]
    norm, name = Normalize(*value_limits(sound, k)), f"${symbol(first.fields[k])}$"
    shards = first.shards if same_training_points(curves) else ()
    row = [Panel(first, spread.mean, norm, f"mean of {len(sound)}", name, shards)]
    if spread.error is None:
        members = [sound[i] for i in a_few(len(sound), 2)]
        row += [Panel(curve, curve.u[:, k], norm, curve.label, name) for curve in members]
        widths = LogNorm(*error_limits([spread.width], [first.trained]))
        return [*row, Panel(first, spread.width, widths, "2 deviations", "$2\\sigma$")]
    known = next(curve for curve in curves if curve.known)
    both = LogNorm(*error_limits([spread.error, spread.width], [first.trained] * 2))
    row.append(Panel(first, known.exact[:, k], norm, "exact", exact_label(first, k)))
    row.append(Panel(first, spread.error, both, "|mean − exact|"))
    return [*row, Panel(first, spread.width, both, f"$2\\sigma$; {spread.coverage}")]


def _error_panel(curve: Prediction, k: int, norm: LogNorm) -> Panel:
    name = "" if curve.components == 1 else f"${symbol(curve.fields[k])}$"
    title = _name(curve, k)
    return Panel(curve, _error(curve, k), norm, title, name, curve.shards, points=False)


def _error_norm(curves: Sequence[Prediction]) -> LogNorm:
    """Return the colours' common scale, so that errors compare between members."""
    pairs = [(_error(c, k), c.trained) for c in curves if c.known for k in range(c.components)]
    if not pairs:
        return LogNorm(1e-16, 1.0)
    return LogNorm(*error_limits([e for e, _ in pairs], [mask for _, mask in pairs]))


def _error(curve: Prediction, k: int) -> np.ndarray:
    return pointwise_error(curve.u[:, k], curve.exact[:, k])


def _name(curve: Prediction, k: int) -> str:
    seen = np.all(np.isfinite(curve.u[curve.inside, k]))
    return curve.label if seen else f"{curve.label} (not finite)"
