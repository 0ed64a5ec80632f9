"""Quantities that carry their own derivatives, on which architectures are written.

With ∂_i the derivative along coordinate i of the input, and L = Σ_ij C_ij ∂²/∂x_i∂x_j for a
symmetric C, linear operations act on value, ∂_i and L alike, and

    ∂_i σ(a) = σ′(a) ∂_i a        L σ(a) = σ′(a) L a + σ″(a) Σ_ij C_ij ∂_i a ∂_j a
    ∂_i (ab) = (∂_i a) b + a ∂_i b        L(ab) = a L b + b L a + 2 Σ_ij C_ij ∂_i a ∂_j b

As in `sciml_par.networks.propagation.taylor`, each L is carried as one quantity (Li et al. 2023,
arXiv:2307.08214), and arrays are [w, n], units first and points last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import LINEAR, Activation
from sciml_par.networks.propagation.taylor import Layer, Record

Coefficients = npt.NDArray[np.float64]
Tensor = Any
Part = Tensor | None
"""A quantity [w, n], or [w, 1] where it is the same at all points, or None where it is zero."""


@dataclass(frozen=True)
class Propagated:
    """w functions of x at n points, with d first derivatives and K second-order operators.

    With d = K = 0 it is the values alone, so that one function of propagated quantities serves
    both for the values and for the derivatives of a network.

    Attributes
    ----------
    value : [w, n]
    first : ∂_i, d of them.
    operators : L_k, K of them.
    second : the symmetric coefficients C_k: [K, d, d].
    """

    value: Tensor
    first: tuple[Part, ...]
    operators: tuple[Part, ...]
    second: Coefficients

    @classmethod
    def values_at(cls, x: Tensor) -> Propagated:
        """Return the coordinates x: [n, d] without derivatives (local)."""
        return cls(tf.transpose(x), (), (), np.zeros((0, 0, 0)))

    @classmethod
    def at(cls, x: Tensor, second: Coefficients) -> Propagated:
        """Return the coordinates x: [n, d]: ∂_i x is a unit vector, L x = 0 (local)."""
        d = second.shape[1]
        units = tf.eye(d, dtype=x.dtype)
        first = tuple(units[:, i : i + 1] for i in range(d))
        return cls(tf.transpose(x), first, (None,) * len(second), second)

    def dense(
        self, weight: Tensor, bias: Tensor | None = None, *, record: Record | None = None
    ) -> Propagated:
        """Return a W + b for W: [w, w'] and b: [w'] (local).

        Parameters
        ----------
        record : of the products, as in `taylor.Layer`; zeros and what is the
            same at all points are then computed in full.
        """
        layer = Layer(weight, None, LINEAR, record)
        parts = [self.value, *self.first, *self.operators]
        if record is not None:
            products = layer.multiply([_full(part, self.value) for part in parts])
        else:
            products = _products(layer, parts)
        if bias is not None:
            products[0] = products[0] + bias[:, None]
        return self._like(products)

    def activate(self, activation: Activation) -> Propagated:
        """Return σ(a), unit by unit (local)."""
        if not self.first:
            return replace(self, value=activation.value(self.value))
        value, slope, curvature = activation.derivatives(self.value)
        forms = [_quadratic(self.first, matrix) for matrix in self.second]
        operators = [
            _sum(_times(slope, op), _times(curvature, form))
            for op, form in zip(self.operators, forms, strict=True)
        ]
        return self._like([value, *(_times(slope, part) for part in self.first), *operators])

    def scaled(self, factor: Tensor) -> Propagated:
        """Return the product with a constant: a number, or [w] for the units (local)."""
        rank = getattr(getattr(factor, "shape", None), "rank", 0)
        factor = factor[:, None] if rank == 1 else factor
        return self.mapped(lambda part: factor * part)

    def shifted(self, offset: Tensor) -> Propagated:
        """Return the sum with a constant: a number, or [w] for the units (local)."""
        rank = getattr(getattr(offset, "shape", None), "rank", 0)
        return replace(self, value=self.value + (offset[:, None] if rank == 1 else offset))

    def __add__(self, other: Propagated) -> Propagated:
        first = [_sum(a, b) for a, b in zip(self.first, other.first, strict=True)]
        operators = [_sum(a, b) for a, b in zip(self.operators, other.operators, strict=True)]
        return self._like([self.value + other.value, *first, *operators])

    def __sub__(self, other: Propagated) -> Propagated:
        return self + other.scaled(-1.0)

    def __mul__(self, other: Propagated) -> Propagated:
        a, b = self, other
        first = [
            _sum(_times(b.value, p), _times(a.value, q))
            for p, q in zip(a.first, b.first, strict=True)
        ]
        operators = [
            _sum(
                _sum(_times(b.value, p), _times(a.value, q)),
                _bilinear(a.first, b.first, 2 * matrix),
            )
            for p, q, matrix in zip(a.operators, b.operators, self.second, strict=True)
        ]
        return self._like([a.value * b.value, *first, *operators])

    def results(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return u: [n, m], its derivatives [n, m, d] and operators [n, m, K] (local)."""

        def together(parts: Sequence[Part]) -> Tensor:
            if not parts:
                return tf.zeros_like(tf.transpose(self.value))[..., None][..., :0]
            return tf.transpose(tf.stack([_full(part, self.value) for part in parts]), [2, 1, 0])

        return tf.transpose(self.value), together(self.first), together(self.operators)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Propagated:
        """Return a linear function of all parts that are not zero, such as some of their points."""
        parts = [self.value, *self.first, *self.operators]
        return self._like([None if part is None else function(part) for part in parts])

    def _like(self, parts: Sequence[Part]) -> Propagated:
        d = len(self.first)
        return replace(
            self, value=parts[0], first=tuple(parts[1 : 1 + d]), operators=tuple(parts[1 + d :])
        )


