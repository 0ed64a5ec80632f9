"""The arithmetic of an allreduce through shared memory, as text for LLVM.

Order. All ranks compute the same expression, so that their results are the same to the last bit:
x_0 … x_{P-1} are combined in pairs, the results in pairs again, and so on. With P = 2^k that is
((x_0 ∘ x_1) ∘ (x_2 ∘ x_3)) ∘ …, the order of recursive doubling, by which MPI carries short
buffers here and in MPICH. Otherwise, with 2^k the largest power of two below P and m = P - 2^k, the
first 2m are combined in pairs first, which leaves 2^k (Thakur, Rabenseifner and Gropp 2005,
section 4.5).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sciml_par.parallel.requests.reduce_op import Average, Max, Min, Product, ReduceOp, Sum

_FLOATS = {"float32": "float", "float64": "double"}
_INTEGERS = {f"{prefix}int{bits}": f"i{bits}" for prefix in ("", "u") for bits in (8, 16, 32, 64)}

OPERATIONS = (Sum, Average, Min, Max, Product)


def can_combine(op: ReduceOp, dtype: str) -> bool:
    """Whether there is machine code for that."""
    return op in OPERATIONS and (dtype in _FLOATS or (dtype in _INTEGERS and op is not Average))


def combination(name: str, op: ReduceOp, dtype: str, size: int, distance: int) -> str:
    """A function `name(slots, receive, count)`.

    Parameters
    ----------
    op, dtype : what `can_combine` is true of.
    size : how many ranks there are.
    distance : the bytes between two ranks' slots.
    """
    kind = (_FLOATS | _INTEGERS)[dtype]
    lines: list[str] = []
    numbers = itertools.count()

    def new(operation: str) -> str:
        value = f"%v{next(numbers)}"
        lines.append(f"  {value} = {operation}")
        return value

    def combined(a: str, b: str) -> str:
        if op in (Min, Max):
            return new(
                f"select i1 {new(_comparison(op, dtype, kind, a, b))}, {kind} {a}, {kind} {b}"
            )
        return new(f"{_arithmetic(op, dtype)} {kind} {a}, {b}")

    values = []
    for rank in range(size):
        slot = new(f"getelementptr i8, ptr %slots, i64 {rank * distance}")
        place = new(f"getelementptr {kind}, ptr {slot}, i64 %i")
        values.append(new(f"load {kind}, ptr {place}"))
    total = _in_pairs(values, combined)
    if op is Average:
        total = new(_division(kind, total, size))
    body = "\n".join(lines)
    return f"""
define i64 @{name}(ptr noalias readonly %slots, ptr noalias %receive, i64 %count) nounwind {{
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{body}
  %target = getelementptr {kind}, ptr %receive, i64 %i
  store {kind} {total}, ptr %target
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}}
"""


def _in_pairs(values: list[str], combined: Callable[[str, str], str]) -> str:
    power = 1 << (len(values).bit_length() - 1)
    more = len(values) - power
    paired = [combined(values[2 * i], values[2 * i + 1]) for i in range(more)]
    values = paired + values[2 * more :]
    while len(values) > 1:
        values = [combined(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _arithmetic(op: ReduceOp, dtype: str) -> str:
    verb = "mul" if op is Product else "add"
    return f"f{verb}" if dtype in _FLOATS else verb


def _comparison(op: ReduceOp, dtype: str, kind: str, a: str, b: str) -> str:
    """Whether `a` is the one to keep. As in MPI's C, a NaN in `b` stays and one in `a` does not."""
    verb = "gt" if op is Max else "lt"
    if dtype in _FLOATS:
        return f"fcmp o{verb} {kind} {a}, {b}"
    return f"icmp {'u' if dtype.startswith('u') else 's'}{verb} {kind} {a}, {b}"


def _division(kind: str, total: str, size: int) -> str:
    if size & (size - 1) == 0:  # the same to the last bit, and faster
        return f"fmul {kind} {total}, {1.0 / size!r}"
    return f"fdiv {kind} {total}, {float(size)!r}"
