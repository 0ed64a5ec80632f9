"""Networks of dense layers, one after the other: their values and derivatives."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.networks.layers.activation import LINEAR
from sciml_par.networks.propagation.interpreted import Interpreted
from sciml_par.networks.propagation.propagation import Propagated
from sciml_par.networks.propagation.weights_of import (
    DenseLayer,
    FloatArray,
    Place,
    RecordOf,
    WeightsOf,
)


@dataclass(frozen=True)
class Scaling:
    """x ← (x − before) · scale + after, coordinate by coordinate: arrays [d] or [1]."""

    before: FloatArray
    scale: FloatArray
    after: FloatArray


@dataclass(frozen=True)
class DenseChain(Interpreted):
    """A network that scales its inputs and passes them through dense layers.

    Attributes
    ----------
    scalings : of the inputs, in order.
    layers : one at least.
    """

    input_size: int
    scalings: tuple[Scaling, ...]
    layers: tuple[DenseLayer, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Hashable; chains of equal keys and of equal shapes are the same functions."""
        layers = [
            (_place_key(each.weight), _place_key(each.bias), each.activation.name)
            for each in self.layers
        ]
        scalings = ((e.before, e.scale, e.after) for e in self.scalings)
        return tuple(tuple(a.tobytes() for a in e) for e in scalings), tuple(layers)

    def weights_for(
        self, parameters: Sequence[tf.Tensor], x: tf.Tensor, record_of: RecordOf | None = None
    ) -> WeightsOf:
        """Return the tensors at the places of the layers (local)."""

        def at(place: Place) -> tf.Tensor:
            if isinstance(place, int):
                return tf.convert_to_tensor(parameters[place])
            return tf.constant(place, x.dtype)

        return WeightsOf(at, record_of=record_of)

    def propagate(self, of: WeightsOf, x: Propagated) -> Propagated:
        for scaling in self.scalings:
            x = x.shifted(-of(scaling.before)).scaled(of(scaling.scale)).shifted(of(scaling.after))
        for layer in self.layers:
            last = layer is self.layers[-1] and layer.activation is LINEAR
            x = of.multiplied(layer.weight, layer.bias, x, last=last).activate(layer.activation)
        return x


def _place_key(place: Place | None) -> Any:
    if not isinstance(place, np.ndarray):
        return place
    return place.shape, hashlib.blake2b(place.tobytes(), digest_size=16).hexdigest()
