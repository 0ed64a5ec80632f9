"""Arguments of all operators: the field, the points and the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tape import Function, Jet
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.checks.names import places_of
from sciml_par.problems.fields.composition import as_field
from sciml_par.problems.fields.field import Field, Selection, as_points

FieldLike = Field | Function
Axis = int | str
Over = Axis | Sequence[Axis]

SPACE, TIME = "space", "t"


def field_and_points(
    u: Any, x: Any, call: str, component: Selection | None = None
) -> tuple[Field, tf.Tensor]:
    """Return the field, or its chosen components, and the points [n, d]."""
    if not callable(u) and callable(x):
        raise InputError(
            f"{call}: got the points in the place of u, and a function in that of x; a residual "
            f"is def f(u, x), with the field first and the points second"
        )
    if not callable(u):
        name = call.split("(")[0]
        raise InputError(
            f"an operator needs the field u itself, a Field or a function of x, "
            f"got {type(u).__name__}; write {call}, not {name}(u(x), x); a component is "
            f'u["v"] or u[0], a function of u is lambda x: u(x)**2'
        )
    if isinstance(x, (Field, str)):
        got = "a field" if isinstance(x, Field) else repr(x)
        raise InputError(f"{call}: x must be the points, a tensor [n, d]; got {got} in their place")
    points = as_points(x)
    field = u if isinstance(u, Field) else as_field(u, points)
    return field if component is None else field[component], points


def jet(field: Field, x: tf.Tensor, *second: FloatArray) -> Jet:
    """Return the field's jet of second order with these matrices [d, d]."""
    d = x.shape[1]
    return field.jet(x, np.array(second, dtype=np.float64).reshape(-1, d, d))


def axes_of(field: Field, x: tf.Tensor, over: Over | None, call: str) -> tuple[int, ...]:
    """Return numbers of the coordinates that an operator is restricted to."""
    d = int(x.shape[1])
    names = field.coordinates
    if over is None:
        return tuple(range(d))
    if over == SPACE and SPACE not in (names or ()):
        if names is None:
            raise InputError(
                f'{call}: over="space" needs the names of the coordinates, which a function of '
                f"one's own has not; give their numbers, as over=(0, 1)"
            )
        return tuple(i for i, name in enumerate(names) if name != TIME)
    return _checked(field, d, over, call)


def axes_of_sum(field: Field, x: tf.Tensor, over: Over | None, call: str) -> tuple[int, ...]:
    """Return `axes_of` for a sum over like derivatives, which says whether time is in it."""
    names = field.coordinates or ()
    if over is None and TIME in names and len(names) > 1:
        listed = ", ".join(names)
        raise InputError(
            f'{call}: the coordinates are {listed}; give over="space" to leave {TIME} out of the '
            f"sum, or over={names!r} to have it in."
        )
    return axes_of(field, x, over, call)


def axis_numbers(field: Field, x: tf.Tensor, axes: Sequence[Axis], call: str) -> tuple[int, ...]:
    """Return numbers of axes given by name or number, which may repeat."""
    return tuple(_checked(field, int(x.shape[1]), axis, call)[0] for axis in axes)


def _checked(field: Field, d: int, which: Any, call: str) -> tuple[int, ...]:
    names, advice = field.coordinates, f"points of dimension {d} have the axes 0..{d - 1}"
    try:
        places = places_of(which, names, "coordinate", advice)
    except InputError as error:
        raise InputError(f"{call}: {error}") from None
    if max(places) >= d:
        raise InputError(
            f"{call}: axes must be in 0..{d - 1} for points of dimension {d}, got {which!r}"
        )
    return places


def unit(d: int, axes: Sequence[int]) -> FloatArray:
    """Return coefficients of Σ ∂²/∂x_i² over some axes: [d, d]."""
    matrix = np.zeros((d, d))
    matrix[list(axes), list(axes)] = 1.0
    return matrix


def pair_coefficients(d: int, i: int, j: int) -> FloatArray:
    """Return symmetric coefficients of ∂²/∂x_i∂x_j: [d, d]."""
    matrix = np.zeros((d, d))
    matrix[i, j] += 0.5
    matrix[j, i] += 0.5
    return matrix
