"""Domains with a time: a space over an interval of time."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from sciml_par._checks import checked_number
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.product import Product
from sciml_par.problems.domains.slab import cuts_between
from sciml_par.problems.domains.surfaces.surface import Surface


class Time(Interval):
    """An interval of time, from the initial to the final one; immutable.

    Alone it is the domain of ordinary differential equations. ``space * Time(0, 1)`` has the time
    as last coordinate. It is a `Box` if space is one, and otherwise a domain with the faces of
    space and the faces "initial" and "final".

    Parameters
    ----------
    initial, final : float
        Finite, initial < final.
    name : str
        Of the coordinate.
    slabs : int or sequence of numbers
        Into how many slabs of equal duration `sciml_par.train` divides the time, or the increasing
        inner times between them. It solves slab by slab, each from the end of the one before;
        `sciml_par.solve` chooses the slabs itself.

    Raises
    ------
    InputError
        The final time is not after the initial one; or slabs is not a positive integer, or its
        times do not increase or do not lie between both.

    Examples
    --------
    >>> from sciml_par.problems import Ball, Interval, Time
    >>> Interval(-1, 1) * Time(0, 2)
    Box([-1.0, 0.0], [1.0, 2.0], names=('x', 't'))
    >>> (Ball([0, 0], 1) * Time(0, 2)).faces
    ('surface', 'initial', 'final')
    """

    __slots__ = ()

    _is_time: ClassVar[bool] = True

    def __init__(
        self, initial: float, final: float, *, name: str = "t", slabs: int | Sequence[float] = 1
    ) -> None:
        first, last = checked_number(initial, "Time: initial"), checked_number(final, "Time: final")
        if not first < last:
            raise InputError(
                f"Time: the final time must be after the initial one, got {initial!r} and {final!r}"
            )
        super().__init__(first, last, name=name)
        self._inner_times = cuts_between(first, last, slabs, "Time")

    def __rmul__(self, space: Any) -> Domain:
        if not isinstance(space, Domain):
            raise InputError(f"a time is that of a domain, as in domain * {self}; got {space!r}")
        names = (*space.names, *self.names)
        checked_names(names, f"{space} * {self}: the names of the coordinates")
        if isinstance(space, Box):
            lower = np.concatenate([space.lower, self.lower])
            upper = np.concatenate([space.upper, self.upper])
            return Box(lower, upper, names=names, slabs=self._inner_times or 1)
        return SpaceTime(space, self)

    def __repr__(self) -> str:
        name = "" if self.names == ("t",) else f", name={self.names[0]!r}"
        return f"Time({self.lower[0]}, {self.upper[0]}{name}{self._slabs_argument})"

    def _between(self, first: float, last: float) -> Time:
        return Time(first, last, name=self.names[0])

    @property
    def _aliases(self) -> tuple[str, ...]:
        return (INITIAL, "final")


class SpaceTime(Product):
    """The points (x, t) with x in a space and t in an interval of time; see `Time`."""

    @property
    def space(self) -> Domain:
        """The domain of x."""
        return self._space

    @property
    def time(self) -> Interval:
        """The interval of t."""
        return self._along

    @property
    def slabs(self) -> tuple[Domain, ...]:
        times = [each for each in self._along.slabs if isinstance(each, Interval)]
        if len(times) == 1:
            return (self,)
        return tuple(SpaceTime(self._space, time) for time in times)

    def _between(self, first: float, last: float) -> Domain:
        """Return the part of an interval of time, without slabs."""
        return SpaceTime(self._space, Interval(first, last, name=self._along.names[0]))

    @property
    def _time_faces(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (INITIAL,), ("final",)

    @property
    def _size(self) -> float:
        return self._space.volume ** (1 + 1 / self._space.dimension)

    @property
    def _key(self) -> Hashable:
        return ("space-time", self._space._key, self._along._key)

    def __repr__(self) -> str:
        return f"{self._space!r} * {self._along!r}"

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        # By its duration, a length of the size of the space, which has another unit.
        length = self._space.volume ** (1 / self._space.dimension)
        return self._surfaces_over(length, (INITIAL, "final"))

    def _with(self, space: Domain, along: Interval) -> Domain:
        return SpaceTime(space, along)
