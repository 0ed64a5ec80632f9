"""How messages speak of ranks and of what they ask for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from sciml_par.parallel.requests.signature import NUMBERS_OF_ROWS

_LONGEST_LIST = 4

_TRACING = (
    " Numbers of rows are exchanged while a function with jit_compile=True is traced: a rank that "
    "traces it again, alone, for a tensor of another shape, waits for the others. Give all ranks "
    "tensors of one shape there, or leave jit_compile out."
)


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


def rank_list(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 2 and 5" or "ranks 0–63", of ascending numbers."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    parts: list[str] = []
    for _, run in itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in run]
        long = len(members) > _LONGEST_LIST
        parts += [f"{members[0]}–{members[-1]}"] if long else map(str, members)
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"ranks {listed}"
