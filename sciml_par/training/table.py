"""The table at the end of a training."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from sciml_par.training.member import Member, Portion
    from sciml_par.training.result import Result

_WIDTH_WITHOUT_TERMINAL = 120


def print_table(result: Result) -> None:
    """Print one row for each member, or in data mode for each rank (local)."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("rank", "member", "problem"):
        table.add_column(heading, justify="left" if heading == "problem" else "right")
    for heading in ("points", "final loss", "rel. L2 error", "time", "per step", "compilation"):
        table.add_column(heading, justify="right")
    for member in result.members:
        for portion in member.portions:
            table.add_row(*_row(member, portion))
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    Console(width=width).print(table)


def _row(member: Member, portion: Portion) -> tuple[str, ...]:
    error = member.own.relative_l2_error
    return (
        str(portion.rank),
        str(member.number),
        member.problem,
        str(len(portion.points)),
        f"{member.loss:.2e}",
        "unknown" if math.isnan(error) else f"{error:.2e}",
        f"{portion.seconds_train:.2f} s",
        f"{1e6 * portion.seconds_train / member.steps:.1f} µs",
        f"{portion.seconds_compile:.2f} s",
    )
