"""Compare `sp.solve` with finite elements, spectral codes and DeepXDE: error against seconds.

    python benchmarks/baselines.py
    python benchmarks/baselines.py --problems poisson-2d,heat --methods sp.solve 'FEM, P1'

Each run is a process with one thread. It solves one problem by one method with one setting, and
counts the processor seconds from the problem's description to the solution in memory. Imports do
not count. The error is relative L2, at the same points for all methods of a problem.

The program writes benchmarks/results/baselines.json after each run, prints a table for each
problem, and draws benchmarks/results/baselines.png. Runs in that file are not repeated. With
`--page`, it writes the tables into docs/baselines.md, and the figure next to it. If scikit-fem or
DeepXDE is missing, their methods are left out; benchmarks/README.md says how to install them.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _baselines_methods import DEEPXDE, METHODS, SOLVE, TRAIN, Method
from _baselines_problems import CASES
from _examples import panels
from _runner import HERE, RESULTS, Row, answer, measure, parse, seconds_of, start, versions
from peers import Peer

from sciml_par.evaluation.figures.parts.style import PALETTE

PEERS, VENVS = HERE / "peers", HERE / ".venvs"
PEER = Peer("torch", "baselines_deepxde_peer.py")

LIMIT = 1200
"""Seconds by the clock, imports included, after which a run is ended."""

BY_SKFEM = ("elements.", "evolution.")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")} | {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "XLA_FLAGS": "",
}
DOCS = HERE.parent / "docs"
PAGE, FIGURE = DOCS / "baselines.md", DOCS / "figures" / "baselines.png"
STORED = FIGURE.with_suffix(".json")
"""The runs of the page, which a test compares with its tables."""

COLUMNS = {
    "problem": "problem:<20",
    "method": "method:<24",
    "setting": "shown:<22",
    "error": "error:10.1e",
    "processor, s": "cpu:14.3g",
}
FORWARD = "| method | error in processor seconds | estimated error |\n|---|---|---|"
INVERSE = (
    "| method | seed | found | error | truth in the 95 % interval | processor seconds |\n"
    "|---|---|---|---|---|---:|"
)
STYLES = {
    SOLVE: (PALETTE[1], "o-"),
    "FEM, P1": (PALETTE[5], ".-"),
    "FEM, P2": (PALETTE[0], ".-"),
    "FEM, P3": (PALETTE[6], ".-"),
    DEEPXDE: (PALETTE[3], "s"),
}
OTHERS = (PALETTE[2], "^-")


def main(arguments: Sequence[str] | None = None) -> None:
    labels = sorted({label for methods in METHODS.values() for label in methods})
    methods = {"nargs": "+", "default": labels, "choices": labels, "metavar": "LABEL"}
    options = parse(
        __doc__,
        arguments,
        problems=list(CASES),
        methods=(methods, "such as sp.solve 'FEM, P1'; default all"),
        again=(False, "repeat the runs in the file"),
        quick=(False, "the cheapest setting of each method alone"),
        json=RESULTS / "baselines.json",
        page=(False, "write the tables into docs/baselines.md"),
    )
    runs = measure(chosen(options), COLUMNS, run_of, file=options.json, again=options.again)
    print(tables(runs))
    draw(runs, options.json.with_suffix(".png"))
    if options.page:
        write_page(runs)


def chosen(options: Namespace) -> Iterator[Row]:
    """Yield the problems, methods and settings of the command line that can be run."""
    for name in options.problems:
        for label, method in METHODS[name].items():
            if label in options.methods and is_there(method):
                for setting in method.settings[: 1 if options.quick else None]:
                    yield {"problem": name, "method": label, "setting": setting}


def is_there(method: Method) -> bool:
    """Return whether the packages of a method are installed; print which one is not."""
    if method.function.startswith(BY_SKFEM) and not find_spec("skfem"):
        print(f"{method.label} is left out: scikit-fem is not installed")
        return False
    if method.label == DEEPXDE and not PEER.python(VENVS).exists():
        print(f"{method.label} is left out: there is no {PEER.python(VENVS)}")
        return False
    return True


def run_of(problem: str, method: str, setting: list[Any]) -> Row:
    before = seconds_of()
    about = {"with": versions(), "shown": METHODS[problem][method].shown(setting)}
    try:
        # A limit of processor seconds would make the clock of these seconds coarse.
        if method == DEEPXDE:
            return by_deepxde(problem, *setting) | about
        words = (measured, problem, method, setting)
        return dict(answer(start(*words, quiet=True, **ONE_THREAD), LIMIT)) | about
    except subprocess.TimeoutExpired:
        return {"error": math.nan, "cpu": seconds_of() - before} | about


def by_deepxde(name: str, seed: int) -> Row:
    case, x = CASES[name], CASES[name].points()
    arrays = {"name": name, "x": x, "exact": case.make().exact(x)}
    if case.inverse:
        data = case.make(seed=seed).conditions[-1]
        arrays |= {"places": data.x, "seen": data.u}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "case.npz"
        np.savez(file, **arrays)
        command = [str(PEER.python(VENVS)), str(PEERS / PEER.program), str(file)]
        environment = os.environ | ONE_THREAD
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        found: Row = answer(process, LIMIT)
    return found | ({"error": case.error(found["value"])} if "value" in found else {})


def measured(name: str, label: str, setting: list[Any]) -> Row:
    """Solve a problem, and return its error with the seconds that it took."""
    case, method = CASES[name], METHODS[name][label]
    solver = method.solver()
    case.points(), case.make()  # They import the catalogue.
    if label in (SOLVE, TRAIN):
        from _baselines_methods import prepare

        prepare()
        setting = [case, *setting]
    else:
        solver(*method.settings[0])  # SciPy and BLAS load parts of themselves at their first use.
    began = time.process_time()
    found = solver(*setting)
    used = time.process_time() - began
    found = found if isinstance(found, dict) else {"solution": found}
    compared = found.pop("solution") if "solution" in found else found["value"]
    return {"cpu": used, "error": case.error(compared)} | found


def tables(runs: Sequence[Row]) -> str:
    names = [name for name in CASES if by_method(name, runs)]
    return "\n\n".join(f"{name}: {CASES[name].title}\n{table(name, runs)}" for name in names)


def table(name: str, runs: Sequence[Row]) -> str:
    inverse = CASES[name].inverse
    lines = [INVERSE if inverse else FORWARD]
    for label, chosen in by_method(name, runs).items():
        if inverse:
            lines += [inverse_row(run) for run in chosen]
        elif label == SOLVE:
            lines += [row([run], f"{label}, {setting_of(run)}") for run in chosen]
        elif label == DEEPXDE:
            lines.append(row(chosen, label))
        else:
            # The name of the setting is written once: "cells 16 to 256".
            last = setting_of(chosen[-1]).split()[-1]
            span = f" to {last}" if len(chosen) > 1 else ""
            lines.append(row(chosen, f"{label}, {setting_of(chosen[0])}{span}"))
    return "\n".join(lines)


def by_method(name: str, runs: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the runs of a problem by label, in the order of the settings."""
    found = {}
    for label, method in METHODS[name].items():
        chosen = [run for run in runs if (run["problem"], run["method"]) == (name, label)]
        if chosen:
            found[label] = sorted(chosen, key=lambda r: method.settings.index(tuple(r["setting"])))
    return found


