"""The problem, the points and the coordinates of each slab of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems.conditions.in_time import Before, in_slab
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.training.points.points import Points

Array = npt.NDArray[Any]

_EQUAL = 1e-9
"""The relative difference up to which durations are equal but for rounding."""


@dataclass(frozen=True)
class Slab:
    """One of the slabs of a domain.

    Its network sees z − s with z = x, or z = (x − c) f where `scaled`, such that networks of all
    slabs of equal duration are the same function of their weights and of the shift s.

    Attributes
    ----------
    number, count : from 0, and of how many.
    domain, first : of this slab and of the first one.
    """

    number: int
    count: int
    domain: Domain
    first: Domain
    scaled: bool

    @property
    def begin(self) -> float:
        """The time at which it begins."""
        return float(self.domain.lower[-1])

    @property
    def end(self) -> float:
        """The time at which it ends."""
        return float(self.domain.upper[-1])

    @property
    def text(self) -> str:
        """Its number and its interval of time."""
        t = self.domain.names[-1]
        return f"slab {self.number + 1} of {self.count}, {t} from {self.begin:g} to {self.end:g}"

    @property
    def _duration(self) -> float:
        first, own = float(self.first.extent[-1]), self.end - self.begin
        return first if math.isclose(own, first, rel_tol=_EQUAL) else own

    @property
    def scaled_box(self) -> tuple[Array, Array] | None:
        """The corners that the network sees as [−1, 1]^d, of a slab at the beginning."""
        if not self.scaled:
            return None
        begin = float(self.first.lower[-1])
        lower = np.append(self.domain.lower[:-1], begin)
        return lower, np.append(self.domain.upper[:-1], begin + self._duration)

    @property
    def shift(self) -> Array:
        """s, [d]."""
        later = self.begin - float(self.first.lower[-1])
        size = 2 / self._duration if self.scaled else 1.0
        return np.append(np.zeros(self.domain.dimension - 1), later * size)

    @property
    def coordinates(self) -> tuple[Array, Array]:
        """c + s/f and f, [d] each, of (x − c) f − s."""
        if self.scaled_box is None:
            return self.shift, np.ones(self.domain.dimension)
        lower, upper = self.scaled_box
        factors = 2 / (upper - lower)
        return (lower + upper) / 2 + self.shift / factors, factors

    def problem_of(self, whole: Problem, before: Before | None) -> Problem:
        """Return the problem on this slab, beginning with the end of the one before."""
        problem = whole.on_slab(self.domain, scaled_box=self.scaled_box)
        return problem if before is None else problem.starting_from(before)

    def points_of(self, points: Any, whole: Domain) -> Any:
        """Return the points of this slab: numbers are those of each slab, arrays are divided."""
        given = Points.of(points)
        if isinstance(given.interior, np.ndarray):
            x, chosen = self._within(given.interior, whole)
            if not chosen.any():
                raise InputError(f"train: none of the {len(x)} given points lies in {self.text}.")
            return given.with_changes(interior=x[chosen])
        if given.anchors is not None:
            x, chosen = self._within(given.anchors, whole)
            return given.with_changes(anchors=x[chosen] if chosen.any() else None)
        return points

    def _within(self, given: Array, whole: Domain) -> tuple[Array, Array]:
        """Return points as [n, d], and which of them lie in this slab."""
        x = given[:, None] if given.ndim == 1 else given
        return x, in_slab(x, whole, self.domain)


def check_points(points: Any) -> None:
    """Check that the points can be divided among slabs."""
    given = Points.of(points)
    several = {"boundary": given.boundary, "initial": given.initial, **(given.conditions or {})}
    for name, value in several.items():
        pair = isinstance(value, tuple) and any(map(np.ndim, value))
        if value is not None and not isinstance(value, int | tuple) or pair:
            raise InputError(
                f"train: in slabs of time, Points gives numbers of points of the boundary and of "
                f"conditions, since each slab has an initial time; got arrays for {name!r}. Points "
                f"of one condition are given as Dirichlet(…, points=x)."
            )
