"""What users give to collectives, checked."""

from __future__ import annotations

from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.parallel.requests.request import even_rows


def tensor_of(value: Any, where: str) -> Any:
    """`value` as one dense tensor; or `InputError`, with what to give in its place."""
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
            f"{where}: expected a tensor, or what tf.convert_to_tensor makes one of; got "
            f"{_named(value)}. TensorFlow says: {str(error).strip().split(chr(10))[0]}"
        ) from error


def list_of(values: Any, where: str, *, of: str = "tensors") -> list[Any]:
    """Several values, as a user gives them; or `InputError`."""
    try:
        return list(values)
    except TypeError as error:
        raise InputError(
            f"{where}: expected a list of {of}; got {_named(values)}. Give one alone as [x]."
        ) from error


def _named(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def rows_for_each(splits: Any, rows: int, size: int) -> tuple[int, ...]:
    """Return how many of `rows` rows go to each of `size` ranks, as the user says by `splits`."""
    if splits is None:
        if rows % size:
            raise InputError(
                f"alltoall: {rows} rows cannot be split evenly among {size} ranks. Say with "
                f"splits how many go to each."
            )
        return even_rows(rows, size)
    known = tf.get_static_value(tensor_of(splits, "alltoall: splits"))
    if known is None:
        raise InputError(
            "alltoall: expected splits that are known when the function is traced; got a tensor "
            "computed in the graph. XLA compiles for known shapes: give numbers, or leave "
            "jit_compile out."
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


def unknown_splits(splits: Any) -> bool:
    """Return whether only the graph will know how many rows go to each rank."""
    return tf.is_tensor(splits) and tf.get_static_value(splits) is None


def check_rows(x: Any, where: str) -> None:
    """Raise `InputError` for a tensor without rows."""
    if x.shape.rank == 0:
        raise InputError(f"{where}: expected a tensor [n, ...]; got a scalar. Reshape it to [1].")


def unknown_shape(x: Any, where: str) -> InputError:
    """Return the error where a shape would have to be known."""
    return InputError(
        f"{where}: expected a tensor whose shape is known when the function is traced; got "
        f"{x.shape}. XLA compiles for one shape: call the function with tensors of fixed shape, "
        f"set the shape with tf.ensure_shape, or leave jit_compile out."
    )
