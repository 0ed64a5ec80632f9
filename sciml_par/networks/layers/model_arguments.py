"""Checks of the arguments that the models of this package have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from sciml_par._checks import checked_integer, is_positive
from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError

DTYPES = ("float32", "float64")
LAYER, UNIT = "layer", "unit"


def check_arguments(model: str, sizes: Mapping[str, Any], seed: Any, dtype: Any, name: Any) -> None:
    """Check sizes, seed, dtype and name of a model, and what Keras runs on."""
    keras: Any = import_module("keras")
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"{model} needs Keras on TensorFlow, but Keras runs on {keras.backend.backend()!r}; "
            f"set KERAS_BACKEND=tensorflow before Keras is imported"
        )
    for which, size in sizes.items():
        if isinstance(size, list | tuple):
            raise InputError(
                f"{model}: {which} must be an integer, got {size!r}; the sizes of layers are "
                f"{model}(inputs, outputs, width=20, depth=3)"
            )
        checked_integer(size, f"{model}: {which}", least=1)
    check_seed_and_dtype(model, seed, dtype)
    if name is not None and (not isinstance(name, str) or "/" in name):
        raise InputError(f"{model}: name must be a text without '/', got {name!r}")


def check_seed_and_dtype(model: str, seed: Any, dtype: Any) -> None:
    """Check the seed and the precision of a model."""
    checked_integer(seed, f"{model}: seed", least=0)
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise InputError(f"{model}: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")


def checked_factor(model: str, name: str, value: Any) -> float:
    """Return a positive finite number; raise for anything else."""
    if not is_positive(value):
        raise InputError(f"{model}: {name} must be a number > 0, got {value!r}")
    return float(value)


def checked_slopes(kind: Any, factor: Any) -> float:
    """Check which trained slopes an `MLP` has, and return their factor n."""
    if kind is not None and not (isinstance(kind, str) and kind in (LAYER, UNIT)):
        raise InputError(f"MLP: adaptive must be {LAYER!r}, {UNIT!r} or None, got {kind!r}")
    n = checked_factor("MLP", "slope_factor", factor)
    if kind is None and n != 1.0:
        raise InputError(
            f"MLP: slope_factor={factor!r} is for trained slopes; add adaptive={LAYER!r}, or "
            f"give omega= for a slope that stays"
        )
    return n


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
