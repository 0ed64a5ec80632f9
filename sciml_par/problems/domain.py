"""Domains: axis-parallel boxes in any dimension, with their points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from sciml_par.errors import InputError
from sciml_par.problems._checks import checked_integer, is_integer
from sciml_par.problems._names import checked_names, coordinate_names

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

METHODS = ("sobol", "latin-hypercube", "uniform")


class Box:
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
    def dimension(self) -> int:
        """Number d of axes."""
        return int(self._lower.size)

    @property
    def extent(self) -> FloatArray:
        """Edge lengths upper - lower [d]."""
        return self._upper - self._lower

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
        counts = self._counts(n)
        axes = [
            np.linspace(low, high, count)
            for low, high, count in zip(self._lower, self._upper, counts, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dimension)

    def _counts(self, n: Any) -> list[int]:
        if is_integer(n):
            total = checked_integer(n, "grid: n", least=2**self.dimension)
            return _proportional(self.extent, total, least=2)
        counts = list(n) if isinstance(n, (Sequence, np.ndarray)) else [n]
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
        method : {"sobol", "latin-hypercube", "uniform"}
            Scrambled Sobol' sequence (balanced best for n a power of 2), Latin hypercube, or
            independent uniform points.

        Returns
        -------
        x : array [n, d]
        """
        count, entropy = (
            checked_integer(n, "sample: n", least=0),
            checked_integer(seed, "sample: seed", least=0),
        )
        if method not in METHODS:
            raise InputError(f"sample: method must be one of {', '.join(METHODS)}, got {method!r}")
        unit = _unit_sample(method, count, self.dimension, np.random.default_rng(entropy))
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

    def boundary(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Points on the boundary and the outward unit normals there (local).

        Parameters
        ----------
        n : int
            About the number of points for d > 1, at least one on each of the 2d faces. The faces
            get points in proportion to their area, at the midpoints of equal cells, so that no
            point lies on an edge and none occurs twice. Ignored for d = 1.

        Returns
        -------
        x : array [k, d]
        normals : array [k, d]
        """
        if self.dimension == 1:
            return np.array([self._lower, self._upper]), np.array([[-1.0], [1.0]])
        total = checked_integer(n, "boundary: n", least=1)
        areas = self.volume / self.extent
        points, normals = [], []
        for axis in range(self.dimension):
            share = round(total * areas[axis] / (2 * areas.sum()))
            for side, sign in ((self._lower[axis], -1.0), (self._upper[axis], 1.0)):
                face = self._face(axis, side, max(1, share))
                points.append(face)
                normals.append(np.broadcast_to(sign * np.eye(self.dimension)[axis], face.shape))
        return np.concatenate(points), np.concatenate(normals)

    def _face(self, axis: int, position: float, n: int) -> FloatArray:
        """About n midpoints of equal cells on the face x_axis = position: [k, d]."""
        others = [i for i in range(self.dimension) if i != axis]
        counts = _proportional(self.extent[others], n, least=1)
        lines = [np.array([position])] * self.dimension
        for i, count in zip(others, counts, strict=True):
            lines[i] = self._lower[i] + self.extent[i] * (np.arange(count) + 0.5) / count
        return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, self.dimension)


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


def _unit_sample(method: str, n: int, d: int, rng: np.random.Generator) -> FloatArray:
    if n == 0:
        return np.empty((0, d))
    if method == "uniform":
        return rng.random((n, d))
    if method == "latin-hypercube":
        return np.asarray(qmc.LatinHypercube(d, rng=rng).random(n))
    # A whole power of two, cut: the same points as the first n, without SciPy's warning.
    return np.asarray(qmc.Sobol(d, rng=rng).random_base2(math.ceil(math.log2(n))))[:n]


def _proportional(extent: FloatArray, total: int, *, least: int) -> list[int]:
    """Points per axis in proportion to the lengths, with a product near `total`."""
    counts = [0] * len(extent)
    remaining = float(total)
    # Shortest first: what rounding or the minimum takes on one axis, the longer ones make good.
    order = np.argsort(extent, kind="stable")
    for place, axis in enumerate(order):
        left = order[place:]
        spacing = (float(np.prod(extent[left])) / remaining) ** (1 / len(left))
        counts[axis] = max(least, round(extent[axis] / spacing))
        remaining = max(remaining / counts[axis], 1.0)
    return counts
