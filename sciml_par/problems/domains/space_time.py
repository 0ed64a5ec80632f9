"""Domains with a time: a space over an interval of time."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, checked_number, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.names import checked_names
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.box import Box, Interval
from sciml_par.problems.domains.cuts import cuts_between
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.surface import Surface
from sciml_par.problems.domains.surfaces.timed_surface import SliceSurface, TimedSurface

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


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
        Into how many slabs of equal duration `sciml_par.train` and `sciml_par.solve` divide the
        time, or the increasing inner times between them. They solve slab by slab, each from the end
        of the one before.

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


class SpaceTime(Domain):
    """The points (x, t) with x in a space and t in an interval of time; see `Time`."""

    def __init__(self, space: Domain, time: Interval) -> None:
        self._space, self._time = space, time
        self._names = (*space.names, *time.names)
        self._bounds = (
            np.concatenate([space.lower, time.lower]),
            np.concatenate([space.upper, time.upper]),
        )

    @property
    def space(self) -> Domain:
        """The domain of x."""
        return self._space

    @property
    def time(self) -> Interval:
        """The interval of t."""
        return self._time

    @property
    def slabs(self) -> tuple[Domain, ...]:
        """See `Domain`."""
        times = [each for each in self._time.slabs if isinstance(each, Interval)]
        if len(times) == 1:
            return (self,)
        return tuple(SpaceTime(self._space, time) for time in times)

    @property
    def _time_faces(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (INITIAL,), ("final",)

    @property
    def volume(self) -> float:
        """The volume of the space times the duration."""
        return self._space.volume * self._time.volume

    @property
    def volume_error(self) -> float:
        """See `Region`."""
        return self._space.volume_error * self._time.volume

    @property
    def _size(self) -> float:
        return self._space.volume ** (1 + 1 / self._space.dimension)

    @property
    def _key(self) -> Hashable:
        return ("space-time", self._space._key, self._time._key)

    def __repr__(self) -> str:
        return f"{self._space!r} * {self._time!r}"

    @property
    def _combines(self) -> bool:  # type: ignore[override]
        return self._space._combines

    def admits(self, x: npt.ArrayLike) -> BoolArray:
        """See `Domain`."""
        points = self._as_points(x, "admits")
        return self._space.admits(points[:, :-1]) & self._time._within(
            points[:, -1:], self._rounding
        )

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        return self._space._within(x[:, :-1], margin) & self._time._within(x[:, -1:], margin)

    @property
    def _coordinates(self) -> int:
        return self._space._coordinates + 1

    @property
    def _candidates(self) -> float:
        return self._space._candidates * self._time.volume

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        x, kept = self._space._place(unit[:, :-1])
        t, _ = self._time._place(unit[:, -1:])
        return np.concatenate([x, t], axis=1), kept

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        first, last = float(self._time.lower[0]), float(self._time.upper[0])
        # By its duration, a length of the size of the space, which has another unit.
        length = self._space.volume ** (1 / self._space.dimension)
        over_time = (TimedSurface(s, first, last, length) for s in self._space._surfaces)
        return (
            *over_time,
            SliceSurface(self._space, first, -1.0, INITIAL),
            SliceSurface(self._space, last, 1.0, "final"),
        )

    def _surely_contains(self, other: Region) -> bool:
        return (
            isinstance(other, SpaceTime)
            and self._space._surely_contains(other._space)
            and self._time._surely_contains(other._time)
        )

    def _lattice(self, n: int | Sequence[int], *, ends: bool) -> FloatArray:
        if is_integer(n):
            total = checked_integer(n, "grid: n", least=1)
            times = max(2 if ends else 1, round(total ** (1 / self.dimension)))
            in_space: Any = max(1, round(total / times))
        else:
            *in_space, times = [int(each) for each in np.ravel(np.asarray(n))]
            if len(in_space) != self.dimension - 1 or times < 2:
                raise InputError(
                    f"grid: n must be an int, or {self.dimension} ints of at least 2, one per "
                    f"axis, got {n!r}"
                )
        x = self._space._lattice(in_space, ends=ends)
        t = self._time._lattice([times], ends=ends)
        return np.concatenate([np.repeat(x, len(t), axis=0), np.tile(t, (len(x), 1))], axis=1)

    def split(self, parts: int) -> tuple[Domain, ...]:
        """Return parts of equal volume across the longest axis; see `Domain.split`."""
        count = checked_integer(parts, "split: parts", least=1)
        if np.argmax(self.extent) == self.dimension - 1:
            return tuple(
                SpaceTime(self._space, Interval(*piece, name=self._time.names[0]))
                for piece in (
                    (float(part.lower[0]), float(part.upper[0])) for part in self._time.split(count)
                )
            )
        return tuple(SpaceTime(part, self._time) for part in self._space.split(count))
