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
    RankContribution,
)

_WIDTH_WITHOUT_TERMINAL = 120
_MARKS = {FINISHED: "", NOT_FINITE: "! ", DIVERGED: "! "}


def print_table(members: Sequence[Member], *, mode: str) -> None:
    """Print one row for each member, or in data mode for each rank (local)."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("rank", "member", "problem"):
        table.add_column(heading, justify="left" if heading == "problem" else "right")
    for heading in ("points", "final loss", "rel. L2 error", "time", "per step", "compilation"):
        table.add_column(heading, justify="right")
    for member in members:
        for contribution in member.contributions:
            table.add_row(*_row(member, contribution))
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
        if member.times_brought_together:
            found.append(
                f"{who}: rounding drove the ranks' weights apart by {member.largest_drift:.0e} at "
                f"most; they got rank 0's {member.times_brought_together:,} times."
            )
    return found


def _ended(member: Member) -> str:
    if member.steps == 0 and not math.isfinite(member.loss):
        return "the loss is not finite at the initial weights, which it has."
    return (
        f"ended at step {member.steps:,} of {member.steps_asked:,}, after which the loss is not "
        f"finite; it has the weights of that step."
    )


def _row(member: Member, contribution: RankContribution) -> tuple[str, ...]:
    error = member.on_own_domain.relative_l2_error
    return (
        str(contribution.rank),
        str(member.number),
        member.problem,
        str(contribution.points),
        f"{_MARKS[member.status]}{member.loss:.2e}",
        "unknown" if math.isnan(error) else f"{error:.2e}",
        f"{contribution.seconds_train:.2f} s",
        f"{1e6 * contribution.seconds_train / member.steps:.1f} µs" if member.steps else "",
        f"{contribution.seconds_compile:.2f} s",
    )
