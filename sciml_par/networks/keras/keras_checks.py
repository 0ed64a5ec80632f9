"""What a Keras model must be to serve as the field of a problem, with a sentence for each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module, tf
from sciml_par.errors import InputError
from sciml_par.networks.keras.keras_function import KerasFunction

_ROWS = 6
_RANDOM = (
    "draws random numbers at each call, so that u(x) is no function of x; leave it out (the weight "
    'decay of AdamW regularises, and mode="ensemble" tells the uncertainty)'
)
_BATCH = (
    "couples the points of a batch, so that u(x) is no function of x and ranks would differ; use "
    "LayerNormalization, or an adapted Normalization or input_scaling=True of the problem in front "
    "of the network, or freeze it with trainable=False"
)


def check_parts(model: Any) -> None:
    """Refuse what can be told from the layers and variables of a built model."""
    name = described(model)
    for layer in layers_of(model):
        fault = _fault_of(layer)
        if fault is not None:
            raise InputError(f"{name}: the layer {layer.name!r} ({type(layer).__name__}) {fault}.")
    _check_losses(model, name)
    if not model.trainable_variables:
        raise InputError(
            f"{name} has no weights to train; give it layers, and leave some with trainable=True."
        )
    for variable in model.trainable_variables:
        if getattr(variable, "constraint", None) is not None:
            raise InputError(
                f"{name}: the weights {variable.path!r} have a constraint, which the compiled loop "
                f"does not apply; leave it out, or write it into the layer's call."
            )


def check_behaviour(function: KerasFunction, dimension: int, dtype: str) -> None:
    """Refuse what shows when a model is called, whatever its layers are named.

    It is called with weights near its own, since weights of zero would hide most faults.

    Raises
    ------
    InputError
        A call changes a variable that is not trained, adds a loss, or gives something else with
        training=True; or the output at one point depends on others.
    """
    name = described(function.model)
    parameters = perturbed(function.model.trainable_variables)
    x, other = _points(dimension, dtype)
    states, outputs = {}, {}
    for training in (False, True):
        outputs[training], states[training], losses = function.with_states(
            parameters, x, training=training
        )
        if losses:
            raise InputError(
                f"{name} adds losses of its own when it is called (add_loss, or an activity "
                f"regularizer), which are not part of the problem's; leave them out."
            )
        _check_states(function, states[training], name)
    if not _close(outputs[False], outputs[True]):
        raise InputError(
            f"{name} gives other values with training=True than with training=False; leave out "
            f"the layers that do so, such as Dropout and BatchNormalization: a field is one "
            f"function of x."
        )
    # The first half of the rows with others behind it, and alone.
    half = _ROWS // 2
    first = outputs[False][:half]
    mixed = function(parameters, tf.concat([x[:half], other[half:]], axis=0))[:half]
    if not _close(first, mixed) or not _close(first, function(parameters, x[:half])):
        raise InputError(
            f"{name}: its output at one point depends on the other points of the batch, so that "
            f"u(x) is no function of x and ranks would differ; each row of the output must come "
            f"from the same row of the input."
        )


def check_operations(traced: Any, name: str, dtype: str) -> None:
    """Refuse operations that a compiled loop cannot do, or cannot repeat."""
    for operation in _operations(traced.graph):
        kind = operation.type
        if kind.startswith(("Random", "StatelessRandom", "Multinomial", "ParameterizedTrunc")):
            raise InputError(f"{name} {_RANDOM}.")
        if "PyFunc" in kind:
            raise InputError(
                f"{name} calls a Python function ({kind}), which has no place in a compiled loop "
                f"and no derivatives; write it with TensorFlow or keras.ops."
            )
        if kind == "Cast" and operation.inputs[0].dtype == dtype:
            found = operation.outputs[0].dtype
            if found.is_floating and found != dtype:
                raise InputError(_precision(name, found.name, dtype))
    trainable = [v for v in traced.graph.variables if v.trainable]
    if trainable:
        raise InputError(
            f"{name} reads the tf.Variable {trainable[0].name.removesuffix(':0')!r}, which Keras "
            f"does not know as a weight, so that it would not be trained; make it with "
            f"self.add_weight(...), or with trainable=False."
        )


def check_precision(model: Any, dtype: str) -> None:
    """Refuse weights of another precision than the training's."""
    for variable in model.trainable_variables:
        found = tf.as_dtype(variable.dtype).name
        if found != dtype:
            raise InputError(_precision(described(model), found, dtype))


