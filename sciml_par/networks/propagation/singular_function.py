"""Functions that are singular somewhere on the boundary, beside polynomials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from sciml_par._partial_operators import Axes, Operator
from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.propagation import Propagated

FloatArray = npt.NDArray[np.float64]
Derivative = Callable[[Axes], Any]
"""Of all functions by some axes: [F, n], or None where it is zero."""


@dataclass(frozen=True)
class Arithmetic:
    """The functions of NumPy and SciPy, or of TensorFlow."""

    exp: Callable[..., Any]
    log: Callable[..., Any]
    erfc: Callable[..., Any]
    where: Callable[..., Any]
    stack: Callable[[Any], Any]
    of_parts: Callable[[Any, Any], Any]
    parts_of: Callable[[Any], Any]
    joined: Callable[[Any], Any]


@dataclass(frozen=True)
class SingularFunction(ABC):
    """A few functions at points, with their derivatives.

    Attributes
    ----------
    at : the point where they are singular, in the units of the coordinates.
    """

    at: tuple[float, ...]

    @property
    def count(self) -> int:
        """F, how many there are."""
        return 2

    @property
    @abstractmethod
    def label(self) -> tuple[Any, ...]:
        """What tells it from others on the same domain, hashable."""

    @abstractmethod
    def rows_of(self, exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the products e: [M, d] that multiply the functions (local)."""

    @abstractmethod
    def near(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        """Return in which boxes [K, d] the functions are used (local)."""

    @abstractmethod
    def _derivatives(self, x: Sequence[Any], order: int, of: Arithmetic) -> Derivative:
        """Return what computes derivatives up to an order at points of the coordinates x: d [n]."""

    def parts(self, x: FloatArray, asked: Sequence[Axes]) -> dict[Axes, FloatArray]:
        """Return ∂^α of all at x: [N, d] for the axes asked for, [F, N] each, but zeros (local)."""
        derivative = self._derivatives([*x.T], max(map(len, asked), default=0), _NUMPY)
        found = {axes: derivative(axes) for axes in asked}
        return {axes: values for axes, values in found.items() if values is not None}

    def propagate(self, x: Propagated) -> Propagated:
        """Return all at points, [F, n] (local)."""
        order = x.carried.order if x.first else 0
        coordinates = [x.value[axis] for axis in range(x.value.shape[0])]
        derivative = self._derivatives(coordinates, order, _tensorflow())

        def part(operator: Operator) -> Any:
            found = [(c, derivative(axes)) for axes, c in operator]
            found = [c * values for c, values in found if values is not None]
            return tf.add_n(found) if found else None

        first = tuple(derivative((axis,)) for axis in range(len(x.first)))
        operators = tuple(map(part, x.carried.operators))
        return Propagated(derivative(()), first, operators, x.carried)


_NUMPY = Arithmetic(
    exp=np.exp,
    log=np.log,
    erfc=special.erfc,
    where=np.where,
    stack=np.stack,
    of_parts=lambda a, b: a + 1j * b,
    parts_of=lambda z: np.stack([z.real, z.imag]),
    joined=np.concatenate,
)


def _tensorflow() -> Arithmetic:
    return Arithmetic(
        exp=tf.exp,
        log=tf.math.log,
        erfc=tf.math.erfc,
        where=lambda where, value, other: tf.where(where, tf.cast(value, other.dtype), other),
        stack=tf.stack,
        of_parts=tf.complex,
        parts_of=lambda z: tf.stack([tf.math.real(z), tf.math.imag(z)]),
        joined=lambda parts: tf.concat(parts, 0),
    )
