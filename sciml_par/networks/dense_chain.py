"""Keras models that are nothing but dense layers one after the other: Taylor propagation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import checked_operators, scaled
from sciml_par._tensorflow import import_module, tf
from sciml_par.networks import taylor, taylor_higher
from sciml_par.networks.activation import ACTIVATIONS, LINEAR, Activation, activation_of
from sciml_par.networks.activation_forms import ByUnit

FloatArray = npt.NDArray[np.float64]
RecordOf = Callable[["DenseLayer"], taylor.Record]
"""Makes the record of a layer's products; see `sciml_par.networks.taylor.Record`."""

Place = int | FloatArray
"""Where a tensor is to be found: its number among the parameters, or a constant value."""

_OPERATIONS = {
    "Sin": "sin",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Silu": "swish",
    "Gelu": "gelu",
}


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
    """a ← σ(a W + b), with the places of W and b among the parameters."""

    weight: Place
    bias: Place | None
    activation: Activation


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
        """u(x): [n, d] -> [n, m] (pure, local)."""
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
        """As `apply`, units first inside, with a record of the products of each layer (local)."""
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
        """Value and derivatives as `sciml_par.networks.MLP.jet` (pure, local).

        Parameters
        ----------
        record_of : makes a record of the products of each layer.
        """
        matrices = np.asarray(second, dtype=np.float64)
        factors = np.ones(matrices.shape[1])
        for scaling in self.scalings:
            x, factors = scaling(x), factors * scaling.scale
        # ∂/∂x_i = s_i ∂/∂z_i for z = s x, so that the network sees the coefficients s_i s_j C_ij.
        layers = self._tensors(parameters, x.dtype, record_of)
        scaled_matrices = matrices * np.outer(factors, factors)
        if not higher:
            u, du, operators = taylor.jet_of_layers(layers, x, scaled_matrices)
            return u, du * tf.constant(factors, x.dtype), operators
        operators_of_z = [
            scaled(each, factors)
            for each in checked_operators(higher, len(factors), "DenseChain.jet")
        ]
        u, du, *rest = taylor_higher.jet_of_layers(layers, x, scaled_matrices, operators_of_z)
        return u, du * tf.constant(factors, x.dtype), *rest

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


def dense_chain(model: Any) -> DenseChain | None:
    """The chain that a built Keras model is, or None if it is anything else (local).

    Sequential and functional models are taken apart, nested ones included, and may be made of
    Dense, Activation, Rescaling and Normalization layers, of activations that are known, of `MLP`,
    and of `FourierFeatures` and `PeriodicEmbedding`. Scalings may come first only. Frozen weights
    are constants.
    """
    places = {id(variable): i for i, variable in enumerate(model.trainable_variables)}
    # That of the model itself is no guide: Keras does not save it with a Sequential model.
    precisions = {variable.dtype for variable in model.trainable_variables}
    scalings: list[Scaling] = []
    layers: list[DenseLayer] = []
    for operation in _operations(model):
        scaling, activation = _scaling_of(operation), _activation_of(operation)
        waves = operation.waves() if isinstance(operation, _embeddings()) else None
        if scaling is not None and not layers:
            scalings.append(scaling)
        elif activation is not None and layers and layers[-1].activation is LINEAR:
            last = layers[-1]
            layers[-1] = DenseLayer(last.weight, last.bias, activation)
        elif waves is not None and operation.compute_dtype in precisions:
            layers.append(DenseLayer(*waves))
        elif _is_plain_dense(operation):
            layers.append(_dense_layer(operation, places))
        else:
            return None
    return DenseChain(tuple(scalings), tuple(layers)) if layers else None


