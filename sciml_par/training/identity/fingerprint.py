"""Digests that are equal for equal arrays and architectures of networks."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

_DIGITS = 12  # of a digest, in hexadecimal
# Keras numbers its models, and seeds are of initial weights.
_NOT_OF_AN_ARCHITECTURE = ("name", "seed", "build_config", "compile_config")
_INITIAL_WEIGHTS = ("initial_weights", "box")  # of MLP; a layer may have a box, too


def of_array(array: np.ndarray) -> str:
    """Return shape and digest of an array, equal for numbers that are equal in single precision.

    Processors of two kinds may round the last bits of a sine differently.
    """
    rounded = np.ascontiguousarray(array, dtype=np.float32) + np.float32(0)  # −0 becomes 0
    return f"array of shape {list(array.shape)}, digest {_digest(rounded.tobytes())}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content).hexdigest()[:_DIGITS]


def architecture_of(model: Any) -> str:
    """Return a digest that is the same for networks that differ in their weights only."""
    parts = [
        type(model).__qualname__,
        _config_text(model),
        *(f"{list(v.shape)} {v.dtype}" for v in model.trainable_variables),
    ]
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=16)
    for held in getattr(model, "non_trainable_variables", ()):
        digest.update(np.asarray(held).tobytes())
    return digest.hexdigest()


def _config_text(model: Any) -> str:
    try:
        config = model.get_config()
    except Exception:  # Keras raises several, for models that it cannot save
        return ""
    return json.dumps(_without_names(config), default=lambda value: type(value).__qualname__)


def _without_names(config: Any) -> Any:
    if isinstance(config, dict):
        initial = _INITIAL_WEIGHTS if "initial_weights" in config else ()
        left_out = (*_NOT_OF_AN_ARCHITECTURE, *initial)
        kept = {k: v for k, v in config.items() if k not in left_out}
        return {str(k): _without_names(v) for k, v in kept.items()}
    if isinstance(config, list | tuple):
        return [_without_names(each) for each in config]
    return config
