"""Domains that are known by points only."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_integer, is_integer
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray, checked_points
from sciml_par.problems.checks.names import names_of_axes
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.domains.point_files import read_points
from sciml_par.problems.domains.surfaces.sampling import GRID, checked_generator, method_name
from sciml_par.problems.domains.surfaces.surface import OnSurface, Surface

BOUNDARY = "boundary"
_NOT_KNOWN = property(lambda _: math.nan, doc="Not known: NaN.")


class PointCloud(Domain):
    """A domain that is known only by its points; immutable.

    Asked for n points, it returns some of its points, or all if it has at most n. On a grid these
    are equally spaced in their order, by other methods n at random, each at most once. Its volume
    is unknown (NaN). It contains only its points, but observations and other given points may lie
    anywhere in the box around it. It can be combined with a time, but not with other domains. Its
    face is "boundary".

    Parameters
    ----------
    x : array-like [n, d]
        Distinct points inside; or [n] if d = 1.
    boundary : array-like [k, d], optional
        Points on the boundary.
    normals : array-like [k, d], optional
        Outward normals there, of any length but 0. Conditions that use the normal need them.
    names : sequence of d strings, optional
        Of the coordinates; as for `Box`.

    Raises
    ------
    InputError
        An array has the wrong shape, a number is not finite, a normal is zero, or all points have
        the same value of a coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.problems import PointCloud
    >>> cloud = PointCloud(np.random.default_rng(0).random((500, 2)))
    >>> cloud.interior(100).shape, cloud.faces
    ((100, 2), ())
    """

    _combines: ClassVar[bool] = False

    def __init__(
        self,
        x: npt.ArrayLike,
        *,
        boundary: npt.ArrayLike | None = None,
        normals: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._x = checked_points(x, "PointCloud: x")
        d = self._x.shape[1]
        self._on = np.empty((0, d))
        if boundary is not None:
            self._on = checked_points(boundary, "PointCloud: boundary", d=d)
        self._normals = _checked_normals(normals, self._on)
        self._names = names_of_axes(names, d, "PointCloud")
        every = np.concatenate([self._x, self._on])
        self._bounds = every.min(axis=0), every.max(axis=0)
        flat = np.flatnonzero(self._bounds[0] == self._bounds[1])
        if len(flat):
            raise InputError(
                f"PointCloud: all points have the same coordinate {self._names[flat[0]]} = "
                f"{every[0, flat[0]]:g}; leave that coordinate out"
            )

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        boundary: str | Path | None = None,
        normals: str | Path | None = None,
        names: Sequence[str] | None = None,
    ) -> PointCloud:
        """Return a cloud whose points are in a file (local).

        Parameters
        ----------
        path : str or Path
            A .csv file with a row for each point, whose first line may hold the names of the
            coordinates; a .npy file with an array [n, d]; or a .npz file with an array "x", and
            perhaps "boundary" and "normals".
        boundary, normals : str or Path, optional
            Files of those arrays, .csv or .npy.
        names : as for `PointCloud`.

        Raises
        ------
        InputError
            A file is missing, has another format, or lacks an array; the message names it.
        """
        arrays, header = read_points(path)
        for what, other in ((BOUNDARY, boundary), ("normals", normals)):
            if other is not None:
                arrays[what] = read_points(other)[0]["x"]
        try:
            return cls(
                arrays["x"],
                boundary=arrays.get(BOUNDARY),
                normals=arrays.get("normals"),
                names=header if names is None else names,
            )
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    volume = volume_error = surface = _candidates = _NOT_KNOWN

    @functools.cached_property
    def _key(self) -> Hashable:
        digest = hashlib.blake2b(self._x.tobytes(), digest_size=16)
        for array in (self._on, self._normals):
            digest.update(array.tobytes())
        return ("cloud", self._x.shape, len(self._on), digest.hexdigest())

    def __repr__(self) -> str:
        on = f", {len(self._on)} on the boundary" if len(self._on) else ""
        names = self._names_argument
        digest = str(self._key[-1])[:12]  # type: ignore[index]
        return f"PointCloud(<{len(self._x)} points{on}, digest {digest}>{names})"

    def admits(self, x: npt.ArrayLike) -> BoolArray:
        """Return which points lie in the box around the cloud: x: [n, d] -> [n] (local)."""
        points = self._as_points(x, "admits")
        lower, upper = self.lower - self._rounding, self.upper + self._rounding
        return np.asarray(np.all((lower <= points) & (points <= upper), axis=1))

    def _within(self, x: FloatArray, margin: float = 0.0) -> BoolArray:
        distance, _ = self._tree.query(x)
        return np.asarray(distance <= max(margin, self._rounding))

    @functools.cached_property
    def _tree(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(np.concatenate([self._x, self._on]))

    @property
    def _coordinates(self) -> int:
        return 1

    def _place(self, unit: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Choose one of the points by one number, for a cloud over time."""
        return self._x[_chosen(unit, len(self._x))], np.ones(len(unit), np.bool_)

    def _lattice(self, n: int | Sequence[int], *, ends: bool) -> FloatArray:
        if not is_integer(n):
            raise InputError(
                f"grid: a cloud has points in no order of axes; give one number, got {n!r}"
            )
        return self._x[_every(len(self._x), checked_integer(n, "grid: n", least=1))]

    def _scattered(self, n: int, method: str, rng: np.random.Generator) -> FloatArray:
        return self._x[_some(len(self._x), n, rng)]

    @functools.cached_property
    def _surfaces(self) -> tuple[Surface, ...]:
        return (CloudSurface(self._on, self._normals),) if len(self._on) else ()

    def _on_surfaces(
        self, surfaces: Sequence[Surface], n: Any, method: str, rng: Any, *, what: str
    ) -> tuple[FloatArray, FloatArray]:
        if not len(self._on):
            raise InputError(
                f"{self} has no points on the boundary, which conditions need; give them as "
                f"PointCloud(x, boundary=..., normals=...)"
            )
        name = method_name(method, f"{what}: method")
        if name != GRID:
            rng = checked_generator(rng, what)
        return surfaces[0].points(checked_integer(n, f"{what}: n", least=1), name, rng)

    def split(self, parts: int) -> tuple[Domain, ...]:
        """Return parts of equally many points along the longest axis; see `Domain.split`."""
        count = checked_integer(parts, "split: parts", least=1)
        if count > len(self._x):
            raise InputError(f"split: {self} has too few points for {count} parts")
        order = np.argsort(self._x[:, int(np.argmax(self.extent))], kind="stable")
        return tuple(
            PointCloud(self._x[np.sort(rows)], names=self._names)
            for rows in np.array_split(order, count)
        )


