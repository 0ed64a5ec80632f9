"""What a Keras model holds besides its weights: optimizers, vocabularies, constants of layers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel import current_world
from sciml_par.parallel.gradients.copied_optimizers import is_marked
from sciml_par.parallel.gradients.optimizer_state import is_optimizer
from sciml_par.parallel.gradients.replicas import refuse_local_layers

_UNKNOWN_LENGTH = 32
_MOST_NUMBERS = 1000


def optimizers_of(model: Any) -> list[Any]:
    """Return the optimizers of a model and of the models inside, as those of a GAN."""
    values: list[Any] = []
    for value in (value for layer in model._flatten_layers() for value in vars(layer).values()):
        items = value.values() if isinstance(value, dict) else value
        values += items if isinstance(value, dict | list | tuple) else [value]
    return list({id(value): value for value in values if is_optimizer(value)}.values())


def check_model(model: Any) -> None:
    """Raise `InputError` for parts of a model that would silently work on each rank alone."""
    for optimizer in optimizers_of(model):
        if is_marked(optimizer):
            raise InputError(
                f"The model's optimizer {type(optimizer).__name__} was saved or copied from a "
                f"DistributedOptimizer of another program, and reduces no gradients. Load the "
                f"model by hvd.load_model, or compile it with "
                f"hvd.DistributedOptimizer(model.optimizer)."
            )
    if current_world().communicator.size > 1:
        refuse_local_layers(model._flatten_layers())


def agree_on_predictions(model: Any, root: int, *, compare: bool) -> None:
    """Give layers rank `root`'s state besides their variables, and compare what models predict.

    Collective. Models without known inputs and those with random predictions are not compared.

    Raises
    ------
    InputError
        On all ranks: a layer does not take the state, or models of equal weights predict
        differently.
    """
    group = current_world().communicator
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "finalize_state")]
    own = [_state_of(layer) for layer in layers]
    received = group.broadcast_object(own, root=root)
    failure = ""
    for layer, mine, state in zip(layers, own, received, strict=False):
        try:
            _give(layer, state, only_finalize=mine == state)
        except Exception as error:  # noqa: BLE001 - of Keras; all ranks raise it
            failure = f"the layer «{layer.name}» does not take rank {root}'s state ({error})"
    everyone = group.allgather_object((failure, _predictions(model) if compare else []))
    for number, (failure, predictions) in enumerate(everyone):
        reason = failure or _difference(everyone[root][1], predictions, root)
        if reason:
            raise InputError(
                f"After the broadcast of the weights, rank {number} predicts other values: "
                f"{reason}. Give the layers the same vocabularies and constants on all ranks, or "
                f"keep them in variables of the layer."
            )


def _give(layer: Any, state: dict[str, Any], *, only_finalize: bool) -> None:
    if not hasattr(layer, "load_assets"):
        layer.finalize_state()  # computes a Normalization's constants from its variables
    if only_finalize:
        return
    if "bins" in state:
        layer.bin_boundaries = state["bins"]
    with tempfile.TemporaryDirectory() as folder:
        for name, content in state["assets"].items():
            (Path(folder) / name).write_bytes(content)
        if state["assets"]:
            layer.load_own_variables(state["store"])
            layer.load_assets(folder)


def _state_of(layer: Any) -> dict[str, Any]:
    state: dict[str, Any] = {"assets": {}}
    if hasattr(layer, "bin_boundaries"):
        state["bins"] = layer.bin_boundaries and [float(bound) for bound in layer.bin_boundaries]
    if hasattr(layer, "save_assets"):
        state["store"] = {}
        with tempfile.TemporaryDirectory() as folder:
            layer.save_assets(folder)
            layer.save_own_variables(state["store"])
            state["assets"] = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        state["store"] = {key: np.asarray(value).tolist() for key, value in state["store"].items()}
    return state


def _difference(expected: list[np.ndarray], predictions: list[np.ndarray], root: int) -> str:
    """Return what a rank's predictions differ by, or nothing."""
    for one, other in zip(expected, predictions, strict=False):
        if one.shape != other.shape:
            return f"one input gives {one.size} numbers on rank {root} and {other.size} here"
        scale = max(float(np.max(np.abs(one), initial=0.0)), 1e-30)
        if not np.allclose(one, other, rtol=0, atol=1e-3 * scale, equal_nan=True):
            largest = float(np.nanmax(np.abs(one - other)))
            return (
                f"for one input they differ by {largest:.1e} from rank {root}'s, whose scale is "
                f"{scale:.1e}, so a layer holds state that is not among the model's weights"
            )
    return ""


def _predictions(model: Any) -> list[np.ndarray]:
    """Return some of the numbers that a model predicts at a fixed batch of two rows."""
    if any(getattr(layer, "stateful", False) for layer in model._flatten_layers()):
        return []
    before = [(each, tf.convert_to_tensor(each)) for each in model.non_trainable_variables]
    try:
        flat = [_probe(model, spec) for spec in model.inputs]
        structure = getattr(model, "_inputs_struct", flat if len(flat) > 1 else flat[0])
        batch = tf.nest.pack_sequence_as(structure, flat)
        first, second = (
            [np.asarray(tf.cast(y, tf.float64)).ravel() for y in tf.nest.flatten(outputs)]
            for outputs in (model(batch, training=False), model(batch, training=False))
        )
    except Exception:  # noqa: BLE001 - inputs that only the program knows, or no `call`
        return []
    finally:
        for variable, value in before:  # such as states of random number generators
            variable.assign(value)
    alike = all(np.array_equal(*pair, equal_nan=True) for pair in zip(first, second, strict=True))
    return [y[:: max(1, len(y) // _MOST_NUMBERS)] for y in first] if alike else []


def _probe(model: Any, spec: Any) -> Any:
    """Return two rows of an input: numbers, indices 0 and 1, or words of the vocabularies."""
    shape = [2, *(_UNKNOWN_LENGTH if n is None else n for n in tuple(spec.shape)[1:])]
    dtype = tf.as_dtype(spec.dtype)
    if dtype.is_floating:
        return tf.random.stateless_normal(shape, [0, 1], dtype=dtype)
    if dtype != tf.string:
        return tf.cast(tf.reshape(tf.range(int(np.prod(shape))) % 2, shape), dtype)
    lookups = [layer for layer in model._flatten_layers() if hasattr(layer, "get_vocabulary")]
    words = [str(word) for layer in lookups for word in layer.get_vocabulary()[:_UNKNOWN_LENGTH]]
    return tf.fill(shape, " ".join(words) or "word")