def in_parts(
    function: Callable[[Propagated], Propagated], x: Propagated, n: int, at_once: int
) -> Propagated:
    """Return a function of x: [d, n] for some points after others, which takes less memory (local).

    The derivatives of x are the same at all points.
    """
    d, count = len(x.first), -(-n // at_once)
    padded = tf.pad(tf.transpose(x.value), [[0, count * at_once - n], [0, 0]])
    parts = tf.reshape(padded, [count, at_once, padded.shape[1]])

    @tf.autograph.experimental.do_not_convert
    def of_part(points: Any) -> Any:
        part = Propagated(tf.transpose(points), x.first, x.operators, x.second)
        found = function(part)
        return tf.stack(
            [_full(e, found.value) for e in (found.value, *found.first, *found.operators)]
        )

    spec = tf.TensorSpec([1 + d + len(x.operators), None, at_once], x.value.dtype)
    found = tf.map_fn(of_part, parts, fn_output_signature=spec)
    whole = tf.reshape(tf.transpose(found, [1, 2, 0, 3]), [*found.shape[1:2], -1, count * at_once])
    each = tf.unstack(whole[:, :, :n])
    return Propagated(each[0], tuple(each[1 : 1 + d]), tuple(each[1 + d :]), x.second)


def _products(layer: Layer, parts: Sequence[Part]) -> list[Part]:
    """Multiply all parts of the shape of the value as one product, where that is quicker."""
    shape = parts[0].shape  # type: ignore[union-attr]
    alike = [part for part in parts if part is not None and part.shape == shape]
    together = iter(layer.multiply(alike))
    return [
        None
        if part is None
        else next(together)
        if part.shape == shape
        else layer.multiply([part], apart=True)[0]
        for part in parts
    ]


def _full(part: Part, like: Tensor) -> Tensor:
    """Return a part as [w, n]."""
    if part is None:
        return tf.zeros_like(like)
    return (
        part if part.shape == like.shape and None not in part.shape else part + tf.zeros_like(like)
    )


def _sum(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _times(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def _quadratic(a: Sequence[Part], matrix: npt.NDArray[np.float64]) -> Part:
    """Return Σ_ij C_ij a_i a_j, pointwise."""
    d = len(a)
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    terms = [
        _weighted(matrix[i, j] if i == j else matrix[i, j] + matrix[j, i], _times(a[i], a[j]))
        for i, j in pairs
    ]
    return reduce(_sum, terms, None)


def _bilinear(a: Sequence[Part], b: Sequence[Part], matrix: npt.NDArray[np.float64]) -> Part:
    """Return Σ_ij C_ij a_i b_j for a symmetric C, pointwise."""
    pairs = [(i, j) for i in range(len(a)) for j in range(len(b))]
    return reduce(_sum, (_weighted(matrix[i, j], _times(a[i], b[j])) for i, j in pairs), None)


def _weighted(coefficient: float, part: Part) -> Part:
    if part is None or coefficient == 0.0:
        return None
    return part if coefficient == 1.0 else float(coefficient) * part