def _check_losses(model: Any, name: str) -> None:
    regularized = [
        *(f"the weights {v.path!r}" for v in model.variables if _has(v, "regularizer")),
        *(f"the layer {v.name!r}" for v in layers_of(model) if _has(v, "activity_regularizer")),
    ]
    if regularized:
        raise InputError(
            f"{name}: {regularized[0]} has a regularizer, whose loss is not part of the problem's; "
            f"leave it out, or use the weight decay of an optimizer (AdamW)."
        )


def _has(owner: Any, attribute: str) -> bool:
    return getattr(owner, attribute, None) is not None


def layers_of(model: Any) -> Iterator[Any]:
    """Yield all layers of a model, nested ones included."""
    yield from model._flatten_layers(include_self=False, recursive=True)


def described(model: Any) -> str:
    """How messages call a model."""
    return f"network: the model {getattr(model, 'name', '')!r} ({type(model).__name__})"


def perturbed(variables: Sequence[Any]) -> list[Any]:
    """Weights near those of a model, none of them zero; always the same."""
    rng = np.random.default_rng(0)
    values = [np.asarray(v) for v in variables]
    return [tf.constant((v + 0.1 * rng.normal(size=v.shape)).astype(v.dtype)) for v in values]


def trial_points(dimension: int, dtype: str) -> Any:
    """Points on which a model is tried: [n, d]."""
    return _points(dimension, dtype)[0]


def _points(dimension: int, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    both = rng.uniform(-1, 1, size=(2, _ROWS, dimension))
    return tf.constant(both[0], dtype), tf.constant(both[1], dtype)


def _check_states(function: KerasFunction, states: Sequence[Any], name: str) -> None:
    variables = function.model.non_trainable_variables
    for variable, before, after in zip(variables, function.frozen, states, strict=True):
        if not np.array_equal(before, np.asarray(after), equal_nan=before.dtype.kind == "f"):
            raise InputError(
                f"{name}: a call changes {variable.path!r}, so that u(x) depends on the calls "
                f"before and is no function of x; leave out the layer that does so, such as "
                f"Dropout, BatchNormalization and stateful layers."
            )


def _fault_of(layer: Any) -> str | None:
    """What is wrong with a layer, by its class; None if nothing is known against it."""
    keras: Any = import_module("keras")
    layers = keras.layers
    if getattr(layer, "rate", 0) and isinstance(layer, _dropouts(layers)):
        return _RANDOM
    if isinstance(layer, layers.GaussianNoise) and layer.stddev:
        return _RANDOM
    if isinstance(layer, layers.BatchNormalization) and layer.trainable:
        return _BATCH
    if isinstance(layer, layers.SpectralNormalization):
        return "changes its weights at each call with training=True; wrap nothing around the layer"
    if isinstance(layer, layers.RNN) and layer.stateful:
        return "keeps a state from call to call, so that u(x) is no function of x; use no RNN"
    return None


def _dropouts(layers: Any) -> tuple[type, ...]:
    names = ("Dropout", "SpatialDropout1D", "AlphaDropout", "GaussianDropout")
    return tuple(getattr(layers, name) for name in names)


def _operations(graph: Any) -> Iterator[Any]:
    """Yield the operations of a graph and of the functions that these call."""
    yield from graph.get_operations()
    for function in getattr(graph, "_functions", {}).values():
        yield from getattr(getattr(function, "graph", None), "get_operations", list)()


def _precision(name: str, found: str, dtype: str) -> str:
    known = found in ("float32", "float64")
    own = f'give train precision="{found}"' if known else f"make its layers with dtype={dtype!r}"
    return (
        f"{name} computes in {found}, but the training in {dtype}: {own}; or give a function that "
        f"makes the model, which is then made in {dtype}; or make the model after "
        f"keras.config.set_floatx({dtype!r})."
    )


def _close(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    scale = max(float(np.max(np.abs(b), initial=0.0)), 1e-30)
    tolerance = 1e4 * float(np.finfo(a.dtype).eps)
    return a.shape == b.shape and bool(np.max(np.abs(a - b), initial=0.0) <= tolerance * scale)