class CloudSurface(Surface):
    """Points on a boundary; see `Surface`. A normal of zero is one that is not known."""

    names = (BOUNDARY,)
    coordinates = 1

    def __init__(self, x: FloatArray, normals: FloatArray) -> None:
        self._x, self._normals = x, normals

    @functools.cached_property
    def _tree(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(self._x)

    measure = _NOT_KNOWN

    def place(self, unit: FloatArray) -> OnSurface:
        rows = _chosen(unit, len(self._x))
        return OnSurface(self._x[rows], self._normals[rows], np.ones(len(rows), np.bool_))

    def grid(self, n: int) -> tuple[FloatArray, FloatArray]:
        rows = _every(len(self._x), n)
        return self._x[rows], self._normals[rows]

    def points(
        self, n: int, method: str, rng: np.random.Generator | None
    ) -> tuple[FloatArray, FloatArray]:
        """See `Surface`; each at most once."""
        if method == GRID:
            return self.grid(n)
        assert rng is not None
        rows = _some(len(self._x), n, rng)
        return self._x[rows], self._normals[rows]

    def project(self, x: FloatArray) -> OnSurface:
        _, rows = self._tree.query(x)
        return OnSurface(self._x[rows], self._normals[rows], np.ones(len(x), np.bool_))


def _chosen(unit: FloatArray, number: int) -> npt.NDArray[np.int64]:
    return np.minimum((unit[:, 0] * number).astype(np.int64), number - 1)


def _every(number: int, n: int) -> npt.NDArray[np.int64]:
    """Return n rows at equal distances, or all."""
    return np.arange(number) if n >= number else np.arange(n) * number // n


def _some(number: int, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return n rows at random, each at most once, or all; in their order."""
    return np.sort(rng.permutation(number)[:n])


def _checked_normals(normals: npt.ArrayLike | None, x: FloatArray) -> FloatArray:
    """Return unit normals [k, d]; zeros where they are not known."""
    if normals is None:
        return np.zeros_like(x)
    array = checked_points(normals, "PointCloud: normals", d=x.shape[1])
    if array.shape != x.shape:
        raise InputError(
            f"PointCloud: normals must be those of the {len(x)} points of boundary=, got "
            f"{len(array)}"
        )
    length = np.linalg.norm(array, axis=1, keepdims=True)
    if not length.all():
        raise InputError(f"PointCloud: normal {int(np.argmin(length))} is zero")
    return np.asarray(array / length)
