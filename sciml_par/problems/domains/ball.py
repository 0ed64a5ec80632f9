"""Balls in any dimension: discs in the plane."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_number
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, checked_vector
from sciml_par.problems.checks.names import names_of_axes
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import Region
from sciml_par.problems.domains.surfaces.sampling import coordinates_of, directions, spread
from sciml_par.problems.domains.surfaces.surface import Level, OnSurface, Surface, all_kept

SURFACE = "surface"


class Ball(Domain):
    """The closed ball {x : |x − center| <= radius} in d dimensions, a disc for d = 2; immutable.

    Parameters
    ----------
    center : number or sequence of d numbers
    radius : float
        Positive, in units of the coordinates.
    names : sequence of d strings, optional
        Of the coordinates; as for `Box`.

    Raises
    ------
    InputError
        The radius is not positive, or a number is not finite.

    Examples
    --------
    >>> from sciml_par.problems import Ball
    >>> disc = Ball([0, 0], 2)
    >>> round(disc.volume, 6), round(disc.surface, 6), disc.faces
    (12.566371, 12.566371, ('surface',))
    """

    def __init__(
        self, center: npt.ArrayLike, radius: float, *, names: Sequence[str] | None = None
    ) -> None:
        self._center = checked_vector(center, "Ball: center")
        self._radius = checked_number(radius, "Ball: radius")
        if self._radius <= 0:
            raise InputError(f"Ball: radius must be positive, got {radius!r}")
        self._bounds = self._center - self._radius, self._center + self._radius
        self._names = names_of_axes(names, self._center.size, "Ball")

    @property
    def center(self) -> FloatArray:
        """The centre [d]."""
        return self._center

    @property
    def radius(self) -> float:
        """The radius."""
        return self._radius

    @property
    def volume(self) -> float:
        """π^(d/2) r^d / Γ(d/2 + 1)."""
        half = self.dimension / 2
        return math.pi**half * self._radius**self.dimension / math.gamma(half + 1)

    @property
    def _key(self) -> Hashable:
        return ("ball", tuple(self._center.tolist()), self._radius)

    def __repr__(self) -> str:
        names = self._names_argument
        return f"Ball({self._center.tolist()}, {self._radius}{names})"

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        return np.asarray(np.linalg.norm(x - self._center, axis=1) <= self._radius + margin)

    @property
    def _coordinates(self) -> int:
        return 1 + coordinates_of(self.dimension)

    @property
    def _candidates(self) -> float:
        return self.volume

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        # The share of the volume within the distance s of the centre is (s/r)^d.
        distance = self._radius * unit[:, :1] ** (1 / self.dimension)
        x = self._center + distance * directions(unit[:, 1:], self.dimension)
        return x, np.ones(len(x), np.bool_)

    @property
    def _surfaces(self) -> tuple[Surface, ...]:
        return (SphereSurface(self._center, self._radius),)

    def _surely_contains(self, other: Region) -> bool:
        if isinstance(other, Ball):
            return self._distance(other) + other._radius <= self._radius
        farthest = np.maximum(
            np.abs(other.lower - self._center), np.abs(other.upper - self._center)
        )
        return bool(np.linalg.norm(farthest) <= self._radius)

    def _surely_apart(self, other: Region) -> bool:
        if isinstance(other, Ball):
            return self._distance(other) >= self._radius + other._radius
        nearest = np.clip(self._center, other.lower, other.upper)
        return bool(np.linalg.norm(nearest - self._center) >= self._radius)

    def _distance(self, other: Ball) -> float:
        return float(np.linalg.norm(self._center - other._center))

    def _cuts(self, axis: int, shares: FloatArray) -> FloatArray:
        """Return quantiles of the beta distribution, which a uniform point has along an axis."""
        from scipy.special import betaincinv

        half = (self.dimension + 1) / 2
        return self.lower[axis] + 2 * self._radius * betaincinv(half, half, shares)


class SphereSurface(Surface):
    """The sphere |x − center| = radius; see `Surface`."""

    names = (SURFACE,)

    def __init__(self, center: FloatArray, radius: float) -> None:
        self._center, self._radius = center, radius
        self.coordinates = max(1, coordinates_of(center.size))

    @property
    def measure(self) -> float:
        """2 π^(d/2) r^(d−1) / Γ(d/2)."""
        half = self._center.size / 2
        unit = 2 * math.pi**half / math.gamma(half)
        return unit * float(self._radius) ** (self._center.size - 1)

    def levels(self, name: str) -> list[Level]:  # noqa: ARG002
        return [Level.ellipsoid(self._center, np.eye(self._center.size) / self._radius)]

    def place(self, unit: FloatArray) -> OnSurface:
        return self._along(directions(unit, self._center.size))

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        return self._along(spread(n, self._center.size))[:2]

    def points(
        self, n: int, method: str, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        """See `Surface`; for d = 1 both ends."""
        return self.grid(n) if self._center.size == 1 else super().points(n, method, rng)

    def project(self, x: FloatArray) -> OnSurface:
        away = x - self._center
        length = np.linalg.norm(away, axis=1, keepdims=True)
        away = np.where(length > 0, away, np.eye(1, self._center.size))
        return self._along(away / np.where(length > 0, length, 1.0))

    def _along(self, direction: FloatArray) -> OnSurface:
        return all_kept(self._center + self._radius * direction, direction)
