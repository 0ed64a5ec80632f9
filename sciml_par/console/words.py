"""Numbers and errors in few words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

_LONGEST = 300


def counted(n: int, thing: str) -> str:
    """ "1 rank", "2 ranks"."""
    return f"{n:,} {thing}{'s' * (n != 1)}"


def ranks_in_short(ranks: Sequence[int]) -> str:
    """ "rank 3" or "ranks 0–3, 8", of ascending numbers."""
    runs = itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0])
    ends = [[rank for _, rank in run] for _, run in runs]
    parts = [f"{run[0]}–{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends]
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(parts)}"


def one_line(error: BaseException) -> str:
    """What an error says, in one line that is not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def duration(seconds: float) -> str:
    """A time in a unit that suits it."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.1f} ms" if seconds < 1.0 else f"{seconds:.1f} s"
