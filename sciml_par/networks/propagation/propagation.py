"""Quantities that carry their own derivatives, on which networks are written.

With ∂_i the derivative along coordinate i of the input, and L = Σ_ij C_ij ∂²/∂x_i∂x_j for a
symmetric C, linear operations such as z = a W act on value, ∂_i and L alike, and

    ∂_i σ(a) = σ′(a) ∂_i a        L σ(a) = σ′(a) L a + σ″(a) Σ_ij C_ij ∂_i a ∂_j a
    ∂_i (ab) = (∂_i a) b + a ∂_i b        L(ab) = a L b + b L a + 2 Σ_ij C_ij ∂_i a ∂_j b

Operators of third and fourth order follow the formula of `carried.py`. Each operator is carried as
one quantity, not as the derivatives that it sums (the "forward Laplacian" of Li et al. 2023,
arXiv:2307.08214; "collapsed Taylor mode" of Dangel et al. 2025, arXiv:2505.13644).

Arrays are [w, n], units first and points last: products and pointwise operations then run along the
points, of which there are many, where a row of 16 units is short. For few points the quantities of
a layer are one matrix product; for many, copying them together would cost more than the calls of
separate products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, matrix_of, operator_of_matrix
from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import LINEAR, Activation
from sciml_par.networks.propagation.carried import Carried, Combination, Product, carried_for

Coefficients = npt.NDArray[np.float64]
Tensor = Any
Part = Tensor | None
"""A quantity [w, n], or [w, 1] where it is the same at all points, or None where it is zero."""

Record = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]
"""(what a layer multiplies: [w, n] each, the products a W: [w', n] each) -> the products that the
layer uses. A record of a layer's products with which derivatives by W can be had for every
point."""

# Numbers of a layer's quantities that fit into a core's cache.
_FEW = 1 << 15


@dataclass(frozen=True)
class Propagated:
    """w functions of x at n points, with d first derivatives and K operators.

    With d = K = 0 it is the values alone, so that one function of propagated quantities serves
    both for the values and for the derivatives of a network.

    Attributes
    ----------
    value : [w, n]
    first : ∂_i, d of them.
    operators : L_k, K of them.
    carried : the operators, and how they follow from each other.
    """

    value: Tensor
    first: tuple[Part, ...]
    operators: tuple[Part, ...]
    carried: Carried

    @classmethod
    def values_at(cls, x: Tensor) -> Propagated:
        """Return the coordinates x: [n, d] without derivatives (local)."""
        return cls(transposed(x), (), (), carried_for(0, (), ()))

    @classmethod
    def at(cls, x: Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Propagated:
        """Return the coordinates x: [n, d]: ∂_i x is a unit vector, L x = 0 (local).

        second : symmetric coefficients of operators of second order, [K, d, d].
        higher : operators of third and fourth order.
        """
        d = second.shape[1]
        carried = carried_for(d, tuple(map(operator_of_matrix, second)), tuple(higher))
        units = tf.eye(d, dtype=x.dtype)
        first = tuple(units[:, i : i + 1] for i in range(d))
        return cls(transposed(x), first, (None,) * len(carried.operators), carried)

    @property
    def second(self) -> Coefficients:
        """The symmetric coefficients C_k of the operators of second order, [K, d, d]."""
        d = self.carried.d
        found = [matrix_of(p, d) for p in self.carried.operators if len(p[0][0]) == 2]
        return np.reshape(found, [-1, d, d])

    @property
    def parts(self) -> list[Part]:
        """Value, first derivatives and operators."""
        return [self.value, *self.first, *self.operators]

    def dense(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        record: Record | None = None,
        last: bool = False,
    ) -> Propagated:
        """Return a W + b for W: [w, w'] and b: [w'] (local).

        Parameters
        ----------
        record : of the products.
        last : whether nothing but results follows, so that the rest need not be computed.
        """
        a = self
        if last:
            used = self.carried.used
            a = self._like([part if k in used else None for k, part in enumerate(self.parts)])
        # A product each, not one for all: a residual that reads only L then costs only L, because
        # the compiler drops the other products whole, which it cannot do with parts of one product.
        z = a.linear(partial(_products, weight, _FEW if not last else 0), record)
        return z if bias is None else z.shifted(bias)

    def linear(
        self, function: Callable[[list[Tensor]], list[Tensor]], record: Record | None = None
    ) -> Propagated:
        """Return a linear function of the parts that are not zero, all at once (local)."""
        parts = [part for part in self.parts if part is not None]
        found = function(parts)
        if record is not None:
            inputs = [full(part, self.value) for part in parts]
            found = record(inputs, [full(part, found[0]) for part in found])
        rest = iter(found)
        return self._like([None if part is None else next(rest) for part in self.parts])

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Propagated:
        """Return a linear function of all parts that are not zero, such as some of their points."""
        return self.linear(lambda parts: list(map(function, parts)))

    def activate(self, activation: Activation) -> Propagated:
        """Return σ(a), unit by unit (local)."""
        if activation is LINEAR:
            return self
        if not self.first:
            return replace(self, value=activation.value(self.value))
        value, *slopes = activation.up_to(self.carried.order, self.value)
        products = _Products(self.parts)
        found = [value, *(_times(slopes[0], part) for part in self.first)]
        for part, rule in zip(self.operators, self.carried.rules, strict=True):
            terms = zip(slopes[1:], map(products.combined, rule), strict=False)
            found.append(reduce(_sum, (_times(*e) for e in terms), _times(slopes[0], part)))
        return self._like(found)

    def scaled(self, factor: Tensor) -> Propagated:
        """Return the product with a constant: a number, [w] for the units, or [w, n] (local)."""
        factor = _column(factor)
        return self.mapped(lambda part: factor * part)

    def shifted(self, offset: Tensor) -> Propagated:
        """Return the sum with a constant: a number, [w] for the units, or [w, n] (local)."""
        return replace(self, value=self.value + _column(offset))

    def __add__(self, other: Propagated) -> Propagated:
        return self._like([_sum(*e) for e in zip(self.parts, other.parts, strict=True)])

    def __sub__(self, other: Propagated) -> Propagated:
        return self + other.scaled(-1.0)

    def __mul__(self, other: Propagated) -> Propagated:
        a, b = self.parts, other.parts
        found = [_sum(_times(b[0], p), _times(a[0], q)) for p, q in zip(a[1:], b[1:], strict=True)]
        # With σ(z) = z² the rules say how P(∂) acts on a square, and so, polarized, on a product.
        for k, rule in enumerate(self.carried.rules, start=len(self.first)):
            found[k] = _sum(found[k], _polarized(rule[0], a, b))
        return self._like([self.value * other.value, *found])

    def asked(self) -> list[Part]:
        """Return value, first derivatives and the operators that were asked for (local)."""
        products = _Products(self.parts)
        return [self.value, *self.first, *map(products.combined, self.carried.results)]

    def results(self) -> tuple[Tensor, ...]:
        """Return u: [n, m], its derivatives [n, m, d] and operators [n, m, K] (local).

        Where operators of third or fourth order were asked for, [n, m, Q] of them follow.
        """

        def together(parts: Sequence[Part]) -> Tensor:
            if not parts:
                return tf.zeros_like(tf.transpose(self.value))[..., None][..., :0]
            return tf.transpose(tf.stack([full(part, self.value) for part in parts]), [2, 1, 0])

        d, count = self.carried.d, 1 + self.carried.d + self.carried.count_of_second
        u, *parts = self.asked()
        groups = [parts[:d], parts[d : count - 1], parts[count - 1 :]]
        return transposed(u), *map(together, groups if groups[2] else groups[:2])

    def _like(self, parts: Sequence[Part]) -> Propagated:
        d = len(self.first)
        return replace(
            self, value=parts[0], first=tuple(parts[1 : 1 + d]), operators=tuple(parts[1 + d :])
        )


def jet(
    parameters: Sequence[Tensor], x: Tensor, second: Coefficients, activation: Activation
) -> tuple[Tensor, ...]:
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
    a, (*hidden, output) = Propagated.at(x, second), zip(*[iter(parameters)] * 2, strict=True)
    for weight, bias in hidden:
        a = a.dense(weight, bias).activate(activation)
    return a.dense(*output, last=True).results()


def in_parts(
    function: Callable[[Propagated], Propagated], x: Propagated, n: int, at_once: int
) -> Propagated:
    """Return a function of x: [d, n] for some points after others, which takes less memory (local).

    The derivatives of x are the same at all points.
    """
    count = -(-n // at_once)
    padded = tf.pad(tf.transpose(x.value), [[0, count * at_once - n], [0, 0]])
    points = tf.reshape(padded, [count, at_once, padded.shape[1]])

    @tf.autograph.experimental.do_not_convert
    def of_part(some: Any) -> Any:
        found = function(replace(x, value=tf.transpose(some)))
        return tf.stack([full(part, found.value) for part in found.parts])

    spec = tf.TensorSpec([len(x.parts), None, at_once], x.value.dtype)
    found = tf.map_fn(of_part, points, fn_output_signature=spec)
    whole = tf.reshape(tf.transpose(found, [1, 2, 0, 3]), [*found.shape[1:2], -1, count * at_once])
    return x._like(tf.unstack(whole[:, :, :n]))


def joined(several: Sequence[Propagated], axis: int) -> Propagated:
    """Return quantities one after another: their units with axis 0, their points with axis 1."""
    if len(several) == 1:
        return several[0]

    def whole(parts: Sequence[Part]) -> Part:
        if all(part is None for part in parts):
            return None
        pairs = zip(parts, several, strict=True)
        return tf.concat([full(part, of.value) for part, of in pairs], axis)

    return several[0]._like([whole(e) for e in zip(*(of.parts for of in several), strict=True)])


def transposed(x: Tensor) -> Tensor:
    """Return x: [n, d] as [d, n] (local)."""
    # Not by `tf.transpose`: XLA has no second derivatives of that inside of a loop.
    return tf.raw_ops.Einsum(inputs=[x], equation="nd->dn")


def full(part: Part, like: Tensor) -> Tensor:
    """Return a part as [w, n] (local)."""
    if part is None:
        return tf.zeros_like(like)
    return (
        part if part.shape == like.shape and None not in part.shape else part + tf.zeros_like(like)
    )


def _products(weight: Tensor, few: int, parts: Sequence[Tensor]) -> list[Tensor]:
    """Multiply [w, n] each with [w, w'] -> [w', n] each; as one product where that is quicker."""
    multiply = partial(tf.linalg.matmul, weight, transpose_a=True)
    w, n = shape = parts[0].shape
    alike = [part for part in parts if part.shape == shape]
    if len(alike) < 2 or n is None or len(alike) * w * n > few:
        return list(map(multiply, parts))
    stack = tf.reshape(tf.stack(alike, axis=1), [w, len(alike) * n])
    product = tf.reshape(multiply(stack), [weight.shape[1], len(alike), n])
    together = iter(tf.unstack(product, axis=1))
    return [next(together) if part.shape == shape else multiply(part) for part in parts]


class _Products:
    """Products of a layer's quantities, each computed once."""

    def __init__(self, quantities: Sequence[Part]) -> None:
        self._found: dict[Product, Part] = {(i,): q for i, q in enumerate(quantities)}

    def combined(self, combination: Combination) -> Part:
        return reduce(_sum, (_weighted(c, self._of(p)) for p, c in combination), None)

    def _of(self, places: Product) -> Part:
        if places not in self._found:
            self._found[places] = _times(self._of(places[:-1]), self._found[places[-1:]])
        return self._found[places]


def _polarized(squares: Combination, a: Sequence[Part], b: Sequence[Part]) -> Part:
    """Return Σ c (a_i b_j + a_j b_i) for Σ c z_i z_j."""
    found = None
    for (i, j), c in squares:
        term = _times(a[i], b[j])
        both = _weighted(2 * c, term) if i == j else _weighted(c, _sum(term, _times(a[j], b[i])))
        found = _sum(found, both)
    return found


def _column(value: Any) -> Any:
    """Return an array for the units, [w], as [w, 1]; anything else unchanged."""
    return value[:, None] if len(getattr(value, "shape", ())) == 1 else value


def _sum(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _times(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def _weighted(coefficient: float, part: Part) -> Part:
    return part if part is None or coefficient == 1.0 else coefficient * part
