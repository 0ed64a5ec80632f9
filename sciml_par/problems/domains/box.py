"""Domains: axis-parallel boxes in any dimension, with their points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.problems._checks import checked_integer, is_integer
from sciml_par.problems._names import checked_names, coordinate_names
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.faces import Face, faces_of, points_on
from sciml_par.problems.sampling import (
    GRID,
    RANDOM_METHODS,
    checked_generator,
    method_name,
    proportional,
    unit_points,
)

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_ROUNDING = 8 * float(np.finfo(np.float32).eps)
"""Of coordinates that have passed through single precision, relative to the largest bound."""


class Box(Domain):
    """The closed box {x : lower_i <= x_i <= upper_i} in d dimensions; immutable.

    Parameters
    ----------
    lower, upper : number or sequence of d numbers
        Finite, lower < upper on every axis.
    names : sequence of d strings, optional
        Names of the coordinates, for figures and tables, such as ("x", "t"). By default x; x, y;
        x, y, z; or x1 to xd. Boxes that differ in names only are equal.

    Raises
    ------
    InputError
        Bounds that are not finite numbers, differ in shape, or leave no interior; or names that
        are not d distinct texts.

    Examples
    --------
    >>> from sciml_par.problems import Box
    >>> box = Box([0, 0], [2, 1])
    >>> box.dimension, box.volume
    (2, 2.0)
    >>> box.split(2)
    (Box([0.0, 0.0], [1.0, 1.0]), Box([1.0, 0.0], [2.0, 1.0]))
    """

    __slots__ = ("_lower", "_names", "_upper")

    def __init__(
        self,
        lower: npt.ArrayLike,
        upper: npt.ArrayLike,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        low, high = _bounds("lower", lower), _bounds("upper", upper)
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
        self._lower, self._upper = low, high
        default = coordinate_names(low.size)
        what = f"{type(self).__name__}: names of the coordinates"
        self._names = default if names is None else checked_names(names, what, count=low.size)

    @property
    def lower(self) -> FloatArray:
        """Lower bounds [d]."""
        return self._lower

    @property
    def upper(self) -> FloatArray:
        """Upper bounds [d]."""
        return self._upper

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates, d of them."""
        return self._names

    @property
    def volume(self) -> float:
        """Product of the edge lengths."""
        return float(np.prod(self.extent))

    def __repr__(self) -> str:
        return f"Box({self._lower.tolist()}, {self._upper.tolist()}{self._names_given()})"

    def _names_given(self, *, one: bool = False) -> str:
        """The names as an argument, if they are not the default ones."""
        if self._names == coordinate_names(self.dimension):
            return ""
        return f", name={self._names[0]!r}" if one else f", names={self._names!r}"

    def with_bounds(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Box:
        """Another box in the same coordinates, an `Interval` where d = 1 (local)."""
        if self.dimension > 1:
            return Box(lower, upper, names=self._names)
        return Interval(float(np.ravel(lower)[0]), float(np.ravel(upper)[0]), name=self._names[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return np.array_equal(self._lower, other._lower) and np.array_equal(
            self._upper, other._upper
        )

    def __hash__(self) -> int:
        return hash((tuple(self._lower), tuple(self._upper)))

    def contains(self, x: npt.ArrayLike) -> BoolArray:
        """Whether points lie in the closed box: x: [n, d] -> [n] (local)."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise InputError(
                f"contains: points must have the shape [n, {self.dimension}], "
                f"got {list(points.shape)}"
            )
        return np.asarray(np.all((self._lower <= points) & (points <= self._upper), axis=1))

    def grid(self, n: int | Sequence[int]) -> FloatArray:
        """Equispaced points, both ends of every axis included (local).

        Parameters
        ----------
        n : int or sequence of d ints
            A sequence gives the points on each axis, at least 2. One int is the number of points
            in all: exact for d = 1; for d > 1 the axes get points in proportion to their
            lengths, and the product is only close to n (see the result's shape).

        Returns
        -------
        x : array [k, d]
            The last axis varies fastest.
        """
        counts = self.grid_shape(n)
        axes = [
            np.linspace(low, high, count)
            for low, high, count in zip(self._lower, self._upper, counts, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dimension)

    def grid_shape(self, n: int | Sequence[int]) -> list[int]:
        """How many points `grid(n)` has on each axis: d numbers (local)."""
        if is_integer(n):
            total = checked_integer(n, "grid: n", least=2**self.dimension)
            return proportional(self.extent, total, least=2)
        counts: list[Any] = list(n) if isinstance(n, (Sequence, np.ndarray)) else [n]
        if len(counts) != self.dimension:
            raise InputError(
                f"grid: n must be an int, or {self.dimension} ints, one per axis, got {n!r}"
            )
        return [checked_integer(count, "grid: n per axis", least=2) for count in counts]

    def sample(self, n: int, *, seed: int, method: str = "sobol") -> FloatArray:
        """Scattered points inside the box (local).

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
        count, entropy = (
            checked_integer(n, "sample: n", least=0),
            checked_integer(seed, "sample: seed", least=0),
        )
        name = method_name(method, "sample: method", allowed=RANDOM_METHODS)
        return self._scattered(count, name, np.random.default_rng(entropy))

    def interior(
        self,
        n: int | Sequence[int],
        *,
        method: str = GRID,
        rng: np.random.Generator | None = None,
    ) -> FloatArray:
        """Points in the box by any method (local).

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

    def _scattered(self, n: int, method: str, rng: np.random.Generator) -> FloatArray:
        unit = unit_points(method, n, self.dimension, rng)
        # lower + extent may round to just above upper.
        return np.clip(self._lower + unit * self.extent, self._lower, self._upper)

    def split(self, parts: int) -> tuple[Box, ...]:
        """Equal slabs along the longest axis, which tile the box exactly (local).

        Neighbours share bitwise the same face; the outer faces are those of the box.

        Raises
        ------
        InputError
            `parts` is not an integer of at least 1, or the slabs would be too thin to hold
            distinct points in single precision.
        """
        count = checked_integer(parts, "split: parts", least=1)
        axis = int(np.argmax(self.extent))
        self._check_thickness(count, axis)
        cuts = np.linspace(self._lower[axis], self._upper[axis], count + 1)
        slabs = []
        for low, high in zip(cuts[:-1], cuts[1:], strict=True):
            lower, upper = self._lower.copy(), self._upper.copy()
            lower[axis], upper[axis] = low, high
            slabs.append(self.with_bounds(lower, upper))
        return tuple(slabs)

    def _check_thickness(self, parts: int, axis: int) -> None:
        extent = self.extent[axis]
        scale = max(abs(self._lower[axis]), abs(self._upper[axis]), extent)
        thinnest = 16 * float(np.finfo(np.float32).eps) * scale
        if parts > 1 and extent / parts < thinnest:
            raise InputError(
                f"split: {parts} parts of {self} would be too thin to hold distinct points in "
                f"single precision; at most {max(1, math.floor(extent / thinnest))} make sense"
            )

    def boundary(
        self,
        n: int,
        *,
        method: str = GRID,
        rng: np.random.Generator | None = None,
        with_initial: bool = True,
    ) -> tuple[FloatArray, FloatArray]:
        """Points on the boundary and the outward unit normals there (local).

        Parameters
        ----------
        n : int
            How many points for d > 1, at least one on each face. The faces get points in
            proportion to their areas. On a grid n is met about: points are the midpoints of equal
            cells, so that none lies on an edge and none occurs twice. Ignored for d = 1.
        method : {"grid", "uniform", "latin-hypercube", "sobol", "halton"}
        rng : numpy.random.Generator
            For a random method.
        with_initial : bool
            Whether the face belongs to it on which the last coordinate is least; see `initial`.

        Returns
        -------
        x : array [k, d]
        normals : array [k, d]
        """
        faces = faces_of(self._lower, self._upper)
        if not with_initial:
            del faces[-2]
        return self._on_faces(faces, n, method, rng, what="boundary")

    def initial(
        self, n: int, *, method: str = GRID, rng: np.random.Generator | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Points where the last coordinate, often the time, is least, and normals (local).

        The arguments and what is returned are as for `boundary`.
        """
        face = faces_of(self._lower, self._upper)[-2]
        return self._on_faces([face], n, method, rng, what="initial")

    def _on_faces(
        self, faces: list[Face], n: Any, method: str, rng: Any, *, what: str
    ) -> tuple[FloatArray, FloatArray]:
        name = method_name(method, f"{what}: method")
        if self.dimension == 1:
            return points_on(faces, self._lower, self._upper, 1, method=GRID, rng=None)
        if name != GRID:
            rng = checked_generator(rng, what)
        count = checked_integer(n, f"{what}: n", least=1)
        return points_on(faces, self._lower, self._upper, count, method=name, rng=rng)

    @property
    def faces(self) -> tuple[str, ...]:
        """Names of the 2d faces, such as "x=lower" and "x=upper" of the axis x."""
        return tuple(f"{name}={end}" for name in self._names for end in ("lower", "upper"))

    def on_faces(self, x: FloatArray, faces: Sequence[str]) -> BoolArray:
        """Which points of the boundary lie on one of these faces: x: [n, d] -> [n] (local).

        Raises
        ------
        InputError
            There is no face of such a name.
        """
        points, found = self.snap(x), np.zeros(len(x), np.bool_)
        for name in faces:
            if name not in self.faces:
                raise InputError(
                    f"{self} has no face {name!r}; its faces are {', '.join(self.faces)}"
                )
            axis, upper = divmod(self.faces.index(name), 2)
            bound = self._upper if upper else self._lower
            found |= points[:, axis] == bound[axis]
        return found

    def snap(self, x: npt.ArrayLike) -> FloatArray:
        """Points with coordinates on the bounds where they miss these by rounding (local).

        x: [n, d] -> [n, d]. A number like 0.7 is another one in single precision, and a point on
        the boundary may thereby have come to lie outside.
        """
        points = np.array(x, dtype=np.float64)
        for bound in (self._lower, self._upper):
            points = np.where(np.abs(points - bound) <= self._tolerance, bound, points)
        return points

    def outward_normals(self, x: npt.ArrayLike) -> FloatArray:
        """Outward unit normals at points of the boundary: x: [n, d] -> [n, d] (local).

        Zero at points inside. On an edge, which belongs to several faces, it is the mean direction.
        """
        points = self.snap(x)
        on_upper, on_lower = points == self._upper, points == self._lower
        normals = on_upper.astype(np.float64) - on_lower
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        return np.asarray(normals / np.maximum(length, 1.0))

    @property
    def _tolerance(self) -> FloatArray:
        largest = np.maximum(np.abs(self._lower), np.abs(self._upper))
        return np.minimum(_ROUNDING * np.maximum(largest, self.extent), self.extent / 4)


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
        return f"Interval({self._lower[0]}, {self._upper[0]}{self._names_given(one=True)})"


def _bounds(name: str, value: npt.ArrayLike) -> FloatArray:
    try:
        array = np.atleast_1d(np.array(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be a number or a sequence of numbers, got {value!r}"
        ) from error
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise InputError(f"{name} must hold one finite number per axis, got {value!r}")
    array.setflags(write=False)
    return array
