"""BLAS and LAPACK routines on arrays in double precision, by the pointers that SciPy publishes.

SciPy's Python functions hold the interpreter's lock while they compute, and copy arrays that are
not in Fortran's order. These do neither. A row-major matrix is read as its transpose. The long ones
share their rows among the threads that `on_host.threads` gives them.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.training.optimizers.least_squares.on_host import in_blocks

FloatArray = npt.NDArray[np.float64]

_PANEL = 512  # columns of a panel of Cholesky's factor


def gram(rows: FloatArray, out: FloatArray, *, add: bool, factor: float = 1.0) -> None:
    """Set the triangle i ≥ j of out[i, j] = Σ_n rows[i, n] rows[j, n], plus what is there if `add`.

    Parameters
    ----------
    rows : [p, n].
    out : [p, p]; what is above the diagonal stays.
    factor : of the sum over n.
    """
    old = 1.0 if add else 0.0

    def block(start: int, end: int) -> None:
        upper, mine = rows[:start], rows[start:end]
        _add_products(mine, upper, out[start:end], factor=factor, old=old)
        # Column-major, `mine` is A: [n, p], and the lower triangle here is the upper one there.
        p, n = mine.shape
        square = out[start:end, start:end]
        _call("dsyrk", "U", "T", p, n, factor, mine, _step(rows), old, square, _step(out))

    in_blocks(block, len(rows), triangle=True)


def times(rows: FloatArray, vector: FloatArray, out: FloatArray, *, add: bool) -> None:
    """Set out[i] = Σ_n rows[i, n] vector[n], plus what is there if `add`: [p, n], [n] -> [p]."""
    p, n = rows.shape
    if n == 0:
        if not add:
            out[...] = 0.0
        return
    _call("dgemv", "T", n, p, 1.0, rows, n, vector, 1, 1.0 if add else 0.0, out, 1)


def pack(matrix: FloatArray, out: FloatArray) -> None:
    """Return the triangle i ≥ j of a matrix [p, p], row by row: [p (p + 1) / 2]."""
    p = len(matrix)
    _info("dtrttp", "U", p, matrix, p, out)


def unpack(packed: FloatArray, out: FloatArray) -> None:
    """Invert `pack`; the numbers above the diagonal stay."""
    p = len(out)
    _info("dtpttr", "U", p, packed, out, p)


def cholesky(matrix: FloatArray) -> bool:
    """Put L of A = L Lᵀ in place of the triangle i ≥ j of A: [p, p]; whether A is definite."""
    for start in range(0, len(matrix), _PANEL):
        end = start + _PANEL
        top = matrix[start:end, start:end]
        if _info("dpotrf", "U", len(top), top, _step(matrix)) != 0:
            return False
        below = matrix[end:, start:end]
        if len(below):
            divide_rows(top, below)
            gram(below, matrix[end:, end:], add=True, factor=-1.0)
    return True


def solve_cholesky(factor: FloatArray, vector: FloatArray) -> None:
    """Put A⁻¹ v in place of v: [p], for A = L Lᵀ, L in the triangle i ≥ j of `factor`: [p, p]."""
    p = len(factor)
    _info("dpotrs", "U", p, 1, factor, p, vector, p)


def products(left: FloatArray, right: FloatArray, out: FloatArray, *, factor: float) -> None:
    """Add factor · Σ_n left[i, n] right[j, n] to out[i, j]: [a, n], [b, n] -> [a, b]."""

    def block(start: int, end: int) -> None:
        _add_products(left[start:end], right, out[start:end], factor=factor, old=1.0)

    in_blocks(block, len(left))


def divide_rows(factor: FloatArray, rows: FloatArray) -> None:
    """Put B L⁻ᵀ in place of B: [n, b], L in the triangle i ≥ j of the first b rows of `factor`."""

    def block(start: int, end: int) -> None:
        n, b = end - start, rows.shape[1]
        if n > 0:
            right, steps = rows[start:], (_step(factor), _step(rows))
            _call("dtrsm", "L", "U", "T", "N", b, n, 1.0, factor, steps[0], right, steps[1])

    in_blocks(block, len(rows))


def solve_lower(factor: FloatArray, vector: FloatArray, *, transposed: bool = False) -> None:
    """Put L⁻¹ v, or L⁻ᵀ v, in place of v: [b], L in the triangle i ≥ j of `factor`: [≥ b, ≥ b]."""
    # Column-major, L is the upper triangular Lᵀ.
    which, columns = "N" if transposed else "T", factor.shape[1]
    _call("dtrsv", "U", which, "N", len(vector), factor, columns, vector, 1)


def triangular_factor(columns: FloatArray, out: FloatArray) -> None:
    """Return Rᵀ, a lower triangle, of A = Q R by Householder reflections; `columns` is overwritten.

    Parameters
    ----------
    columns : Aᵀ, [k, n].
    out : [k, k]; its last columns are zero where n < k.
    """
    k, n = columns.shape
    out[...] = 0.0
    if n == 0:
        return
    # By default LAPACK's wrappers ask for a workspace with which it works column by column.
    few = min(n, k)
    scales, work = np.empty(few), np.empty(64 * k)
    _info("dgeqrf", n, k, columns, n, scales, work, len(work))
    out[:, :few] = np.tril(columns[:, :few])


def join_triangular_factors(factor: FloatArray, other: FloatArray) -> None:
    """Put Rᵀ of [A; B] in place of that of A; both are lower triangles [k, k].

    Uses that they are triangles: about 2 k³ / 3 multiplications. `other` is overwritten.
    """
    k = len(factor)
    block = min(32, k)
    reflectors, work = np.empty(block * k), np.empty(block * k)
    _info("dtpqrt", k, k, k, block, factor, k, other, k, reflectors, block, work)


def _add_products(
    left: FloatArray, right: FloatArray, out: FloatArray, *, factor: float, old: float
) -> None:
    """Put old · out[i, j] + factor · Σ_n left[i, n] right[j, n] in place of out[i, j]."""
    (a, n), b = left.shape, len(right)
    if a == 0 or b == 0:
        return
    # Column-major, out is its transpose: right · leftᵀ.
    matrices = (right, _step(right), left, _step(left), old, out, _step(out))
    _call("dgemm", "T", "N", b, a, n, factor, *matrices)


def _step(array: FloatArray) -> int:
    """Return the distance of two rows, in numbers; at least 1, as BLAS demands for no rows."""
    return max(array.strides[0] // array.itemsize, 1)


def _call(name: str, *arguments: str | int | float | FloatArray | ctypes.c_int) -> None:
    """Call a routine of BLAS or LAPACK."""
    _routine(name)(*map(_pointer, arguments))


def _info(name: str, *arguments: str | int | float | FloatArray) -> int:
    """Call a routine of LAPACK, and return its last argument: 0 where it has succeeded."""
    info = ctypes.c_int()
    _call(name, *arguments, info)
    return info.value


def _pointer(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, str):
        return ctypes.c_char_p(value.encode())
    number = ctypes.c_double if isinstance(value, float) else ctypes.c_int
    return ctypes.byref(value if isinstance(value, ctypes.c_int) else number(value))


@lru_cache
def _routine(name: str) -> Any:
    """Return a routine of BLAS or LAPACK."""
    from scipy.linalg import cython_blas, cython_lapack

    capsule = (cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__)[name]
    of_name, of_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    of_name.restype, of_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    of_pointer.restype = ctypes.c_void_p
    of_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(of_pointer(capsule, of_name(capsule)))
