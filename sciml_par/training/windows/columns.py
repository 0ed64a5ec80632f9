"""The columns of windows: what their output layers multiply, with its derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import matrix_of
from sciml_par._tensorflow import tf
from sciml_par.assembly.equations import Request
from sciml_par.networks.propagation.propagation import Propagated

Tensor = Any
Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_AT_ONCE = 4096
"""Points of one window whose columns are computed at once."""


class Columns:
    """The quantities of the columns of all windows of a model, which are those of `partition`."""

    def __init__(self, model: Any) -> None:
        self._model, self.partition = model, model.partition
        self._traced: dict[Any, Any] = {}
        self._dtype = model.dtype_policy.name
        self._features = model.features_of_windows
        self._hidden = [
            (np.asarray(kernel), np.asarray(bias)) for kernel, bias in model.hidden_layers
        ]

    def width(self, window: int) -> int:
        """Return w + 1, the number of columns of a window, the last one for its bias."""
        return int(self._features[window]) + 1

    def at(
        self, window: int, request: Request, points: IntArray, used: Any = None
    ) -> Iterator[tuple[IntArray, list[Array]]]:
        """Yield each quantity of a window's columns at points in it, [w + 1, R], some at once.

        used : which of value, first derivatives and operators are wanted, all by default.
        """
        wanted = tuple(range(request.size) if used is None else map(int, np.flatnonzero(used)))
        w = self._features[window]
        hidden = [(kernel[window][:, :w], bias[window][:w]) for kernel, bias in self._hidden]
        key = (request.operators, wanted, w)
        if key not in self._traced:
            self._traced[key] = self._function(request, wanted, hidden)
        place = self.partition.place(window).astype(self._dtype)
        for first in range(0, len(points), _AT_ONCE):
            some = points[first : first + _AT_ONCE]
            found = self._traced[key](place, hidden, request.x[some].astype(self._dtype))
            yield some, [each.numpy() for each in found]

    def jets(self, weights: Array, request: Request) -> Array:
        """Return the jets of the model with output layers [K, w + 1, m]: [Q, m, n]."""
        found = np.zeros((request.size, weights.shape[2], len(request.x)), weights.dtype)
        if not np.any(weights):
            return found
        for window, points in self.partition.points_of_windows(request.x):
            w, layer = self.width(window), weights[window]
            layer = layer if w == len(layer) else np.vstack([layer[: w - 1], layer[-1:]])
            for some, quantities in self.at(window, request, points):
                for q, each in enumerate(quantities):
                    found[q][:, some] += layer.T @ each
        return found

    def _function(self, request: Request, wanted: tuple[int, ...], hidden: Any) -> Any:
        """Return what computes some quantities, for any number of points."""
        model, d = self._model, request.x.shape[1]
        place = model.partition.place(0).shape
        second = np.array([matrix_of(each, d) for each in request.operators]).reshape(-1, d, d)

        def quantities(place: Tensor, hidden: Any, x: Tensor) -> list[Tensor]:
            parts = model.features(place, hidden, Propagated.at(x, second)).asked()
            return [parts[q] for q in wanted]

        def spec(*shape: int | None) -> Any:
            return tf.TensorSpec(shape, self._dtype)

        layers = [(spec(*k.shape), spec(*b.shape)) for k, b in hidden]
        signature = [spec(*place), layers, spec(None, d)]
        # TensorFlow counts the traces of functions by their code, but not those of partials.
        return tf.function(partial(quantities), input_signature=signature, autograph=False)
