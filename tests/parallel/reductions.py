"""The reductions as NumPy computes them, and which of them have a meaning for which type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import tensorflow as tf
from ranks import COMPLEX, FLOATS, INTEGERS

import sciml_par.parallel as sp

OPERATIONS = (sp.Sum, sp.Average, sp.Min, sp.Max, sp.Product)
WITHOUT_MEANING = {
    *(("bool", op) for op in (sp.Sum, sp.Average)),
    *((t, sp.Average) for t in INTEGERS),
    *((t, op) for t in COMPLEX for op in (sp.Min, sp.Max)),
}


def reduced(everyone: np.ndarray, op: sp.ReduceOp) -> np.ndarray:
    """The reduction over the first axis, half precision in float32."""
    dtype = everyone.dtype
    half = dtype.itemsize == 2 and dtype.name in FLOATS
    wide = everyone.astype(np.float32) if half else everyone
    axis_0 = {"axis": 0}
    with np.errstate(over="ignore"):
        if dtype.name == "bool":
            result = wide.any(**axis_0) if op is sp.Max else wide.all(**axis_0)
        elif op in (sp.Sum, sp.Average):
            result = wide.sum(**axis_0, dtype=wide.dtype)
        else:
            name = {sp.Min: "min", sp.Max: "max", sp.Product: "prod"}[op]
            options = {"dtype": wide.dtype} if op is sp.Product else {}
            result = getattr(wide, name)(**axis_0, **options)
    return (result / len(everyone) if op is sp.Average else result).astype(dtype)


def assert_same(got: tf.Tensor, expected: np.ndarray, what: str, roundings: int = 0) -> None:
    """Equal; in floating point to two units in the last place, as x/P may be x·(1/P).

    Where x·(1/P) was summed, to so many roundings of numbers up to 2.
    """
    result = got.numpy()
    assert result.dtype == expected.dtype and result.shape == expected.shape, what
    if got.dtype.is_complex:
        eps = np.finfo(result.dtype).eps
        np.testing.assert_allclose(result, expected, 2 * eps, roundings * eps, err_msg=what)
    elif got.dtype.is_floating:
        eps, wide = float(ml_dtypes.finfo(result.dtype).eps), expected.astype(np.float64)
        np.testing.assert_allclose(
            result.astype(np.float64), wide, 2 * eps, roundings * eps, err_msg=what
        )
    else:
        np.testing.assert_array_equal(result, expected, err_msg=what)


def own_part(whole: np.ndarray) -> np.ndarray:
    """Return this rank's rows; the first ranks have one more where need be."""
    return np.array_split(whole, sp.size())[sp.rank()]
