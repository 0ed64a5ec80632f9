"""Functions and arrays that users pass: their checks, and their values at points."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._masked import with_gaps
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import BoolArray, FloatArray

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; none if it is not written in Python."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def positional_names(function: Any) -> tuple[str, ...]:
    """Return the names of the arguments that a function must get by their places."""
    found = parameters_of(function).items()
    return tuple(name for name, p in found if p.kind in POSITIONAL and p.default is p.empty)


def in_python(function: Any) -> Any:
    """Return what `tf.function` has wrapped: trainings are compiled, and fields are no tensors."""
    return getattr(function, "python_function", function)


def check_takes(
    function: Callable[..., Any], arguments: str, *, what: str, more_by_name: bool = False
) -> None:
    """Check that a function can be called with these positional arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of functions that are not written in Python
        return
    given = [None] * len(arguments.split(","))
    try:
        (signature.bind_partial if more_by_name else signature.bind)(*given)
    except TypeError:
        raise InputError(
            f"{what} must be a function of ({arguments}), got one of {signature}"
        ) from None


def holds_at(
    predicate: Callable[..., Any], x: Any, owner: str, argument: str = "where"
) -> BoolArray:
    """Return at which points x: [n, d] a predicate that is an argument of `owner` holds: [n]."""
    check_takes(predicate, "x", what=f"{owner}: {argument}")
    found = np.asarray(predicate(x))
    if found.shape != (len(x),) or found.dtype != np.bool_:
        raise InputError(
            f"{owner}: {argument} must return booleans of shape [{len(x)}] for points of shape "
            f"{list(x.shape)}, got {found.dtype} of shape {list(found.shape)}; write for example "
            f"lambda x: x[:, 0] < 1"
        )
    return found


def as_columns(
    values: npt.ArrayLike, n: int, *, what: str, columns: int | None = None
) -> FloatArray:
    """Return values at n points as an array [n, m]; [n] is taken as [n, 1] where m may be 1."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{what} must be real numbers, got dtype {array.dtype}")
    if array.shape == (n,) and columns in (None, 1):
        array = array[:, None]
    good = array.ndim == 2 and array.shape[0] == n and columns in (None, array.shape[1])
    if not good:
        expected = f"[{n}, {'k' if columns is None else columns}]"
        raise InputError(
            f"{what} must have the shape {expected} at {n} points, got {list(array.shape)}; "
            f"one coordinate of the points is x[:, i:i+1], which keeps both axes"
        )
    return array.astype(np.float64)


_SHOWN = 3
UNKNOWNS_REMEDY = (
    "Training changes the weights of the network and the unknowns of the problem, and nothing "
    "else, so it would keep the value that it has. If the value is sought, make it an unknown, "
    "which residuals get as an argument of that name: Problem(..., unknowns={'D': Unknown(1.0)}) "
    "with def residual(u, x, *, D). If it is known, give a number, or set trainable=False."
)


def refuse_trainable(
    variables: Iterable[Any], reader: str, *, remedy: str = UNKNOWNS_REMEDY
) -> None:
    """Check that no variable among those that `reader` reads waits to be trained."""
    found = [v for v in variables if v.trainable and not _is_frozen_by_keras(v)]
    if not found:
        return
    found.sort(key=_name)  # TensorFlow gives them in any order, and all ranks are to say the same
    names = [f"{_name(v)} = {_text(v)}" for v in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise InputError(
        f"{reader} reads the trainable variable{'s' * (len(found) > 1)} {', '.join(names)}{more}. "
        f"{remedy}"
    )


def _is_frozen_by_keras(variable: Any) -> bool:
    """Return whether a Keras variable with trainable=False holds this one.

    Keras sets its own mark, as in `model.trainable = False`, and leaves TensorFlow's as it is;
    nothing leads from TensorFlow's variable to Keras' but the reference to it.
    """
    for holder in gc.get_referrers(variable):
        held = holder if isinstance(holder, dict) else getattr(holder, "__dict__", {})
        if held.get("_value") is variable and held.get("_trainable") is False:
            return True
    return False


def _name(variable: Any) -> str:
    return repr(variable.name.removesuffix(":0"))


def _text(variable: Any) -> str:
    if variable.shape.num_elements() == 1:
        return f"{float(np.asarray(variable).reshape(())):g}"
    return f"an array {variable.shape.as_list()}"


def values_at(
    function: Callable[[Any], Any],
    x: FloatArray,
    *,
    what: str,
    columns: int | None = None,
    reads_variables: bool = False,
) -> FloatArray:
    """Return the values [n, k] of a NumPy or TensorFlow function at x: [n, d], as float64.

    The function is called with the array x. If it raises an error, it is called with x as a tensor
    in double and then in single precision. [n] is taken as [n, 1] if k may be 1, and one number,
    if it is the same at other points, as a constant. With `reads_variables`, the function may read
    trainable variables, whose values are then constants.
    """
    values = raw_values(function, x, what=what, reads_variables=reads_variables)
    if np.ndim(values) == 0 and len(x) > 0:
        # A number that other points change is not a constant, but a sum or mean.
        again = raw_values(function, x[-1:], what=what, reads_variables=reads_variables)
        if np.ndim(again) == 0 and np.asarray(values == again).all():
            values = np.full((len(x), columns or 1), values)
    return as_columns(values, len(x), what=what, columns=columns)


def raw_values(
    function: Callable[[Any], Any], x: FloatArray, *, what: str, reads_variables: bool = False
) -> Any:
    """Return the values of the function at x, as an array of any shape."""
    check_takes(function, "x", what=what)

    def evaluate(points: Any) -> Any:
        # Without TensorFlow there are no variables, and no need to import it.
        if reads_variables or "tensorflow" not in sys.modules:
            found = function(points)
        else:
            with tf.GradientTape() as tape:
                found = function(points)
            refuse_trainable(tape.watched_variables(), what)
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
