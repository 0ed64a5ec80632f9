"""Wording that messages of several packages share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_LONGEST_LIST = 4
_LONGEST_LINE = 300


def counted(n: int, thing: str) -> str:
    """Return "1 rank", "2 ranks" or "1,000 ranks"."""
    return f"{n:,} {thing}{'s' * (n != 1)}"


def listed(texts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def rank_list(ranks: Sequence[int]) -> str:
    """Return "rank 3", "ranks 0, 2 and 5" or "ranks 0–63", of ascending numbers."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    parts: list[str] = []
    for _, run in itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in run]
        long = len(members) > _LONGEST_LIST
        parts += [f"{members[0]}–{members[-1]}"] if long else map(str, members)
    return f"ranks {listed(parts)}"


def ranks_by(values: Iterable[tuple[int, T]]) -> dict[T, list[int]]:
    """Return {value: the ranks that have it}, of pairs of a rank and its value."""
    ranks: dict[T, list[int]] = {}
    for rank, value in values:
        ranks.setdefault(value, []).append(rank)
    return ranks


def one_line(error: BaseException) -> str:
    """Return the text of an error in one line, cut after 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 1]}…"
