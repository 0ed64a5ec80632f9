"""The unknowns of a problem, as a training found them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.unknowns.unknowns import Unknowns, names_of_elements, numbers_of


@dataclass(frozen=True, eq=False)
class UnknownValues:
    """The values of a member's unknowns: q numbers, those of arrays one after the other.

    `best` and `last`: [q] belong to the weights of the least loss, and after the last update;
    `history`: [s, q] is where the loss was recorded. `true` has those that are known.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    true: Mapping[str, FloatArray] = field(default_factory=dict)
    best: FloatArray = field(default_factory=lambda: np.empty(0))
    last: FloatArray = field(default_factory=lambda: np.empty(0))
    history: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def size(self) -> int:
        """The number q."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def names(self) -> list[str]:
        """Of the q numbers: "D", or "c[0]" and so on of an array."""
        return names_of_elements(self.shapes)

    @property
    def columns(self) -> dict[str, FloatArray]:
        """The history of each of the q numbers by its name, [s]."""
        return dict(zip(self.names, self.history.T, strict=bool(self.history.size)))

    @property
    def true_numbers(self) -> dict[str, float | None]:
        """The known value of each of the q numbers by its name, or None."""
        found: list[float | None] = []
        for name, shape in self.shapes.items():
            true = self.true.get(name)
            found += [None] * math.prod(shape) if true is None else np.ravel(true).tolist()
        return dict(zip(self.names, found, strict=True))

    def by_name(self, numbers: FloatArray) -> dict[str, Any]:
        """Return [..., q] as [..., *shape] for each unknown; a single number as a float."""
        found: dict[str, Any] = {}
        at = 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            part = numbers[..., at : at + size].reshape((*numbers.shape[:-1], *shape))
            found[name] = part if part.ndim else float(part)
            at += size
        return found


NO_UNKNOWNS = UnknownValues()
"""Of a member whose problem has none."""


def unknown_values(unknowns: Unknowns, *parameters: FloatArray) -> UnknownValues:
    """Return the values of unknowns by their parameters: best and last [q], history [s, q]."""
    if not unknowns:
        return NO_UNKNOWNS
    shapes = {name: unknown.shape for name, unknown in unknowns.items()}
    true = {
        name: np.asarray(unknown.true, np.float64)
        for name, unknown in unknowns.items()
        if unknown.true is not None
    }
    return UnknownValues(shapes, true, *(numbers_of(unknowns, each) for each in parameters))


def relative_error(value: Any, true: Any) -> float:
    """Return ‖value − true‖ / ‖true‖; NaN where the truth is unknown or zero."""
    if true is None or not np.any(true):
        return math.nan
    return float(np.linalg.norm(np.subtract(value, true)) / np.linalg.norm(true))
