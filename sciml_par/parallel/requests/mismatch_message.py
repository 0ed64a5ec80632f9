"""The text of the error where ranks differ in what they ask for; see `groups/agreement.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sciml_par._text import rank_list
from sciml_par.parallel.requests.signature import NUMBERS_OF_ROWS

_TRACING = (
    " Numbers of rows are exchanged while a function with jit_compile=True is traced: a rank that "
    "traces it again, alone, for a tensor of another shape, waits for the others. Give all ranks "
    "tensors of one shape there, or leave jit_compile out."
)


_MISMATCH = re.compile(r"The ranks of «.*?» did not ask for the same .*?depends on it\.", re.DOTALL)


def found_mismatch(text: str) -> str | None:
    """The part of an error's text that is the same on all ranks; None if that is of another error.

    A graph's error adds names of its own.
    """
    found = _MISMATCH.search(text)
    return found and found.group()


def mismatch_message(group: str, asked: Mapping[int, str]) -> str:
    """What each rank asked for, {rank: signature}; equal ones share a line."""
    asked_for: dict[str, list[int]] = {}
    for rank, signature in asked.items():
        asked_for.setdefault(signature, []).append(rank)
    lines = [f"  {rank_list(ranks)}: {signature}" for signature, ranks in asked_for.items()]
    hint = _TRACING if any(signature.endswith(NUMBERS_OF_ROWS) for signature in asked_for) else ""
    return (
        f"The ranks of «{group}» did not ask for the same collective:\n"
        + "\n".join(lines)
        + "\nEvery rank must call the same collectives in the same order, with the same type and "
        f"shape. Look for a branch on rank(), or for data whose shape depends on it.{hint}"
    )
