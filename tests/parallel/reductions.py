"""The reductions as NumPy computes them, and which of them have a meaning for which type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from ranks import COMPLEX, FLOATS, INTEGERS, MOVED

import sciml_par.parallel as sp

OPERATIONS = (sp.Sum, sp.Average, sp.Min, sp.Max, sp.Product)
WITHOUT_MEANING = {
    *(("bool", op) for op in (sp.Sum, sp.Average)),
    *((t, sp.Average) for t in INTEGERS),
    *((t, op) for t in COMPLEX for op in (sp.Min, sp.Max)),
}
CASES = [(t, op) for t in MOVED for op in OPERATIONS if (t, op) not in WITHOUT_MEANING]

what_has_no_meaning = pytest.mark.parametrize(
    ("make", "op", "says"),
    [
        (lambda: tf.constant([True]), sp.Sum, "Sum of booleans"),
        (lambda: tf.constant([True]), sp.Average, "Average of booleans"),
        (lambda: tf.constant([1]), sp.Average, "Average of int32"),
        (lambda: tf.constant([1], tf.uint8), sp.Average, "Average of uint8"),
        (lambda: tf.constant([1.0]), "Sum", "expected op to be one of"),
        (lambda: tf.constant([1.0]), None, "expected op to be one of"),
        (lambda: tf.constant(["a"]), sp.Max, "elements of type string"),
        (lambda: tf.constant([1j]), sp.Max, "Max of complex128 values has no meaning: complex num"),
        (lambda: tf.constant([1j]), sp.Min, "Min of complex128 values has no meaning: complex num"),
    ],
)
"""Tensors and operations, and what the error says of them."""


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


def assert_same(got: tf.Tensor, expected: np.ndarray, what: str) -> None:
    """Equal; in floating point to two units in the last place, as x/P may be x·(1/P)."""
    result = got.numpy()
    assert result.dtype == expected.dtype and result.shape == expected.shape, what
    if got.dtype.is_complex:
        np.testing.assert_allclose(result, expected, 2 * np.finfo(result.dtype).eps, err_msg=what)
    elif got.dtype.is_floating:
        tolerance = 2 * float(ml_dtypes.finfo(result.dtype).eps)
        np.testing.assert_allclose(
            result.astype(np.float64), expected.astype(np.float64), tolerance, 0, err_msg=what
        )
    else:
        np.testing.assert_array_equal(result, expected, err_msg=what)
