"""Networks of dense layers, one after the other: their values and derivatives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import checked_operators, scaled
from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import Activation, ByUnit
from sciml_par.networks.propagation import taylor

FloatArray = npt.NDArray[np.float64]
RecordOf = Callable[["DenseLayer"], taylor.Record]
"""Makes the record of a layer's products; see `sciml_par.networks.propagation.taylor.Record`."""

Place = int | FloatArray
"""A tensor as its number among the parameters, or as a constant value."""


@dataclass(frozen=True)
class Scaling:
    """x ← (x − before) · scale + after, coordinate by coordinate: arrays [d] or [1]."""

    before: FloatArray
    scale: FloatArray
    after: FloatArray

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        before, scale, after = (tf.constant(v, x.dtype) for v in self._arrays())
        return (x - before) * scale + after

    def _arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.before, self.scale, self.after

    @property
    def key(self) -> tuple[bytes, ...]:
        """Hashable; equal for equal scalings."""
        return tuple(array.tobytes() for array in self._arrays())


@dataclass(frozen=True)
class DenseLayer:
    """a ← σ(a W + b), with the places of W and b among the parameters.

    windows : for a layer with a W_k and a b_k for each of K windows, the number k of the window of
        each column of a, [S n]: S windows that may cover each of n points, one after the other.
    """

    weight: Place
    bias: Place | None
    activation: Activation
    windows: Any = None


@dataclass(frozen=True)
class DenseChain:
    """A network that scales its inputs and passes them through dense layers.

    Attributes
    ----------
    scalings : of the inputs, in order.
    layers : one at least.
    """

    scalings: tuple[Scaling, ...]
    layers: tuple[DenseLayer, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Hashable; chains of equal keys and of equal shapes are the same functions."""
        layers = [
            (_place_key(each.weight), _place_key(each.bias), each.activation.name)
            for each in self.layers
        ]
        return (tuple(scaling.key for scaling in self.scalings), tuple(layers))

    def apply(self, parameters: Sequence[tf.Tensor], x: tf.Tensor) -> tf.Tensor:
        """Return u(x): [n, d] -> [n, m] (pure, local)."""
        if any(isinstance(layer.activation, ByUnit) for layer in self.layers):
            return self.recorded_apply(parameters, x)
        for scaling in self.scalings:
            x = scaling(x)
        for weight, bias, activation, _ in self._tensors(parameters, x.dtype):
            x = tf.linalg.matmul(x, weight)
            x = activation.value(x if bias is None else x + bias)
        return x

    def recorded_apply(
        self, parameters: Sequence[tf.Tensor], x: tf.Tensor, record_of: RecordOf | None = None
    ) -> tf.Tensor:
        """Evaluate as `apply`, units first inside, with a record of the products of each layer."""
        for scaling in self.scalings:
            x = scaling(x)
        a = tf.transpose(x)
        for layer in self._tensors(parameters, x.dtype, record_of):
            (z,) = layer.multiply([a])
            a = layer.activation.value(z if layer.bias is None else z + layer.bias[:, None])
        return tf.transpose(a)

    def jet(
        self,
        parameters: Sequence[tf.Tensor],
        x: tf.Tensor,
        second: npt.ArrayLike,
        record_of: RecordOf | None = None,
        *,
        higher: Sequence[Any] = (),
    ) -> tuple[tf.Tensor, ...]:
        """Compute value and derivatives as `sciml_par.networks.MLP.jet` (pure, local)."""
        matrices = np.asarray(second, dtype=np.float64)
        factors = np.ones(matrices.shape[1])
        for scaling in self.scalings:
            x, factors = scaling(x), factors * scaling.scale
        # ∂/∂x_i = s_i ∂/∂z_i for z = s x, so that the network sees the coefficients s_i s_j C_ij.
        layers = self._tensors(parameters, x.dtype, record_of)
        scaled_matrices = matrices * np.outer(factors, factors)
        of_z = [
            scaled(each, factors)
            for each in checked_operators(higher, len(factors), "DenseChain.jet")
        ]
        u, du, *rest = taylor.jet_of_layers(layers, x, scaled_matrices, of_z)
        return u, du * tf.constant(factors, x.dtype) if self.scalings else du, *rest

    def _tensors(
        self, parameters: Sequence[tf.Tensor], dtype: Any, record_of: RecordOf | None = None
    ) -> list[taylor.Layer]:
        def at(place: Place) -> tf.Tensor:
            if isinstance(place, int):
                return tf.convert_to_tensor(parameters[place])
            return tf.constant(place, dtype)

        return [
            taylor.Layer(
                at(each.weight),
                None if each.bias is None else at(each.bias),
                each.activation,
                None if record_of is None else record_of(each),
            )
            for each in self.layers
        ]


def behind(record_of: RecordOf | None, count: int) -> RecordOf | None:
    """Return records of layers whose weights stand behind `count` other parameters."""
    if record_of is None:
        return None

    def place(number: Any) -> Any:
        return number + count if isinstance(number, int) else number

    return lambda layer: record_of(
        replace(layer, weight=place(layer.weight), bias=place(layer.bias))
    )


def _place_key(place: Place | None) -> Any:
    if not isinstance(place, np.ndarray):
        return place
    return place.shape, hashlib.blake2b(place.tobytes(), digest_size=16).hexdigest()
