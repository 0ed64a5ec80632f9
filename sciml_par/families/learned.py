"""What is learned from pairs, and how wrong it is for pairs that are left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sciml_par.families.branch import Branch
from sciml_par.networks.models.fno import FNO
from sciml_par.training.optimizers.least_squares.on_host import threads

Array = npt.NDArray[np.float64]

KERNEL, FOURIER = "kernel regression", "Fourier neural operator"
COVERAGE = 0.9
_MANY, _SMALL, _ROUNDING = 256, 1e-3, 1e-5
"""Inputs of one call of a network; the part of the usual size below which a size counts as that;
and of an input, by which it may differ from all others and is not outside."""
_LEFT, _MOST = 1e-5, 256
"""Of the largest singular value, below which components are left out; and the most of them."""
_MARGIN = 1.5
"""Times the largest distance between neighbours, beyond which an input is outside."""
_COMPARED, _USED = 1_000, 3_000
"""Pairs by which kernels are compared, and by which the best one is then fitted."""


@dataclass(frozen=True)
class Side:
    """Inputs or outputs: their shape and grid, and the mean and deviation of each component, [c].

    floor : the least size by which an error is divided, a thousandth of the usual one.
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    mean: Array
    deviation: Array
    floor: float = 0.0

    @classmethod
    def of(cls, values: Array, grid: tuple[int, ...]) -> Side:
        """Return the side of functions: [S, *grid, c] or [S, *grid]."""
        rows = values.reshape(-1, math.prod(values.shape[1 + len(grid) :]))
        deviation = rows.std(axis=0)
        constant = deviation <= 1e-12 * np.abs(rows).max()
        deviation = np.where(constant, 1.0, deviation)
        usual = np.sqrt(np.mean(np.sum((rows / deviation) ** 2, axis=1)))
        floor = _SMALL * float(usual) or 1.0
        return cls(values.shape[1:], grid, rows.mean(axis=0), deviation, floor)

    def scaled(self, values: Array) -> Array:
        """Return functions in units of the deviations: [Q, …] -> [Q, *grid, c]."""
        rows = values.reshape(len(values), *self.grid, -1)
        return np.asarray((rows - self.mean) / self.deviation)

    def restored(self, scaled: Array) -> Array:
        """Return functions in their units and shape: [Q, …]."""
        rows = scaled.reshape(len(scaled), *self.grid, -1) * self.deviation + self.mean
        return rows.reshape(len(scaled), *self.shape)

    def norms(self, scaled: Array) -> Array:
        """Return root mean squares over the grid, in these units: [Q]."""
        rows = scaled.reshape(len(scaled), -1)
        return np.linalg.norm(rows, axis=1) / math.sqrt(math.prod(self.grid))

    def sizes(self, scaled: Array) -> Array:
        """Return the sizes of functions, by which errors are divided: [Q], at least the floor."""
        return np.maximum(self.norms(scaled + self.mean / self.deviation), self.floor)


@dataclass(frozen=True)
class Components:
    """The affine space of principal components: a mean, [N], and orthonormal axes, [r, N]."""

    mean: Array
    axes: Array

    @classmethod
    def of(cls, values: Array) -> Components:
        """Return the components of functions: [S, …] of N values."""
        rows = values.reshape(len(values), -1)
        mean = rows.mean(axis=0)
        _, size, axes = np.linalg.svd(rows - mean, full_matrices=False)
        count = max(1, min(_MOST, int(np.sum(size > _LEFT * size[0]))))
        return cls(mean, axes[:count])

    def coordinates(self, values: Array) -> Array:
        """Return coordinates of functions: [Q, …] -> [Q, r]."""
        return np.asarray((values.reshape(len(values), -1) - self.mean) @ self.axes.T)

    def functions(self, coordinates: Array) -> Array:
        """Return functions of coordinates: [Q, r] -> [Q, N]."""
        return np.asarray(self.mean + coordinates @ self.axes)


