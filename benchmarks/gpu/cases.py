"""The collectives that are checked, their inputs, and what must come out: plain NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sciml_par.errors import InputError
from sciml_par.parallel.requests.element_type import ELEMENT_TYPES
from sciml_par.parallel.requests.reduce_op import (
    Average,
    Max,
    Min,
    ReduceOp,
    Sum,
    check_scatterable,
)
from sciml_par.parallel.requests.request import (
    Allgather,
    Allreduce,
    Alltoall,
    Broadcast,
    Reducescatter,
    Request,
    even_rows,
)

TYPES = tuple(name for name, element in ELEMENT_TYPES.items() if element.real is None)
"""What is checked: complex numbers travel as real ones."""

_COLUMNS = 7
PERIOD = 65521  # a prime, so that a shift by any size of block shows
_EPSILONS = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}


@dataclass(frozen=True)
class Case:
    """One collective as one rank asks for it."""

    what: str
    request: Request


def cases(dtype: str, rank: int, size: int) -> list[Case]:
    """Every collective, with every operation that the type has, and with even and uneven rows."""
    operations = [op for op in ReduceOp if _has(dtype, op)]
    gathered = tuple((3 * r + 2) % 4 for r in range(size))
    plain: list[tuple[str, Request]]
    plain = [(f"allreduce {op!r}", Allreduce(dtype, (61, _COLUMNS), op)) for op in operations]
    plain += [("broadcast", Broadcast(dtype, (61, _COLUMNS), size - 1))]
    for rows in ((4,) * size, gathered):
        plain += [(f"allgather of {rows}", Allgather(dtype, (rows[rank], _COLUMNS), rows))]
    for n in (4 * size, 4 * size + 1):
        plain += [
            (f"reducescatter {op!r} of {n}", _scatter(dtype, n, op, rank, size))
            for op in operations
        ]
    for step in (0, 1):
        sent = tuple((rank + 2 * step * r) % 3 + 1 - step for r in range(size))
        received = tuple((r + 2 * step * rank) % 3 + 1 - step for r in range(size))
        shape = (sum(sent), _COLUMNS)
        plain += [(f"alltoall of {sent}", Alltoall(dtype, shape, sent, received))]
    return [Case(f"{what} {dtype}", request) for what, request in plain]


def _has(dtype: str, op: ReduceOp) -> bool:
    try:
        check_scatterable(op, dtype, where="")
    except InputError:
        return False
    return True


def _scatter(dtype: str, n: int, op: ReduceOp, rank: int, size: int) -> Reducescatter:
    return Reducescatter(dtype, (n, _COLUMNS), op, even_rows(n, size), rank)


def values(request: Request, rank: int, *, seed: int = 0) -> np.ndarray:
    """A rank's input: small integers, whose sums and products every type holds."""
    kind = request.element.numpy.kind
    i = np.arange(request.count) * (rank + 2) + 3 * rank + seed
    small = i % 2 if kind == "b" else i % 3 + 1 if kind == "u" else i % 5 - 2
    return small.astype(request.element.numpy).reshape(request.shape)


def pattern(count: int, rank: int, dtype: str = "float32", *, seed: int = 0) -> np.ndarray:
    """A long vector, other on each rank and for each seed, made fast."""
    period = np.arange(PERIOD) * (rank + 3) % PERIOD + 7 * seed
    return np.resize(period.astype(ELEMENT_TYPES[dtype].numpy), count)


def expected(requests: Sequence[Request], xs: Sequence[np.ndarray], rank: int) -> np.ndarray:
    """What `rank` must receive where rank r asks for `requests[r]` and gives `xs[r]`."""
    request = requests[rank]
    match request:
        case Allreduce(op=op):
            return _reduced(xs, op)
        case Broadcast(root=root):
            return xs[root]
        case Allgather():
            return np.concatenate(xs)
        case Reducescatter(op=op, rows=rows):
            first = sum(rows[:rank])
            return _reduced(xs, op)[first : first + rows[rank]]
        case Alltoall():
            return np.concatenate([_part(r, x, rank) for r, x in zip(requests, xs, strict=True)])
    raise AssertionError(request)


def _part(request: Request, x: np.ndarray, rank: int) -> np.ndarray:
    assert isinstance(request, Alltoall)
    first = sum(request.sent[:rank])
    return x[first : first + request.sent[rank]]


def _reduced(xs: Sequence[np.ndarray], op: ReduceOp) -> np.ndarray:
    dtype = xs[0].dtype
    wide = np.stack(xs).astype(np.float64 if str(dtype) in _EPSILONS else dtype)
    if dtype.kind == "b":
        return np.asarray(wide.any(axis=0) if op is Max else wide.all(axis=0))
    if op in (Sum, Average):
        total = wide.sum(axis=0, dtype=wide.dtype)
        return (total / len(xs) if op is Average else total).astype(dtype)
    if op in (Min, Max):
        return (wide.min(axis=0) if op is Min else wide.max(axis=0)).astype(dtype)
    return wide.prod(axis=0, dtype=wide.dtype).astype(dtype)


def difference(got: np.ndarray, wanted: np.ndarray, *, ulps: int = 4) -> str:
    """In words, how `got` is not `wanted`; empty if it is, to `ulps` roundings of its type."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype} {list(got.shape)} where {wanted.dtype} {list(wanted.shape)} was due"
    epsilon = _EPSILONS.get(str(wanted.dtype))
    if epsilon is None:
        wrong = got != wanted
    else:
        wide, due = got.astype(np.float64), wanted.astype(np.float64)
        wrong = ~(np.abs(wide - due) <= ulps * epsilon * np.abs(due))  # true of a NaN
    if not wrong.any():
        return ""
    first = np.unravel_index(int(wrong.argmax()), wrong.shape)
    place = ", ".join(str(int(i)) for i in first)
    return (
        f"{int(wrong.sum())} of {wrong.size} wrong: [{place}] is {got[first]}, not {wanted[first]}"
    )


def stepped(x: np.ndarray, rank: int) -> np.ndarray:
    """What a computing loop does before each collective: 3x + rank + 1, modulo the type's range.

    On unsigned integers it is exact and forgets nothing: any wrong element stays wrong.
    """
    return x * x.dtype.type(3) + x.dtype.type(rank + 1)


def loop_result(
    requests: Sequence[Sequence[Request]], xs: Sequence[np.ndarray], rank: int, steps: int
) -> np.ndarray:
    """What `rank` holds at the end of a computing loop; rank r goes through `requests[r]`."""
    held = list(xs)
    for _ in range(steps):
        for of_all in zip(*requests, strict=True):
            held = [stepped(x, r) for r, x in enumerate(held)]
            held = [expected(of_all, held, r) for r in range(len(held))]
    return held[rank]


def round_trip(rank: int, size: int, count: int) -> list[Request]:
    """All five collectives in a row, each taking the result of the one before; uint32.

    `count` is a multiple of the number of ranks, and the length at both ends.
    """
    part = count // size
    even = (part,) * size
    return [
        Allreduce("uint32", (count,), Sum),
        Reducescatter("uint32", (count,), Sum, even, rank),
        Allgather("uint32", (part,), even),
        Alltoall("uint32", (count,), even, even),
        Broadcast("uint32", (count,), size - 1),
    ]
