"""What makes two things the same: texts of settings, keys of compiled loops, and digests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np

from sciml_par._checks import Same, is_integer, is_number
from sciml_par._other_names import ByName

_DIGITS = 12  # of a digest, in hexadecimal
# Keras numbers its models, and seeds are of initial weights.
_NOT_OF_AN_ARCHITECTURE = ("name", "seed", "build_config", "compile_config")
_INITIAL_WEIGHTS = ("initial_weights", "box")  # of MLP; a layer may have a box, too


class Described(ByName):
    """A frozen dataclass with a description and a key."""

    def describe(self) -> dict[str, str]:
        """Return the hyper-parameters by name, as texts that are equal on all ranks (local)."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__qualname__} | {
            name: text_of(value) for name, value in values.items()
        }

    @property
    def key(self) -> Hashable:
        """A key that is equal for objects with the same operations in a compiled loop."""
        values = (getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return (type(self), *map(key_of, values))


def text_of(value: Any) -> str:
    """Return a value as a short text that is equal in all processes and has no addresses.

    Arrays are given by a digest, functions and other objects by their names.
    """
    if isinstance(value, Described):
        found = value.describe()
        inner = ", ".join(f"{n}={text}" for n, text in found.items() if n != "kind")
        return f"{found['kind']}({inner})"
    if value is None or isinstance(value, bool | str):
        return repr(value)
    if is_integer(value):
        return repr(int(value))
    number = _as_number(value)
    if number is not None:
        return repr(number)
    if isinstance(value, np.ndarray):
        return of_array(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {text_of(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, re.Pattern):  # Keras makes it of a set of words, which has no order
        return repr("|".join(sorted(value.pattern.split("|"))))
    return str(getattr(value, "__qualname__", None) or type(value).__qualname__)


def _as_number(value: Any) -> float | None:
    """Return a floating-point number, also as an array, tensor or variable without axes."""
    if is_number(value):
        return float(value)
    if getattr(value, "shape", None) != () or not hasattr(value, "dtype"):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # a symbolic tensor, or an object that only looks like an array
        return None
    return float(array) if array.dtype.kind == "f" else None


def key_of(value: Any) -> Hashable:
    """Return a hyper-parameter by its value; an object of another kind by its identity.

    The object itself stands in the key, so that no other one can take its address.
    """
    if isinstance(value, Described):
        return value.key
    if isinstance(value, Real | str | type(None) | re.Pattern):
        return (type(value), value)
    if isinstance(value, tuple | list):
        return tuple(map(key_of, value))
    if isinstance(value, Mapping):
        return tuple((name, key_of(each)) for name, each in sorted(value.items()))
    return Same(value)


def of_array(array: np.ndarray) -> str:
    """Return shape and digest of an array, equal for numbers that are equal in single precision.

    Processors of two kinds may round the last bits of a sine differently.
    """
    rounded = np.ascontiguousarray(array, dtype=np.float32) + np.float32(0)  # −0 becomes 0
    digest = hashlib.blake2b(rounded.tobytes()).hexdigest()
    return f"array of shape {list(array.shape)}, digest {digest[:_DIGITS]}"


def architecture_of(model: Any) -> str:
    """Return a digest that is the same for networks that differ in their weights only."""
    config = _without_names(config_of(model))
    parts = [
        type(model).__qualname__,
        json.dumps(config, default=lambda value: type(value).__qualname__),
        *(f"{list(v.shape)} {v.dtype}" for v in model.trainable_variables),
    ]
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=16)
    for held in getattr(model, "non_trainable_variables", ()):
        digest.update(np.asarray(held).tobytes())
    return digest.hexdigest()


def config_of(model: Any) -> dict[str, Any]:
    """Return the configuration that Keras saves; {} of models that it cannot save."""
    try:
        return dict(model.get_config())
    except Exception:  # Keras and the user's own class raise all kinds
        return {}


def _without_names(config: Any) -> Any:
    if isinstance(config, dict):
        initial = _INITIAL_WEIGHTS if "initial_weights" in config else ()
        left_out = (*_NOT_OF_AN_ARCHITECTURE, *initial)
        kept = {k: v for k, v in config.items() if k not in left_out}
        return {str(k): _without_names(v) for k, v in kept.items()}
    if isinstance(config, list | tuple):
        return [_without_names(each) for each in config]
    return config
