"""Taylor propagation: derivatives carried forward through dense layers.

A layer is z = a W + b followed by a ← σ(z). With ∂_i the derivative along coordinate i of the
input, and L_k = Σ_ij C_k[i,j] ∂²/∂x_i∂x_j for symmetric C_k, the chain rule gives

    z = a W + b          ∂_i z = (∂_i a) W          L_k z = (L_k a) W
    a = σ(z)             ∂_i a = σ′(z) ∂_i z        L_k a = σ′(z) L_k z
                                                            + σ″(z) Σ_ij C_k[i,j] ∂_i z ∂_j z

The operator L_k is carried as one quantity, not as the second derivatives that it sums (the
"forward Laplacian" of Li et al. 2023, arXiv:2307.08214; "collapsed Taylor mode" of Dangel et al.
2025, arXiv:2505.13644). The 1 + d + K quantities are stacked along the batch, so that a hidden
layer is one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.activation import LINEAR, Activation

Coefficients = npt.NDArray[np.float64]


class Layer(NamedTuple):
    """a ← σ(a W + b).

    Attributes
    ----------
    weight : W: [w, w'].
    bias : b: [w'], or None.
    activation : σ.
    """

    weight: tf.Tensor
    bias: tf.Tensor | None
    activation: Activation


def jet(
    parameters: Sequence[tf.Tensor], x: tf.Tensor, second: Coefficients, activation: Activation
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Value, first derivatives and K second-order operators of a dense network (local).

    Parameters
    ----------
    parameters : sequence of tensors
        W1: [d, w1], b1: [w1], W2: [w1, w2], b2: [w2], ..., with at least one hidden layer; the
        last layer is linear.
    x : tensor [n, d]
    second : array [K, d, d]
        Symmetric coefficient matrices C_k; K may be 0.
    activation : Activation

    Returns
    -------
    u : tensor [n, m]
    du : tensor [n, m, d]
        du[:, c, i] = ∂u_c/∂x_i.
    L : tensor [n, m, K]
        L[:, c, k] = Σ_ij C_k[i,j] ∂²u_c/∂x_i∂x_j.
    """
    pairs = list(zip(parameters[0::2], parameters[1::2], strict=True))
    hidden = [Layer(weight, bias, activation) for weight, bias in pairs[:-1]]
    return jet_of_layers([*hidden, Layer(*pairs[-1], LINEAR)], x, second)


def jet_of_layers(
    layers: Sequence[Layer], x: tf.Tensor, second: Coefficients
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """As `jet`, of dense layers of any activations, one at least (local)."""
    first, *others = layers
    d = second.shape[1]
    stack = _first_layer(first, x, second)
    if not others:
        return _parts(stack, d=d)
    for layer in others[:-1]:
        stack = _hidden_layer(layer, stack, second)
    if others[-1].activation is LINEAR:
        return _last_layer(others[-1], stack, d=d)
    return _parts(_hidden_layer(others[-1], stack, second), d=d)


def _first_layer(layer: Layer, x: tf.Tensor, second: Coefficients) -> tf.Tensor:
    """x: [n, d] -> [1 + d + K, n, w]; here ∂_i z is a row of W at every point, and L_k z = 0."""
    weight = layer.weight
    z = _with_bias(tf.linalg.matmul(x, weight), layer.bias)
    a, slope, curvature = layer.activation.derivatives(z)
    rows = [weight[i] for i in range(second.shape[1])]
    first = [slope * row for row in rows]
    operators = [curvature * form for form in _quadratic_forms(rows, second)]
    return tf.stack([a, *first, *operators])


def _hidden_layer(layer: Layer, stack: tf.Tensor, second: Coefficients) -> tf.Tensor:
    """[1 + d + K, n, w] -> [1 + d + K, n, w']."""
    d = second.shape[1]
    parts = tf.unstack(_product(stack, layer.weight))
    a, slope, curvature = layer.activation.derivatives(_with_bias(parts[0], layer.bias))
    directions, operators = parts[1 : 1 + d], parts[1 + d :]
    forms = _quadratic_forms(directions, second)
    first = [slope * direction for direction in directions]
    last = [slope * op + curvature * q for op, q in zip(operators, forms, strict=True)]
    return tf.stack([a, *first, *last])


def _last_layer(
    layer: Layer, stack: tf.Tensor, *, d: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    # One product a part, not one for all: a residual that reads only L then costs only L, because
    # the compiler drops the other products whole, which it cannot do with rows of one product.
    u = _with_bias(tf.linalg.matmul(stack[0], layer.weight), layer.bias)
    du = _product(stack[1 : 1 + d], layer.weight)
    operators = _product(stack[1 + d :], layer.weight)
    return u, tf.transpose(du, [1, 2, 0]), tf.transpose(operators, [1, 2, 0])


def _parts(stack: tf.Tensor, *, d: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """[1 + d + K, n, m] -> u: [n, m], du: [n, m, d], L: [n, m, K]."""
    first, operators = stack[1 : 1 + d], stack[1 + d :]
    return stack[0], tf.transpose(first, [1, 2, 0]), tf.transpose(operators, [1, 2, 0])


def _with_bias(z: tf.Tensor, bias: tf.Tensor | None) -> tf.Tensor:
    return z if bias is None else z + bias


def _product(stack: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """[p, n, w] times [w, w'] as one product of two matrices -> [p, n, w']."""
    flat = tf.linalg.matmul(tf.reshape(stack, [-1, weight.shape[0]]), weight)
    n = tf.shape(stack)[1] if stack.shape[1] is None else stack.shape[1]
    return tf.reshape(flat, [stack.shape[0], n, weight.shape[1]])


def _quadratic_forms(directions: Sequence[tf.Tensor], second: Coefficients) -> list[tf.Tensor]:
    """Σ_ij C_k[i,j] v_i v_j for every k, pointwise; pairs with a zero coefficient cost nothing."""
    products: dict[tuple[int, int], tf.Tensor] = {}
    forms = []
    for matrix in second:
        terms = []
        for i, j in combinations_with_replacement(range(len(directions)), 2):
            coefficient = float(matrix[i, j] if i == j else matrix[i, j] + matrix[j, i])
            if coefficient == 0.0:
                continue
            if (i, j) not in products:
                products[i, j] = directions[i] * directions[j]
            product = products[i, j]
            terms.append(product if coefficient == 1.0 else coefficient * product)
        forms.append(sum(terms[1:], terms[0]) if terms else tf.zeros_like(directions[0]))
    return forms
