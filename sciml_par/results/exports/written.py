"""Files of the solution on points, grids and meshes, which ParaView, pandas and xarray read."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from sciml_par._files import put_file, write_text
from sciml_par._optional import needed
from sciml_par.errors import InputError, OutputError
from sciml_par.problems.checks.arrays import Array
from sciml_par.results.exports.sampled import Sampler, dataframe, dataset, nodes_of

_MESHES = (".vtu", ".vtk", ".xdmf")
_CELLS = {1: "line", 2: "quad", 3: "hexahedron"}
_CORNERS = {
    1: [(0,), (1,)],
    2: [(0, 0), (1, 0), (1, 1), (0, 1)],
    3: [(*corner, z) for z in (0, 1) for corner in ((0, 0), (1, 0), (1, 1), (0, 1))],
}
"""Of a cell of a grid, in the order of VTK."""


def write_solution(
    sampler: Sampler, path: Path, on: Any, *, times: Any, domain: Any, overwrite: bool
) -> Path:
    """Write one file, or of a .pvd one for each time; return its path."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".nc", ".pvd", *_MESHES):
        raise InputError(
            f"Result.write: expected a file with the ending .csv, .nc, .vtu, .vtk, .xdmf or .pvd; "
            f"got {path.name!r}."
        )
    if times is not None and suffix != ".pvd":
        raise InputError("Result.write: times= is for a file with the ending .pvd.")
    _check_free(path, overwrite=overwrite)
    if suffix == ".csv":
        as_grid = isinstance(on, dict | int | tuple)
        frame = dataframe(sampler, nodes_of(sampler.axes(on)) if as_grid else on)
        put_file(path, lambda draft: frame.to_csv(draft, index=False))
    elif suffix == ".nc":
        grid = dataset(sampler, 50 if on is None else on, domain)
        put_file(path, grid.to_netcdf)
    elif suffix == ".pvd":
        _write_series(sampler, path, on, times, domain, overwrite=overwrite)
    else:
        mesh = _filled(sampler, _Places(sampler, on, domain, last=None), None)
        put_file(path, mesh.write)
    return path


class _Places:
    """The points and cells of a mesh, of a grid, of given points, or of a meshio.Mesh or its file.

    `last` is the coordinate that the mesh does not have, as time.
    """

    def __init__(self, sampler: Sampler, on: Any, domain: Any, *, last: str | None) -> None:
        names = [name for name in sampler.coordinates if name != last]
        d = len(names)
        if d > 3:
            raise InputError(
                f"Result.write: a mesh has at most three coordinates; these are "
                f"{', '.join(names)}. A file .nc or .csv takes any number."
            )
        self.meshio = needed("meshio", "Result.write")
        if on is None or isinstance(on, dict | int | tuple):
            axes = _axes(sampler, 50 if on is None else on, last)
            self.x, self.cells = nodes_of(axes), _cells_of_grid(axes)
        elif isinstance(on, str | Path) or hasattr(on, "cells"):
            mesh = self._read(on)
            self.x, self.cells = np.asarray(mesh.points, np.float64)[:, :d], mesh.cells
        else:
            self.x = np.asarray(on, np.float64)
            self.x = self.x[:, None] if self.x.ndim == 1 else self.x
            self.cells = [("vertex", np.arange(len(self.x))[:, None])]
        if self.x.ndim != 2 or self.x.shape[1] != d:
            raise InputError(
                f"Result.write: expected points [n, {d}], with the coordinates "
                f"{', '.join(names)}; got the shape {list(self.x.shape)}."
            )
        if domain is not None:
            x = self.x
            if last is not None and domain.dimension == d + 1:
                # The problem's own domain, over time as well.
                middle = (domain.lower[-1] + domain.upper[-1]) / 2
                x = np.column_stack([x, np.full(len(x), middle)])
            self._keep(domain.contains(x))

    def _read(self, on: Any) -> Any:
        if not isinstance(on, str | Path):
            return on
        try:
            return self.meshio.read(on)
        except Exception as error:  # of many kinds
            raise InputError(f"Result.write: cannot read the mesh {on}: {error}.") from None

    def _keep(self, inside: Array) -> None:
        """Leave out the cells with corners outside, and then the points of no cell."""
        pairs = [(each[0], each[1]) if isinstance(each, tuple) else (each.type, each.data)
                 for each in self.cells]  # fmt: skip
        kept = [(kind, data[inside[data].all(axis=1)]) for kind, data in pairs]
        used = np.zeros(len(self.x), np.bool_)
        for _, data in kept:
            used[data] = True
        if not used.any():
            raise InputError("Result.write: no cell of the grid lies in the domain.")
        number = np.cumsum(used) - 1
        self.x = self.x[used]
        self.cells = [(kind, number[data]) for kind, data in kept if len(data)]


