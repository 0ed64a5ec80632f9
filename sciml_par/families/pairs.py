"""Pairs of functions on grids: data for an operator without an equation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._files import checked_path
from sciml_par._other_names import by_name
from sciml_par._text import one_line
from sciml_par.errors import InputError

Array = npt.NDArray[np.float64]

LEAST = 40
"""Pairs, of which 20 are left out."""
_COMPONENTS = 8
"""The longest last axis that holds components where x does not say how many axes a grid has."""


class Pairs:
    """Input and output functions as values on grids, for `learn`.

    Parameters
    ----------
    inputs, outputs : [S, *grid, c], or [S, *grid] of one component, S ≥ 40
        Row s of the outputs belongs to row s of the inputs. Both may have other grids. Without `x`,
        a last axis of at most 8 numbers behind another one holds components.
    x : [n], or a sequence of an array [n_i] for each axis, optional
        Increasing coordinates of the grid of the inputs, and of the outputs where these have as
        many points. By default the steps are equal.

    Raises
    ------
    InputError
        Values are not finite numbers, there are too few pairs or not as many inputs as outputs, or
        x does not suit the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from sciml_par.families import Pairs
    >>> waves = np.random.default_rng(0).normal(size=[100, 64])
    >>> Pairs(waves, np.cumsum(waves, axis=1))
    Pairs(100: [64] -> [64])
    """

    @by_name
    def __init__(self, inputs: Any, outputs: Any, *, x: Any = None) -> None:
        self.inputs, self.outputs = _functions("inputs", inputs), _functions("outputs", outputs)
        count = len(self.inputs)
        if len(self.outputs) != count or count < LEAST:
            raise InputError(
                f"Pairs: expected at least {LEAST} inputs and as many outputs; got {count} inputs "
                f"and {len(self.outputs)} outputs. Axis 0 counts the pairs."
            )
        self.x = None if x is None else _axes(x, self.inputs.shape[1:])
        grid = None if self.x is None else tuple(map(len, self.x))
        same = grid is not None and self.outputs.shape[1 : 1 + len(grid)] == grid
        self.input_grid = grid or _grid(self.inputs.shape[1:])
        self.output_grid = grid if grid and same else _grid(self.outputs.shape[1:])

    @classmethod
    def from_file(cls, path: str | Path, inputs: str = "a", outputs: str = "u") -> Pairs:
        """Read the pairs from a file (local).

        Parameters
        ----------
        path : .npz; .mat of any version; or .h5, .hdf5.
        inputs, outputs : names of the arrays in the file.

        Raises
        ------
        InputError
            The file cannot be read, or lacks a name.
        """
        file = checked_path(path, "Pairs.from_file")
        if not file.is_file():
            raise InputError(f"Pairs.from_file: there is no file {file}.")
        try:
            arrays = _arrays(file, (inputs, outputs))
        except InputError:
            raise
        except Exception as error:  # of many kinds
            raise InputError(f"Pairs.from_file: cannot read {file}: {one_line(error)}.") from None
        return cls(arrays[inputs], arrays[outputs])

    @property
    def even(self) -> bool:
        """Whether the grid has equal steps along each axis."""
        steps = [np.diff(axis) for axis in self.x or ()]
        return all(np.allclose(step, step[0], rtol=1e-3) for step in steps)

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        inputs, outputs = (list(values.shape[1:]) for values in (self.inputs, self.outputs))
        return f"Pairs({len(self):,}: {inputs} -> {outputs})"


def checked_values(where: str, name: str, values: Any) -> Array:
    """Return finite numbers as an array; raise for anything else."""
    try:
        found = np.asarray(values)
        found = found if np.iscomplexobj(found) else found.astype(np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0, complex)
    if np.iscomplexobj(found):
        raise InputError(f"{where}: expected {name} to be real numbers; got {values!r:.100}.")
    if not np.isfinite(found).all():
        raise InputError(
            f"{where}: {name} must be finite; {np.sum(~np.isfinite(found))} of {found.size} values "
            f"are NaN or infinite. Leave out the functions that have them."
        )
    return found


def _functions(name: str, values: Any) -> Array:
    found = checked_values("Pairs", name, values)
    if found.ndim < 2 or not found.size:
        raise InputError(
            f"Pairs: expected {name} of the shape [S, *grid] or [S, *grid, c]; got "
            f"{list(found.shape)}."
        )
    return found


def _axes(x: Any, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the coordinates of the axes of a grid."""
    try:
        single = np.ndim(x[0]) == 0
        axes = tuple(np.asarray(axis, np.float64) for axis in ([x] if single else x))
    except (TypeError, ValueError, IndexError, KeyError):
        axes = ()
    sizes, good = tuple(map(np.size, axes)), 0 < len(axes) <= len(shape) <= len(axes) + 1
    good = good and all(axis.ndim == 1 and (np.diff(axis) > 0).all() for axis in axes)
    if not good or sizes != shape[: len(sizes)]:
        raise InputError(
            f"Pairs: expected x to be increasing coordinates of the grid, an array [n] or one for "
            f"each axis, for inputs [S, {', '.join(map(str, shape))}]; got arrays of "
            f"{', '.join(map(str, sizes)) or 'no'} numbers."
        )
    return axes


def _grid(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[:-1] if len(shape) > 1 and shape[-1] <= _COMPONENTS else shape


def _arrays(file: Path, names: tuple[str, str]) -> dict[str, Any]:
    """Return the named arrays of a file, or say which ones it has."""
    import h5py
    from scipy.io import loadmat

    def chosen(known: list[str], read: Callable[[str], Any]) -> dict[str, Any]:
        if missing := [name for name in names if name not in known]:
            raise InputError(
                f"Pairs.from_file: {file.name} has no {missing[0]!r}; it has "
                f"{', '.join(sorted(known)) or 'no arrays'}. Name two with inputs= and outputs=."
            )
        return {name: read(name) for name in names}

    if file.suffix.lower() == ".npz":
        with np.load(file, allow_pickle=False) as content:
            return chosen(content.files, content.__getitem__)
    if h5py.is_hdf5(file):
        with h5py.File(file) as content:

            def read(name: str) -> Any:
                values = content[name][()]
                # MATLAB stores arrays by columns, so that HDF5 has their axes in reverse.
                return values.T if "MATLAB_class" in content[name].attrs else values

            return chosen([k for k, v in content.items() if isinstance(v, h5py.Dataset)], read)
    content = loadmat(file)
    return chosen([name for name in content if not name.startswith("__")], content.__getitem__)
