"""Check what a figure is given, and decide which members share a panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np

from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.evaluation.figures.parts.limits import finite

Panels = Literal["auto", "shared", "separate"]
MOST_PANELS = 16
MOST_PLANES = 4
_COLUMNS = 4

Item = TypeVar("Item")


def check_items(items: Iterable[Item], kind: type[Item], where: str) -> tuple[Item, ...]:
    """Return `items` as a tuple of at least one `kind`."""
    if isinstance(items, kind):
        raise InputError(f"{where}: expected a sequence of {kind.__name__}; pass [it].")
    try:
        found = tuple(items)
    except TypeError:
        found = ()
    wrong = [item for item in found if not isinstance(item, kind)]
    if not found or wrong:
        got = f"a {type(wrong[0]).__name__} among them" if wrong else "none"
        raise InputError(f"{where}: expected one {kind.__name__} or more in a list; got {got}.")
    return found


def check_curves(curves: Iterable[Prediction], where: str) -> tuple[Prediction, ...]:
    """Return `curves` as a tuple, all of one d and m, with NaN for values outside the domain."""
    found = check_items(curves, Prediction, where)
    shapes = {(curve.dimension, curve.components) for curve in found}
    if len(shapes) > 1:
        raise InputError(
            f"{where}: expected predictions of one (d, m); got {sorted(shapes)}. "
            "Draw a figure each."
        )
    return tuple(_inside(curve) for curve in found)


def too_many_dimensions(curve: Prediction, where: str) -> InputError:
    """Return the error that says what to do with a prediction that cannot be drawn."""
    return InputError(
        f"{where}: can draw over d = 1 or 2 coordinates; got d = {curve.dimension}. Hold all but "
        "one or two coordinates fixed, evaluate there, and pass those columns as x."
    )


def share_panel(curves: Sequence[Prediction], panels: Panels) -> bool:
    """Tell whether all members go into one panel: unless told, if their exact solutions agree."""
    if panels not in ("auto", "shared", "separate"):
        raise InputError(f"panels: expected 'auto', 'shared' or 'separate'; got {panels!r}.")
    if panels != "auto":
        return panels == "shared"
    known = [curve for curve in curves if curve.known]
    return all(_same_exact(known[0], other) for other in known[1:])


def grid_shape(count: int, most_columns: int = _COLUMNS) -> tuple[int, int]:
    """Return (rows, columns) that hold `count` panels with the fewest empty cells."""
    rows = -(-count // most_columns)
    return rows, -(-count // rows)


def shown_of(shown: int, total: int, title: str | None) -> str | None:
    """Return the title, saying how many members are left out, if any are."""
    if shown == total:
        return title
    note = f"{shown} of {total} shown"
    return f"{title} ({note})" if title else note


def in_order(curve: Prediction) -> np.ndarray:
    """Return the order of the rows by x, for a line over one coordinate."""
    return np.argsort(curve.x[:, 0], kind="stable")


def same_points(curves: Sequence[Prediction]) -> bool:
    """Tell whether all members are evaluated at the same points in the same order."""
    return all(np.array_equal(curve.x, curves[0].x) for curve in curves[1:])


def _inside(curve: Prediction) -> Prediction:
    outside = ~np.asarray(curve.inside)
    if not outside.any():
        return curve
    u, exact = (np.where(outside[:, np.newaxis], np.nan, a) for a in (curve.u, curve.exact))
    return replace(curve, u=u, u_exact=exact)


def _same_exact(one: Prediction, other: Prediction) -> bool:
    scale = float(np.max(np.abs(finite([one.exact])), initial=0.0)) or 1.0
    if np.array_equal(one.x, other.x):
        # The tolerance of a float32 evaluation of one formula.
        return bool(np.allclose(one.exact, other.exact, 0.0, 1e-5 * scale, equal_nan=True))
    if one.dimension > 1:
        return False
    return _same_curve(one, other, 0.05 * scale)


def _same_curve(one: Prediction, other: Prediction, tolerance: float) -> bool:
    """Compare u* of different points where they overlap; the tolerance covers interpolation."""
    order = in_order(one)
    x, z = one.x[order, 0], other.x[:, 0]
    within = (z >= x[0]) & (z <= x[-1])
    return all(
        np.allclose(np.interp(z[within], x, a[order]), b[within], 0.0, tolerance, equal_nan=True)
        for a, b in zip(one.exact.T, other.exact.T, strict=True)
    )
