"""Fields made of a network's: inputs and outputs scaled, its values put into an ansatz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sciml_par._partial_operators import Operator, scaled
from sciml_par._tape import Jet
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.fields.composition import as_field, jet_by_values, tried
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.plan import Coefficients

AnsatzFunction = Callable[[Field, Any], Any]
Corners = tuple[tuple[float, ...], tuple[float, ...]]
Ranges = tuple[tuple[float, float], ...]
"""The least and the largest value of each component of u that a network gives by −1 and 1."""


# Where a network whose weights have the usual size is saturated, or sees next to nothing.
_FARTHEST, _SHORTEST = 10.0, 0.1


def is_unusual(lower: FloatArray, upper: FloatArray) -> bool:
    """Return whether a network had better see the coordinates of a box scaled."""
    farthest = np.max(np.abs([lower, upper]))
    return bool(farthest > _FARTHEST or np.min(upper - lower) < _SHORTEST)


def corners_of(lower: FloatArray, upper: FloatArray) -> Corners:
    """Return the corners of a box as numbers."""
    return tuple(lower.tolist()), tuple(upper.tolist())


class Scaling:
    """u_j(x) = m_j + h_j N_j(z) with z_i = (x_i − c_i) s_i.

    It maps a box to [−1, 1]^d, and [−1, 1] to a range of values of each component.

    Parameters
    ----------
    corners : of the box; z = x if None.
    ranges : the least and the largest value of each component, (−1, 1) for N itself; u = N if None.
    """

    def __init__(self, corners: Corners | None, ranges: Ranges | None) -> None:
        self.corners, self.ranges = corners, ranges
        lower, upper = np.array(corners if corners else ((-1.0,), (1.0,)))
        self._center, self._factors = (lower + upper) / 2, 2 / (upper - lower)
        low, high = np.array(ranges if ranges else ((-1.0, 1.0),)).T
        self._middle, self._half = (low + high) / 2, (high - low) / 2

    @classmethod
    def of(cls, corners: Corners | None, ranges: Ranges | None) -> Scaling | None:
        """Return the scaling; None if u is N."""
        return None if corners is None and ranges is None else cls(corners, ranges)

    def field(self, inner: Field) -> Field:
        """Return the field u that belongs to N."""

        def value(x: tf.Tensor) -> tf.Tensor:
            return self._in_ranges(inner(self._scaled(x)))[0]

        def jet(x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
            # ∂u/∂x_i = s_i ∂N/∂z_i, and so N is asked for the operators of s_i s_j C_ij.
            factors = self._factors if self.corners else np.ones(x.shape[1])
            above = tuple(scaled(operator, factors) for operator in higher)
            u, du, *others = inner.jet(self._scaled(x), second * np.outer(factors, factors), above)
            return self._in_ranges(u, du * tf.constant(factors, x.dtype), *others)

        return Field(value, jet=jet if inner.has_jet else None)

    def _scaled(self, x: tf.Tensor) -> tf.Tensor:
        if self.corners is None:
            return x
        center, factors = (tf.constant(v, x.dtype) for v in (self._center, self._factors))
        return (x - center) * factors

    def _in_ranges(self, u: tf.Tensor, *derivatives: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return u: [n, m] and derivatives [n, m, k] of the values in the ranges."""
        if self.ranges is None:
            return u, *derivatives
        middle, half = (tf.constant(v, u.dtype) for v in (self._middle, self._half))
        return middle + half * u, *(half[:, None] * each for each in derivatives)


class Ansatz:
    """u(x) = A(N, x) for a function A that acts on each point for itself; see `composition`.

    Parameters
    ----------
    function : (N, x: [n, d]) -> u: [n, m], N being a `Field`.
    """

    def __init__(self, function: AnsatzFunction) -> None:
        self.function = function
        self._asks_values_alone: dict[Any, bool] = {}

    def field(self, inner: Field) -> Field:
        """Return the field u that belongs to N."""

        def value(x: tf.Tensor) -> tf.Tensor:
            return self(inner, x)

        def jet(x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
            key = x.shape[1], x.dtype
            if not higher and key not in self._asks_values_alone:
                trial = tried(value, x)
                self._asks_values_alone[key] = trial is not None and trial.asks_values_alone
            if higher or not self._asks_values_alone[key]:
                return as_field(value, x).jet(x, second, higher)
            return jet_by_values(value, [inner], x, second)

        return Field(value, jet=jet if inner.has_jet else None)

    def __call__(self, inner: Field, x: tf.Tensor) -> tf.Tensor:
        """Compute A(N, x): [n, m]."""
        u = self.function(inner, x)
        rows = x.shape[0]
        good = tf.is_tensor(u) and u.shape.rank == 2 and u.shape[1] is not None
        if not good or (None not in (rows, u.shape[0]) and u.shape[0] != rows):
            got = f"the shape {u.shape}" if tf.is_tensor(u) else type(u).__name__
            raise InputError(
                f"ansatz: expected a tensor [n, m] for points {x.shape.as_list()}, got {got}; keep "
                f"both axes, as in lambda u, x: x[:, 0:1] * u(x), and use TensorFlow operations."
            )
        if u.dtype != x.dtype:
            raise InputError(
                f"ansatz: expected a tensor of {x.dtype.name}, that of the points, got "
                f"{u.dtype.name}; convert constants with tf.cast(..., x.dtype)."
            )
        return u
