"""Models of all kinds as what the engine needs of a network."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.networks.keras import keras_checks
from sciml_par.networks.keras.dense_model import dense_chain
from sciml_par.networks.keras.graph_key import digest_of_graph
from sciml_par.networks.keras.keras_function import KerasFunction
from sciml_par.networks.keras.network import Identity, Network
from sciml_par.networks.layers.activation import LINEAR
from sciml_par.networks.propagation.dense_chain import DenseChain

_ACCEPTED = (
    "a Keras 3 model, or a function that makes one: (d, m, *, seed, dtype) -> model, or without "
    "arguments"
)
_COMPILED_BY_DEFAULT = "rmsprop"


def as_network(model: Any, d: int, m: int, *, dtype: str = "float32") -> Network:
    """Return the pure functions of a model's weights (local).

    Parameters
    ----------
    model : Keras 3 model, or an object with `trainable_variables`, `apply` and perhaps `jet`
        As those of `sciml_par.networks.MLP`. A model that is not built yet is built.
    d : int
        Dimension of the points.
    m : int
        Components of the field.
    dtype : {"float32", "float64"}
        In which the training computes.

    Returns
    -------
    Network
        With a jet where the model is a chain of dense layers with known activations: Sequential
        or functional, of Dense, Activation, Normalization, Rescaling and `MLP`. Other models are
        differentiated by nested tapes, which is as right, but slower.

    Raises
    ------
    InputError
        What is given is no such model; has other numbers of inputs or outputs; is of another
        precision; or is no function of x, as with Dropout and BatchNormalization.

    Examples
    --------
    >>> import keras
    >>> from sciml_par.networks import as_network
    >>> layers = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)]
    >>> network = as_network(keras.Sequential(layers), 2, 1)
    >>> len(network.trainable_variables), network.jet is not None
    (4, True)
    """
    if isinstance(model, _mlp()) and _is_plain_mlp(model):
        return _network_of_mlp(model, d, m, dtype)
    propagated: Any = import_module("sciml_par.networks.propagation.propagated_model")
    corrected: Any = import_module("sciml_par.networks.keras.corrected")
    if isinstance(model, (propagated.PropagatedModel, corrected.Corrected)):
        return _network_of_ours(model, d, m, dtype, model.records())
    keras: Any = import_module("keras")
    if callable(getattr(model, "apply", None)) and hasattr(model, "trainable_variables"):
        return _network_by_hand(model)
    if not isinstance(model, keras.Model):
        raise InputError(_not_a_model(model))
    return _network_of_keras(model, d, m, dtype)


def _is_plain_mlp(model: Any) -> bool:
    kind = type(model)
    return all(getattr(kind, name) is getattr(_mlp(), name) for name in ("call", "apply", "jet"))


def _network_of_mlp(model: Any, d: int, m: int, dtype: str) -> Network:
    chain = dense_chain(model)
    whole = _network_of_ours(model, d, m, dtype, chain)
    if len(model.trainable_variables) < len(model.variables) and chain is not None:
        return _network_of_chain(model, chain)
    return whole


def _network_of_ours(model: Any, d: int, m: int, dtype: str, chain: Any) -> Network:
    """Of a class of this package, whose `apply` and `jet` take the weights that are trained."""
    name = keras_checks.described(model)
    _check_numbers(name, (model.input_size, d), (model.output_size, m))
    keras_checks.check_parts(model)
    keras_checks.check_precision(model, dtype)
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


def _numbers(some: Sequence[Any], variables: Sequence[Any]) -> tuple[int, ...]:
    """Return which of the variables some of them are."""
    found = {id(variable) for variable in some}
    return tuple(i for i, variable in enumerate(variables) if id(variable) in found)


def _key(model: Any) -> Any:
    summands = getattr(model, "summands", None)
    if summands is not None:
        return (type(model), *map(_key, summands))
    try:
        config = model.get_config()
    except Exception:  # that of a subclass may be anything
        return Identity(model)
    initial = ("name", "seed", "initial_weights", "box", "scale")
    kept = {name: value for name, value in config.items() if name not in initial}
    embedding = repr(kept.pop("embedding", None))
    trained = {id(variable) for variable in model.trainable_variables}
    frozen = [(i, v) for i, v in enumerate(model.variables) if id(v) not in trained]
    places = tuple(i for i, _ in frozen)
    values = _digest(tuple(np.asarray(v) for _, v in frozen))
    return (type(model), tuple(sorted(kept.items())), embedding, places, values)


def _network_by_hand(model: Any) -> Network:
    jet = getattr(model, "jet", None)
    variables = tuple(model.trainable_variables)
    return Network(model, variables, model.apply, jet, (Identity(model), len(variables)))


def _network_of_keras(model: Any, d: int, m: int, dtype: str) -> Network:
    name = keras_checks.described(model)
    _build(model, d, dtype)
    keras_checks.check_parts(model)
    keras_checks.check_precision(model, dtype)
    function = KerasFunction.of(model)
    chain = dense_chain(model)
    if chain is not None and _agree(chain, function, d, dtype):
        _check_numbers(name, None, (_columns(function, d, dtype, name), m))
        return _network_of_chain(model, chain)
    _check_numbers(name, None, (_columns(function, d, dtype, name), m))
    keras_checks.check_behaviour(function, d, dtype)
    traced = _trace(function, d, dtype)
    keras_checks.check_operations(traced, name, dtype)
    digest, complete = digest_of_graph(traced)
    key = ("graph", digest, None if complete else Identity(model), _digest(function.frozen))
    variables = tuple(model.trainable_variables)
    return Network(model, variables, function, None, key, _remarks(model))


def _network_of_chain(model: Any, chain: DenseChain) -> Network:
    variables = tuple(model.trainable_variables)
    shapes = tuple((tuple(v.shape), str(v.dtype)) for v in variables)
    key = ("chain", chain.key, shapes)
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
        linear=tuple(linear) if linear and last.activation is LINEAR else None,
    )


def _build(model: Any, d: int, dtype: str) -> None:
    """Call a model once, which builds what is not built yet, and see that it can be called."""
    name = keras_checks.described(model)
    keras: Any = import_module("keras")
    _check_inputs(model, d, name)
    x = tf.zeros([2, d], dtype)
    try:
        if isinstance(model, keras.Sequential) and not model.built:
            model.build((None, d))  # a call would give it a fixed number of points
        output = model(x)
    except InputError:
        raise
    except Exception as error:  # Keras, TensorFlow and the user's own code raise all kinds
        raise InputError(
            f"{name} cannot be called with points [n, {d}], one tensor with a row for each point: "
            f"{type(error).__name__}: {_cause(error)}"
        ) from error
    if not tf.is_tensor(output):
        raise InputError(
            f"{name} returns a {type(output).__name__}, but a field is one tensor [n, m]; join "
            f"several outputs with keras.layers.Concatenate()."
        )


def _check_inputs(model: Any, d: int, name: str) -> None:
    """Check the inputs of a model that says what it takes."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        return
    if len(inputs) > 1:
        raise InputError(
            f"{name} has {len(inputs)} inputs, but a field takes all coordinates as one tensor "
            f"[n, {d}]; begin with one keras.Input(({d},)) and slice it, x[:, 0:1]."
        )
    shape = tuple(inputs[0].shape)
    if len(shape) == 2 and shape[1] is not None:
        _check_numbers(name, (shape[1], d), None)
    if len(shape) != 2:
        raise InputError(
            f"{name} takes inputs of the shape {list(shape)}, but points are [n, {d}]; "
            f"begin with keras.Input(({d},))."
        )


