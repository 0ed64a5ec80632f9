"""The reductions and the element types that each can combine."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeVar

from sciml_par.errors import InputError

T = TypeVar("T")


class ReduceOp(enum.Enum):
    """How `allreduce` combines the values x_r of ranks r = 0..P-1, element by element."""

    SUM = "Sum"
    """Σ_r x_r"""
    AVERAGE = "Average"
    """(1/P) Σ_r x_r"""
    MIN = "Min"
    """min_r x_r, NaN if one of them is; on booleans: and"""
    MAX = "Max"
    """max_r x_r, NaN if one of them is; on booleans: or"""
    PRODUCT = "Product"
    """Π_r x_r; on booleans: and"""
    ADASUM = "Adasum"
    """a sum in which the common part of the x_r counts once (`allreduce` alone)"""

    def __repr__(self) -> str:
        return self.value


Sum = ReduceOp.SUM
Average = ReduceOp.AVERAGE
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT
Adasum = ReduceOp.ADASUM


def check_reducible(op: ReduceOp, dtype: str, *, where: str) -> None:
    """Raise `InputError` if `op` has no meaning for the element type named `dtype`."""
    if not isinstance(op, ReduceOp):
        raise InputError(
            f"{where}: expected op to be one of sciml_par.parallel's "
            f"{', '.join(o.value for o in ReduceOp)}; got {op!r}."
        )
    if dtype == "bool" and op in (Sum, Average):
        raise InputError(
            f"{where}: {op.value} of booleans has no meaning. Use Max for «any rank», Min for "
            f"«every rank», or cast to an integer to count."
        )
    if dtype.startswith("complex") and op in (Min, Max):
        raise InputError(
            f"{where}: {op.value} of {dtype} values has no meaning: complex numbers have no order. "
            f"Reduce tf.abs of them, or their real and imaginary parts."
        )
    if op is Adasum and not dtype.lstrip("b").startswith("float"):
        raise InputError(
            f"{where}: Adasum of {dtype} values has no meaning. Use Sum, or take real numbers of a "
            f"floating-point type."
        )
    if op is Average and dtype.lstrip("u").startswith("int"):
        raise InputError(
            f"{where}: the Average of {dtype} values is not an {dtype}. Use Sum, or cast to a "
            f"floating-point type first."
        )


def in_pairs(values: list[T], combined: Callable[[T, T], T]) -> T:
    """Combine the ranks' values x_0 … x_{P-1} in an order that is the same on all ranks.

    They are combined in pairs, the results in pairs again, and so on. With P = 2^k that is
    ((x_0 ∘ x_1) ∘ (x_2 ∘ x_3)) ∘ …, the order of recursive doubling, by which MPI carries short
    buffers here and in MPICH. Otherwise, with 2^k the largest power of two below P and m = P - 2^k,
    the first 2m are combined in pairs first, which leaves 2^k (Thakur, Rabenseifner and Gropp 2005,
    section 4.5).
    """
    power = 1 << (len(values).bit_length() - 1)
    more = len(values) - power
    paired = [combined(values[2 * i], values[2 * i + 1]) for i in range(more)]
    values = paired + values[2 * more :]
    while len(values) > 1:
        values = [combined(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]
