"""The table at the end of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sciml_par._terminal import console, prints_to_terminal
from sciml_par.results.linearized_bands import linearized_uncertainty
from sciml_par.results.member import FINISHED, Member, ranks_of
from sciml_par.results.text import fits_text, remarks, unknowns_text
from sciml_par.results.uncertainty import lines_of_numbers
from sciml_par.results.unknown_values import relative_error

_WIDTH_WITHOUT_TERMINAL, _WIDE = 120, 10_000
_MOST_ROWS, _FIRST_ROWS = 16, 8
_LEVEL = 0.95
_MOST_UNKNOWNS = 3
_MOST_MICROSECONDS = 10_000
_NARROWEST_PROBLEM = 16
# Where the table is too wide: what is said once, if it is the same for all; then what is left out.
_SAID_ONCE = ("problem", "points", "compilation", "steps", "ranks")
_LEFT_OUT = ("compilation", "per step", "points", "time")


@dataclass(frozen=True)
class _Column:
    """A column: a text for each member and, of numbers, the extremes over members."""

    heading: str
    value: Callable[[Member], Any]
    text: Callable[[Any], str] = str
    of_numbers: bool = True

    def of(self, member: Member) -> str:
        return self.text(self.value(member))

    def extreme(self, members: Sequence[Member], which: Callable[..., Any]) -> str:
        values = map(self.value, members) if self.of_numbers else ()
        finite = [value for value in values if math.isfinite(value)]
        return self.text(which(finite)) if finite else ""


def print_table(members: Sequence[Member], *, mode: str) -> None:
    """Print one row for each model, or for some of many, and remarks on them."""
    width = None if prints_to_terminal() else _WIDTH_WITHOUT_TERMINAL
    printer = console(width=width, highlight=False)
    printer.print(make_table(members, width=printer.width))
    if sought := unknowns_text(members):
        print(f"unknowns: {sought}")
    only = members[0].linearized if len(members) == 1 else None
    if only is not None and only.known:
        for line in lines_of_numbers(linearized_uncertainty(members[0], _LEVEL)):
            print(line)
    if fitted := fits_text(members):
        print(f"observations: {fitted}")
    for member in members:
        if member.error and len(members) == 1:
            print(member.error)
    for remark in remarks(members, mode=mode):
        print(remark)


def make_table(members: Sequence[Member], *, width: int) -> Table:
    """Return one row for each model; of many, the first, those that did not finish, and ranges."""
    columns = {column.heading: column for column in _columns(members)}
    if all(member.ended == "all steps" for member in members):
        del columns["ended"]
    texts = {name: {columns[name].of(member) for member in members} for name in _SAID_ONCE}
    once: list[str] = []
    table = _table(members, list(columns.values()), once)
    for heading in (*(name for name, found in texts.items() if len(found) == 1), *_LEFT_OUT):
        if _fits(table, width):
            break
        if columns.pop(heading, None) and len(texts.get(heading, ())) == 1:
            once.append(f"{heading}: {texts[heading].pop()}")
        table = _table(members, list(columns.values()), once)
    return table


def _fits(table: Table, width: int) -> bool:
    """Return whether a table fits where the names of problems are folded as far as they may be."""
    for column in table.columns:
        column.max_width = column.min_width  # that of problems alone has one
    natural = console(width=_WIDE).measure(table).maximum
    for column in table.columns:
        column.max_width = None
    return natural <= width


def _table(members: Sequence[Member], columns: Sequence[_Column], once: Sequence[str]) -> Table:
    shown = list(members)
    if len(members) > _MOST_ROWS:  # the first ones and the first that did not finish
        unsound = [member for member in members[_FIRST_ROWS:] if member.status != FINISHED]
        shown = [*members[:_FIRST_ROWS], *unsound[: _MOST_ROWS - _FIRST_ROWS]]
    caption = list(once)
    if any(len(member.stacked_with) > 1 for member in members):
        caption.append("members that are one computation share its time")
    if len(members) > len(shown):
        caption.append(f"min and max are of all {len(members):,} members")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.caption, table.caption_justify = "; ".join(caption) or None, "left"
    for column in columns:
        named = column.heading == "problem"
        table.add_column(
            column.heading,
            justify="left" if named or column.heading == "ended" else "right",
            no_wrap=not named,
            min_width=_NARROWEST_PROBLEM if named else None,
        )
    for member in shown:
        table.add_row(*(column.of(member) for column in columns))
    if len(members) > len(shown):
        table.add_row("…", end_section=True)
        for which in (min, max):
            extremes = [column.extreme(members, which) for column in columns[1:]]
            table.add_row(which.__name__, *extremes)
    return table


def _columns(members: Sequence[Member]) -> list[_Column]:
    return [
        _Column("member", lambda m: m.number),
        _Column("ranks", lambda m: ranks_of([m]), _ranks_text, of_numbers=False),
        _Column("problem", lambda m: m.problem, of_numbers=False),
        _Column("points", lambda m: m.points, "{:,}".format),
        _Column("steps", lambda m: m.steps, "{:,}".format),
        _Column("ended", lambda m: m.ended, of_numbers=False),
        _Loss("loss", lambda m: m.kept_loss, _scientific),
        _Column("rel. L2 error", lambda m: m.on_own_domain.relative_l2_error, _scientific),
        *([_Column("estimated", _estimated, _scientific)] if any(m.error for m in members) else []),
        *_columns_of_unknowns(members),
        _Column("time", lambda m: m.seconds_train, "{:.2f} s".format),
        _Column("per step", lambda m: m.microseconds_per_step, _microseconds),
        _Column("compilation", lambda m: m.seconds_compile, "{:.2f} s".format),
    ]


def _estimated(member: Member) -> float:
    return member.error.relative if member.error else math.nan


class _Loss(_Column):
    def of(self, member: Member) -> str:
        return ("" if member.status == FINISHED else "! ") + super().of(member)


def _columns_of_unknowns(members: Sequence[Member]) -> list[_Column]:
    """Return those of the numbers that are sought, if these are few, and of known errors."""
    known: dict[str, bool] = {}
    for member in members:
        for name, true in member.unknown_values.true_numbers.items():
            known[name] = known.get(name, False) or bool(true)
    columns = []
    for name in known if len(known) <= _MOST_UNKNOWNS else ():
        columns.append(_Column(name, partial(_unknown, name), partial(_or_nothing, "{:.6g}")))
        if known[name]:
            error = partial(_error, name)
            columns.append(_Column(f"error of {name}", error, partial(_or_nothing, "{:.1e}")))
    return columns


def _unknown(name: str, member: Member) -> float:
    numbers = zip(member.unknown_values.names, member.kept_unknowns, strict=True)
    return float(dict(numbers).get(name, math.nan))


def _error(name: str, member: Member) -> float:
    true = member.unknown_values.true_numbers.get(name)
    return relative_error(_unknown(name, member), true)


def _or_nothing(form: str, value: float) -> str:
    return "" if math.isnan(value) else form.format(value)


def _scientific(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.2e}"


def _microseconds(value: float) -> str:
    form = "{:.1f} µs" if value < _MOST_MICROSECONDS else "{:.1f} ms"
    return _or_nothing(form, value if value < _MOST_MICROSECONDS else value / 1e3)


def _ranks_text(ranks: Sequence[int]) -> str:
    """Return "3", or "0–3" of several in a row."""
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}–{ranks[-1]}"
