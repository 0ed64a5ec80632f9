"""Checks of the arguments of collectives."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.requests.request import even_rows


def tensor_of(value: Any, where: str) -> Any:
    """Return `value` as one dense tensor, or raise `InputError`."""
    if isinstance(value, tf.RaggedTensor):
        raise InputError(
            f"{where}: expected a dense tensor; got a RaggedTensor. Give its .values, or make it "
            f"dense by .to_tensor(); for allgather, gather .values and .row_lengths()."
        )
    if isinstance(value, (tf.SparseTensor, tf.compat.v1.SparseTensorValue)):
        raise InputError(
            f"{where}: expected a dense tensor; got a SparseTensor. Make it dense by "
            f"tf.sparse.to_dense, or give its .values where all ranks have the same .indices."
        )
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"{where}: expected a tensor, or a value for tf.convert_to_tensor; got "
            f"{_named(value)}. TensorFlow says: {str(error).strip().split(chr(10))[0]}"
        ) from error


def list_of(values: Any, where: str, *, of: str = "tensors") -> list[Any]:
    """Return a list of `values`, or raise `InputError`."""
    try:
        return list(values)
    except TypeError as error:
        raise InputError(
            f"{where}: expected a list of {of}; got {_named(values)}. Write one as [x]."
        ) from error


def _named(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def rows_for_each(splits: Any, rows: int, size: int) -> tuple[int, ...]:
    """Return how many of `rows` rows go to each of `size` ranks; checks the user's `splits`."""
    if splits is None:
        if rows % size:
            raise InputError(
                f"alltoall: {rows} rows cannot be split evenly among {size} ranks. Give "
                f"splits, the number of rows for each rank."
            )
        return even_rows(rows, size)
    known = tf.get_static_value(tensor_of(splits, "alltoall: splits"))
    if known is None:
        raise InputError(
            "alltoall: expected splits that are known when the function is traced; got a tensor "
            "computed in the graph. XLA compiles for known shapes: give numbers, or leave out "
            "jit_compile."
        )
    if (
        known.shape != (size,)
        or known.dtype.kind not in "iu"
        or known.min() < 0
        or known.sum() != rows
    ):
        raise InputError(
            f"alltoall: expected splits to be {size} integers ≥ 0 that add up to the {rows} rows "
            f"of the tensor; got {known.tolist()}."
        )
    return tuple(known.tolist())


def check_rows(x: Any, where: str) -> None:
    """Raise `InputError` for a tensor without rows."""
    if x.shape.rank == 0:
        raise InputError(f"{where}: expected a tensor [n, ...]; got a scalar. Reshape it to [1].")


def unknown_shape(x: Any, where: str) -> InputError:
    """Return the error for a tensor of unknown shape."""
    return InputError(
        f"{where}: expected a tensor whose shape is known when the function is traced; got "
        f"{x.shape}. XLA compiles for one shape: call the function with tensors of fixed shape, "
        f"set the shape with tf.ensure_shape, or leave jit_compile out."
    )
