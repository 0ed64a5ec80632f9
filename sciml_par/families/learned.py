"""What was learned from pairs, and how wrong it is for pairs that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sciml_par.families.regression import Regression
from sciml_par.networks.models.fno import FNO

Array = npt.NDArray[np.float64]

KERNEL, FOURIER = "kernel regression", "Fourier neural operator"
COVERAGE = 0.9
_MANY, _SMALL, _ROUNDING = 256, 1e-3, 1e-5


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
        return cls(values.shape[1:], grid, rows.mean(axis=0), deviation, _SMALL * float(usual) or 1.0)

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
class Judged:
    """What pairs left out tell.

    left_out : relative errors by method, [H] each.
    radius : the part of an answer's size by which the truth differs from it at most, for 90 %.
    limits : the largest distances from the data, [2].
    """

    left_out: dict[str, Array]
    radius: float
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
            found = self.regression(a.reshape(len(a), -1))
            return found.reshape(len(a), *self.outputs.grid, -1)
        assert self.model is not None
        parts = [a[k : k + _MANY] for k in range(0, len(a), _MANY)]
        return np.concatenate([np.asarray(self.model(part), np.float64) for part in parts])

    def distances(self, a: Array) -> Array:
        """Return how far inputs are from those that were fitted; see `Regression.distances`."""
        return self.regression.distances(a.reshape(len(a), -1))

    def judged(self, a: Array, u: Array) -> Judged:
        """Judge the methods by pairs that were left out."""
        errors, radii = {}, {}
        for method in (KERNEL, FOURIER) if self.model else (KERNEL,):
            found = self(a, method)
            error = self.outputs.norms(found - u)
            errors[method] = error / self.outputs.sizes(u)
            # The band is one of the answer, whose size is known, and not of the truth.
            scores = np.sort(error / self.outputs.sizes(found))
            # This rank of H scores holds for 90 % of further ones (Vovk et al. 2005; "split").
            radii[method] = float(scores[min(len(a), math.ceil(COVERAGE * (len(a) + 1))) - 1])
        least = _ROUNDING * np.linalg.norm(a) / math.sqrt(len(a))
        judged = Judged(errors, 0.0, np.maximum(self.distances(a).max(axis=0), least))
        return Judged(errors, radii[judged.method], judged.limits)
