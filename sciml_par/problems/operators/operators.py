"""Differential operators on fields.

With points x: [n, d] and a field u(x): [n, m]:

    =======================  =============  =============================================
    call                     shape          meaning
    =======================  =============  =============================================
    u(x)                     [n, m]         u_c
    derivative(u, x, i)      [n, m]         ∂u_c/∂x_i, i a number or a name such as "t"
    derivative(u, x, i, j)   [n, m]         ∂²u_c/∂x_i∂x_j, and so on for more axes
    laplacian(u, x)          [n, m]         Σ_i ∂²u_c/∂x_i²
    biharmonic(u, x)         [n, m]         Σ_ij ∂⁴u_c/∂x_i²∂x_j²
    gradient(u, x)           [n, d]         ∂u/∂x_i, scalar fields (m = 1) only
    divergence(u, x)         [n, 1]         Σ_i ∂u_i/∂x_i, vector fields (m = d) only
    jacobian(u, x)           [n, m, d]      ∂u_c/∂x_i
    hessian(u, x)            [n, m, d, d]   ∂²u_c/∂x_i∂x_j
    integral_to(u, x, i)     [n, m]         ∫ u_c dx_i from 0 to x_i
    =======================  =============  =============================================

and in `sciml_par.problems.operators.flow_operators`

    ================================  =================  =================================
    curl(u, x)                        [n, 1] or [n, 3]   ∇×u of 2 or 3 components
    advection(u, v, x)                [n, m]             Σ_i v_i ∂u_c/∂x_i
    material_derivative(u, v, x)      [n, m]             ∂u_c/∂t + Σ_i v_i ∂u_c/∂x_i
    ================================  =================  =================================

So terms of an equation have the shape [n, m] of u(x) and add without broadcasting.

`u` is a `Field` or any function of x made of differentiable TensorFlow operations that acts on
each point for itself, such as ``lambda x: (1 - x**2) * u(x)``. Fields with a jet are differentiated
by it up to the fourth order, or as far as it goes, everything else by GradientTapes. Points are of
floating dtype; all calls are local.

``component=`` chooses components of u, by names or numbers: ``laplacian(u, x, component="p")`` is
``laplacian(u["p"], x)``. ``over=`` restricts an operator to some coordinates, by names or numbers:
``over=("x", "y")``, or ``over="space"`` for all except the one named t. The sums above are over
these coordinates alone, and d is their number.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from sciml_par import _tape
from sciml_par._checks import checked_integer, checked_number
from sciml_par._other_names import by_name
from sciml_par._partial_operators import HIGHEST, Operator, operator_of
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.field import Field, Selection
from sciml_par.problems.operators.arguments import (
    Axis,
    FieldLike,
    Over,
    axes_of,
    axes_of_sum,
    axis_numbers,
    field_and_points,
    jet,
    pair_coefficients,
    unit,
)


@by_name
def derivative(
    u: FieldLike, x: tf.Tensor, *axes: Axis, component: Selection | None = None
) -> tf.Tensor:
    """Compute the derivative ∂^q u_c / ∂x_{a1} … ∂x_{aq} along the q axes given.

    Up to the fourth order it comes from the field's jet, as far as that goes; higher orders put
    one GradientTape on top for each further axis.

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    x : tensor [n, d]
    *axes : int or str
        At least one, each a number in 0 … d-1, or the name of a coordinate where u knows the
        names, as the field of a problem does; their order does not matter.
    component : str, int or several of these, optional
        As ``u[component]``.

    Returns
    -------
    tensor [n, m]

    Raises
    ------
    InputError
        No axis, one out of range, or a name that is unknown.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import derivative
    >>> x = tf.constant([[2.0, 3.0]])
    >>> derivative(lambda x: x[:, 0:1] ** 2 * x[:, 1:2], x, 0, 1).numpy()
    array([[4.]], dtype=float32)
    """
    field, x = field_and_points(u, x, "derivative(u, x, 0)", component)
    if not axes:
        raise InputError("derivative(u, x, *axes) needs at least one axis, as derivative(u, x, 0)")
    return _derivative(field, x, axis_numbers(field, x, axes, "derivative(u, x, *axes)"))


@by_name
def gradient(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute ∇u = (∂u/∂x_1, …, ∂u/∂x_d) of a scalar field: [n, d].

    `over` and `component` as for `laplacian`.

    Raises
    ------
    InputError
        The field has more than one component.
    """
    slopes = _slopes(u, x, over, component, "gradient(u, x)")
    if slopes.shape[1] != 1:
        raise InputError(
            f"gradient(u, x) is for scalar fields, but u has {slopes.shape[1]} components; "
            f"choose one, gradient(u[0], x), or use jacobian(u, x) of shape [n, m, d], or "
            f"derivative(u, x, i) of shape [n, m]"
        )
    return slopes[:, 0, :]