def _operations(model: Any) -> Iterator[Any]:
    """What a model does, one after the other; the model itself where it cannot be taken apart."""
    keras: Any = import_module("keras")
    if type(model) is _mlp() and not model._slopes:
        if model.embedding is not None:
            yield model.embedding
        for layer in model._dense[:-1]:
            yield from (layer, _Known(model._activation))
        yield model._dense[-1]
    elif type(model) is keras.Sequential:
        for layer in model.layers:
            yield from _operations(layer)
    elif isinstance(model, keras.Model) and type(model) is _functional():
        operations = _along_the_only_path(model)
        if operations is None:
            yield model
        for operation in operations or ():
            yield from _operations(operation)
    elif not isinstance(model, (keras.layers.InputLayer, keras.layers.Identity)):
        yield model


def _functional() -> type:
    """The class of functional models, which Keras does not name in public."""
    keras: Any = import_module("keras")
    inputs = keras.Input((1,))
    return type(keras.Model(inputs, keras.layers.Identity()(inputs)))


def _along_the_only_path(model: Any) -> list[Any] | None:
    """The operations from the input of a functional model to its output, if there is one path."""
    operations: list[Any] = []
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        return None
    tensor = model.outputs[0]
    while tensor is not model.inputs[0]:
        operation, node, _ = tensor._keras_history
        inputs = operation._inbound_nodes[node].input_tensors
        if len(inputs) != 1:
            return None
        operations.append(operation)
        tensor = inputs[0]
    return operations[::-1]


@dataclass(frozen=True)
class _Known:
    """Stands for an operation whose activation is known."""

    activation: Activation


def _activation_of(operation: Any) -> Activation | None:
    keras: Any = import_module("keras")
    if isinstance(operation, _Known):
        return operation.activation
    if type(operation) is keras.layers.Activation:
        return activation_of(operation.activation)
    if type(operation) is keras.layers.Lambda and not operation.arguments:
        return activation_of(operation.function)
    name = _OPERATIONS.get(type(operation).__name__)
    if name is None or not type(operation).__module__.startswith("keras.src.ops."):
        return None
    return None if getattr(operation, "approximate", False) else ACTIVATIONS[name]


def _scaling_of(layer: Any) -> Scaling | None:
    keras: Any = import_module("keras")
    if type(layer) is keras.layers.Rescaling:
        scale, offset = (_row(v) for v in (layer.scale, layer.offset))
        return Scaling(np.zeros(1), scale, offset)
    if type(layer) is keras.layers.Normalization and not layer.invert:
        mean, deviation = _row(layer.mean), np.sqrt(_row(layer.variance))
        return Scaling(mean, 1 / np.maximum(deviation, keras.config.epsilon()), np.zeros(1))
    return None


def _is_plain_dense(layer: Any) -> bool:
    keras: Any = import_module("keras")
    return (
        type(layer) is keras.layers.Dense
        and layer.compute_dtype == layer.variable_dtype
        and not getattr(layer, "lora_enabled", False)
        and getattr(layer, "quantization_mode", None) is None
        and activation_of(layer.activation) is not None
    )


def _dense_layer(layer: Any, places: dict[int, int]) -> DenseLayer:
    def place(variable: Any) -> Place:
        found = places.get(id(variable))
        return np.asarray(variable, np.float64) if found is None else found

    activation = activation_of(layer.activation)
    assert activation is not None
    bias = place(layer.bias) if layer.use_bias else None
    return DenseLayer(place(layer.kernel), bias, activation)


def _place_key(place: Place | None) -> Any:
    if not isinstance(place, np.ndarray):
        return place
    return place.shape, hashlib.blake2b(place.tobytes(), digest_size=16).hexdigest()


def _row(value: Any) -> FloatArray:
    return np.asarray(value, dtype=np.float64).reshape(-1)


def _mlp() -> Any:
    """The class, whose module imports TensorFlow."""
    mlp: Any = import_module("sciml_par.networks.mlp").MLP
    return mlp


def _embeddings() -> tuple[Any, ...]:
    """The classes, whose modules import TensorFlow."""
    fourier: Any = import_module("sciml_par.networks.fourier_features")
    periodic: Any = import_module("sciml_par.networks.periodic_embedding")
    return fourier.FourierFeatures, periodic.PeriodicEmbedding
