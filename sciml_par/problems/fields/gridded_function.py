"""Known functions by their values on a grid, such as a measured conductivity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._other_names import ByName
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray, finite_array

_SAME = 1e-9
"""The difference, in extents of an axis, up to which two coordinates of a table are one."""
_ROUNDING = 1e-6
"""By how much points may lie outside, relative to the largest coordinate: single precision."""


class GriddedFunction(ByName):
    """A known function k(z), interpolated between its values on a grid; immutable.

    k is the tensor product of splines that pass through all values: cubic ones have two continuous
    derivatives, those of degree 1 have none and stay between the values, as where k jumps. In a
    residual it is a function like others: ``k(x)``, ``gradient(k, x)``, ``divergence(lambda z:
    k(z) * gradient(u, z), x)``, or ``k(u(x))`` for a property that depends on the solution. It may
    also be the ``data`` of a `Residual` or the value of a condition.

    Parameters
    ----------
    axes : array [n_1], or sequence of e arrays [n_i]
        The coordinates of the grid, increasing, n_i ≥ 2. Distances may differ.
    values : array [n_1, …, n_e], or [n_1, …, n_e, c]
        ``values[i, j]`` belongs to ``axes[0][i], axes[1][j]``.
    degree : 3 or 1
        Of the splines; an axis of 2 or 3 points has a lower one.
    columns : sequence of e int, optional
        The columns of points x: [n, d] with more coordinates that k depends on, such as (0, 1) of
        x, y, t for a grid in x and y, or (0, -1) for one in x and t.

    Raises
    ------
    InputError
        Coordinates do not increase, values do not have the shape of the grid, or are not finite.

    Notes
    -----
    Outside of the grid k is not known: a call with NumPy arrays or eager tensors raises an error;
    in compiled programs, k is NaN there, at which training stops. It has no periodic axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.problems import GriddedFunction
    >>> x, y = np.linspace(0, 1, 11), np.linspace(0, 2, 21)
    >>> k = GriddedFunction([x, y], 1 + x[:, None] * y)
    >>> k([[0.55, 1.23]]).round(9).tolist()
    [[1.6765]]
    """

    def __init__(
        self,
        axes: Any,
        values: npt.ArrayLike,
        *,
        degree: int = 3,
        columns: Sequence[int] | None = None,
    ) -> None:
        # It takes SciPy a quarter of a second to be imported.
        from scipy.interpolate import make_interp_spline

        several = isinstance(axes, Sequence) and len(axes) > 0 and np.ndim(axes[0]) > 0
        self._axes = [_checked_axis(axis) for axis in (axes if several else [axes])]
        self._columns = columns if columns is None else tuple(columns)
        if self._columns is not None and len(self._columns) != len(self._axes):
            raise InputError(
                f"GriddedFunction: expected columns to be {len(self._axes)} numbers, one for each "
                f"axis; got {columns!r}."
            )
        found = finite_array(values, "GriddedFunction: values")
        shape = tuple(map(len, self._axes))
        if found.shape[: len(shape)] != shape or found.ndim > len(shape) + 1:
            raise InputError(
                f"GriddedFunction: expected values of the shape {list(shape)}, or "
                f"{[*shape, 'c']}, as the axes have these numbers of points; got "
                f"{list(found.shape)}."
            )
        if degree not in (1, 3):
            raise InputError(f"GriddedFunction: expected degree to be 3 or 1; got {degree!r}.")
        found = found[..., None] if found.ndim == len(shape) else found
        self._splines = []
        for i, axis in enumerate(self._axes):
            spline = make_interp_spline(axis, found, min(degree, len(axis) - 1), axis=i)
            found = np.moveaxis(spline.c, 0, i)
            self._splines.append(_Splines(spline.t, spline.k))
        self._coefficients = np.ascontiguousarray(found)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        x: str | Sequence[str],
        u: str | Sequence[str],
        units: Mapping[str, float] | None = None,
        degree: int = 3,
        columns: Sequence[int] | None = None,
    ) -> GriddedFunction:
        """Read the values from a file (local).

        Parameters
        ----------
        path : a file .nc or .npz with coordinates [n_i] and values [n_1, …, n_e]; or a table with a
            row for each point of the grid, in any order: .csv, .tsv, .txt, .parquet.
        x, u : names of the coordinates, and of the values, in the order in which k has them.
        units : factors by which these are multiplied, as {"x": 1e-3} for millimetres in metres.
        degree, columns : as for `GriddedFunction`.

        Raises
        ------
        InputError
            The file cannot be read, lacks a name, or has text, dates or missing values; or its
            points are not a grid: one is missing, or there twice.

        Examples
        --------
        >>> import numpy as np, pathlib, tempfile
        >>> from sciml_par.problems import GriddedFunction
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "soil.npz"
        >>> np.savez(path, x=[0.0, 1.0, 2.0], y=[0.0, 5.0], k=np.ones([3, 2]))
        >>> GriddedFunction.from_file(path, x=["x", "y"], u="k")
        GriddedFunction(3 × 2 values in [0, 2] × [0, 5])
        """
        # It needs pandas, which is an extra.
        from sciml_par.problems.checks.columns_of_files import read_columns

        where = "GriddedFunction.from_file"
        points, values, _ = read_columns(path, where=where, x=x, u=u, units=units)
        try:
            axes, table = _grid(points, values)
            return cls(axes, table, degree=degree, columns=columns)
        except InputError as error:
            raise InputError(f"{where}: {Path(path).name}: {error}") from None

    def __repr__(self) -> str:
        sizes = " × ".join(str(len(axis)) for axis in self._axes)
        return f"GriddedFunction({sizes} values in {self._box})"

    def __call__(self, x: Any) -> Any:
        """Return k at points x: [n, e], or [n, d] with `columns`, as [n, c] (local).

        Of a tensor it is a tensor.

        Raises
        ------
        InputError
            x has another number of columns, or an array or eager tensor has a point outside.
        """
        given = x if tf.is_tensor(x) else tf.constant(np.asarray(x, np.float64))
        e = len(self._axes)
        if self._columns is not None and given.shape.rank == 2 and given.shape[1] > e:
            given = tf.stack([given[:, column] for column in self._columns], axis=1)
        if given.shape.rank != 2 or given.shape[1] != e:
            raise InputError(
                f"GriddedFunction: expected points [n, {e}]; got {given.shape.as_list()}. A grid "
                f"over some of the coordinates names their columns, as columns={tuple(range(e))!r}."
            )
        inside = tf.ones_like(given[:, 0], tf.bool)
        for i, axis in enumerate(self._axes):
            margin = _ROUNDING * max(abs(axis[0]), abs(axis[-1]))
            low, high = (tf.constant(v, given.dtype) for v in (axis[0] - margin, axis[-1] + margin))
            inside &= (given[:, i] >= low) & (given[:, i] <= high)
        if hasattr(inside, "numpy") and not inside.numpy().all():
            outside = given.numpy()[~inside.numpy()]
            raise InputError(
                f"GriddedFunction: {len(outside)} of {len(given)} points are outside of the grid "
                f"{self._box}, the first of them {outside[0].tolist()}. Extend the grid, or "
                f"leave these points out."
            )
        missing = tf.constant(math.nan, given.dtype)
        values = tf.where(inside[:, None], self._interpolated(given), missing)
        return values if tf.is_tensor(x) else values.numpy()

    @property
    def _box(self) -> str:
        return " × ".join(f"[{axis[0]:g}, {axis[-1]:g}]" for axis in self._axes)

    def _interpolated(self, x: Tensor) -> Tensor:
        """Return Σ c_{i…j} B_i(x_1) … B_j(x_e) over the splines that are not 0: [n, c]."""
        *sizes, c = self._coefficients.shape
        first, offsets, weights = 0, np.zeros(1, np.int32), tf.ones_like(x[:, :1])
        for i, (size, axis) in enumerate(zip(sizes, self._splines, strict=True)):
            number, splines = axis.at(x[:, i])
            first = first * size + number
            offsets = np.add.outer(offsets * size, np.arange(splines.shape[1], dtype=np.int32))
            offsets = offsets.ravel()
            weights = tf.reshape(weights[:, :, None] * splines[:, None], [-1, len(offsets)])
        flat = tf.constant(self._coefficients.reshape(-1, c), x.dtype)
        values = tf.gather(flat, tf.expand_dims(first, 1) + offsets)
        return tf.reduce_sum(weights[:, :, None] * values, axis=1)


class _Splines:
    """The p + 1 B-splines that are not 0 on each interval, as polynomials of x − its start."""

    def __init__(self, knots: FloatArray, p: int) -> None:
        """Compute them by the recurrence of Cox and de Boor, one interval a row."""
        at = np.arange(p, len(knots) - p - 1)
        self._starts = knots[at]
        found = [np.eye(1, p + 1).repeat(len(at), axis=0)]
        for d in range(1, p + 1):
            made = [np.zeros_like(found[0]) for _ in range(d + 1)]
            for k, spline in enumerate(found):
                low, high = knots[at + 1 - d + k], knots[at + 1 + k]
                part = spline / (high - low)[:, None]
                times_s = np.roll(part, 1, axis=1)  # its degree is less than p
                made[k] += (high - self._starts)[:, None] * part - times_s
                made[k + 1] += (self._starts - low)[:, None] * part + times_s
            found = made
        self._polynomials = np.stack(found, axis=1)

    def at(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number of the first spline at x: [n], and the splines there: [n, p + 1]."""
        starts = tf.constant(self._starts, x.dtype)
        # The first and the last polynomial continue by the rounding of points on the boundary.
        interval = tf.searchsorted(starts[1:], tf.stop_gradient(x), side="right")
        s = x - tf.gather(starts, interval)
        powers = [tf.ones_like(s)]
        for _ in range(self._polynomials.shape[2] - 1):
            powers.append(powers[-1] * s)
        table = tf.gather(tf.constant(self._polynomials, x.dtype), interval)
        return interval, tf.reduce_sum(table * tf.stack(powers, axis=1)[:, None], axis=2)


