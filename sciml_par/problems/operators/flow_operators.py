"""Operators of flows: curl, advection, and the derivative that moves with a velocity."""

from __future__ import annotations

from typing import Any

from sciml_par._other_names import by_name
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.field import Selection
from sciml_par.problems.operators.arguments import (
    TIME,
    Axis,
    FieldLike,
    Over,
    axes_of,
    axis_numbers,
    field_and_points,
    jet,
)

Velocity = Any
"""A tensor [n, k], or a field or function of x that gives one."""


@by_name
def curl(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute ∇×u of a vector field in two or three dimensions.

    With u = (u_1, u_2) it is ∂u_2/∂x_1 − ∂u_1/∂x_2: [n, 1]; with three components it is the vector
    (∂_2 u_3 − ∂_3 u_2, ∂_3 u_1 − ∂_1 u_3, ∂_1 u_2 − ∂_2 u_1): [n, 3].

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    x : tensor [n, d]
    over : names or numbers of coordinates, optional
        Those that the components belong to, in this order; "space" for all except t.
    component : sequence of str or int, optional
        As ``u[component]``, such as ``("u", "v")`` of a field (u, v, p).

    Raises
    ------
    InputError
        The components and coordinates are not two and two, or three and three.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import curl
    >>> turning = lambda x: tf.concat([-x[:, 1:2], x[:, 0:1]], axis=1)
    >>> curl(turning, tf.constant([[1.0, 2.0]])).numpy()
    array([[2.]], dtype=float32)
    """
    field, x = field_and_points(u, x, "curl(u, x)", component)
    slopes, axes = jet(field, x)[1], axes_of(field, x, over, "curl(u, x, over=)")
    m, k = slopes.shape[1], len(axes)
    if m != k or k not in (2, 3):
        raise InputError(
            f"curl(u, x) needs two components in two dimensions or three in three, but u has {m} "
            f'components in {k} dimensions; choose with component=("u", "v") and over=("x", "y"), '
            f'or over="space" for all except t'
        )
    pairs = [(0, 1)] if k == 2 else [(1, 2), (2, 0), (0, 1)]
    parts = [slopes[:, j, axes[i]] - slopes[:, i, axes[j]] for i, j in pairs]
    return tf.stack(parts, axis=1)


@by_name
def advection(
    u: FieldLike,
    velocity: Velocity,
    x: tf.Tensor,
    *,
    over: Over | None = None,
    component: Selection | None = None,
) -> tf.Tensor:
    """Compute (v·∇)u_c = Σ_i v_i ∂u_c/∂x_i: [n, m].

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    velocity : tensor [n, k], Field or callable [n, d] -> [n, k]
        A component for each coordinate of `over`. That of a field (u, v, p) is ``u["u", "v"]``.
    x : tensor [n, d]
    over : names or numbers of coordinates, optional
        By default all; "space" for all except t.
    component : str, int or several of these, optional
        As ``u[component]``.

    Raises
    ------
    InputError
        The velocity has another number of components than there are coordinates.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import advection
    >>> advection(lambda x: x**2, tf.constant([[3.0]]), tf.constant([[2.0]])).numpy()
    array([[12.]], dtype=float32)
    """
    field, x = field_and_points(u, x, "advection(u, velocity, x)", component)
    axes = axes_of(field, x, over, "advection(u, velocity, x, over=)")
    return _along(jet(field, x)[1], velocity, x, axes, "advection")


@by_name
def material_derivative(
    u: FieldLike,
    velocity: Velocity,
    x: tf.Tensor,
    *,
    time: Axis | None = None,
    component: Selection | None = None,
) -> tf.Tensor:
    """Compute Du_c/Dt = ∂u_c/∂t + Σ_i v_i ∂u_c/∂x_i, i over all coordinates but time: [n, m].

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    velocity : tensor [n, d-1], Field or callable [n, d] -> [n, d-1]
        That of a field (u, v, p) is ``u["u", "v"]``.
    x : tensor [n, d]
    time : str or int, optional
        The coordinate of time; by default the one named t, and otherwise the last.
    component : str, int or several of these, optional
        As ``u[component]``.

    Raises
    ------
    InputError
        The velocity has another number of components than there are coordinates of space.

    Examples
    --------
    A wave that moves with its velocity 2 does not change along it:

    >>> import tensorflow as tf
    >>> from sciml_par.problems import material_derivative
    >>> wave = lambda x: tf.sin(x[:, 0:1] - 2 * x[:, 1:2])
    >>> material_derivative(wave, tf.constant([[2.0]]), tf.constant([[0.5, 0.1]])).numpy()
    array([[0.]], dtype=float32)
    """
    call = "material_derivative(u, velocity, x, time=)"
    field, x = field_and_points(u, x, "material_derivative(u, velocity, x)", component)
    last, names = int(x.shape[1]) - 1, field.coordinates or ()
    default = names.index(TIME) if TIME in names else last
    (t,) = axis_numbers(field, x, (default if time is None else time,), call)
    axes = tuple(i for i in range(last + 1) if i != t)
    slopes = jet(field, x)[1]
    return slopes[:, :, t] + _along(slopes, velocity, x, axes, "material_derivative")


def _along(
    slopes: tf.Tensor, velocity: Velocity, x: tf.Tensor, axes: tuple[int, ...], name: str
) -> tf.Tensor:
    """Compute Σ_i v_i ∂u_c/∂x_i over the axes given: [n, m]."""
    v = velocity(x) if callable(velocity) else velocity
    if not tf.is_tensor(v) or v.shape.rank != 2 or v.shape[1] != len(axes):
        got = f"of shape {v.shape}" if tf.is_tensor(v) else f"a {type(v).__name__}"
        raise InputError(
            f"{name}(u, velocity, x): the velocity must be a tensor [n, {len(axes)}], a component "
            f"for each coordinate it moves along, or a field of that; got {got}. In space and time "
            f'use material_derivative, or advection with over="space"; choose components of a '
            f'field by u["u", "v"]'
        )
    parts = [v[:, k : k + 1] * slopes[:, :, i] for k, i in enumerate(axes)]
    return tf.add_n(parts) if parts else tf.zeros_like(slopes[:, :, 0])
