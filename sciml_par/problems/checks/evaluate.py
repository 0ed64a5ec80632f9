"""Functions of x that users write in NumPy or in TensorFlow, evaluated at given points."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._masked import with_gaps
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.captured import evaluate_data
from sciml_par.problems.checks.checks import as_columns, check_takes

FloatArray = npt.NDArray[np.float64]


def values_at(
    function: Callable[[Any], Any],
    x: FloatArray,
    *,
    what: str,
    columns: int | None = None,
    reads_variables: bool = False,
) -> FloatArray:
    """The values f(x): [n, k] of a NumPy or TensorFlow function at x: [n, d], in double precision.

    The function is called with the array x. One that cannot take it is called with x as a tensor,
    in double precision and then in single precision, in which its own constants may be.

    Parameters
    ----------
    columns : k, where that is known; values [n] are taken as [n, 1] where k may be 1, and one
        number, the same at any points, as a constant.
    reads_variables : whether it may read trainable variables, whose values are then constants.
    """
    values = raw_values(function, x, what=what, reads_variables=reads_variables)
    if np.ndim(values) == 0 and len(x) > 0:
        # A number that other points change is no constant, but a sum or mean made by mistake.
        again = raw_values(function, x[-1:], what=what, reads_variables=reads_variables)
        if np.ndim(again) == 0 and np.asarray(values == again).all():
            values = np.full((len(x), columns or 1), values)
    return as_columns(values, len(x), what=what, columns=columns)


def raw_values(
    function: Callable[[Any], Any], x: FloatArray, *, what: str, reads_variables: bool = False
) -> Any:
    """What the function returns at x, as an array of any shape."""
    check_takes(function, "x", what=what)

    def evaluate(points: Any) -> Any:
        found = function(points) if reads_variables else evaluate_data(function, points, what=what)
        return found.numpy() if hasattr(found, "numpy") else with_gaps(found)

    try:
        return evaluate(x)
    except InputError:
        raise
    except Exception as error:  # NumPy and TensorFlow raise all kinds for each other's arrays
        if "tensorflow" not in sys.modules:
            raise
        for dtype in ("float64", "float32"):
            try:
                return evaluate(tf.constant(x, dtype))
            except InputError:
                raise
            except Exception:  # the first error is the one that is told
                continue
        raise error