def _filled(sampler: Sampler, places: _Places, time: float | None) -> Any:
    """Return the meshio.Mesh with the columns at its points, at a time."""
    x = places.x
    at = x if time is None else np.concatenate([x, np.full([len(x), 1], time)], axis=1)
    columns = sampler.columns(at)
    # One array [n, 3] for each quantity of two or three components.
    for name in sampler.quantities or {}:
        for end in ("", "_deviation", "_error"):
            parts = [f"{name}_{j}{end}" for j in range(3) if f"{name}_{j}{end}" in columns]
            if len(parts) > 1 and f"{name}_3{end}" not in columns:
                vector = np.zeros([len(columns[parts[0]]), 3])
                vector[:, : len(parts)] = np.stack([columns.pop(p) for p in parts], axis=1)
                columns[name + end] = vector
    flat = np.zeros([len(x), 3])
    flat[:, : x.shape[1]] = x
    return places.meshio.Mesh(flat, places.cells, point_data=columns)


def _axes(sampler: Sampler, grid: Any, last: str | None) -> dict[str, Array]:
    """Return the axes of a grid without the last coordinate."""
    if last is not None and isinstance(grid, dict):
        grid = {**grid, last: [0.0]}
    if last is not None and isinstance(grid, tuple):
        grid = (*grid, 2)
    axes = sampler.axes(grid)
    return {name: values for name, values in axes.items() if name != last}


def _cells_of_grid(axes: dict[str, Array]) -> list[tuple[str, Array]]:
    shape = [len(values) for values in axes.values()]
    first = np.stack(np.meshgrid(*(np.arange(n - 1) for n in shape), indexing="ij"), axis=-1)
    first = first.reshape(-1, len(shape))
    steps = np.array([int(np.prod(shape[i + 1 :])) for i in range(len(shape))])
    corners = np.array(_CORNERS[len(shape)])
    return [(_CELLS[len(shape)], (first[:, None] + corners) @ steps)]


def _write_series(
    sampler: Sampler, path: Path, on: Any, times: Any, domain: Any, *, overwrite: bool
) -> None:
    """Write a .vtu for each time into a folder, and the .pvd that names them."""
    last = sampler.coordinates[-1]
    moments = _checked_times(sampler, times, last)
    places = _Places(sampler, on, domain, last=last)
    names = [f"{path.stem}-{i:04d}.vtu" for i in range(len(moments))]
    for name in names:
        _check_free(path.parent / name, overwrite=overwrite)
    for name, time in zip(names, moments, strict=True):
        mesh = _filled(sampler, places, time)
        put_file(path.parent / name, mesh.write)
    rows = "".join(
        f'    <DataSet timestep="{time!r}" file={quoteattr(name)}/>\n'
        for name, time in zip(names, moments, strict=True)
    )
    write_text(
        path,
        f'<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1">\n  <Collection>\n'
        f"{rows}  </Collection>\n</VTKFile>\n",
    )


def _checked_times(sampler: Sampler, times: Any, last: str) -> list[float]:
    if last != "t":
        raise InputError(
            f"Result.write: a .pvd is a series in time, and the last coordinate is {last!r}; write "
            f"a .vtu."
        )
    if times is None:
        return [float(t) for t in sampler.axes(11)[last]]
    found = [float(t) for t in np.atleast_1d(np.asarray(times, np.float64))]
    if not found or not np.isfinite(found).all() or sorted(found) != found:
        raise InputError("Result.write: expected times to be finite numbers in increasing order.")
    return found


def _check_free(path: Path, *, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise OutputError(
            f"Result.write: the file {path} exists already; give another name, or overwrite=True."
        )
    if not path.parent.is_dir():
        raise OutputError(f"Result.write: the folder {path.parent} does not exist.")
