"""Networks from models: Keras 3 models, those of this package, and objects written by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._checks import Same
from sciml_par._graph_digest import digest_of_graph
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.keras import trial
from sciml_par.networks.keras.dense_model import dense_chain
from sciml_par.networks.keras.keras_function import KerasFunction
from sciml_par.networks.keras.network import Network
from sciml_par.networks.layers.activation import LINEAR
from sciml_par.networks.layers.quiet_keras import keras
from sciml_par.networks.models.mlp import MLP
from sciml_par.networks.propagation.dense_chain import DenseChain
from sciml_par.networks.propagation.propagated_model import PropagatedModel

_ACCEPTED = (
    "a Keras 3 model, or a function that makes one: (d, m, *, seed, dtype) -> model, or without "
    "arguments"
)
_OF_MLP = ("call", "apply", "jet")
"""The methods of `MLP` that a subclass with another formula overrides."""


def as_network(model: Any, d: int, m: int, *, dtype: str = "float32") -> Network:
    """Return a model as pure functions of its weights (local).

    Parameters
    ----------
    model : Keras 3 model, or an object with `trainable_variables`, `apply` and perhaps `jet`
        As those of `sciml_par.networks.MLP`. A model that is not built yet is built.
    d : int
        Dimension of the points.
    m : int
        Components of the field.
    dtype : {"float32", "float64"}
        Precision of the training.

    Returns
    -------
    Network
        With a jet where the model is a chain of dense layers with known activations: Sequential
        or functional, of Dense, Activation, Normalization, Rescaling and `MLP`. Other models are
        differentiated by nested tapes, which is equally exact, but slower.

    Raises
    ------
    InputError
        The value is not a model; it has other numbers of inputs or outputs, or another precision;
        or it is not a function of x, as with Dropout and BatchNormalization.

    Examples
    --------
    >>> import keras
    >>> from sciml_par.networks import as_network
    >>> layers = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)]
    >>> network = as_network(keras.Sequential(layers), 2, 1)
    >>> len(network.trainable_variables), network.jet is not None
    (4, True)
    """
    plain = all(getattr(type(model), name, 0) is getattr(MLP, name) for name in _OF_MLP)
    if plain or isinstance(model, PropagatedModel) or _is_composed(model):
        return _network_of_ours(model, d, m, dtype)
    if callable(getattr(model, "apply", None)) and hasattr(model, "trainable_variables"):
        variables = tuple(model.trainable_variables)
        jet = getattr(model, "jet", None)
        return Network(model, variables, model.apply, jet, (Same(model), len(variables)))
    if not isinstance(model, keras.Model):
        raise InputError(_not_a_model(model))
    return _network_of_keras(model, d, m, dtype)


def _network_of_ours(model: Any, d: int, m: int, dtype: str) -> Network:
    """Return the network of a class of this package: `apply` and `jet` take its weights."""
    _check_numbers(model, (model.input_size, d), (model.output_size, m))
    trial.check_weights(model, dtype)
    chain = dense_chain(model) or model.records()
    if isinstance(chain, DenseChain):
        return _network_of_chain(model, chain)
    variables = tuple(model.trainable_variables)
    return Network(
        model,
        variables,
        model.apply,
        model.jet,
        _key(model),
        _remarks(model),
        chain=chain,
        frozen=_numbers(getattr(model, "frozen_variables", ()), variables),
        linear=_numbers(getattr(model, "linear_variables", ()), variables) or None,
    )


def _is_composed(model: Any) -> bool:
    """Return whether a class of this package is made of other models by this module."""
    return hasattr(type(model), "network_key")


def _numbers(some: Sequence[Any], variables: Sequence[Any]) -> tuple[int, ...]:
    """Return which of the variables some of them are."""
    found = {id(variable) for variable in some}
    return tuple(i for i, variable in enumerate(variables) if id(variable) in found)


def _key(model: Any) -> Any:
    if _is_composed(model):
        return model.network_key
    try:
        config = model.get_config()
    except Exception:  # that of a subclass may be anything
        return Same(model)
    initial = ("name", "seed", "initial_weights", "box", "scale")
    kept = {name: value for name, value in config.items() if name not in initial}
    embedding = repr(kept.pop("embedding", None))
    trained = {id(variable) for variable in model.trainable_variables}
    frozen = [(i, v) for i, v in enumerate(model.variables) if id(v) not in trained]
    places, values = tuple(i for i, _ in frozen), _digest(tuple(np.asarray(v) for _, v in frozen))
    return (type(model), tuple(sorted(kept.items())), embedding, places, values)


def _network_of_keras(model: Any, d: int, m: int, dtype: str) -> Network:
    trial.build(model, d, dtype)
    trial.check_weights(model, dtype)
    function = KerasFunction.of(model)
    parameters, x, u = trial.trial(function, d, dtype)
    _check_numbers(model, (d, d), (int(u.shape[1]), m))
    chain = dense_chain(model)
    # TensorFlow has some constants of its functions, those of gelu, in single precision only.
    if chain is not None and trial.close(chain.apply(parameters, x), u, least=1e-6):
        return _network_of_chain(model, chain)
    trial.check_behaviour(function, parameters, x, u)
    traced = _trace(function, d, dtype)
    trial.check_operations(model, traced, dtype)
    inputs = traced.inputs[: len(parameters) + 1]
    key = digest_of_graph(traced.graph, inputs, traced.outputs).key or Same(model)
    variables = tuple(model.trainable_variables)
    return Network(model, variables, function, None, key, _remarks(model))


def _network_of_chain(model: Any, chain: DenseChain) -> Network:
    variables = tuple(model.trainable_variables)
    shapes = tuple((tuple(v.shape), str(v.dtype)) for v in variables)
    frozen = _numbers(getattr(model, "frozen_variables", ()), variables)
    key = ("chain", chain.key, shapes, frozen)
    last = chain.layers[-1]
    linear = [place for place in (last.weight, last.bias) if isinstance(place, int)]
    return Network(
        model,
        variables,
        chain.apply,
        chain.jet,
        key,
        _remarks(model),
        chain=chain,
        frozen=frozen,
        linear=tuple(linear) if linear and last.activation is LINEAR else None,
    )


def _check_numbers(model: Any, inputs: tuple[int, int], outputs: tuple[int, int]) -> None:
    """Compare the inputs and the outputs that a model has with those that it must have."""
    name = trial.described(model)
    if inputs[0] != inputs[1]:
        raise InputError(
            f"{name} takes {inputs[0]} inputs, but the problem has {inputs[1]} coordinates; make "
            f"it with {inputs[1]}."
        )
    if outputs[0] != outputs[1]:
        raise InputError(
            f"{name} has {outputs[0]} outputs, but the problem has a field of {outputs[1]} "
            f"components; make its last layer with {outputs[1]}, or the problem with outputs="
            f"{outputs[0]}."
        )


def _trace(function: KerasFunction, d: int, dtype: str) -> Any:
    variables = function.model.trainable_variables
    specs = [tf.TensorSpec(v.shape, dtype) for v in variables]
    points = tf.TensorSpec([None, d], dtype)
    traced = tf.function(function, autograph=False)
    return traced.get_concrete_function(specs, points)


def _digest(values: tuple[Any, ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(repr((value.shape, str(value.dtype))).encode() + value.tobytes())
    return digest.hexdigest()


def _remarks(model: Any) -> tuple[str, ...]:
    """Return a remark on a compiled model, whose optimizer and loss are not used."""
    optimizer = getattr(model, "optimizer", None)
    if not getattr(model, "compiled", False) or optimizer is None:
        return ()
    return (
        f"the model {model.name!r} is compiled, but train does not use its optimizer "
        f"({type(optimizer).__name__}), loss and metrics: the loss is the problem's, and the "
        f"optimizer is that of train(optimizer=...).",
    )


def _not_a_model(value: Any) -> str:
    """Return the message for a value that is not a model."""
    origins = {cls.__module__.split(".")[0] for cls in type(value).__mro__}
    got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    advice = ""
    if "tf_keras" in origins or type(value).__module__.startswith("tensorflow.python.keras"):
        advice = " of Keras 2; make it with Keras 3, of the same layers: import keras"
    elif isinstance(value, keras.layers.Layer):
        advice = ", a layer; make it a model: keras.Sequential([layer])"
    elif isinstance(value, list | tuple):
        advice = "; the sizes of layers are network=functools.partial(MLP, width=20, depth=3)"
    elif hasattr(value, "networks"):
        advice = "; give one of its models, as in network=result.networks[0]"
    return f"network: expected {_ACCEPTED}; got {got}{advice}."
