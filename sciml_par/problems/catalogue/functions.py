"""Functions of NumPy arrays and of TensorFlow tensors alike, so that a solution is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf


def _elementwise(in_numpy: Any, in_tensorflow: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        # TensorFlow is imported where a tensor comes first.
        return in_numpy(x) if isinstance(x, np.ndarray) else getattr(tf.math, in_tensorflow)(x)

    return function


sin, exp = _elementwise(np.sin, "sin"), _elementwise(np.exp, "exp")
