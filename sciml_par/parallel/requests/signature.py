"""The signature of a request, which ranks compare, and the message if they differ."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sciml_par._text import rank_list, ranks_by
from sciml_par.parallel.requests.reduce_op import ReduceOp

KEY_MASK = (1 << 30) - 1
"""The largest number that is one digit to Python."""

NUMBERS_OF_ROWS = ": numbers of rows"
"""The end of a signature's text if ranks only exchange their numbers of rows."""

IN_INPUT_PIPELINE = " in an input pipeline"
"""The end of the names of collectives in `tf.data`; see `call_options.py`."""


@dataclass(frozen=True)
class Signature:
    """The part of a request in which all ranks must be equal.

    `shape` is that of one rank's tensor, with None for a dimension in which ranks may differ.
    Exchanges without a tensor have no `dtype`. `transport` is the name of the transport; `name` is
    the user's. `rows_only`: the ranks only exchange their numbers of rows, before the tensors
    travel. `some_empty`: a rank gives or gets no elements, so the ranks compare it each time.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int | None, ...] = ()
    op: ReduceOp | None = None
    root: int | None = None
    transport: str = "MPI"
    name: str | None = None
    rows_only: bool = False
    some_empty: bool = False

    def __str__(self) -> str:
        parts = []
        if self.dtype:
            shape = ", ".join("any" if n is None else str(n) for n in self.shape)
            parts.append(f"{self.dtype} [{shape}]")
        if self.op is not None:
            parts.append(self.op.value)
        if self.root is not None:
            parts.append(f"root {self.root}")
        if self.some_empty:
            parts.append("empty on some ranks")
        if self.name is not None:
            parts.append(f"name {self.name!r}")
        call = f"{self.kind}({', '.join(parts)})"
        if self.rows_only:
            call += NUMBERS_OF_ROWS
        return call if self.transport == "MPI" else f"{call} by {self.transport}"

    @cached_property
    def digest(self) -> bytes:
        """A digest of the text, 16 bytes."""
        return hashlib.blake2b(str(self).encode(), digest_size=16).digest()

    @cached_property
    def key(self) -> int:
        """The bits of `KEY_MASK` in the digest."""
        return int.from_bytes(self.digest[:4], "little") & KEY_MASK


AT_EPOCH_END = " at the end of epoch "
"""A part of the names of collectives at which the ranks meet after an epoch of Keras' `fit`."""

_EPOCHS = (
    " A rank has ended an epoch of fit before the others: give all ranks as many batches, with "
    "steps_per_epoch=… and dataset.repeat(), and as many epochs. A callback that ends or restores "
    "a training must do so on all ranks: put MetricAverageCallback before EarlyStopping, and use "
    "BackupAndRestore of hvd.callbacks."
)

_TRACING = (
    " Numbers of rows are exchanged while a function with jit_compile=True is traced: a rank that "
    "traces it again, alone, for a tensor of another shape, waits for the others. Give all ranks "
    "tensors of one shape there, or leave jit_compile out."
)


MISMATCH = re.compile(
    r"The ranks of «[^»]*» (did not ask for the same .*?depends on it|train with .*?every rank)\.",
    re.DOTALL,
)
"""Finds the message of a mismatch in an error's text."""


def mismatch_message(group: str, asked: Mapping[int, str]) -> str:
    """Return the message with `asked`, {rank: signature}; equal signatures share a line."""
    asked_for = ranks_by(asked.items())
    lines = [f"  {rank_list(ranks)}: {signature}" for signature, ranks in asked_for.items()]
    hint = _TRACING if any(signature.endswith(NUMBERS_OF_ROWS) for signature in asked_for) else ""
    hint += _EPOCHS if any(AT_EPOCH_END in signature for signature in asked_for) else ""
    return (
        f"The ranks of «{group}» did not ask for the same collective:\n"
        + "\n".join(lines)
        + "\nEvery rank must call the same collectives in the same order, with the same type and "
        f"shape. Look for a branch on rank(), or for data whose shape depends on it.{hint}"
    )
