"""How the fake NCCL moves elements between the ranks of a test run: by MPI, in host memory."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  tells NumPy the name bfloat16
import numpy as np
from fake_cuda_runtime import FakeError
from mpi4py import MPI

_SECONDS = 10.0
"""How long a rank waits for another before the call counts as one that would wait for ever."""

DTYPES = tuple(
    np.dtype(name)
    for name in (
        *("int8", "uint8", "int32", "uint32", "int64", "uint64"),
        *("float16", "float32", "float64", "bfloat16"),
    )
)
"""The element types by NCCL's numbers."""

SUM, PROD, MAX, MIN, AVG = range(5)
_FUNCTIONS = {SUM: np.add, PROD: np.multiply, MAX: np.fmax, MIN: np.fmin, AVG: np.add}


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Operation:
    """One call of NCCL, to be done later.

    Operations of a group all begin before one ends; those that `take` end first, because a long
    message leaves only when somebody takes it.
    """

    begin: Callable[[], object] = _nothing
    end: Callable[[], None] = _nothing
    takes: bool = False


def do(operations: Sequence[Operation]) -> None:
    """Do the operations of a group."""
    for operation in operations:
        operation.begin()
    for operation in sorted(operations, key=lambda operation: not operation.takes):
        operation.end()


class Elements:
    """`count` elements of one type from an address on."""

    def __init__(self, address: int, count: int, datatype: int) -> None:
        if not 0 <= datatype < len(DTYPES) or count < 0 or (count and not address):
            raise FakeError("NCCL_ERROR_INVALID_ARGUMENT: invalid argument")
        self.address = address
        self.count = count
        self.datatype = datatype
        self.nbytes = count * DTYPES[datatype].itemsize

    @property
    def array(self) -> np.ndarray:
        """[count], in place."""
        if not self.count:
            return np.empty(0, DTYPES[self.datatype])
        memory = (ctypes.c_char * self.nbytes).from_address(self.address)
        return np.frombuffer(memory, DTYPES[self.datatype])

    @property
    def bytes(self) -> np.ndarray:
        return self.array.view(np.uint8)

    def overlap(self, other: Elements) -> bool:
        ours, theirs = self.address + self.nbytes, other.address + other.nbytes
        return self.address < theirs and other.address < ours


def agree(mpi: MPI.Comm, what: str) -> None:
    """Refuse a collective for which the ranks do not all ask: NCCL would hang, or mix them up."""
    mine = np.frombuffer(hashlib.blake2b(what.encode(), digest_size=16).digest(), np.uint8)
    everyone = np.empty((mpi.size, 16), np.uint8)
    _wait(mpi.Iallgather(mine, everyone), what)
    if (everyone != everyone[0]).any():
        raise FakeError(f"the ranks call NCCL differently: {mpi.allgather(what)}")


def everyones(mpi: MPI.Comm, mine: Elements) -> np.ndarray:
    """The elements of all ranks, [P, count]."""
    parts = np.empty((mpi.size, mine.nbytes), np.uint8)
    mpi.Allgather(mine.bytes, parts)
    return parts.view(DTYPES[mine.datatype])


def reduced(parts: np.ndarray, op: int) -> np.ndarray:
    """The parts [P, count] combined in the order of ranks, in their own type, [count].

    An average multiplies before it adds, as NCCL does.
    """
    with np.errstate(all="ignore"):
        if op == AVG:
            parts = parts * parts.dtype.type(1 / len(parts))
        return functools.reduce(_FUNCTIONS[op], parts)


def give(mpi: MPI.Comm, source: Elements, peer: int) -> Operation:
    """Send elements to a rank, after what they are."""
    header = np.array([source.count, source.datatype], np.int64)
    requests: list[Any] = []

    def begin() -> None:
        requests.extend(mpi.Isend(data, peer) for data in (header, source.bytes.copy()))

    def end() -> None:
        for request in requests:
            _wait(request, f"send to {peer}")

    return Operation(begin, end)


def take(mpi: MPI.Comm, target: Elements, peer: int) -> Operation:
    """Receive elements from a rank that must send exactly these."""

    def end() -> None:
        header = np.empty(2, np.int64)
        _wait(mpi.Irecv(header, peer), f"recv from {peer}")
        if header.tolist() != [target.count, target.datatype]:
            count, datatype = header.tolist()
            raise FakeError(
                f"rank {peer} sends {count} elements of type {datatype}, and rank {mpi.rank} "
                f"takes {target.count} of type {target.datatype}"
            )
        data = np.empty(target.nbytes, np.uint8)
        _wait(mpi.Irecv(data, peer), f"recv from {peer}")
        target.bytes[:] = data

    return Operation(end=end, takes=True)


def _wait(request: MPI.Request, what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    pause = 0.0
    while not request.Test():
        if time.monotonic() > deadline:
            raise FakeError(f"NCCL would hang in {what}: another rank has not come")
        time.sleep(pause)
        pause = min(pause + 1e-5, 1e-3)
