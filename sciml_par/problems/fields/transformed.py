"""Fields made of a network's: its inputs scaled, its values put into an ansatz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, scaled
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields import tape as _tape
from sciml_par.problems.fields.composition import as_field
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.plan import Coefficients
from sciml_par.problems.fields.tape import Jet

FloatArray = npt.NDArray[np.float64]
AnsatzFunction = Callable[[Field, Any], Any]


# Where a network whose weights have the usual size is saturated, or sees next to nothing.
_FARTHEST, _SHORTEST = 10.0, 0.1


def is_unusual(lower: FloatArray, upper: FloatArray) -> bool:
    """Return whether a network had better see the coordinates of a box scaled."""
    farthest = np.max(np.abs([lower, upper]))
    return bool(farthest > _FARTHEST or np.min(upper - lower) < _SHORTEST)


class InputScaling:
    """u(x) = N(z) with z_i = (x_i − c_i) s_i, which maps a box to [−1, 1]^d.

    Parameters
    ----------
    lower, upper : arrays [d]
        Corners of the box.
    """

    def __init__(self, lower: FloatArray, upper: FloatArray) -> None:
        self._center = (lower + upper) / 2
        self._factors = 2 / (upper - lower)

    def field(self, inner: Field) -> Field:
        """Return the field u that belongs to N."""

        def value(x: tf.Tensor) -> tf.Tensor:
            return inner(self._scaled(x))

        def jet(x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
            # ∂u/∂x_i = s_i ∂N/∂z_i, and so N is asked for the operators of s_i s_j C_ij.
            factors = self._factors
            above = tuple(scaled(operator, factors) for operator in higher)
            u, du, *others = inner.jet(self._scaled(x), second * np.outer(factors, factors), above)
            return u, du * tf.constant(factors, x.dtype), *others

        return Field(value, jet=jet if inner.has_jet else None)

    def _scaled(self, x: tf.Tensor) -> tf.Tensor:
        center, factors = (tf.constant(v, x.dtype) for v in (self._center, self._factors))
        return (x - center) * factors


class Ansatz:
    """u(x) = A(N, x) for a function A that acts on each point for itself.

    Where A evaluates N at x alone, u(x) = A(x, N(x)), and N has a jet, derivatives come by the
    chain rule. With N held linear around x, Ñ(z) = N + Σ_i ∂_i N (z_i − x_i), and with
    G(z) = A(z, Ñ(z)),

        ∂_i u = ∂_i G        L_k u = L_k G + Σ_a ∂A/∂N_a L_k N_a,

    so that tapes go through A only, not through the network. For operators of third and fourth
    order, and where A asks for derivatives of N at x, such as those of a stream function, Taylor
    polynomials take the place of N; see `composition`. An A that evaluates N
    elsewhere, or differentiates it by a tape of its own, is differentiated by tapes through
    everything.

    Parameters
    ----------
    function : callable
        (N, x: [n, d]) -> u: [n, m], N being a `Field`.
    """

    def __init__(self, function: AnsatzFunction) -> None:
        self.function = function
        self._pointwise: dict[Any, bool] = {}

    def field(self, inner: Field) -> Field:
        """Return the field u that belongs to N."""

        def value(x: tf.Tensor) -> tf.Tensor:
            return self(inner, x)

        def jet(x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
            if higher or not self._is_pointwise(inner, x):
                return as_field(value, x).jet(x, second, higher)
            return self._jet(inner, x, second)

        return Field(value, jet=jet if inner.has_jet else None)

    def __call__(self, inner: Field, x: tf.Tensor) -> tf.Tensor:
        """A(N, x): [n, m]."""
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

    def _jet(self, inner: Field, x: tf.Tensor, second: Coefficients) -> Jet:
        values, slopes, operators = inner.jet(x, second)

        def along_tangent(z: tf.Tensor) -> tf.Tensor:
            tangent = values + tf.reduce_sum(slopes * (z - x)[:, None, :], axis=2)
            return self(_Known(inner, z, tangent), z)

        u, du, curved = _tape.jet(along_tangent, x, second)
        if len(second) == 0:
            return u, du, curved
        _, factors = _tape.value_and_jacobian(lambda v: self(_Known(inner, x, v), x), values)
        return u, du, curved + tf.reduce_sum(factors[..., None] * operators[:, None], axis=2)

    def _is_pointwise(self, inner: Field, x: tf.Tensor) -> bool:
        """Whether A evaluates N at x alone, found by running it once in a throw-away graph."""
        key = (x.shape[1], x.dtype)
        if key not in self._pointwise:
            seen: list[_Watcher] = []

            def run(z: tf.Tensor) -> tf.Tensor:
                seen.append(_Watcher(inner, z))
                return self(seen[-1], z)

            spec = tf.TensorSpec([None, x.shape[1]], x.dtype)
            tf.function(run, autograph=False).get_concrete_function(spec)
            self._pointwise[key] = seen[-1].pointwise
        return self._pointwise[key]


class _Known(Field):
    """A field whose values at one tensor of points are given."""

    def __init__(self, inner: Field, points: tf.Tensor, values: tf.Tensor) -> None:
        super().__init__(inner)
        self._points, self._values = points, values

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self._values if x is self._points else super().__call__(x)


class _Watcher(Field):
    """A field that notes whether it is evaluated anywhere but at one tensor of points."""

    def __init__(self, inner: Field, points: tf.Tensor) -> None:
        super().__init__(inner, jet=inner.jet)
        self._points = points
        self.pointwise = True

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        # The function under trial may differentiate what it gets: by a tape of its own, which
        # follows x then, or by tf.gradients, which finds no way back to x in what it gets here.
        self.pointwise &= x is self._points and not _tape.is_watched(x)
        values = super().__call__(x)
        return tf.stop_gradient(values) if self.pointwise else values

    def jet(self, x: tf.Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
        self.pointwise = False
        return super().jet(x, second, higher)