def setting_of(run: Row) -> str:
    return METHODS[run["problem"]][run["method"]].shown(run["setting"])


def row(runs: Sequence[Row], label: str) -> str:
    pairs = "; ".join(
        f"no solution after {seconds(run)}"
        if math.isnan(run["error"])
        else f"{run['error']:.1e} in {seconds(run)}"
        for run in runs
    )
    estimate = runs[0].get("estimate", math.nan)
    shown = "not known" if math.isnan(estimate) else f"{estimate:.1e}"
    return f"| {label} | {pairs} | {shown if runs[0]['method'] == SOLVE else ''} |"


def inverse_row(run: Row) -> str:
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


def seconds(run: Row) -> str:
    used = run["cpu"]
    return f"{used:.0f} s" if used >= 9.95 else f"{used:.2g} s" if used >= 0.1 else f"{used:.1g} s"


def write_page(runs: Sequence[Row], page: Path = PAGE) -> None:
    """Put the tables between the marks of the page, and store the runs next to its figure."""
    page.write_text(filled(page.read_text(encoding="utf-8"), runs), encoding="utf-8")
    rows = ",\n".join(json.dumps(run, ensure_ascii=False) for run in runs)
    head = json.dumps(versions(), ensure_ascii=False)
    STORED.write_text(f'{{"with": {head}, "runs": [\n{rows}\n]}}\n', encoding="utf-8")
    draw(runs, FIGURE)


def filled(text: str, runs: Sequence[Row]) -> str:
    for name in CASES:
        begin, end = f"<!-- table: {name} -->\n", "<!-- end of table -->"
        if begin in text:
            before, _, rest = text.partition(begin)
            after = rest.partition(end)[2]
            text = f"{before}{begin}\n{table(name, runs)}\n\n{end}{after}"
    return text


def draw(runs: Sequence[Row], file: Path) -> None:
    """Draw the error against processor seconds, a panel a forward problem."""

    def draw_panel(axes: Any, name: str) -> dict[str, Any]:
        handles = {}
        for label, chosen in by_method(name, runs).items():
            plain = label.removeprefix("adaptive ")
            color, style = STYLES.get(plain, OTHERS)
            style = style.replace("-", ":") if plain != label else style
            x, y = zip(*sorted((run["cpu"], run["error"]) for run in chosen), strict=True)
            (line,) = axes.loglog(x, y, style, color=color, markersize=4, linewidth=1)
            handles[label if plain in STYLES else "simple method (see tables)"] = line
        axes.set_title(name)
        return handles

    names = [name for name in CASES if not CASES[name].inverse and by_method(name, runs)]
    if names:
        columns = min(len(names), 4)
        panels(names, draw_panel, file, columns=columns, size=(2.3, 2.1), x="processor seconds")


if __name__ == "__main__":
    main()
