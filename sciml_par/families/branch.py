"""Regression of coordinates of solutions on the inputs: level 0 of a family, and its starts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_DEGREES, _LENGTHS, _RIDGES = (1, 2, 3, 4), (0.5, 1.0, 2.0, 4.0), (1e-12, 1e-9, 1e-6, 1e-3)


class Branch:
    """Kernel ridge regression a(p) = k(p, P) (K + λ I)⁻¹ A, chosen by leaving one out.

        k(p, p′) = (1 + p·p′)^d + exp(−|p − p′|² / 2 l²)

    d, l in units of the median distance, and λ in units of the mean of K's diagonal are those of
    the least error of left-out rows, which K⁻¹ gives (Rasmussen, Williams 2006, (5.12)). Multiplied
    by the functions of the basis, it is the product of a branch and a trunk, as in a DeepONet.

    Parameters
    ----------
    inputs : P, coordinates of queries, [S, c].
    outputs : A, [S, r].
    """

    def __init__(
        self, inputs: Array, outputs: Array, choice: tuple[Any, ...] | None = None
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self._scale = np.sqrt(max(float(np.mean(np.sum(inputs**2, axis=1))), 1e-300))
        squares = self.squares(inputs)
        self._median = float(np.sqrt(np.median(squares[squares > 0]))) if len(inputs) > 1 else 1.0
        best = np.inf, np.zeros(0)
        choices = product(_DEGREES, _LENGTHS, _RIDGES) if choice is None else [choice]
        for degree, length, ridge in choices:
            k = self._kernel(inputs, squares, degree, length)
            k[np.diag_indices(len(k))] += ridge * np.trace(k) / len(k)
            inverse = np.linalg.inv(k)
            weights = inverse @ outputs
            left_out = float(np.sum((weights / inverse.diagonal()[:, None]) ** 2))
            if left_out < best[0]:
                best, self.choice = (left_out, weights), (degree, length, ridge)
        self._weights = best[1]

    def __call__(self, inputs: Array) -> Array:
        """Return coordinates of solutions: [Q, c] -> [Q, r]."""
        return self._kernel(inputs, self.squares(inputs), *self.choice[:2]) @ self._weights

    def squares(self, inputs: Array) -> Array:
        """Return squared distances |p − P|²: [Q, c] -> [Q, S]."""
        of_rows = np.sum(inputs**2, axis=1)[:, None] + np.sum(self.inputs**2, axis=1)
        return np.maximum(of_rows - 2 * inputs @ self.inputs.T, 0.0)

    def _kernel(self, inputs: Array, squares: Array, degree: int, length: float) -> Array:
        products = inputs @ self.inputs.T / self._scale**2
        near = np.exp(-squares / (2 * (length * self._median) ** 2))
        return np.asarray((1 + products) ** degree + near)
