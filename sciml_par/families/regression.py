"""Functions by their principal components, and the regression of some components on others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sciml_par.families.branch import Branch

Array = npt.NDArray[np.float64]

_LEFT, _MOST = 1e-5, 256
"""Of the largest singular value, below which components are left out; and the most of them."""
_COMPARED, _USED = 1_000, 3_000
"""Pairs by which kernels are compared, and by which the best one is then fitted."""


@dataclass(frozen=True)
class Components:
    """The affine space of principal components: a mean, [N], and orthonormal axes, [r, N]."""

    mean: Array
    axes: Array

    @classmethod
    def of(cls, values: Array) -> Components:
        """Return the components of functions: [S, N]."""
        mean = values.mean(axis=0)
        _, size, axes = np.linalg.svd(values - mean, full_matrices=False)
        count = max(1, min(_MOST, int(np.sum(size > _LEFT * size[0]))))
        return cls(mean, axes[:count])

    def coordinates(self, values: Array) -> Array:
        """Return coordinates of functions: [Q, N] -> [Q, r]."""
        return np.asarray((values - self.mean) @ self.axes.T)

    def functions(self, coordinates: Array) -> Array:
        """Return functions of coordinates: [Q, r] -> [Q, N]."""
        return np.asarray(self.mean + coordinates @ self.axes)


class Regression:
    """Kernel regression of the components of outputs on those of inputs, and its reach.

    Parameters
    ----------
    inputs, outputs : components of both.
    branch : the regression of coordinates.
    """

    def __init__(self, inputs: Components, outputs: Components, branch: Branch) -> None:
        self.inputs, self.outputs, self.branch = inputs, outputs, branch

    @classmethod
    def of(cls, a: Array, u: Array) -> Regression:
        """Fit outputs u: [S, M] to inputs a: [S, N]."""
        a, u = a[:_USED], u[:_USED]
        inputs, outputs = Components.of(a), Components.of(u)
        p, c = inputs.coordinates(a), outputs.coordinates(u)
        choice = Branch(p[:_COMPARED], c[:_COMPARED]).choice
        return cls(inputs, outputs, Branch(p, c, choice))

    def __call__(self, a: Array) -> Array:
        """Return outputs of inputs: [Q, N] -> [Q, M]."""
        return self.outputs.functions(self.branch(self.inputs.coordinates(a)))

    def distances(self, a: Array) -> Array:
        """Return how far inputs: [Q, N] are from what was fitted, [Q, 2].

        The distance to the nearest input in principal components, and of the rest, in which no
        input lies.
        """
        p = self.inputs.coordinates(a)
        squares = np.sum(p**2, axis=1)[:, None] + np.sum(self.branch.inputs**2, axis=1)
        nearest = np.min(squares - 2 * p @ self.branch.inputs.T, axis=1)
        rest = np.linalg.norm(a - self.inputs.functions(p), axis=1)
        return np.stack([np.sqrt(np.maximum(nearest, 0.0)), rest], axis=1)
