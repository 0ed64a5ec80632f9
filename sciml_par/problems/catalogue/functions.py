"""Functions of NumPy arrays and of TensorFlow tensors alike, so that a solution is written once."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par._tensorflow import tf


def sin(x: Any) -> Any:
    """sin x, of each element."""
    return np.sin(x) if isinstance(x, np.ndarray) else tf.sin(x)


def cos(x: Any) -> Any:
    """cos x, of each element."""
    return np.cos(x) if isinstance(x, np.ndarray) else tf.cos(x)


def exp(x: Any) -> Any:
    """e^x, of each element."""
    return np.exp(x) if isinstance(x, np.ndarray) else tf.exp(x)


def cosh(x: Any) -> Any:
    """cosh x, of each element."""
    return np.cosh(x) if isinstance(x, np.ndarray) else tf.cosh(x)


def log(x: Any) -> Any:
    """Return the natural logarithm of each element."""
    return np.log(x) if isinstance(x, np.ndarray) else tf.math.log(x)


def sqrt(x: Any) -> Any:
    """Return the square root of each element."""
    return np.sqrt(x) if isinstance(x, np.ndarray) else tf.sqrt(x)


def normal_distribution(x: Any) -> Any:
    """Φ(x) = ½ (1 + erf(x/√2)), of each element."""
    if not isinstance(x, np.ndarray):
        return (1 + tf.math.erf(x / np.sqrt(2))) / 2
    from scipy.special import ndtr  # its import takes long

    return ndtr(x)


def columns(*parts: Any) -> Any:
    """Arrays or tensors [n, 1] side by side, [n, m]."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts, axis=1)
    return tf.concat(parts, axis=1)


def row_sum(x: Any) -> Any:
    """Σ_i x_i: [n, d] -> [n, 1]."""
    if isinstance(x, np.ndarray):
        return np.sum(x, axis=1, keepdims=True)
    return tf.reduce_sum(x, axis=1, keepdims=True)


def row_product(x: Any) -> Any:
    """Π_i x_i: [n, d] -> [n, 1]."""
    if isinstance(x, np.ndarray):
        return np.prod(x, axis=1, keepdims=True)
    return tf.reduce_prod(x, axis=1, keepdims=True)