@by_name
def jacobian(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute J_ci = ∂u_c/∂x_i: [n, m, d]; `over` and `component` as for `laplacian`."""
    return _slopes(u, x, over, component, "jacobian(u, x)")


@by_name
def divergence(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute ∇·u = Σ_i ∂u_i/∂x_i of a vector field with m = d components: [n, 1].

    `over` has the coordinates that the components belong to, in this order; otherwise it and
    `component`, such as ``("u", "v")`` of a field (u, v, p), are as for `laplacian`.

    Raises
    ------
    InputError
        The number of components is not that of the coordinates.
    """
    slopes = _slopes(u, x, over, component, "divergence(u, x)")
    if slopes.shape[1] != slopes.shape[2]:
        raise InputError(
            f"divergence(u, x) needs as many components as dimensions, but u has "
            f"{slopes.shape[1]} components in {slopes.shape[2]} dimensions; choose with "
            f'component=("u", "v") and over=("x", "y"), or over="space" for all except t'
        )
    return tf.linalg.trace(slopes)[:, None]


@by_name
def laplacian(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute Δu_c = Σ_i ∂²u_c/∂x_i²: [n, m].

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    x : tensor [n, d]
    over : names or numbers of coordinates, optional
        The sum over these alone, as ("x", "y") or (0, 1); "space" for all except t. By default
        all; in space and time it must be given.
    component : str, int or several of these, optional
        As ``u[component]``.

    Raises
    ------
    InputError
        u has no such coordinate or component, or they have no names; or one of several
        coordinates is named t, and `over` is not given.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import laplacian
    >>> laplacian(lambda x: x**2, tf.constant([[1.0], [5.0]])).numpy()
    array([[2.],
           [2.]], dtype=float32)
    """
    field, x = field_and_points(u, x, "laplacian(u, x)", component)
    axes = axes_of_sum(field, x, over, "laplacian(u, x, over=)")
    return jet(field, x, unit(x.shape[1], axes))[2][:, :, 0]


@by_name
def biharmonic(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute Δ²u_c = Σ_ij ∂⁴u_c/∂x_i²∂x_j², the Laplacian of the Laplacian: [n, m].

    `over` and `component` as for `laplacian`.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import biharmonic
    >>> x = tf.constant([[1.0, 2.0]])
    >>> biharmonic(lambda x: x[:, 0:1] ** 2 * x[:, 1:2] ** 2, x).numpy()
    array([[8.]], dtype=float32)
    """
    field, x = field_and_points(u, x, "biharmonic(u, x)", component)
    axes = axes_of_sum(field, x, over, "biharmonic(u, x, over=)")
    squares = operator_of(((i, i, j, j), 1.0) for i, j in product(axes, repeat=2))
    return _higher(field, x, squares)


@by_name
def hessian(
    u: FieldLike, x: tf.Tensor, *, over: Over | None = None, component: Selection | None = None
) -> tf.Tensor:
    """Compute H_cij = ∂²u_c/∂x_i∂x_j: [n, m, d, d], symmetric in i and j.

    `over` and `component` as for `laplacian`.
    """
    field, x = field_and_points(u, x, "hessian(u, x)", component)
    axes, d = axes_of(field, x, over, "hessian(u, x, over=)"), x.shape[1]
    pairs = [(i, j) for k, i in enumerate(axes) for j in axes[k:]]
    entries = jet(field, x, *(pair_coefficients(d, i, j) for i, j in pairs))[2]
    place = {frozenset(pair): k for k, pair in enumerate(pairs)}
    rows = [
        tf.stack([entries[:, :, place[frozenset((i, j))]] for j in axes], axis=-1) for i in axes
    ]
    return tf.stack(rows, axis=-2)


@by_name
def integral_to(
    u: FieldLike,
    x: tf.Tensor,
    axis: Axis,
    *,
    start: float = 0.0,
    power: float = 0.0,
    kernel: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    nodes: int = 16,
) -> tf.Tensor:
    """Compute ∫ (x_i − s)^p K(y, x) u(y) ds, y = x with y_i = s, from s = a to x_i: [n, m].

    As in equations with memory; p = −α and ∂u/∂t in place of u give Γ(1 − α) times Caputo's
    derivative of order α. By Gauss–Jacobi's rule, exact for polynomials of degree 2 nodes − 1.

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    x : tensor [n, d]
    axis : int or str
        As of `derivative`.
    start : a, the lower end, in units of x_i.
    power : p > −1, dimensionless.
    kernel : K, a function of tensors y and x of the same shape [k, d], -> [k, 1]; 1 by default.
    nodes : the number of nodes, at each of which u is evaluated.

    Raises
    ------
    InputError
        The axis is out of range or unknown, or `power` or `nodes` is.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import integral_to
    >>> integral_to(lambda y: y**2, tf.constant([[3.0]]), 0).numpy().round(5)
    array([[9.]], dtype=float32)
    """
    from scipy.special import roots_jacobi

    if not checked_number(power, "integral_to: power") > -1:
        raise InputError(f"integral_to: expected power > −1, as the integral needs; got {power}.")
    field, x = field_and_points(u, x, "integral_to(u, x, 0)")
    (i,) = axis_numbers(field, x, (axis,), "integral_to(u, x, axis)")
    z, weights = roots_jacobi(checked_integer(nodes, "integral_to: nodes", least=1), power, 0.0)
    half, along = (x[:, i : i + 1] - start) / 2, tf.one_hot([i], x.shape[1], dtype=x.dtype)
    y = tf.concat([x + float(at - 1) * half * along for at in z], axis=0)
    values = u(y) if kernel is None else kernel(y, tf.tile(x, [nodes, 1])) * u(y)
    each = tf.stack(tf.split(values, nodes), axis=-1)
    return half ** (1 + power) * tf.linalg.matvec(each, tf.constant(weights, each.dtype))


def _derivative(field: Field, x: tf.Tensor, axes: tuple[int, ...]) -> tf.Tensor:
    d = x.shape[1]
    if len(axes) == 1:
        return jet(field, x)[1][:, :, axes[0]]
    if len(axes) == 2:
        return jet(field, x, pair_coefficients(d, axes[0], axes[1]))[2][:, :, 0]
    if len(axes) <= HIGHEST:
        return _higher(field, x, operator_of({axes: 1.0}))
    _, slopes = _tape.value_and_jacobian(lambda z: _derivative(field, z, axes[:-1]), x)
    return slopes[:, :, axes[-1]]


def _slopes(
    u: FieldLike, x: tf.Tensor, over: Over | None, component: Selection | None, call: str
) -> tf.Tensor:
    """Compute ∂u_c/∂x_i for some i: [n, m, k]."""
    field, x = field_and_points(u, x, call, component)
    slopes = jet(field, x)[1]
    if over is None:
        return slopes
    return tf.stack([slopes[:, :, i] for i in axes_of(field, x, over, call)], axis=-1)


def _higher(field: Field, x: tf.Tensor, operator: Operator) -> tf.Tensor:
    d = x.shape[1]
    return field.jet(x, np.empty((0, d, d)), (operator,))[3][:, :, 0]
