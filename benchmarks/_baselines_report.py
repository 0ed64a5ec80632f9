"""The tables, the page and the figure of `baselines.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _baselines_methods import DEEPXDE, METHODS, SOLVE
from _baselines_problems import CASES

from sciml_par.evaluation.figures.parts.style import PALETTE, paper_style

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FIGURE = DOCS / "baselines.md", DOCS / "figures" / "baselines.png"
STORED = FIGURE.with_suffix(".json")
"""The runs of the page, which a test compares with its tables."""

Run = dict[str, Any]
Runs = Sequence[Run]

_FORWARD = "| method | error in processor seconds | estimated error |\n|---|---|---|"
_INVERSE = (
    "| method | seed | found | error | truth in the 95 % interval | processor seconds |\n"
    "|---|---|---|---|---|---:|"
)


def tables(runs: Runs) -> str:
    """Return the tables of all problems, with their titles."""
    names = [name for name in CASES if _by_method(name, runs)]
    return "\n\n".join(f"{name}: {CASES[name].title}\n{table(name, runs)}" for name in names)


def table(name: str, runs: Runs) -> str:
    """Return the Markdown table of a problem."""
    inverse = CASES[name].inverse
    lines = [_INVERSE if inverse else _FORWARD]
    for label, chosen in _by_method(name, runs).items():
        if inverse:
            lines += [_inverse_row(run) for run in chosen]
        elif label == SOLVE:
            lines += [_row([run], f"{label}, {setting_of(run)}") for run in chosen]
        elif label == DEEPXDE:
            lines.append(_row(chosen, label))
        else:
            # The name of the setting is written once: "cells 16 to 256".
            last = setting_of(chosen[-1]).split()[-1]
            span = f" to {last}" if len(chosen) > 1 else ""
            lines.append(_row(chosen, f"{label}, {setting_of(chosen[0])}{span}"))
    return "\n".join(lines)


def _by_method(name: str, runs: Runs) -> dict[str, list[Run]]:
    """Return the runs of a problem by label, in the order of the settings."""
    found = {}
    for label, method in METHODS[name].items():
        chosen = [run for run in runs if (run["problem"], run["method"]) == (name, label)]
        if chosen:
            found[label] = sorted(chosen, key=lambda r: method.settings.index(tuple(r["setting"])))
    return found


def setting_of(run: Run) -> str:
    """Return the setting of a run in words."""
    return METHODS[run["problem"]][run["method"]].shown(run["setting"])


def _row(runs: Runs, label: str) -> str:
    pairs = "; ".join(
        f"no solution after {seconds(run)}"
        if math.isnan(run["error"])
        else f"{run['error']:.1e} in {seconds(run)}"
        for run in runs
    )
    estimate = runs[0].get("estimate", math.nan)
    shown = "not known" if math.isnan(estimate) else f"{estimate:.1e}"
    return f"| {label} | {pairs} | {shown if runs[0]['method'] == SOLVE else ''} |"


def _inverse_row(run: Run) -> str:
    number = "value" in run
    found = f"{run['value']:.4f}" if number else ""
    if "deviation" in run:
        known = not math.isnan(run["deviation"])
        found += f" ± {run['deviation']:.4f}" if known else ", interval not known"
    covers = run.get("covers", math.nan)
    if math.isnan(covers):
        held = "not stated"
    else:
        held = ("yes" if covers else "no") if number else f"at {covers:.0%} of the points"
    return (
        f"| {run['method']} | {run['setting'][0]:g} | {found} | {run['error']:.1%} | {held} | "
        f"{seconds(run)} |"
    )


def seconds(run: Run) -> str:
    """Return the processor seconds with two digits."""
    used = run["cpu"]
    return f"{used:.0f} s" if used >= 9.95 else f"{used:.2g} s" if used >= 0.1 else f"{used:.1g} s"


def write_page(record: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables between the marks of the page, and store the runs next to its figure."""
    page.write_text(filled(page.read_text(encoding="utf-8"), record["runs"]), encoding="utf-8")
    rows = ",\n".join(json.dumps(run, ensure_ascii=False) for run in record["runs"])
    head = json.dumps(record["with"], ensure_ascii=False)
    STORED.write_text(f'{{"with": {head}, "runs": [\n{rows}\n]}}\n', encoding="utf-8")
    draw(record["runs"], FIGURE)


def filled(text: str, runs: Runs) -> str:
    """Return the text of a page with the tables of the runs."""
    for name in CASES:
        begin, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
        if begin in text:
            before, _, rest = text.partition(begin)
            after = rest.partition(end)[2]
            text = f"{before}{begin}\n{table(name, runs)}\n\n{end}{after}"
    return text


_STYLES = {
    SOLVE: (PALETTE[1], "o-"),
    "FEM, P1": (PALETTE[5], ".-"),
    "FEM, P2": (PALETTE[0], ".-"),
    "FEM, P3": (PALETTE[6], ".-"),
    DEEPXDE: (PALETTE[3], "s"),
}
_OTHERS = (PALETTE[2], "^-")


def draw(runs: Runs, file: Path) -> None:
    """Draw the error against processor seconds, a panel a forward problem."""
    from matplotlib.figure import Figure

    names = [name for name in CASES if not CASES[name].inverse and _by_method(name, runs)]
    if not names:
        return
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    with paper_style():
        figure = Figure(figsize=(2.3 * columns, 2.1 * rows + 0.5), layout="constrained")
        handles: dict[str, Any] = {}
        for place, name in enumerate(names):
            axes = figure.add_subplot(rows, columns, place + 1)
            handles |= _panel(axes, name, runs)
            axes.set_title(name)
            axes.set_xlabel("processor seconds" if place >= len(names) - columns else "")
            axes.set_ylabel("relative L2 error" if place % columns == 0 else "")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=130)


def _panel(axes: Any, name: str, runs: Runs) -> dict[str, Any]:
    """Draw a problem, and return a line for each kind of method."""
    handles = {}
    for label, chosen in _by_method(name, runs).items():
        plain = label.removeprefix("adaptive ")
        color, style = _STYLES.get(plain, _OTHERS)
        style = style.replace("-", ":") if plain != label else style
        chosen.sort(key=lambda run: run["cpu"])
        x, y = ([run[key] for run in chosen] for key in ("cpu", "error"))
        (line,) = axes.loglog(x, y, style, color=color, markersize=4, linewidth=1)
        handles[label if plain in _STYLES else "simple method (see tables)"] = line
    return handles
