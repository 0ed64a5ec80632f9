"""First layers that make waves of the coordinates: a dense layer σ(x W + b) that is not trained."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import ACTIVATIONS, Activation
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.propagation.propagation import Propagated, transposed
from sciml_par.networks.propagation.weights_of import WeightsOf

SIN = ACTIVATIONS["sin"]


class Waves(NamedTuple):
    """A dense layer σ(x W + b) of waves: W [d, w] and b [w]."""

    weight: Any
    bias: npt.NDArray[np.float64]
    activation: Activation


class WaveLayer(keras.layers.Layer):
    """A layer of waves; subclasses write `width_of`, `waves` and, with weights, `waves_with`."""

    _dimension = 0  # of the points; known when the layer is built

    def width_of(self, d: int) -> int:
        """Return the width of the output for points of dimension d (local)."""
        raise NotImplementedError

    def waves(self) -> Waves | None:
        """Return the layer as a dense one of numbers; None where it is trained (local)."""
        raise NotImplementedError

    def waves_with(self, of: WeightsOf) -> Waves:
        """Return the layer as a dense one, with these weights (local)."""
        found = self.waves()
        assert found is not None
        return found

    @property
    def units(self) -> int:
        """Width of the output; it may be known only when the layer is built."""
        return self.width_of(self._dimension)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Evaluate the layer: x: [n, d] -> [n, w]."""
        return transposed(self.propagate(WeightsOf.now(), Propagated.values_at(inputs)).value)

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        # As one dense layer: members whose second derivatives go through a concatenation have no
        # form for several at once.
        waves = self.waves_with(of)
        weight, bias = (
            tf.cast(tf.convert_to_tensor(v), self.compute_dtype) for v in (waves.weight, waves.bias)
        )
        return x.dense(weight, bias).activate(waves.activation)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, int]:
        """Return [n, w]."""
        return (input_shape[0], self.width_of(int(input_shape[-1])))
