"""Checks of the arguments that the models of this package have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from sciml_par._checks import is_integer, is_positive
from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError

DTYPES = ("float32", "float64")


def check_arguments(model: str, sizes: Mapping[str, Any], seed: Any, dtype: Any, name: Any) -> None:
    """Check sizes, seed, dtype and name of a model, and what Keras runs on."""
    keras: Any = import_module("keras")
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"{model} needs Keras on TensorFlow, but Keras runs on {keras.backend.backend()!r}; "
            f"set KERAS_BACKEND=tensorflow before Keras is imported"
        )
    for which, size in sizes.items():
        if not is_integer(size) or size < 1:
            sizes_of_layers = (
                f"; the sizes of layers are {model}(inputs, outputs, width=20, depth=3)"
                if isinstance(size, list | tuple)
                else ""
            )
            raise InputError(
                f"{model}: {which} must be an integer of at least 1, got {size!r}{sizes_of_layers}"
            )
    check_seed_and_dtype(model, seed, dtype)
    if name is not None and (not isinstance(name, str) or "/" in name):
        raise InputError(f"{model}: name must be a text without '/', got {name!r}")


def check_seed_and_dtype(model: str, seed: Any, dtype: Any) -> None:
    """Check both."""
    if not is_integer(seed) or seed < 0:
        raise InputError(f"{model}: seed must be a non-negative integer, got {seed!r}")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise InputError(f"{model}: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")


def checked_factor(model: str, name: str, value: Any) -> float:
    """Let a positive finite number through."""
    if not is_positive(value):
        raise InputError(f"{model}: {name} must be a number > 0, got {value!r}")
    return float(value)


@contextlib.contextmanager
def keras_arguments(what: str) -> Iterator[None]:
    """Raise what Keras finds wrong with arguments of a layer as an `InputError`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: {str(error).strip().splitlines()[0]}") from error


def own_embedding(model: str, embedding: Any, dtype: str) -> Any:
    """Return a layer like the one given, not built yet, in the precision of the model.

    Each member of an ensemble then has a separate layer.
    """
    if embedding is None:
        return None
    if isinstance(embedding, dict):  # as Keras saves it
        keras: Any = import_module("keras")
        embedding = keras.layers.deserialize(embedding)
    if not callable(getattr(embedding, "propagate", None)) or not hasattr(embedding, "get_config"):
        raise InputError(
            f"{model}: embedding must be a FourierFeatures or a PeriodicEmbedding, got "
            f"{type(embedding).__name__}; put other layers in front of it with keras.Sequential"
        )
    config = {k: v for k, v in embedding.get_config().items() if k != "name"}
    return type(embedding).from_config({**config, "dtype": dtype, "name": "embedding"})
