"""The points (x, s) with x in a region and s in an interval, a time or a further length."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, checked_number, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.checks.names import checked_names
from sciml_par.problems.domains.bounded_region import INITIAL
from sciml_par.problems.domains.box import Interval
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface


class Product(Domain):
    """A region over an interval; the base of `SpaceTime` and `Extruded`."""

    def __init__(self, space: Domain, along: Interval) -> None:
        self._space, self._along = space, along
        self._names = (*space.names, *along.names)
        self._bounds = (
            np.concatenate([space.lower, along.lower]),
            np.concatenate([space.upper, along.upper]),
        )

    @property
    def volume(self) -> float:
        """The volume of the region times the length of the interval."""
        return self._space.volume * self._along.volume

    @property
    def volume_error(self) -> float:
        return self._space.volume_error * self._along.volume

    @property
    def _combines(self) -> bool:  # type: ignore[override]
        return self._space._combines

    def admits(self, x: npt.ArrayLike) -> BoolArray:
        points = self._as_points(x, "admits")
        return self._space.admits(points[:, :-1]) & self._along._within(
            points[:, -1:], self._rounding
        )

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        return self._space._within(x[:, :-1], margin) & self._along._within(x[:, -1:], margin)

    @property
    def _coordinates(self) -> int:
        return self._space._coordinates + 1

    @property
    def _candidates(self) -> float:
        return self._space._candidates * self._along.volume

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        x, kept = self._space._place(unit[:, :-1])
        t, _ = self._along._place(unit[:, -1:])
        return np.concatenate([x, t], axis=1), kept

    def _surely_contains(self, other: Region) -> bool:
        return (
            isinstance(other, Product)
            and self._space._surely_contains(other._space)
            and self._along._surely_contains(other._along)
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
        t = self._along._lattice([times], ends=ends)
        return np.concatenate([np.repeat(x, len(t), axis=0), np.tile(t, (len(x), 1))], axis=1)

    def split(self, parts: int) -> tuple[Domain, ...]:
        """Return parts of equal volume across the longest axis; see `Domain.split`."""
        count = checked_integer(parts, "split: parts", least=1)
        if np.argmax(self.extent) == self.dimension - 1:
            pieces = (each for each in self._along.split(count) if isinstance(each, Interval))
            return tuple(self._with(self._space, piece) for piece in pieces)
        return tuple(self._with(part, self._along) for part in self._space.split(count))

    @abstractmethod
    def _with(self, space: Domain, along: Interval) -> Domain:
        """Return another product of this kind."""

    def _surfaces_over(self, length: float, ends: tuple[str, str]) -> tuple[Surface, ...]:
        """Return the surface of the region over the interval, and both ends with their names.

        The length is that of the interval in the unit of the region.
        """
        first, last = float(self._along.lower[0]), float(self._along.upper[0])
        return (
            *(TimedSurface(s, first, last, length) for s in self._space._surfaces),
            SliceSurface(self._space, first, -1.0, ends[0]),
            SliceSurface(self._space, last, 1.0, ends[1]),
        )


class Extruded(Product):
    """The points (x, y, z) with (x, y) in a region and lower ≤ z ≤ upper; immutable.

    A disc gives a cylinder, a ring a hollow one, and a polygon a prism. The faces are those of the
    region, and both ends.

    Parameters
    ----------
    base : Domain
        The region, of any dimension, without a time; most often in the plane.
    lower, upper : float
        Finite, lower < upper, in the unit of the base.
    name : str
        Of the further coordinate; not t or time.

    Raises
    ------
    InputError
        The base is not a domain or has a time, lower is not below upper, or the name is taken.

    Examples
    --------
    >>> from sciml_par.problems import Ball, Extruded
    >>> pipe = Extruded(Ball([0, 0], 1), 0, 2)
    >>> round(pipe.volume, 6), pipe.faces
    (6.283185, ('surface', 'z=lower', 'z=upper'))
    """

    def __init__(self, base: Domain, lower: float, upper: float, *, name: str = "z") -> None:
        if not isinstance(base, Domain):
            raise InputError(f"Extruded: expected a domain, as Ball([0, 0], 1); got {base!r}.")
        checked_names((*base.names, name), "Extruded: the names of the coordinates")
        low, high = (checked_number(e, "Extruded: each of lower and upper") for e in (lower, upper))
        if not low < high:
            raise InputError(f"Extruded: lower must be below upper; got {lower!r} and {upper!r}.")
        along = Interval(low, high, name=name)
        if any(INITIAL in (*each.faces, *each._time_faces[0]) for each in (base, along)):
            raise InputError(
                f"Extruded: expected a domain and a name without a time; got {base!r} and "
                f"{name!r}; a time comes last, as domain * Time(0, 1)."
            )
        super().__init__(base, along)

    @property
    def _key(self) -> Hashable:
        return ("extruded", self._space._key, self._along._key)

    def __repr__(self) -> str:
        low, high, (name,) = self._along.lower[0], self._along.upper[0], self._along.names
        named = "" if name == "z" else f", name={name!r}"
        return f"Extruded({self._space!r}, {low}, {high}{named})"

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        (name,) = self._along.names
        return self._surfaces_over(float(self._along.extent[0]), (f"{name}=lower", f"{name}=upper"))

    def _with(self, space: Domain, along: Interval) -> Domain:
        low, high = float(along.lower[0]), float(along.upper[0])
        return Extruded(space, low, high, name=along.names[0])


class TimedSurface(Surface):
    """A part of the boundary of the space, at all times; see `Surface`.

    Its size is that of a duration of `length`, in the unit of the space.
    """

    def __init__(self, surface: Surface, first: float, last: float, length: float) -> None:
        self._surface, self._first, self._last = surface, first, last
        self._length = length
        self.names, self.aliases = surface.names, surface.aliases
        self.coordinates = surface.coordinates + 1

    @property
    def measure(self) -> float:
        return self._surface.measure * (self._last - self._first)

    @property
    def size(self) -> float:
        return self._surface.size * self._length

    @property
    def share(self) -> float:
        return self._surface.share

    def place(self, unit: FloatArray) -> OnSurface:
        x, normals, kept = self._surface.place(unit[:, :-1])
        times = self._first + unit[:, -1] * (self._last - self._first)
        return OnSurface(_with(x, np.minimum(times, self._last)), _with(normals, 0.0), kept)

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        times = max(1, round(n ** (1 / (self._surface.coordinates + 1))))
        x, normals = self._surface.points(max(1, round(n / times)), "grid", None)
        middles = self._first + (np.arange(times) + 0.5) / times * (self._last - self._first)
        at = np.tile(middles, len(x))
        return (
            _with(np.repeat(x, times, axis=0), at),
            _with(np.repeat(normals, times, axis=0), 0.0),
        )

    def project(self, x: FloatArray) -> OnSurface:
        foot, normals, kept = self._surface.project(x[:, :-1])
        times = np.clip(x[:, -1], self._first, self._last)
        return OnSurface(_with(foot, times), _with(normals, 0.0), kept)

    def near(self, x: FloatArray, name: str | None, tolerance: float) -> BoolArray:
        return self._surface.near(x[:, :-1], name, tolerance)

    def levels(self, name: str) -> list[Level] | None:
        found = self._surface.levels(name)
        return found and [
            Level(np.pad(square, (0, 1)), np.append(linear, 0.0), constant)
            for square, linear, constant in found
        ]


class SliceSurface(Surface):
    """A space, which is a `Region`, at one time; see `Surface`."""

    def __init__(self, space: Region, time: float, sign: float, name: str) -> None:
        self._space, self._time, self._sign = space, time, sign
        self.names = (name,)
        self.coordinates = space._coordinates

    @property
    def measure(self) -> float:
        return self._space.volume

    @property
    def share(self) -> float:
        return self._space._share

    def place(self, unit: FloatArray) -> OnSurface:
        x, kept = self._space._place(unit)
        return OnSurface(*self._at_the_time(x), kept)

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        return self._at_the_time(self._space._lattice(n, ends=False))

    def levels(self, name: str) -> list[Level]:  # noqa: ARG002
        axis = np.eye(len(self._space.lower) + 1)[-1]
        return [Level.plane(self._sign * axis, self._time * axis)]

    def project(self, x: FloatArray) -> OnSurface:
        inside = self._space._within(x[:, :-1], self._space._rounding)
        return OnSurface(*self._at_the_time(x[:, :-1]), inside)

    def _at_the_time(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _with(x, self._time), _with(np.zeros_like(x), self._sign)


def _with(x: FloatArray, last: FloatArray | float) -> FloatArray:
    """Append a coordinate to x: [n, d]."""
    column = np.broadcast_to(last, (len(x),))
    return np.concatenate([x, column[:, None]], axis=1)
