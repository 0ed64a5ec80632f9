"""The columns of windows: what their output layers multiply, with its derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import tf
from sciml_par.networks.propagation.propagation import Propagated

Tensor = Any
Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_AT_ONCE = 4096
"""Points of one window whose columns are computed at once."""


class Request(NamedTuple):
    """Points x: [n, d] at which u is asked, and the matrices [K, d, d] of its operators."""

    x: Array
    second: Array


class Columns:
    """The quantities of the columns of all windows of a model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._traced: dict[Any, Any] = {}
        self._dtype = model.dtype_policy.name
        self._features = model.features_of_windows
        self._hidden = [
            (np.asarray(kernel), np.asarray(bias)) for kernel, bias in model.hidden_layers
        ]

    def windows(self, x: Array) -> Iterator[tuple[int, IntArray]]:
        """Return the points of each window that has some, a limited number at once: x: [n, d]."""
        for window, points in self._model.partition.points_of_windows(x):
            for first in range(0, len(points), _AT_ONCE):
                yield window, points[first : first + _AT_ONCE]

    def at(self, window: int, x: Array, second: Array, used: Any = None) -> list[Array]:
        """Return each quantity of a window's columns at points in it, [w + 1, R].

        used : which of value, first derivatives and operators are wanted, all by default.
        """
        count = 1 + x.shape[1] + len(second)
        wanted = tuple(range(count) if used is None else map(int, np.flatnonzero(used)))
        w = self._features[window]
        hidden = [(kernel[window][:, :w], bias[window][:w]) for kernel, bias in self._hidden]
        key = (second.tobytes(), wanted, w)
        if key not in self._traced:
            self._traced[key] = self._function(second, wanted, hidden)
        place = self._model.partition.place(window).astype(self._dtype)
        found = self._traced[key](place, hidden, x.astype(self._dtype))
        return [each.numpy() for each in found]

    def jets(self, weights: Array, request: Request) -> Array:
        """Return the jets of the model with output layers [K, w + 1, m]: [m, n, 1 + d + K]."""
        x, second = request
        found = np.zeros((weights.shape[2], len(x), 1 + x.shape[1] + len(second)), weights.dtype)
        if not np.any(weights):
            return found
        for window, points in self.windows(x):
            for q, each in enumerate(self.at(window, x[points], second)):
                found[:, points, q] += self.of(window, weights).T @ each
        return found

    def of(self, window: int, weights: Array) -> Array:
        """Return the output layer of a window, its bias below: [w + 1, m] of [K, w_most + 1, m]."""
        w, layer = self._features[window], weights[window]
        return layer if w + 1 == len(layer) else np.vstack([layer[:w], layer[-1:]])

    def _function(self, second: Array, wanted: tuple[int, ...], hidden: Any) -> Any:
        """Return what computes some quantities, for any number of points."""
        model, d = self._model, second.shape[1]
        place = model.partition.place(0).shape

        def quantities(place: Tensor, hidden: Any, x: Tensor) -> list[Tensor]:
            parts = model.features(place, hidden, Propagated.at(x, second)).asked()
            return [parts[q] for q in wanted]

        def spec(*shape: int | None) -> Any:
            return tf.TensorSpec(shape, self._dtype)

        layers = [(spec(*k.shape), spec(*b.shape)) for k, b in hidden]
        signature = [spec(*place), layers, spec(None, d)]
        # TensorFlow counts the traces of functions by their code, but not those of partials.
        return tf.function(partial(quantities), input_signature=signature, autograph=False)


class OfBase:
    """The jets of a model in windows with the weights that it has."""

    def __init__(self, model: Any) -> None:
        self._columns = Columns(model)
        kernel, bias = (np.asarray(each) for each in model.linear_variables)
        self._weights = np.concatenate([kernel, bias[:, None, :]], axis=1)

    def jets(self, request: Request) -> Array:
        """Return its jets, [m, n, 1 + d + K]."""
        return self._columns.jets(self._weights, request)
