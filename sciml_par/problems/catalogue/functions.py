"""Functions of NumPy arrays and of TensorFlow tensors alike, so that a solution is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf


def _elementwise(in_numpy: Any, in_tensorflow: str) -> Callable[..., Any]:
    """Return a function of each element of one or several arrays or tensors."""

    def function(*x: Any) -> Any:
        # TensorFlow is imported where a tensor comes first.
        return in_numpy(*x) if isinstance(x[0], np.ndarray) else getattr(tf.math, in_tensorflow)(*x)

    return function


sin, cos = _elementwise(np.sin, "sin"), _elementwise(np.cos, "cos")
exp, log = _elementwise(np.exp, "exp"), _elementwise(np.log, "log")
cosh = _elementwise(np.cosh, "cosh")
arctan2 = _elementwise(np.arctan2, "atan2")


def normal_distribution(x: Any) -> Any:
    """Compute Φ(x) = ½ (1 + erf(x/√2)), of each element."""
    if not isinstance(x, np.ndarray):
        return (1 + tf.math.erf(x / np.sqrt(2))) / 2
    from scipy.special import ndtr  # its import takes long

    return ndtr(x)


def columns(*parts: Any) -> Any:
    """Return arrays or tensors [n, 1] side by side, [n, m]."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts, axis=1)
    return tf.concat(parts, axis=1)


def row_sum(x: Any) -> Any:
    """Compute Σ_i x_i: [n, d] -> [n, 1]."""
    if isinstance(x, np.ndarray):
        return np.sum(x, axis=1, keepdims=True)
    return tf.reduce_sum(x, axis=1, keepdims=True)


def row_product(x: Any) -> Any:
    """Compute Π_i x_i: [n, d] -> [n, 1]."""
    if isinstance(x, np.ndarray):
        return np.prod(x, axis=1, keepdims=True)
    return tf.reduce_prod(x, axis=1, keepdims=True)
