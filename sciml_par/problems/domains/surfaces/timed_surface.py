"""The parts of the boundary of a space over an interval of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface


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

    def __init__(self, space: Any, time: float, sign: float, name: str) -> None:
        self._space, self._time, self._sign = space, time, sign
        self.names = (name,)
        self.coordinates = space._coordinates

    @property
    def measure(self) -> float:
        return self._space.volume

    @property
    def share(self) -> float:
        share = self._space.volume / self._space._candidates
        return 1.0 if not share < 1 - 1e-12 else share

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