def _checked_axis(axis: Any) -> FloatArray:
    found = finite_array(axis, "GriddedFunction: axes")
    if found.ndim != 1 or len(found) < 2 or not np.all(np.diff(found) > 0):
        raise InputError(
            f"GriddedFunction: expected each axis to be an array [n] of two or more increasing "
            f"numbers; got {axis!r}."
        )
    return found


def _grid(points: FloatArray, values: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the axes [n_i] of points in any order, and their values [n_1, …, n_e, c]."""
    axes, numbers = [], []
    for column in points.T:
        extent = np.ptp(column) or 1.0
        _, first, place = np.unique(
            np.round((column - column.min()) / extent / _SAME),
            return_index=True,
            return_inverse=True,
        )
        axes.append(column[first])
        numbers.append(place.ravel())
    shape = tuple(map(len, axes))
    if math.prod(shape) > 1 << 31:
        raise InputError(
            f"the points are not a grid: {len(points)} points have {shape} coordinates."
        )
    flat = np.ravel_multi_index(tuple(numbers), shape)
    counts = np.bincount(flat, minlength=math.prod(shape))
    if np.any(counts != 1):
        wrong = int(np.argmax(counts != 1))
        at = [float(a[k]) for a, k in zip(axes, np.unravel_index(wrong, shape), strict=True)]
        number = f"{counts[wrong]} values" if counts[wrong] else "none"
        raise InputError(
            f"{len(points)} points are not a grid of {' × '.join(map(str, shape))}: of the "
            f"values there are {number} at {at}; expected one for each combination of coordinates."
        )
    table = np.empty_like(values)
    table[flat] = values
    return axes, table.reshape(*shape, -1)
