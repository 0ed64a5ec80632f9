"""Networks from models: Keras 3 models, those of this package, and objects written by hand."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from sciml_par._checks import Same
from sciml_par._graph_digest import digest_of_graph
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.networks.keras import trial
from sciml_par.networks.keras.dense_model import dense_chain
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
    # What is made of other models by this module has a key of theirs.
    if plain or isinstance(model, PropagatedModel) or hasattr(type(model), "network_key"):
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
    _check_numbers(model, model.input_size, d, model.output_size, m)
    trial.check_weights(model, dtype)
    chain = dense_chain(model) or model.records()
    if isinstance(chain, DenseChain):
        return _network_of_chain(model, chain)
    linear = _numbers(model, "linear_variables") or None
    return _network(model, model, _key(model), chain=chain, linear=linear)


def _network(model: Any, of: Any, key: Any, **more: Any) -> Network:
    """Return a network with the functions `of` a chain or a model."""
    variables, frozen = tuple(model.trainable_variables), _numbers(model, "frozen_variables")
    return Network(model, variables, of.apply, of.jet, key, _remarks(model), frozen=frozen, **more)


def _numbers(model: Any, name: str) -> tuple[int, ...]:
    """Return which of the trainable variables those of this name are, if there are any."""
    found = {id(variable) for variable in getattr(model, name, ())}
    return tuple(i for i, v in enumerate(model.trainable_variables) if id(v) in found)


def _key(model: Any) -> Any:
    if hasattr(type(model), "network_key"):
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
    digest = hashlib.blake2b(digest_size=16)
    for value in (np.asarray(v) for _, v in frozen):
        digest.update(repr((value.shape, str(value.dtype))).encode() + value.tobytes())
    places = tuple(i for i, _ in frozen)
    return (type(model), tuple(sorted(kept.items())), embedding, places, digest.hexdigest())


def _network_of_keras(model: Any, d: int, m: int, dtype: str) -> Network:
    trial.build(model, d, dtype)
    trial.check_weights(model, dtype)
    frozen = tuple(np.asarray(v) for v in model.non_trainable_variables)
    function = trial.KerasFunction(model, frozen)
    parameters, x, u = trial.trial(function, d, dtype)
    _check_numbers(model, d, d, int(u.shape[1]), m)
    chain = dense_chain(model)
    # TensorFlow has some constants of its functions, those of gelu, in single precision only.
    if chain is not None and trial.close(chain.apply(parameters, x), u, least=1e-6):
        return _network_of_chain(model, chain)
    trial.check_behaviour(function, parameters, x, u)
    specs = [tf.TensorSpec(v.shape, dtype) for v in model.trainable_variables]
    points = tf.TensorSpec([None, d], dtype)
    traced = tf.function(function, autograph=False).get_concrete_function(specs, points)
    trial.check_operations(model, traced, dtype)
    inputs = traced.inputs[: len(parameters) + 1]
    key = digest_of_graph(traced.graph, inputs, traced.outputs).key or Same(model)
    variables = tuple(model.trainable_variables)
    return Network(model, variables, function, None, key, _remarks(model))


def _network_of_chain(model: Any, chain: DenseChain) -> Network:
    shapes = tuple((tuple(v.shape), str(v.dtype)) for v in model.trainable_variables)
    key = ("chain", chain.key, shapes, _numbers(model, "frozen_variables"))
    last = chain.layers[-1]
    places = last.weight, last.bias
    linear = tuple(p for p in places if isinstance(p, int) and last.activation is LINEAR) or None
    return _network(model, chain, key, chain=chain, linear=linear)


def _check_numbers(model: Any, inputs: int, d: int, outputs: int, m: int) -> None:
    """Compare the inputs and the outputs that a model has with those that it must have."""
    name = trial.described(model)
    if inputs != d:
        raise InputError(
            f"{name} takes {inputs} inputs, but the problem has {d} coordinates; make it with {d}."
        )
    if outputs != m:
        raise InputError(
            f"{name} has {outputs} outputs, but the problem has a field of {m} components; make "
            f"its last layer with {m}, or the problem with outputs={outputs}."
        )


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
