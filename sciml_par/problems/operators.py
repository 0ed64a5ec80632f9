"""Differential operators on fields.

With points x: [n, d] and a field u(x): [n, m]:

    ======================  =============  ==============================================
    call                    shape          meaning
    ======================  =============  ==============================================
    u(x)                    [n, m]         u_c
    derivative(u, x, i)     [n, m]         ∂u_c/∂x_i
    derivative(u, x, i, j)  [n, m]         ∂²u_c/∂x_i∂x_j, and so on for more axes
    laplacian(u, x)         [n, m]         Σ_i ∂²u_c/∂x_i²
    gradient(u, x)          [n, d]         ∂u/∂x_i, scalar fields (m = 1) only
    divergence(u, x)        [n, 1]         Σ_i ∂u_i/∂x_i, vector fields (m = d) only
    jacobian(u, x)          [n, m, d]      ∂u_c/∂x_i
    hessian(u, x)           [n, m, d, d]   ∂²u_c/∂x_i∂x_j
    ======================  =============  ==============================================

So terms of an equation have the shape [n, m] of u(x) and add without broadcasting.

`u` is a `Field` or any function of x made of differentiable TensorFlow operations that acts on
each point for itself, such as ``lambda x: (1 - x**2) * u(x)``. Fields with a jet are differentiated
by it up to the second order, everything else by GradientTapes. Points are of floating dtype; all
calls are local.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems import _tape
from sciml_par.problems._tape import Function
from sciml_par.problems.field import Field, as_points

FieldLike = Field | Function


def derivative(u: FieldLike, x: tf.Tensor, *axes: int) -> tf.Tensor:
    """Partial derivative ∂^q u_c / ∂x_{a1} … ∂x_{aq} along the q axes given.

    Up to order two it comes from the field's jet; higher orders put one GradientTape on top for
    each further axis.

    Parameters
    ----------
    u : Field or callable [n, d] -> [n, m]
    x : tensor [n, d]
    *axes : int
        At least one, each in 0 … d-1; their order does not matter.

    Returns
    -------
    tensor [n, m]

    Raises
    ------
    InputError
        No axis, or one out of range.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import derivative
    >>> x = tf.constant([[2.0, 3.0]])
    >>> derivative(lambda x: x[:, 0:1] ** 2 * x[:, 1:2], x, 0, 1).numpy()
    array([[4.]], dtype=float32)
    """
    x = as_points(x)
    d = x.shape[1]
    _check_axes(axes, d)
    if len(axes) == 1:
        return _jet(u, x)[1][:, :, axes[0]]
    if len(axes) == 2:
        return _jet(u, x, _mixed(d, axes[0], axes[1]))[2][:, :, 0]
    _, slopes = _tape.value_and_jacobian(lambda z: derivative(u, z, *axes[:-1]), x)
    return slopes[:, :, axes[-1]]


def gradient(u: FieldLike, x: tf.Tensor) -> tf.Tensor:
    """∇u = (∂u/∂x_1, …, ∂u/∂x_d) of a scalar field: [n, d].

    Raises
    ------
    InputError
        The field has more than one component.
    """
    slopes = _jet(u, as_points(x))[1]
    if slopes.shape[1] != 1:
        raise InputError(
            f"gradient(u, x) is for scalar fields, but u has {slopes.shape[1]} components; "
            f"use jacobian(u, x) of shape [n, m, d], or derivative(u, x, i) of shape [n, m]"
        )
    return slopes[:, 0, :]


def jacobian(u: FieldLike, x: tf.Tensor) -> tf.Tensor:
    """J_ci = ∂u_c/∂x_i: [n, m, d]."""
    return _jet(u, as_points(x))[1]


def divergence(u: FieldLike, x: tf.Tensor) -> tf.Tensor:
    """∇·u = Σ_i ∂u_i/∂x_i of a vector field with m = d components: [n, 1].

    Raises
    ------
    InputError
        The number of components is not the dimension.
    """
    slopes = _jet(u, as_points(x))[1]
    if slopes.shape[1] != slopes.shape[2]:
        raise InputError(
            f"divergence(u, x) needs as many components as dimensions, but u has "
            f"{slopes.shape[1]} components in {slopes.shape[2]} dimensions"
        )
    return tf.linalg.trace(slopes)[:, None]


def laplacian(u: FieldLike, x: tf.Tensor) -> tf.Tensor:
    """Δu_c = Σ_i ∂²u_c/∂x_i²: [n, m].

    Examples
    --------
    >>> import tensorflow as tf
    >>> from sciml_par.problems import laplacian
    >>> laplacian(lambda x: x**2, tf.constant([[1.0], [5.0]])).numpy()
    array([[2.],
           [2.]], dtype=float32)
    """
    x = as_points(x)
    return _jet(u, x, np.eye(x.shape[1]))[2][:, :, 0]


def hessian(u: FieldLike, x: tf.Tensor) -> tf.Tensor:
    """H_cij = ∂²u_c/∂x_i∂x_j: [n, m, d, d], symmetric in i and j."""
    x = as_points(x)
    d = x.shape[1]
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    entries = _jet(u, x, *(_mixed(d, i, j) for i, j in pairs))[2]
    place = {pair: k for k, pair in enumerate(pairs)}
    rows = [
        tf.stack([entries[:, :, place[min(i, j), max(i, j)]] for j in range(d)], axis=-1)
        for i in range(d)
    ]
    return tf.stack(rows, axis=-2)


def _jet(
    u: FieldLike, x: tf.Tensor, *second: npt.NDArray[np.float64]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    if not callable(u):
        raise InputError(
            f"an operator needs the field u itself, a Field or a function of x, "
            f"got {type(u).__name__}; write laplacian(u, x), not laplacian(u(x), x)"
        )
    field = u if isinstance(u, Field) else Field(u)
    d = x.shape[1]
    return field.jet(x, np.array(second, dtype=np.float64).reshape(-1, d, d))


def _mixed(d: int, i: int, j: int) -> npt.NDArray[np.float64]:
    """Symmetric coefficients of ∂²/∂x_i∂x_j: [d, d]."""
    matrix = np.zeros((d, d))
    matrix[i, j] += 0.5
    matrix[j, i] += 0.5
    return matrix


def _check_axes(axes: tuple[int, ...], d: int) -> None:
    if not axes:
        raise InputError("derivative(u, x, *axes) needs at least one axis, as derivative(u, x, 0)")
    for axis in axes:
        valid = isinstance(axis, Integral) and not isinstance(axis, bool) and 0 <= axis < d
        if not valid:
            raise InputError(
                f"derivative(u, x, *axes): axes must be integers in 0..{d - 1} for points of "
                f"dimension {d}, got {axis!r}"
            )
