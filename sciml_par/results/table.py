"""The table at the end of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sciml_par._terminal import console, prints_to_terminal
from sciml_par.results.member import (
    DIVERGED,
    FINISHED,
    NOT_FINITE,
    Member,
    ranks_of,
)
from sciml_par.results.remarks import remarks as remarks
from sciml_par.results.text import unknowns_text
from sciml_par.results.unknown_values import relative_error

_WIDTH_WITHOUT_TERMINAL = 120
_MOST_ROWS, _FIRST_ROWS = 16, 8
_MOST_UNKNOWNS = 3
_ALL_STEPS = "all steps"
_MARKS = {FINISHED: "", NOT_FINITE: "! ", DIVERGED: "! "}
_GAP = 2
_NARROWEST_PROBLEM = 16
# Where the table is too wide: what is said once, if it is the same for all; then what is left out.
_SAID_ONCE = ("problem", "points", "compilation", "steps", "ranks")
_LEFT_OUT = ("compilation", "per step", "points", "time")

Row = dict[str, str]
Columns = tuple[tuple[str, bool], ...]


def print_table(members: Sequence[Member], *, mode: str) -> None:
    """Print one row for each model, or for some of many, and what is to be said of them."""
    width = None if prints_to_terminal() else _WIDTH_WITHOUT_TERMINAL
    printer = console(width=width, highlight=False)
    printer.print(make_table(members, width=printer.width))
    if sought := unknowns_text(members):
        print(f"unknowns: {sought}")
    for remark in remarks(members, mode=mode):
        print(remark)


def make_table(members: Sequence[Member], *, width: int) -> Table:
    """One row for each model; of many, the first, those that did not finish, and ranges."""
    shown = rows_shown(members)
    columns = _columns_of_unknowns(members)
    rows = [_with_unknowns(_row(member), member, columns) for member in shown]
    if all(member.ended == _ALL_STEPS for member in members):
        rows = [_without(row, "ended") for row in rows]
    hidden = len(members) > len(shown)
    ranges = [_extremes(members, of, columns) for of in (min, max)] if hidden else []
    once = _fit([*rows, *ranges], width, common=_common(members))
    caption = [f"{name}: {text}" for name, text in once.items()]
    if any(len(member.stacked_with) > 1 for member in members):
        caption.append("members that are one computation share its time")
    if hidden:
        caption.append(f"min and max are of all {len(members):,} members")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    table.caption, table.caption_justify = "; ".join(caption) or None, "left"
    for heading in rows[0]:
        left = heading in ("problem", "ended")
        table.add_column(
            heading,
            justify="left" if left else "right",
            no_wrap=heading != "problem",
            min_width=_NARROWEST_PROBLEM if heading == "problem" else None,
        )
    for row in rows:
        table.add_row(*row.values())
    if hidden:
        table.add_row("…", end_section=True)
    for extreme in ranges:
        table.add_row(*(extreme.get(heading, "") for heading in rows[0]))
    return table


def rows_shown(members: Sequence[Member]) -> list[Member]:
    """All members, or of many the first ones and the first that did not finish."""
    if len(members) <= _MOST_ROWS:
        return list(members)
    unsound = [member for member in members[_FIRST_ROWS:] if member.status != FINISHED]
    return [*members[:_FIRST_ROWS], *unsound[: _MOST_ROWS - _FIRST_ROWS]]


def _common(members: Sequence[Member]) -> Row:
    """What is the same for all members, by heading."""
    first, *others = [_row(member) for member in members]
    return {name: first[name] for name in _SAID_ONCE if all(r[name] == first[name] for r in others)}


def _fit(rows: list[Row], width: int, *, common: Row) -> Row:
    """Take columns out of the rows until they fit; those whose content is to be said once."""
    once: Row = {}
    for heading, text in common.items():
        if _width(rows) > width:
            once[heading] = text
            _take_out(rows, heading)
    for heading in _LEFT_OUT:
        if _width(rows) > width:
            _take_out(rows, heading)
    return once


def _take_out(rows: list[Row], heading: str) -> None:
    for row in rows:
        row.pop(heading, None)


def _without(row: Row, heading: str) -> Row:
    return {name: text for name, text in row.items() if name != heading}


def _width(rows: Sequence[Row]) -> int:
    """Of the table, where the names of problems are folded as far as they may be."""
    widths = []
    for heading in rows[0]:
        widest = max(len(text) for row in rows for text in (heading, row.get(heading, "")))
        widths.append(min(widest, _NARROWEST_PROBLEM) if heading == "problem" else widest)
    return sum(widths) + _GAP * len(widths)


def _row(member: Member) -> Row:
    numbers = _numbers(member)
    return {
        "member": str(member.number),
        "ranks": _ranks_text(ranks_of([member])),
        "problem": member.problem,
        "points": _TEXTS["points"](numbers["points"]),
        "steps": _TEXTS["steps"](numbers["steps"]),
        "ended": member.ended,
        "loss": _MARKS[member.status] + _TEXTS["loss"](numbers["loss"]),
        **{name: _TEXTS[name](numbers[name]) for name in _AFTER_THE_LOSS},
    }


def _columns_of_unknowns(members: Sequence[Member]) -> Columns:
    """The numbers that are sought, if these are few, and whether the truth is known."""
    names: dict[str, bool] = {}
    for member in members:
        values = member.unknown_values
        for name, true in zip(values.names, values.true_numbers(), strict=True):
            names[name] = names.get(name, False) or bool(true)
    if len(names) > _MOST_UNKNOWNS:
        return ()
    return tuple(names.items())


def _of_unknowns(member: Member, columns: Columns) -> dict[str, float]:
    """The values and errors of a member by heading; NaN where it has none."""
    values = member.unknown_values
    numbers = dict(zip(values.names, member.kept_unknowns, strict=True))
    true = dict(zip(values.names, values.true_numbers(), strict=True))
    found = {}
    for name, known in columns:
        found[name] = float(numbers.get(name, math.nan))
        if known:
            found[f"error of {name}"] = relative_error(found[name], true.get(name))
    return found


def _with_unknowns(row: Row, member: Member, columns: Columns) -> Row:
    """The row with the unknowns behind the error of the solution."""
    more = {name: _unknown(name, v) for name, v in _of_unknowns(member, columns).items()}
    at = list(row).index("rel. L2 error") + 1
    texts = list(row.items())
    return dict([*texts[:at], *more.items(), *texts[at:]])


def _unknown(heading: str, value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:.1e}" if heading.startswith("error of ") else f"{value:.6g}"


def _extremes(members: Sequence[Member], of: Callable[..., float], unknowns: Columns) -> Row:
    """The least or the greatest of each column of numbers."""
    found = {"member": of.__name__}
    columns = [_numbers(member) for member in members]
    for name, text in _TEXTS.items():
        finite = [column[name] for column in columns if math.isfinite(column[name])]
        found[name] = text(of(finite)) if finite else ""
    sought = [_of_unknowns(member, unknowns) for member in members]
    for name in sought[0]:
        finite = [values[name] for values in sought if math.isfinite(values[name])]
        found[name] = _unknown(name, of(finite)) if finite else ""
    return found


def _numbers(member: Member) -> dict[str, float]:
    return {
        "points": member.points,
        "steps": member.steps,
        "loss": member.kept_loss,
        "rel. L2 error": member.on_own_domain.relative_l2_error,
        "time": member.seconds_train,
        "per step": member.microseconds_per_step,
        "compilation": member.seconds_compile,
    }


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _scientific(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.2e}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _microseconds(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:.1f} µs" if value < _MOST_MICROSECONDS else f"{value / 1e3:.1f} ms"


_MOST_MICROSECONDS = 10_000
_AFTER_THE_LOSS = ("rel. L2 error", "time", "per step", "compilation")
_TEXTS: dict[str, Callable[[float], str]] = {
    "points": _count,
    "steps": _count,
    "loss": _scientific,
    "rel. L2 error": _scientific,
    "time": _seconds,
    "per step": _microseconds,
    "compilation": _seconds,
}


def _ranks_text(ranks: Sequence[int]) -> str:
    """ "3", or "0–3" of several in a row."""
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}–{ranks[-1]}"
