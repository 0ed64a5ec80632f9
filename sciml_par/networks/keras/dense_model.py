"""Keras models that are dense layers, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sciml_par.networks.layers.activation import ACTIVATIONS, LINEAR, Activation, activation_of
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.mlp import MLP
from sciml_par.networks.models.random_features import RandomFeatures
from sciml_par.networks.propagation.dense_chain import DenseChain, Scaling
from sciml_par.networks.propagation.waves import WaveLayer
from sciml_par.networks.propagation.weights_of import DenseLayer, FloatArray, Place


def dense_chain(model: Any) -> DenseChain | None:
    """Return the chain that a built Keras model is, or None if it is anything else.

    Sequential and functional models are taken apart, nested ones included, and may be made of
    Dense, Activation, Rescaling and Normalization layers, of activations that are known, of `MLP`,
    and of `FourierFeatures` and `PeriodicEmbedding`. Scalings may come first only. Frozen weights
    are constants.
    """
    places = {id(variable): i for i, variable in enumerate(model.trainable_variables)}
    # Not the model's own precision, which Keras does not save with a Sequential model.
    precisions = {variable.dtype for variable in model.trainable_variables}
    scalings: list[Scaling] = []
    layers: list[DenseLayer] = []
    for operation in _operations(model):
        scaling, activation = _scaling_of(operation), _activation_of(operation)
        waves = operation.waves() if isinstance(operation, WaveLayer) else None
        dense = _dense_layer(operation, places)
        if scaling is not None and not layers:
            scalings.append(scaling)
        elif activation is not None and layers and layers[-1].activation is LINEAR:
            layers[-1] = replace(layers[-1], activation=activation)
        elif waves is not None and operation.compute_dtype in precisions:
            layers.append(DenseLayer(*waves))
        elif dense is not None:
            layers.append(dense)
        else:
            return None
    if not layers:
        return None
    weight = layers[0].weight
    shape = (model.trainable_variables[weight] if isinstance(weight, int) else weight).shape
    return DenseChain(int(shape[0]), tuple(scalings), tuple(layers))


def _operations(model: Any) -> Iterator[Any]:
    """Yield the operations of a model in order; the model itself if it cannot be taken apart."""
    from keras.src.models.functional import Functional  # which Keras does not name in public

    if type(model) in (MLP, RandomFeatures) and not model._slopes:
        if model.embedding is not None:
            yield model.embedding
        for layer in model._dense[:-1]:
            yield from (layer, model._activation)
        yield model._dense[-1]
    elif type(model) is keras.Sequential:
        for layer in model.layers:
            yield from _operations(layer)
    elif type(model) is Functional:
        operations = _along_the_only_path(model)
        if operations is None:
            yield model
        for operation in operations or ():
            yield from _operations(operation)
    elif not isinstance(model, (keras.layers.InputLayer, keras.layers.Identity)):
        yield model


def _along_the_only_path(model: Any) -> list[Any] | None:
    """Return the operations from input to output of a functional model with one path."""
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


def _activation_of(operation: Any) -> Activation | None:
    if isinstance(operation, Activation):
        return operation
    if type(operation) is keras.layers.Activation:
        return activation_of(operation.activation)
    if type(operation) is keras.layers.Lambda and not operation.arguments:
        return activation_of(operation.function)
    kind = type(operation)
    if not kind.__module__.startswith("keras.src.ops.") or getattr(operation, "approximate", False):
        return None
    name = kind.__name__.lower()
    return ACTIVATIONS.get("swish" if name == "silu" else name)


def _scaling_of(layer: Any) -> Scaling | None:
    if type(layer) is keras.layers.Rescaling:
        scale, offset = (_row(v) for v in (layer.scale, layer.offset))
        return Scaling(np.zeros(1), scale, offset)
    if type(layer) is keras.layers.Normalization and not layer.invert:
        mean, deviation = _row(layer.mean), np.sqrt(_row(layer.variance))
        return Scaling(mean, 1 / np.maximum(deviation, keras.config.epsilon()), np.zeros(1))
    return None


def _dense_layer(layer: Any, places: dict[int, int]) -> DenseLayer | None:
    if type(layer) is not keras.layers.Dense or layer.compute_dtype != layer.variable_dtype:
        return None
    if getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None):
        return None
    activation = activation_of(layer.activation)
    if activation is None:
        return None

    def place(variable: Any) -> Place:
        found = places.get(id(variable))
        return np.asarray(variable, np.float64) if found is None else found

    bias = place(layer.bias) if layer.use_bias else None
    return DenseLayer(place(layer.kernel), bias, activation)


def _row(value: Any) -> FloatArray:
    return np.asarray(value, dtype=np.float64).reshape(-1)
