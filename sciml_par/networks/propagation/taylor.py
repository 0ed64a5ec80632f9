"""Taylor propagation: derivatives carried forward through dense layers.

A layer is z = a W + b followed by a ← σ(z). With ∂_i the derivative along coordinate i of the
input, and L_k = Σ_ij C_k[i,j] ∂²/∂x_i∂x_j for symmetric C_k, the chain rule gives

    z = a W + b          ∂_i z = (∂_i a) W          L_k z = (L_k a) W
    a = σ(z)             ∂_i a = σ′(z) ∂_i z        L_k a = σ′(z) L_k z
                                                            + σ″(z) Σ_ij C_k[i,j] ∂_i z ∂_j z

Operators of third and fourth order follow the formula of `carried.py`. Each operator is carried as
one quantity, not as the derivatives that it sums (the "forward Laplacian" of Li et al. 2023,
arXiv:2307.08214; "collapsed Taylor mode" of Dangel et al. 2025, arXiv:2505.13644).

Inside, arrays are [w, n], units first and points last: products and pointwise operations then run
along the points, of which there are many, where a row of 16 units is short. For few points the
1 + d + K quantities of a layer are one matrix product; for many, copying them together would cost
more than the calls of separate products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, operator_of_matrix, order_of
from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import LINEAR, Activation
from sciml_par.networks.propagation.carried import Carried, Combination, Product, carried_for

Coefficients = npt.NDArray[np.float64]

Record = Callable[[Sequence[Any], Sequence[Any]], list[Any]]
"""(what a layer's products are made of: [w, n] each, the products a W: [w', n] each) -> the
products that the layer uses. A record of a layer's products with which derivatives by
W can be had for every point."""

# Numbers of a layer's quantities that fit into a core's cache.
_FEW = 1 << 15


class Layer(NamedTuple):
    """a ← σ(a W + b).

    Attributes
    ----------
    weight : W: [w, w'].
    bias : b: [w'], or None.
    activation : σ.
    record : told the layer's products, where somebody wants to know them.
    """

    weight: tf.Tensor
    bias: tf.Tensor | None
    activation: Activation
    record: Record | None = None

    def multiply(self, parts: Sequence[tf.Tensor], *, apart: bool = False) -> list[tf.Tensor]:
        """Multiply [w, n] each -> [w', n] each."""
        products = (
            [_product(self.weight, part) for part in parts]
            if apart
            else _products(self.weight, parts)
        )
        return products if self.record is None else self.record(parts, products)


def dense_layers(parameters: Sequence[tf.Tensor], activation: Activation) -> list[Layer]:
    """Return the layers of W1, b1, W2, b2, …, of which the last is linear."""
    pairs = list(zip(parameters[0::2], parameters[1::2], strict=True))
    hidden = [Layer(weight, bias, activation) for weight, bias in pairs[:-1]]
    return [*hidden, Layer(*pairs[-1], LINEAR)]


def jet(
    parameters: Sequence[tf.Tensor], x: tf.Tensor, second: Coefficients, activation: Activation
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Compute value, first derivatives and K second-order operators of a dense network (local).

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
    return jet_of_layers(dense_layers(parameters, activation), x, second)


def jet_of_layers(
    layers: Sequence[Layer], x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()
) -> tuple[tf.Tensor, ...]:
    """Compute as `jet`, of one dense layer or more, with any activations.

    With Q operators `higher` of third or fourth order, the last result is H: [n, m, Q].
    """
    d = second.shape[1]
    wanted = tuple(operator_of_matrix(matrix) for matrix in second)
    carried = carried_for(d, wanted, tuple(higher))
    first, *others = layers
    quantities = _first_layer(first, x, carried)
    for layer in others[:-1]:
        quantities = _hidden_layer(layer, quantities, carried)
    if others and others[-1].activation is LINEAR:
        found = _last_layer(others[-1], quantities, carried)
    else:
        for layer in others[-1:]:
            quantities = _hidden_layer(layer, quantities, carried)
        found = dict(enumerate(quantities))
    u = found[0]
    n = tf.shape(x)[0] if x.shape[0] is None else x.shape[0]
    results = [_combined(found, each, u) for each in carried.results]
    parts = [[found[1 + i] for i in range(d)], results[: len(wanted)]]
    parts += [results[len(wanted) :]] if higher else []
    return (tf.transpose(u), *(_together(each, u, n) for each in parts))


def _first_layer(layer: Layer, x: tf.Tensor, carried: Carried) -> list[tf.Tensor]:
    """Propagate x, where ∂_i z is a row of W at every point, and P(∂)z = 0."""
    weight = layer.weight
    z = tf.linalg.matmul(weight, x, transpose_a=True, transpose_b=True)
    rows = [weight[i][:, None] for i in range(carried.d)]
    if layer.record is not None:
        z, *rows = _recorded_first(layer.record, x, z, rows)
    a, *slopes = layer.activation.up_to(carried.order, _with_bias(z, layer.bias))
    products = _Products([z, *rows])
    return [
        a,
        *(slopes[0] * row for row in rows),
        *(
            slopes[order_of(p) - 1] * products.combined(form)
            for p, form in zip(carried.operators, carried.forms, strict=True)
        ),
    ]


def _hidden_layer(layer: Layer, before: Sequence[tf.Tensor], carried: Carried) -> list[tf.Tensor]:
    z, *parts = layer.multiply(before)
    a, *slopes = layer.activation.up_to(carried.order, _with_bias(z, layer.bias))
    products = _Products([z, *parts])
    after = [a, *(slopes[0] * part for part in parts[: carried.d])]
    for part, rule in zip(parts[carried.d :], carried.rules, strict=True):
        terms = [
            slope * products.combined(combination)
            for slope, combination in zip(slopes[1:], rule, strict=False)
            if combination
        ]
        after.append(sum(terms, slopes[0] * part))
    return after


def _last_layer(
    layer: Layer, before: Sequence[tf.Tensor], carried: Carried
) -> dict[int, tf.Tensor]:
    # A product each, not one for all: a residual that reads only L then costs only L, because the
    # compiler drops the other products whole, which it cannot do with parts of one product.
    parts = layer.multiply([before[place] for place in carried.used], apart=True)
    found = dict(zip(carried.used, parts, strict=True))
    found[0] = _with_bias(found[0], layer.bias)
    return found


def _combined(found: dict[int, tf.Tensor], combination: Combination, like: tf.Tensor) -> tf.Tensor:
    terms = [_times(c, found[place]) for (place,), c in combination]
    return sum(terms[1:], terms[0]) if terms else tf.zeros_like(like)


class _Products:
    """Products of a layer's quantities, each computed once."""

    def __init__(self, quantities: Sequence[tf.Tensor]) -> None:
        self._found: dict[Product, Any] = {(i,): q for i, q in enumerate(quantities)}

    def combined(self, combination: Combination) -> tf.Tensor:
        terms = [_times(c, self._of(places)) for places, c in combination]
        return sum(terms[1:], terms[0])

    def _of(self, places: Product) -> tf.Tensor:
        if places not in self._found:
            self._found[places] = self._of(places[:-1]) * self._found[places[-1:]]
        return self._found[places]


def _times(factor: float, tensor: tf.Tensor) -> tf.Tensor:
    return tensor if factor == 1.0 else factor * tensor


def _recorded_first(
    record: Record, x: tf.Tensor, z: tf.Tensor, rows: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Return the recorded products of the first layer; the derivatives of x are unit vectors."""
    units = tf.eye(len(rows), dtype=x.dtype)
    inputs = [
        tf.transpose(x),
        *(units[i][:, None] + tf.zeros_like(x[:, 0]) for i in range(len(rows))),
    ]
    return record(inputs, [z, *(row + tf.zeros_like(z) for row in rows)])


def _products(weight: tf.Tensor, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Multiply [w, n] each with [w, w'] -> [w', n] each."""
    w, n = parts[0].shape
    if n is None or len(parts) * w * n > _FEW:
        return [_product(weight, part) for part in parts]
    stack = tf.reshape(tf.stack(parts, axis=1), [w, len(parts) * n])
    product = tf.reshape(_product(weight, stack), [weight.shape[1], len(parts), n])
    return tf.unstack(product, axis=1)


def _product(weight: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matmul(weight, part, transpose_a=True)


def _with_bias(z: tf.Tensor, bias: tf.Tensor | None) -> tf.Tensor:
    """Return z + b at every point: [w, n]."""
    return z if bias is None else z + bias[:, None]


def _together(parts: Sequence[tf.Tensor], u: tf.Tensor, n: Any) -> tf.Tensor:
    """Stack [m, n] each, like u -> [n, m, number]."""
    if not parts:
        return tf.zeros([n, u.shape[0], 0], u.dtype)
    return tf.transpose(tf.stack(parts), [2, 1, 0])
