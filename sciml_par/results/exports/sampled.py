"""The solution and its errors at points and on grids, as pandas and xarray hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sciml_par._checks import checked_integer
from sciml_par._optional import needed
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import Array

Quantities = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Sampler:
    """Computes the columns of tables: the solution, further quantities, and known errors.

    `quantities` are functions f(u, x) by name, as for `Result.evaluate`; `interval` is a
    probability, as for `Result.predict`.
    """

    result: Any  # a Result, whose module imports this one
    where: str
    quantities: Quantities | None = None
    interval: float | None = None

    def __post_init__(self) -> None:
        if self.quantities is not None and not isinstance(self.quantities, Mapping):
            raise InputError(
                f"{self.where}: expected quantities to be functions by name, as "
                f"quantities={{'flux': lambda u, x: derivative(u, x, 0)}}; got "
                f"{type(self.quantities).__name__}."
            )

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the d coordinates."""
        return tuple(self.result.members[0].prediction.coordinates)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the m components."""
        return tuple(self.result.members[0].prediction.fields)

    def columns(self, x: Array) -> dict[str, Array]:
        """Return the columns at x: [n, d] by name, [n] each.

        A component or quantity u has u_error, NaN where it is not known; an ensemble has
        u_deviation, and an interval of components u_lower and u_upper.
        """
        found: dict[str, Array] = {}
        prediction = self.result.predict(x, interval=self.interval)
        columns = [(name, name, prediction, j) for j, name in enumerate(self.fields)]
        for name, function in (self.quantities or {}).items():
            computed = self.result.evaluate(function, x)
            count = computed.mean.shape[1]
            labels = [name] if count == 1 else [f"{name}_{j}" for j in range(count)]
            columns += [(name, label, computed, j) for j, label in enumerate(labels)]
        for name, label, computed, j in columns:
            if computed is not prediction and (label in found or label in self.coordinates):
                raise InputError(
                    f"{self.where}: the quantity {name!r} has the name of another column, "
                    f"{label!r}; give it another one."
                )
            found[label] = computed.mean[:, j]
            if len(self.result.members) > 1:
                found[f"{label}_deviation"] = computed.deviation[:, j]
            if computed.lower is not None and computed.upper is not None:
                found[f"{label}_lower"] = computed.lower[:, j]
                found[f"{label}_upper"] = computed.upper[:, j]
            found[f"{label}_error"] = computed.error[:, j]
        return found

    def axes(self, grid: Any) -> dict[str, Array]:
        """Return the values of each coordinate, of a number, numbers, or arrays by name."""
        names, d = self.coordinates, len(self.coordinates)
        if isinstance(grid, Mapping):
            if set(grid) != set(names):
                raise InputError(
                    f"{self.where}: expected values of the coordinates "
                    f"{', '.join(map(repr, names))}; got {', '.join(map(repr, grid)) or 'none'}."
                )
            found = {name: np.atleast_1d(np.asarray(grid[name], np.float64)) for name in names}
            for name, values in found.items():
                if values.ndim != 1 or not values.size or not np.isfinite(values).all():
                    raise InputError(
                        f"{self.where}: expected finite values of {name!r}, [k]; got the shape "
                        f"{list(values.shape)}."
                    )
            return found
        counts = list(grid) if isinstance(grid, Sequence | np.ndarray) else [grid] * d
        if len(counts) != d:
            raise InputError(
                f"{self.where}: expected a number of grid points for each of the coordinates "
                f"{', '.join(names)}; got {grid!r}."
            )
        corners, x = self.result.members[0].form.domain, self.result.members[0].prediction.x
        lower, upper = (x.min(axis=0), x.max(axis=0)) if corners is None else corners
        sizes = [checked_integer(n, f"{self.where}: grid", least=2) for n in counts]
        lines = zip(lower, upper, sizes, strict=True)
        return dict(zip(names, (np.linspace(a, b, n) for a, b, n in lines), strict=True))


def nodes_of(axes: Mapping[str, Array]) -> Array:
    """Return the points of a grid, [n, d], the last coordinate fastest."""
    lines = np.meshgrid(*axes.values(), indexing="ij")
    return np.stack([line.ravel() for line in lines], axis=1)


def dataframe(sampler: Sampler, points: Any) -> Any:
    """Return a pandas.DataFrame: coordinates, components and their errors, a row a point."""
    pandas = needed("pandas", sampler.where)
    names = list(sampler.coordinates)
    if points is None:
        prediction = sampler.result.members[0].prediction
        points = prediction.x[prediction.inside]
    elif isinstance(points, pandas.DataFrame):
        missing = [name for name in names if name not in points.columns]
        if missing:
            raise InputError(
                f"{sampler.where}: the table has no column {missing[0]!r}; expected the "
                f"coordinates {', '.join(map(repr, names))}."
            )
        points = points[names].to_numpy(np.float64)
    x = np.asarray(points, np.float64)
    x = x[:, None] if x.ndim == 1 and len(names) == 1 else x
    columns = sampler.columns(x)  # which checks the shape
    return pandas.DataFrame({**dict(zip(names, x.T, strict=True)), **columns})


def dataset(sampler: Sampler, grid: Any, domain: Any) -> Any:
    """Return an xarray.Dataset on a grid; NaN outside of a domain."""
    xarray = needed("xarray", sampler.where)
    axes = sampler.axes(grid)
    x = nodes_of(axes)
    shape = [len(values) for values in axes.values()]
    columns = sampler.columns(x)
    if domain is not None:
        outside = ~domain.contains(x)
        columns = {name: np.where(outside, np.nan, values) for name, values in columns.items()}
    variables = {name: (tuple(axes), y.reshape(shape)) for name, y in columns.items()}
    error = sampler.result.error
    known = f"{error.relative:.3g}" if error.known else f"not known: {error.reason}"
    return xarray.Dataset(variables, dict(axes), {"estimated_relative_error": known})