@dataclass(frozen=True)
class Regression:
    """Kernel regression of the components of outputs on those of inputs, and its reach."""

    inputs: Components
    outputs: Components
    branch: Branch

    @classmethod
    def of(cls, a: Array, u: Array) -> Regression:
        """Fit outputs u: [S, …] to inputs a: [S, …]."""
        a, u = a[:_USED], u[:_USED]
        with threads(1):  # those of BLAS wait for each other by spinning, where cores are shared
            inputs, outputs = Components.of(a), Components.of(u)
            p, c = inputs.coordinates(a), outputs.coordinates(u)
            choice = Branch(p[:_COMPARED], c[:_COMPARED]).choice
            return cls(inputs, outputs, Branch(p, c, choice))

    def __call__(self, a: Array) -> Array:
        """Return outputs of inputs: [Q, …] -> [Q, M]."""
        return self.outputs.functions(self.branch(self.inputs.coordinates(a)))

    def distances(self, a: Array) -> Array:
        """Return how far inputs: [Q, …] are from those that were fitted, [Q, 2].

        The first is the distance to the nearest one in principal components, the second the size of
        the rest.
        """
        p = self.inputs.coordinates(a)
        rest = np.linalg.norm(a.reshape(len(a), -1) - self.inputs.functions(p), axis=1)
        return np.stack([np.sqrt(self.branch.squares(p).min(axis=1)), rest], axis=1)

    def spacing(self) -> float:
        """Return the largest distance of a fitted input to the nearest other one."""
        squares = self.branch.squares(self.branch.inputs)
        np.fill_diagonal(squares, np.inf)
        return float(np.sqrt(squares.min(axis=1).max()))


@dataclass(frozen=True)
class Judged:
    """What pairs left out tell.

    left_out : relative errors by method, [H] each.
    radii : by method, the part of an answer's size by which 90 % of truths differ from it at most.
    limits : the largest distances from the data, [2].
    """

    left_out: dict[str, Array]
    radii: dict[str, float]
    limits: Array

    @cached_property
    def method(self) -> str:
        """The method of the least mean error."""
        means = {name: np.mean(errors) for name, errors in self.left_out.items()}
        return min(means, key=lambda name: np.nan_to_num(means[name], nan=np.inf))


@dataclass(frozen=True)
class Learned:
    """Both methods, from inputs to outputs in units: [Q, *grid, c] -> [Q, *grid, m]."""

    inputs: Side
    outputs: Side
    regression: Regression
    model: FNO | None

    def __call__(self, a: Array, method: str) -> Array:
        """Return the outputs of inputs by a method."""
        if method == KERNEL:
            return self.regression(a).reshape(len(a), *self.outputs.grid, -1)
        assert self.model is not None
        parts = [a[k : k + _MANY] for k in range(0, len(a), _MANY)]
        return np.concatenate([np.asarray(self.model(part), np.float64) for part in parts])

    def judged(self, a: Array, u: Array) -> Judged:
        """Judge the methods by pairs that were left out."""
        errors, radii = {}, {}
        for method in (KERNEL, FOURIER) if self.model else (KERNEL,):
            found = self(a, method)
            error = self.outputs.norms(found - u)
            errors[method] = error / self.outputs.sizes(u)
            # The band is one of the answer, whose size is known, and not of the truth.
            scores = np.sort(error / self.outputs.sizes(found))
            # This rank of H scores holds for 90 % of further ones (split conformal prediction).
            radii[method] = float(scores[min(len(a), math.ceil(COVERAGE * (len(a) + 1))) - 1])
        # Fitted inputs are as far from the others as new ones from all, but have nearly no rest.
        rounding = _ROUNDING * np.linalg.norm(a) / math.sqrt(len(a))
        least = np.array([_MARGIN * self.regression.spacing(), rounding])
        return Judged(errors, radii, np.maximum(self.regression.distances(a).max(axis=0), least))