def _check_numbers(
    name: str, inputs: tuple[int, int] | None, outputs: tuple[int, int] | None
) -> None:
    """Compare the inputs and the outputs that a model has with those that it must have."""
    if inputs is not None and inputs[0] != inputs[1]:
        raise InputError(
            f"{name} takes {inputs[0]} inputs, but the problem has {inputs[1]} coordinates; make "
            f"it with {inputs[1]}."
        )
    if outputs is not None and outputs[0] != outputs[1]:
        raise InputError(
            f"{name} has {outputs[0]} outputs, but the problem has a field of {outputs[1]} "
            f"components; make its last layer with {outputs[1]}, or the problem with outputs="
            f"{outputs[0]}."
        )


def _columns(function: KerasFunction, d: int, dtype: str, name: str) -> int:
    """Return the number of components of the output, once it has a row for each point."""
    x = keras_checks.trial_points(d, dtype)
    output = function(keras_checks.perturbed(function.model.trainable_variables), x)
    if output.shape.rank != 2 or output.shape[0] != x.shape[0]:
        raise InputError(
            f"{name} gives {output.shape.as_list()} for points {x.shape.as_list()}, but a field is "
            f"[n, m], with a row for each point."
        )
    return int(output.shape[1])


def _agree(chain: DenseChain, function: KerasFunction, d: int, dtype: str) -> bool:
    """Return whether a chain computes what the model does that it was read off."""
    parameters = keras_checks.perturbed(function.model.trainable_variables)
    x = keras_checks.trial_points(d, dtype)
    found, expected = chain.apply(parameters, x), function(parameters, x)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    # TensorFlow has some constants of its functions, those of gelu, in single precision only.
    tolerance = max(1e3 * np.finfo(found.dtype.as_numpy_dtype).eps, 1e-6)
    return bool(np.allclose(found, expected, rtol=tolerance, atol=tolerance))


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
    """What a compiled model has that the training does not use."""
    optimizer = getattr(model, "optimizer", None)
    if not getattr(model, "compiled", False) or optimizer is None:
        return ()
    return (
        f"the model {model.name!r} is compiled, but train does not use its optimizer "
        f"({type(optimizer).__name__}), loss and metrics: the loss is the problem's, and the "
        f"optimizer is that of train(optimizer=...).",
    )


