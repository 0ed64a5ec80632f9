"""Rows of findings: how ranks' rows become one, how they are printed, and what they add up to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
MACHINE = "machine"
"""The stage whose rows only say what there is; they check nothing."""

_WIDTHS = (46, 9)
_WORST_FIRST = (FAILED, SKIPPED, OK)
_TIMES = ("stream", "transfer", "return", "done")
_LEGEND = """
Medians per allreduce (Average, float32); every result was verified. Of several ranks: the slowest.
stream: the collective alone, between two marks on its stream; the rate is that of this time.
transfer: how long the host is in the call that enqueues it.
return, done: of a program with many, until its call comes back, and until all is done."""


@dataclass
class Row:
    """One finding.

    Attributes
    ----------
    stage : what ran: "machine", "one rank", "two ranks on one GPU", …
    what : what was looked at.
    result : OK, FAILED or SKIPPED.
    detail : what was seen, or the reason.
    numbers : measurements and facts; times in microseconds (…_us), rates in GB/s (…_gb_s).
    """

    stage: str
    what: str
    result: str
    detail: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def bus_bandwidth(size: int, nbytes: int, seconds: float) -> float:
    """GB/s of an allreduce of `nbytes` between P = `size` ranks: 2(P-1)/P · bytes / time.

    It is what the slowest link has to carry each way, so it compares with the link's own rate. One
    rank has no link: for P = 1 this is bytes / time, at which rate the GPU copies.
    """
    share = 2 * (size - 1) / size if size > 1 else 1.0
    return share * nbytes / seconds / 1e9


def byte_text(nbytes: int) -> str:
    """ "64 KiB"."""
    power = max(0, (max(nbytes, 1).bit_length() - 1) // 10)
    return f"{nbytes / 1024**power:g} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def merged(ranks: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows of all ranks as one list: the worst result, and the slowest rank's numbers.

    A row that a rank lacks is taken as failed there: the rank never came that far.
    """
    if len(ranks) == 1:
        return list(ranks[0])
    names = list(dict.fromkeys(row.what for rows in ranks for row in rows))
    tables = [{row.what: row for row in rows} for rows in ranks]
    return [_merged_row([table.get(name) for table in tables]) for name in names]


def _merged_row(rows: Sequence[Row | None]) -> Row:
    there = [row for row in rows if row is not None]
    results = [FAILED if row is None else row.result for row in rows]
    result = next(r for r in _WORST_FIRST if r in results)
    numbers = _merged_numbers(there)
    if result == OK:
        slowest = max(there, key=lambda row: row.numbers.get("done_us", 0.0))
        return Row(slowest.stage, slowest.what, OK, slowest.detail, numbers)
    details: dict[str, list[int]] = {}
    for rank, row in enumerate(rows):
        if results[rank] == result:
            details.setdefault(row.detail if row else "nothing came from it", []).append(rank)
    if len(details) == 1 and len(rows) == len(next(iter(details.values()))):
        detail = next(iter(details))
    else:
        detail = "; ".join(f"rank {', '.join(map(str, r))}: {text}" for text, r in details.items())
    return Row(there[0].stage, there[0].what, result, detail, numbers)


def _merged_numbers(rows: Sequence[Row]) -> dict[str, Any]:
    """Of times the longest, of rates the lowest; anything else is the first rank's."""
    numbers = dict(rows[0].numbers)
    for name in numbers:
        values = [row.numbers[name] for row in rows if isinstance(row.numbers.get(name), float)]
        if len(values) == len(rows):
            numbers[name] = min(values) if name.endswith("_gb_s") else max(values)
    return numbers


def table(rows: Sequence[Row]) -> str:
    """The rows as text, a headline for each stage; what is missing or wrong says why.

    Measurements that are right are left to `speed_table`.
    """
    lines = []
    stage = None
    for row in rows:
        if row.stage != stage:
            stage = row.stage
            lines.append(f"\n{stage:{_WIDTHS[0]}}{'result':{_WIDTHS[1]}}".rstrip())
        if row.result != OK or not _is_measured(row):
            lines.append(f"{row.what:{_WIDTHS[0]}}{row.result:{_WIDTHS[1]}}{row.detail}".rstrip())
    return "\n".join(lines)


def speed_table(rows: Sequence[Row]) -> str:
    """The measured allreduces, a line for each size; empty if there are none."""
    measured = [row for row in rows if row.result == OK and _is_measured(row)]
    # Rows come size by size, and stages one after the other; sorting keeps what it does not order.
    stages = list(dict.fromkeys(row.stage for row in measured))
    measured.sort(key=lambda row: (stages.index(row.stage), row.numbers["way"]))
    lines = [_LEGEND] if measured else []
    headline = None
    for row in measured:
        if (row.stage, row.numbers["way"]) != headline:
            headline = (row.stage, row.numbers["way"])
            unit = "GB/s bus" if row.numbers["ranks"] > 1 else "GB/s copied"
            names = "".join(f"{f'{name} µs':>13}" for name in _TIMES)
            lines.append(f"\n{row.stage}, allreduce, {row.numbers['way']}")
            lines.append(f"{'':10}{names}{unit:>14}")
        times = "".join(f"{_number(row.numbers[f'{name}_us']):>13}" for name in _TIMES)
        rate = _number(row.numbers["rate_gb_s"])
        lines.append(f"{byte_text(row.numbers['nbytes']):10}{times}{rate:>14}")
    return "\n".join(lines)


def _is_measured(row: Row) -> bool:
    return "nbytes" in row.numbers


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def summary(rows: Sequence[Row]) -> str:
    """One line on all rows but the machine's."""
    results = [row.result for row in rows if row.stage != MACHINE]
    if OK not in results and FAILED not in results:
        return "Nothing could be checked."
    counts = ", ".join(f"{results.count(r)} {r}" for r in (OK, FAILED, SKIPPED))
    return f"{len(results)} checks and measurements: {counts}."


def exit_code(rows: Sequence[Row]) -> int:
    """0 if something was checked and nothing failed; 1 if something failed, or nothing ran."""
    results = [row.result for row in rows if row.stage != MACHINE]
    return 0 if OK in results and FAILED not in results else 1


def write_json(path: Path, rows: Sequence[Row]) -> None:
    """All rows, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(found, indent=2) + "\n")
