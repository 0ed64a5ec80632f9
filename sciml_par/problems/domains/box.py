"""Axis-parallel boxes in any dimension, with their points."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, checked_vector, counts_per_axis
from sciml_par.problems.checks.names import names_of_axes
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.region import ROUNDING, Region, lattice
from sciml_par.problems.domains.slab import cuts_between
from sciml_par.problems.domains.surfaces.faces import BoxFace, faces_of
from sciml_par.problems.domains.surfaces.sampling import proportional, unit_points
from sciml_par.problems.domains.surfaces.surface import Surface

_SIDES = (("left", "right"), ("bottom", "top"), ("front", "back"))
_TIMES = ("t", "time")


class Box(Domain):
    """The closed box {x : lower_i <= x_i <= upper_i} in d dimensions; immutable.

    Parameters
    ----------
    lower, upper : number or sequence of d numbers
        Finite, lower < upper on every axis.
    names : sequence of d strings, optional
        Names of the coordinates, such as ("x", "t"). By default x; x, y; x, y, z; or x1 to xd.
        Boxes that differ only in names are equal.
    slabs : int or sequence of numbers
        Of the last coordinate, if it is the time, as for `Time`.

    Raises
    ------
    InputError
        The bounds are not finite numbers, differ in shape, or leave no interior; or the names are
        not d distinct texts.

    Examples
    --------
    >>> from sciml_par.problems import Box
    >>> box = Box([0, 0], [2, 1])
    >>> box.dimension, box.volume
    (2, 2.0)
    >>> box.split(2)
    (Box([0.0, 0.0], [1.0, 1.0]), Box([1.0, 0.0], [2.0, 1.0]))
    """

    __slots__ = ("_bounds", "_inner_times", "_names")

    def __init__(
        self,
        lower: npt.ArrayLike,
        upper: npt.ArrayLike,
        *,
        names: Sequence[str] | None = None,
        slabs: Any = 1,
    ) -> None:
        low, high = checked_vector(lower, "lower"), checked_vector(upper, "upper")
        if low.shape != high.shape:
            raise InputError(
                f"lower and upper must have one number per axis each, "
                f"got {low.size} and {high.size} numbers"
            )
        if not np.all(low < high):
            axis = int(np.flatnonzero(~(low < high))[0])
            raise InputError(
                f"lower must be below upper on every axis, got [{low[axis]}, {high[axis]}] "
                f"on axis {axis}"
            )
        self._bounds = low, high
        self._names = names_of_axes(names, low.size, type(self).__name__)
        self._inner_times = cuts_between(
            float(low[-1]), float(high[-1]), slabs, type(self).__name__
        )

    @property
    def volume(self) -> float:
        """Product of the edge lengths."""
        return float(np.prod(self.extent))

    def __repr__(self) -> str:
        options = f"{self._names_argument}{self._slabs_argument}"
        return f"Box({self.lower.tolist()}, {self.upper.tolist()}{options})"

    @property
    def slabs(self) -> tuple[Domain, ...]:
        if not self._inner_times:
            return (self,)
        first, last = float(self.lower[-1]), float(self.upper[-1])
        return tuple(self._between(*ends) for ends in pairwise((first, *self._inner_times, last)))

    def _between(self, first: float, last: float) -> Domain:
        """Return the part of an interval of time, without slabs."""
        lower, upper = np.append(self.lower[:-1], first), np.append(self.upper[:-1], last)
        return Box(lower, upper, names=self._names)

    @property
    def _slabs_argument(self) -> str:
        """The slabs as an argument in a text, if there are several."""
        if not self._inner_times:
            return ""
        number = len(self._inner_times) + 1
        equal = cuts_between(float(self.lower[-1]), float(self.upper[-1]), number, "")
        return f", slabs={number if self._inner_times == equal else list(self._inner_times)}"

    @property
    def _time_faces(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        names = zip(self.faces[-2:], self._aliases[-2:], strict=True)
        initial, final = (tuple(filter(None, pair)) for pair in names)
        return initial, final

    def with_bounds(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Box:
        """Return another box in the same coordinates, an `Interval` if d = 1 (local)."""
        if self.dimension > 1:
            return Box(lower, upper, names=self._names)
        return Interval(float(np.ravel(lower)[0]), float(np.ravel(upper)[0]), name=self._names[0])

    @property
    def _key(self) -> Hashable:
        return ("box", tuple(self.lower.tolist()), tuple(self.upper.tolist()), *self._inner_times)

    def contains(self, x: npt.ArrayLike) -> BoolArray:
        """Return whether points lie in the closed box: x: [n, d] -> [n] (local)."""
        return self._within(self._as_points(x, "contains"))

    def grid(self, n: int | Sequence[int]) -> FloatArray:
        """Return equispaced points, both ends of every axis included (local).

        Parameters
        ----------
        n : int or sequence of d ints
            A sequence gives the points on each axis, at least 2. One int is the total number of
            points. It is exact for d = 1; for d > 1 each axis gets about n^(1/d) points, so that
            the product is only close to n.

        Returns
        -------
        x : array [k, d]
            The last axis varies fastest.
        """
        return lattice(self.lower, self.upper, self.grid_shape(n), ends=True)

    def grid_shape(self, n: int | Sequence[int]) -> list[int]:
        """Return how many points `grid(n)` has on each axis: d numbers (local)."""
        if is_integer(n):
            point = ", ".join(["0.5"] * self.dimension)
            what = (
                f"the number of points on a grid of {self!r}, which has both ends of each axis "
                f"(one point is given by its coordinates, as points=[[{point}]]),"
            )
            total = checked_integer(n, what, least=2**self.dimension)
            return proportional(np.ones(self.dimension), total, least=2)
        return counts_per_axis(n, self.dimension, what="grid", least=2)

    def grid_size(self, n: int | Sequence[int]) -> int:
        return math.prod(self.grid_shape(n))

    def gauss_legendre(self, n: int | Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return points and weights for integrals over the box: ∫ f dx ≈ Σ_i w_i f(x_i) (local).

        The product of one-dimensional rules (Golub and Welsch, Math. Comp. 23, 1969), exact if f is
        a polynomial of degree at most 2n − 1 in each coordinate.

        Parameters
        ----------
        n : int or sequence of d ints
            The number of points on each axis, at least 1.

        Returns
        -------
        x : array [k, d]
            Inside the box; the last axis varies fastest.
        weights : array [k]
            Positive; their sum is the volume.

        Examples
        --------
        >>> from sciml_par.problems import Interval
        >>> x, weights = Interval(0, 3).gauss_legendre(2)
        >>> round(float(weights @ x[:, 0] ** 3), 12)
        20.25
        """
        given = [n] * self.dimension if is_integer(n) else n
        counts = counts_per_axis(given, self.dimension, what="gauss_legendre", least=1)
        return gauss_legendre(self.lower, self.upper, counts)

    def _scattered(self, n: int, method: str, rng: np.random.Generator) -> FloatArray:
        return self._place(unit_points(method, n, self.dimension, rng))[0]

    def split(self, parts: int) -> tuple[Box, ...]:
        """Return equal slabs along the longest axis, which tile the box exactly (local).

        Neighbours share bitwise the same face; the outer faces are those of the box.

        Raises
        ------
        InputError
            `parts` is not an integer of at least 1, or the slabs would be too thin to hold
            distinct points in single precision.
        """
        count = checked_integer(parts, "split: parts", least=1)
        axis = int(np.argmax(self.extent))
        extent = self.extent[axis]
        scale = max(abs(self.lower[axis]), abs(self.upper[axis]), extent)
        thinnest = 16 * float(np.finfo(np.float32).eps) * scale
        if count > 1 and extent / count < thinnest:
            raise InputError(
                f"split: {count} parts of {self} would be too thin to hold distinct points in "
                f"single precision; at most {max(1, math.floor(extent / thinnest))} make sense"
            )
        cuts = np.linspace(self.lower[axis], self.upper[axis], count + 1)
        slabs = []
        for low, high in zip(cuts[:-1], cuts[1:], strict=True):
            lower, upper = self.lower.copy(), self.upper.copy()
            lower[axis], upper[axis] = low, high
            slabs.append(self.with_bounds(lower, upper))
        return tuple(slabs)

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        return np.asarray(np.all((self.lower - margin <= x) & (x <= self.upper + margin), axis=1))

    @property
    def _polygon(self) -> Any:
        if self.dimension != 2:
            return None
        import shapely

        return shapely.box(*self.lower, *self.upper)

    def _surely_contains(self, other: Region) -> bool:
        return bool(np.all((self.lower <= other.lower) & (other.upper <= self.upper)))

    @property
    def _initial_surfaces(self) -> tuple[Surface, ...]:
        """The face on which the last coordinate, often the time, is least."""
        return self._surfaces[-2:-1]

    @property
    def _size(self) -> float:
        """The unit cube's, so that the numbers of points do not depend on units."""
        return 1.0

    def _sizes(self, surfaces: Sequence[Surface]) -> FloatArray:
        return np.ones(len(surfaces))

    def near_faces(
        self, faces: Sequence[str], n: int, *, method: str, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        chosen = self.named_surfaces(faces)
        return self._on_surfaces(chosen, max(n, len(chosen)), method, rng, what="boundary")

    def named_surfaces(self, faces: Sequence[str]) -> list[BoxFace]:
        """Return the faces with one of these names, each once (local)."""
        self.on_faces(self.lower[None], faces)  # raises an error for an unknown name
        return [each for each in self._surfaces if any(map(each.answers_to, faces))]

    @property
    def faces(self) -> tuple[str, ...]:
        """Names of the 2d faces, such as "x=lower" and "x=upper" of the axis x.

        Conditions also accept "left" and "right" for the first axis, "bottom" and "top" for the
        second, and "front" and "back" for the third. An axis named t or time is not counted; its
        faces are "initial" and "final".
        """
        return tuple(f"{name}={end}" for name in self.names for end in ("lower", "upper"))

    @property
    def _aliases(self) -> tuple[str, ...]:
        """Further names of the faces, in their order; an empty text where there is none."""
        found: list[str] = []
        sides = iter(_SIDES)
        for name in self.names:
            time = name.lower() in _TIMES
            found += ("initial", "final") if time else next(sides, ("", ""))
        return tuple(found)

    def on_faces(
        self, x: FloatArray, faces: Sequence[str], normals: FloatArray | None = None
    ) -> BoolArray:
        points, found = self.snap(x), np.zeros(len(x), np.bool_)
        for name in (faces,) if isinstance(faces, str) else faces:
            known = self.faces if name in self.faces else self._aliases
            if not name or name not in known:
                raise self._no_face(name)
            axis, upper = divmod(known.index(name), 2)
            bound = self.upper if upper else self.lower
            near = points[:, axis] == bound[axis]
            if normals is not None:
                near &= normals[:, axis] * (1 if upper else -1) > 0
            found |= near
        return found

    def snap(self, x: npt.ArrayLike) -> FloatArray:
        """Move points onto the faces if they miss them by rounding (local)."""
        points = self._as_points(x, "snap")
        for bound in (self.lower, self.upper):
            points = np.where(np.abs(points - bound) <= self._tolerance, bound, points)
        return points

    def outward_normals(self, x: npt.ArrayLike) -> FloatArray:
        points = self.snap(x)
        on_upper, on_lower = points == self.upper, points == self.lower
        normals = on_upper.astype(np.float64) - on_lower
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        return np.asarray(normals / np.maximum(length, 1.0))

    def on_boundary(self, x: npt.ArrayLike) -> BoolArray:
        return np.asarray(self.outward_normals(x).any(axis=1))

    def on_edges(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points of the boundary lie on several faces: x: [n, d] -> [n] (local)."""
        return np.asarray(np.count_nonzero(self.outward_normals(x), axis=1) > 1)

    @property
    def _surfaces(self) -> tuple[BoxFace, ...]:
        each = zip(faces_of(self.lower, self.upper), self.faces, self._aliases, strict=True)
        return tuple(
            BoxFace(face, self.lower, self.upper, (name,), (alias,) if alias else ())
            for face, name, alias in each
        )

    @property
    def _tolerance(self) -> FloatArray:
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return np.minimum(ROUNDING * np.maximum(largest, self.extent), self.extent / 4)


class Interval(Box):
    """The closed interval [lower, upper]: a `Box` with d = 1.

    Parameters
    ----------
    lower, upper : number
    name : str, optional
        Of the coordinate; "x" by default.

    Examples
    --------
    >>> from sciml_par.problems import Interval
    >>> Interval(-1, 1).split(2)
    (Interval(-1.0, 0.0), Interval(0.0, 1.0))
    """

    __slots__ = ()

    def __init__(self, lower: float, upper: float, *, name: str | None = None) -> None:
        super().__init__(lower, upper, names=None if name is None else (name,))
        if self.dimension != 1:
            raise InputError(f"Interval takes two numbers, got {self.dimension} per bound; use Box")

    def __repr__(self) -> str:
        name = "" if self._names == ("x",) else f", name={self._names[0]!r}"
        return f"Interval({self.lower[0]}, {self.upper[0]}{name})"


def gauss_legendre(
    lower: FloatArray, upper: FloatArray, counts: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Return points [k, d] and weights [k] of the product of one-dimensional rules; see `Box`."""
    rules = [np.polynomial.legendre.leggauss(count) for count in counts]
    half, centre = (upper - lower) / 2, (lower + upper) / 2
    axes = [c + h * nodes for c, h, (nodes, _) in zip(centre, half, rules, strict=True)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(lower))
    weights = np.ones(1)
    for h, (_, rule) in zip(half, rules, strict=True):
        weights = np.multiply.outer(weights, h * rule).ravel()
    return x, weights