def _not_a_model(value: Any) -> str:
    """Why something is no model, and what to give instead."""
    got = f"got {type(value).__name__}"
    origins = {cls.__module__.split(".")[0] for cls in type(value).__mro__}
    keras: Any = import_module("keras")
    if "tf_keras" in origins or type(value).__module__.startswith("tensorflow.python.keras"):
        advice = "a model of Keras 2; make it with Keras 3, of the same layers: import keras"
    elif "torch" in origins:
        advice = "a PyTorch module; write it with Keras layers, or use sciml_par.networks.MLP"
    elif isinstance(value, keras.layers.Layer):
        advice = "a layer; make it a model: keras.Sequential([layer])"
    elif isinstance(value, tf.Module):
        advice = (
            "a tf.Module; make it a keras.Model with weights by add_weight, or give an object with "
            "trainable_variables and apply(parameters, x)"
        )
    elif inspect.isclass(value):
        got, advice = f"got the class {value.__name__}", "no instance of it"
    elif callable(value):
        advice = "a function; it must make a model, not be one"
    elif isinstance(value, list | tuple) and all(isinstance(n, int) for n in value):
        advice = (
            "sizes of layers; take functools.partial(MLP, width=20, depth=3), whose inputs and "
            "outputs follow from the problem"
        )
    elif hasattr(value, "networks"):
        advice = "which has models; give one of them, as in network=result.networks[0]"
    else:
        advice = "no model"
    return f"network: expected {_ACCEPTED}; {got}, {advice}."


def _cause(error: Exception) -> str:
    """What an error says in one line, without what Keras puts before it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("Exception encountered when calling"):
        del lines[0]
    return lines[0] if lines else "no message"


def _mlp() -> Any:
    """Return the class, whose module imports TensorFlow."""
    mlp: Any = import_module("sciml_par.networks.models.mlp").MLP
    return mlp
