"""The arithmetic of an allreduce through shared memory, as text for LLVM.

The order is that of `in_pairs`. 16-bit floating-point numbers are combined in float32 and rounded
once. In Min and Max a NaN wins.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sciml_par.parallel.requests.reduce_op import (
    Average,
    Max,
    Min,
    Product,
    ReduceOp,
    Sum,
    in_pairs,
)

New = Callable[[str], str]
"""Adds an operation, and returns the name of its value."""

_HALVES = {"float16": "half", "bfloat16": "i16"}
_FLOATS = {"float32": "float", "float64": "double", **dict.fromkeys(_HALVES, "float")}
_INTEGERS = {f"{prefix}int{bits}": f"i{bits}" for prefix in ("", "u") for bits in (8, 16, 32, 64)}

OPERATIONS = (Sum, Average, Min, Max, Product)


def can_combine(op: ReduceOp, dtype: str) -> bool:
    """Return whether there is machine code for the reduction."""
    return op in OPERATIONS and (dtype in _FLOATS or (dtype in _INTEGERS and op is not Average))


def combination(name: str, op: ReduceOp, dtype: str, size: int, distance: int | None) -> str:
    """Return a function `name(slots, receive, count)`."""
    kind = (_FLOATS | _INTEGERS)[dtype]
    stored = _HALVES.get(dtype, kind)
    lines: list[str] = []
    numbers = itertools.count()

    def new(operation: str) -> str:
        value = f"%v{next(numbers)}"
        lines.append(f"  {value} = {operation}")
        return value

    def combined(a: str, b: str) -> str:
        if op in (Min, Max):
            return _extreme(new, op, dtype, a, b)
        verb = "mul" if op is Product else "add"
        return new(f"{'f' if dtype in _FLOATS else ''}{verb} {kind} {a}, {b}")

    values = []
    for rank in range(size):
        place = new(f"getelementptr {stored}, ptr %slot{rank}, i64 %i")
        values.append(_widened(new, dtype, new(f"load {stored}, ptr {place}")))
    total = in_pairs(values, combined)
    if op is Average:
        total = new(_division(kind, total, size))
    total = _narrowed(new, dtype, total)
    body = "\n".join(lines)
    places = "".join(_slot(rank, distance) for rank in range(size))
    return f"""
define i64 @{name}(ptr noalias readonly %slots, ptr noalias %receive, i64 %count) nounwind {{
entry:
{places}  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{body}
  %target = getelementptr {stored}, ptr %receive, i64 %i
  store {stored} {total}, ptr %target
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}}
"""


def _slot(rank: int, distance: int | None) -> str:
    """Return the line that finds a rank's slot."""
    if distance is not None:
        return f"  %slot{rank} = getelementptr i8, ptr %slots, i64 {rank * distance}\n"
    return f"""  %at{rank} = getelementptr ptr, ptr %slots, i64 {rank}
  %slot{rank} = load ptr, ptr %at{rank}
"""


def _extreme(new: New, op: ReduceOp, dtype: str, a: str, b: str) -> str:
    """Return the smaller or the larger of two; a NaN if one of them is a NaN."""
    kind, verb = (_FLOATS | _INTEGERS)[dtype], "gt" if op is Max else "lt"
    if dtype in _FLOATS:  # an ordered comparison is false for a NaN: one in `b` stays
        better = new(f"fcmp o{verb} {kind} {a}, {b}")
        better = new(f"or i1 {better}, {new(f'fcmp uno {kind} {a}, {a}')}")
    else:
        better = new(f"icmp {'u' if dtype.startswith('u') else 's'}{verb} {kind} {a}, {b}")
    return new(f"select i1 {better}, {kind} {a}, {kind} {b}")


def _widened(new: New, dtype: str, value: str) -> str:
    """Return a number of a 16-bit type as float32; others unchanged."""
    if dtype == "float16":
        return new(f"fpext half {value} to float")
    if dtype == "bfloat16":  # the upper half of a float32
        wide = new(f"zext i16 {value} to i32")
        return new(f"bitcast i32 {new(f'shl i32 {wide}, 16')} to float")
    return value


def _narrowed(new: New, dtype: str, value: str) -> str:
    """Return a float32 rounded to a 16-bit type, to even; others unchanged."""
    if dtype == "float16":
        return new(f"fptrunc float {value} to half")
    if dtype != "bfloat16":
        return value
    bits = new(f"bitcast float {value} to i32")
    odd = new(f"and i32 {new(f'lshr i32 {bits}, 16')}, 1")
    up = new(f"add i32 {new(f'add i32 {bits}, 32767')}, {odd}")
    # The sum would turn some NaN into infinity.
    nan = new(f"or i32 {bits}, 4194304")
    kept = new(f"select i1 {new(f'fcmp uno float {value}, {value}')}, i32 {nan}, i32 {up}")
    return new(f"trunc i32 {new(f'lshr i32 {kept}, 16')} to i16")


def _division(kind: str, total: str, size: int) -> str:
    if size & (size - 1) == 0:  # the same to the last bit, and faster
        return f"fmul {kind} {total}, {1.0 / size!r}"
    return f"fdiv {kind} {total}, {float(size)!r}"
