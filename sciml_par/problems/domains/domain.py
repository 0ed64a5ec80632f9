"""The base of all domains: their boxes, membership, points and combinations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer
from sciml_par._other_names import ByName
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray
from sciml_par.problems.checks.names import coordinate_names
from sciml_par.problems.domains.bounded_region import BoundedRegion
from sciml_par.problems.domains.combined_regions import (
    CombinedRegion,
    DifferenceRegion,
    IntersectionRegion,
    UnionRegion,
)
from sciml_par.problems.domains.slab import SlabRegion, cuts_of_equal_volume
from sciml_par.problems.domains.surfaces.sampling import (
    GRID,
    RANDOM_METHODS,
    checked_generator,
    method_name,
)


class Domain(ByName, BoundedRegion):
    """A bounded part of ℝ^d; immutable.

    Subclasses are `Interval`, `Box`, `Ball`, `Ellipse`, `Polygon`, `Extruded`, `Mesh` and
    `PointCloud`. Combine two of the same dimension: ``a | b`` is the union, ``a & b`` the
    intersection, and ``a - b`` the difference. ``space * Time(0, 1)`` has t as last coordinate.
    Equal domains have equal points for equal numbers and seeds. A domain can be hashed.

    Examples
    --------
    >>> from sciml_par.problems import Ball, Box
    >>> plate = Box([0, 0], [4, 2]) - Ball([2, 1], 0.5)
    >>> round(plate.volume, 6), plate.faces
    (7.214602, ('x=lower', 'x=upper', 'y=lower', 'y=upper', 'surface'))
    """

    __slots__ = ()

    _is_time: ClassVar[bool] = False
    _combines: ClassVar[bool] = True

    _names: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, d of them."""
        return self._names

    @property
    def slabs(self) -> tuple[Domain, ...]:
        """The parts, one after another in time, in which it is solved; (itself,) without slabs.

        See `Time`.
        """
        return (self,)

    @property
    def _time_faces(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the faces at the least and at the largest value of the last coordinate."""
        return (), ()

    @property
    def _names_argument(self) -> str:
        """The names as an argument in a text, if they are not the default ones."""
        return "" if self.names == coordinate_names(self.dimension) else f", names={self.names!r}"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Domain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __or__(self, other: Domain) -> Domain:
        return Union(self, other)

    def __and__(self, other: Domain) -> Domain:
        return Intersection(self, other)

    def __sub__(self, other: Domain) -> Domain:
        return Difference(self, other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Domain) and not other._is_time:
            raise InputError(
                f"a domain is multiplied by a time, as in domain * Time(0, 1); got {other!r}. "
                f"A product of intervals is Box(lower, upper); a region over an interval of z is "
                f"Extruded(domain, lower, upper)."
            )
        return NotImplemented

    def contains(self, x: npt.ArrayLike) -> BoolArray:
        """Return whether points lie in the domain or on its boundary: x: [n, d] -> [n] (local).

        Points outside by no more than the rounding of single precision count as on the boundary,
        except for boxes, whose bounds are exact numbers; see `snap`.
        """
        return self._within(self._as_points(x, "contains"), self._rounding)

    def encloses(self, x: npt.ArrayLike) -> BoolArray:
        """Return whether points lie in the domain, without that rounding: x: [n, d] -> [n] (local).

        So it tells the inside of parts of any size.
        """
        return self._within(self._as_points(x, "encloses"), 0.0)

    def admits(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points may lie in the domain: x: [n, d] -> [n] (local).

        These are the points that it contains, or, for a cloud, all points in the box around it.
        """
        return self.contains(x)

    def grid(self, n: int | Sequence[int]) -> FloatArray:
        """Return the points in the domain of an equispaced grid on the box around it (local).

        Parameters
        ----------
        n : int or sequence of d ints
            The approximate number of points, or the number of the grid on each axis of the box.

        Returns
        -------
        x : array [k, d]
            The last axis varies fastest.
        """
        return self._lattice(n, ends=True)

    def grid_size(self, n: int | Sequence[int]) -> int:
        """Return how many points `grid(n)` has (local)."""
        return len(self.grid(n))

    def sample(self, n: int, *, seed: int, method: str = "sobol") -> FloatArray:
        """Return scattered points inside the domain (local).

        Parameters
        ----------
        n : int
            Exact number of points; 0 gives an empty array.
        seed : int
            Non-negative; the same seed gives the same points.
        method : {"sobol", "halton", "latin-hypercube", "uniform"}
            Scrambled Sobol' sequence (balanced best for n a power of 2), scrambled Halton
            sequence, Latin hypercube, or independent uniform points.

        Returns
        -------
        x : array [n, d]
        """
        count = checked_integer(n, "sample: n", least=0)
        entropy = checked_integer(seed, "sample: seed", least=0)
        name = method_name(method, "sample: method", allowed=RANDOM_METHODS)
        return self._scattered(count, name, np.random.default_rng(entropy))

    def interior(
        self, n: int | Sequence[int], *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> FloatArray:
        """Return points in the domain by any method (local).

        Random points are uniform in the domain: the unit cube is mapped to a simple shape around
        it, in equal volumes, and points outside are dropped.

        Parameters
        ----------
        n : int or sequence of d ints
            As for `grid`; for a random method the exact number of points.
        method : {"grid", "uniform", "latin-hypercube", "sobol", "halton"}
        rng : numpy.random.Generator
            For a random method.

        Returns
        -------
        x : array [k, d]
        """
        name = method_name(method, "interior: method")
        if name == GRID:
            return self.grid(n)
        count = checked_integer(n, "interior: n of a random method", least=0)
        return self._scattered(count, name, checked_generator(rng, "interior"))

    def split(self, parts: int) -> tuple[Domain, ...]:
        """Return parts of equal volume, cut across the longest axis of the box around it (local).

        The volumes are equal to rounding for boxes, balls, ellipses and domains with straight edges
        in the plane; otherwise they are estimated by 16,384 quasi-random points.

        Raises
        ------
        InputError
            `parts` is not an integer of at least 1, or the parts would be too thin to hold
            distinct points in single precision.
        """
        count = checked_integer(parts, "split: parts", least=1)
        if count == 1:
            return (self,)
        axis = int(np.argmax(self.extent))
        cuts = self._cuts(axis, np.arange(1, count) / count)
        bounds = [self.lower[axis], *cuts, self.upper[axis]]
        if np.diff(bounds).min() < 2 * self._rounding:
            raise InputError(
                f"split: {count} parts of {self} would be too thin to hold distinct points in "
                f"single precision"
            )
        slabs = (
            SlabRegion(self.lower, self.upper, axis, low, high)
            for low, high in zip(bounds[:-1], bounds[1:], strict=True)
        )
        return tuple(Part(self, slab, self.volume / count) for slab in slabs)

    def _cuts(self, axis: int, shares: FloatArray) -> FloatArray:
        """Return the coordinates on an axis below which these shares of the volume lie."""
        polygon = self._polygon
        if polygon is not None:
            return cuts_of_equal_volume(polygon, axis, shares)
        x = self.sample(2**14, seed=0)[:, axis]
        return np.quantile(x, shares)


class CombinedDomain(CombinedRegion, Domain):
    """Two domains combined to one; see `Domain`.

    If all operands have straight edges in the plane, its box is the smallest one and its volume is
    exact. Otherwise its box is that of the operands. The volume is also exact if one operand
    surely contains the other or they are surely apart. Otherwise it is the mean of 16 estimates by
    4,096 quasi-random points each, with their standard error as `volume_error`.
    """

    def __init__(self, first: Domain, second: Domain) -> None:
        for other in (first, second):
            _check_operand(self.sign, first, other)
        super().__init__(first, second)
        default = coordinate_names(first.dimension)
        chosen = list(dict.fromkeys(d.names for d in (first, second) if d.names != default))
        if len(chosen) > 1:
            raise InputError(
                f"domains that are combined must have coordinates of the same names; got "
                f"{chosen[0]} and {chosen[1]}"
            )
        self._names = chosen[0] if chosen else default
        if not np.all(self.lower < self.upper) or not self.volume > 0:
            raise InputError(f"{self} is empty: no points lie in it")

    def __repr__(self) -> str:
        return f"({self._first!r} {self.sign} {self._second!r})"


class Union(UnionRegion, CombinedDomain):
    """a | b; see `CombinedDomain`."""


class Intersection(IntersectionRegion, CombinedDomain):
    """a & b; see `CombinedDomain`."""


class Difference(DifferenceRegion, CombinedDomain):
    """a - b; see `CombinedDomain`."""


class Part(IntersectionRegion, Domain):
    """The part of a domain between two planes across an axis; see `Domain.split`."""

    def __init__(self, whole: Domain, slab: SlabRegion, volume: float) -> None:
        super().__init__(whole, slab)
        self._whole, self._slab, self._volume = whole, slab, volume
        self._names = whole.names

    @functools.cached_property
    def _measured(self) -> tuple[float, float]:
        return self._volume, self._whole.volume_error

    def __repr__(self) -> str:
        axis, low, high = self._slab.axis, self._slab.low, self._slab.high
        return f"({self._whole!r} with {low:g} <= {self.names[axis]} <= {high:g})"


def _check_operand(sign: str, first: Domain, other: Any) -> None:
    if not isinstance(other, Domain):
        raise InputError(f"{first} {sign} …: expected another domain, got {other!r}")
    if other.dimension != first.dimension:
        raise InputError(
            f"domains of one dimension are combined; {first} has {first.dimension} and {other} "
            f"has {other.dimension}"
        )
    if len(other.slabs) > 1:
        raise InputError(
            f"{other} has slabs in time, which a combination would lose; combine domains of space, "
            f"and multiply the result by Time(…, slabs=…)"
        )
    if not other._combines:
        raise InputError(
            f"{other} cannot be combined with another domain; select points with NumPy, as in "
            f"PointCloud(x[other.contains(x)])"
        )
