"""Derivatives by automatic differentiation, and the one question asked of TensorFlow's tapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, divided, matrix_of, order_of
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError

# TensorFlow is not imported yet where these are defined.
Tensor = Any
Function = Callable[[Tensor], Tensor]
Jet = tuple[Tensor, ...]
"""(u, du, L), or (u, du, L, H) where operators of third or fourth order were asked for."""
SecondJet = Callable[[Tensor, npt.NDArray[np.float64]], Jet]


def is_watched(x: tf.Tensor) -> bool:
    """Return whether an active GradientTape or ForwardAccumulator follows x.

    A value computed before such a tape was opened is a constant to it. This asks functions
    internal to TensorFlow, which has no public ones for it.
    """
    from tensorflow.python.eager import forwardprop_util, record

    if record.should_record_backprop([x]):
        return True
    return len(forwardprop_util.pack_tangents([x]).tangents) > 0


def value_and_jacobian(function: Function, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return values [n, m] and derivatives [n, m, d] of a pointwise function by one GradientTape.

    Row i of the result depends on row i of x: [n, d] only.
    """
    with tf.GradientTape(persistent=True) as tape:
        # A fresh tensor: only the argument is differentiated, not an x that the function
        # encloses; and it is watched, so that no cached value is mistaken for a function of it.
        z = tf.identity(x)
        tape.watch(z)
        u = checked_output(function(z), x)
        components = [u[:, c] for c in range(u.shape[1])]
    rows = [
        tape.gradient(component, z, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        for component in components
    ]
    return u, tf.stack(rows, axis=1)


def jet(function: Function, x: tf.Tensor, second: npt.NDArray[np.float64]) -> Jet:
    """Return value, first derivatives and second-order operators by nested GradientTapes.

    For x: [n, d] and symmetric coefficients second: [K, d, d] these are u: [n, m], du: [n, m, d]
    and L[:, c, k] = Σ_ij second[k, i, j] ∂²u_c/∂x_i∂x_j: [n, m, K]. Nested forward accumulators
    would be cheaper in high dimension, but under an outer tape their parameter gradients are wrong.
    """
    if len(second) == 0:
        u, du = value_and_jacobian(function, x)
        return u, du, du[:, :, :0]
    values = []

    def first(z: tf.Tensor) -> tf.Tensor:
        u, du = value_and_jacobian(function, z)
        values.append((u, du))
        columns = [du[:, :, i] for i in axes]
        return tf.concat(columns, axis=1)

    # Only rows of the Hessian that some operator reads are differentiated.
    axes = np.flatnonzero(np.any(second != 0.0, axis=(0, 2)))
    if len(axes) == 0:
        axes = np.array([0])
    _, rows = value_and_jacobian(first, x)
    u, du = values[0]
    d = second.shape[1]
    hessian_rows = tf.reshape(rows, [-1, len(axes), u.shape[1], d])
    coefficients = tf.constant(second[:, axes, :], dtype=x.dtype)
    return u, du, tf.einsum("nicj,kij->nck", hessian_rows, coefficients)


def jet_at(
    function: Function,
    own: Callable[..., Jet] | None,
    x: tf.Tensor,
    second: npt.NDArray[np.float64],
    operators: tuple[Operator, ...] = (),
) -> Jet:
    """Return the jet of a function: its `own`, as far as that goes, the rest by tapes."""
    if operators and own is not None and takes_higher(own):
        return own(x, second, higher=operators)
    if operators:

        def of_second(z: tf.Tensor, matrices: npt.NDArray[np.float64]) -> Jet:
            return jet_at(function, own, z, matrices)

        return *of_second(x, second), higher(of_second, x, operators)
    return jet(function, x, second) if own is None else own(x, second)


def takes_higher(own: Callable[..., Jet]) -> bool:
    """Return whether a jet computes operators of third and fourth order."""
    try:
        return "higher" in inspect.signature(own).parameters
    except (TypeError, ValueError):  # some functions made in C have none
        return False


def higher(jet_of: SecondJet, x: tf.Tensor, operators: Sequence[Operator]) -> tf.Tensor:
    """Return Q operators of order 2 to 4 by tapes around a jet of second order: [n, m, Q]."""
    top, d = max(map(order_of, operators)), x.shape[1]
    if top == 2:
        return jet_of(x, np.array([matrix_of(each, d) for each in operators]))[2]
    others = [each for each in operators if order_of(each) < top]
    parts = {each: divided(each) for each in operators if order_of(each) == top}
    # Each Σ_i ∂_i Q_i needs its operators Q_i under one tape more.
    inner = list(dict.fromkeys([*others, *(q for of in parts.values() for q in of.values())]))

    def flat(z: tf.Tensor) -> tf.Tensor:
        values = higher(jet_of, z, inner)
        return tf.reshape(values, [-1, values.shape[1] * len(inner)])

    values, slopes = value_and_jacobian(flat, x)
    m, place = values.shape[1] // len(inner), {each: k for k, each in enumerate(inner)}
    values = tf.reshape(values, [-1, m, len(inner)])
    slopes = tf.reshape(slopes, [-1, m, len(inner), d])
    found = [
        tf.add_n([slopes[:, :, place[q], i] for i, q in parts[each].items()])
        if each in parts
        else values[:, :, place[each]]
        for each in operators
    ]
    return tf.stack(found, axis=-1)


def checked_output(u: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Let values of a field at x through if they are a tensor [n, m] with m known."""
    if not tf.is_tensor(u):
        raise InputError(
            f"a field must return a TensorFlow tensor [n, m] for points [n, d], "
            f"got {type(u).__name__}; NumPy functions have no derivatives, use tf.sin and the like"
        )
    if u.shape.rank != 2 or u.shape[1] is None:
        raise InputError(
            f"a field must return a tensor of shape [n, m] with m known for points of shape "
            f"{x.shape.as_list()}, got {u.shape}; keep both axes by slices such as x[:, 0:1] "
            f"instead of x[:, 0]"
        )
    return u
