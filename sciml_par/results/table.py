"""The table at the end of a training."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sciml_par.results.member import (
    DIVERGED,
    FAR_ABOVE,
    FINISHED,
    NOT_FINITE,
    Member,
    ranks_of,
)

_WIDTH_WITHOUT_TERMINAL = 120
_RISE = 2.0  # as a multiple of the best loss: what is worth a remark
_KEPT = {
    "best": "the weights of that step are kept",
    "last": "the last weights are kept, as was asked",
}
_MARKS = {FINISHED: "", NOT_FINITE: "! ", DIVERGED: "! "}


def print_table(members: Sequence[Member], *, mode: str) -> None:
    """Print one row for each model (local)."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("member", "ranks", "problem"):
        table.add_column(heading, justify="left" if heading == "problem" else "right")
    for heading in ("points", "steps", "loss", "rel. L2 error", "time", "per step", "compilation"):
        table.add_column(heading, justify="right")
    for member in members:
        table.add_row(*_row(member))
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    Console(width=width).print(table)
    for remark in remarks(members, mode=mode):
        print(remark)


def remarks(members: Sequence[Member], *, mode: str) -> list[str]:
    """What is to be said of members that did not simply finish, a sentence each (local)."""
    found = []
    for member in members:
        who = f"member {member.number}, rank {member.rank}"
        who = "the model" if mode == "data" else who
        if member.status == NOT_FINITE:
            found.append(f"! {who}: {_ended(member)}")
        if member.status == DIVERGED:
            found.append(
                f"! {who}: diverged; the loss ended at {member.loss:.2e}, more than "
                f"{FAR_ABOVE:,.0f} times its best, {member.best_loss:.2e}."
            )
        elif member.finite and member.rise > _RISE:
            found.append(
                f"{who}: the loss ended at {member.loss:.2e}, {member.rise:.0f} times its best, "
                f"{member.best_loss:.2e} after step {member.best_step:,}; {_KEPT[member.kept]}."
            )
        if member.times_brought_together:
            found.append(
                f"{who}: rounding drove the ranks' weights apart by {member.largest_drift:.0e} at "
                f"most; they got rank 0's {member.times_brought_together:,} times."
            )
    return found


def _ended(member: Member) -> str:
    if not math.isfinite(member.best_loss):
        return "the loss is not finite at the initial weights, which it has."
    return (
        f"ended at step {member.steps:,} of {member.steps_asked:,}, after which the loss is not "
        f"finite; it has the weights of step {member.best_step:,}, whose loss was the least."
    )


def _row(member: Member) -> tuple[str, ...]:
    error = member.on_own_domain.relative_l2_error
    return (
        str(member.number),
        _ranks_text(ranks_of([member])),
        member.problem,
        f"{member.points:,}",
        f"{member.steps:,}",
        f"{_MARKS[member.status]}{member.kept_loss:.2e}",
        "unknown" if math.isnan(error) else f"{error:.2e}",
        f"{member.seconds_train:.2f} s",
        f"{member.microseconds_per_step:.1f} µs" if member.steps else "",
        f"{member.seconds_compile:.2f} s",
    )


def _ranks_text(ranks: Sequence[int]) -> str:
    """ "3", or "0–3" of several in a row."""
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}–{ranks[-1]}"
