"""Solve the problems of the catalogue and run the programs of examples/; make docs/gallery.md.

Each is a process of its own, `python scripts/solve.py NAME` or `python examples/NAME.py`, unless
its results are in the folder already. The page has, for each, a figure, the error, the seconds and
the command. What was found of problems that are not named stays on the page.

    python scripts/gallery.py
    python scripts/gallery.py heat burgers --again

Burgers' equation is drawn in docs/figures/burgers.png as well, for the first page.
"""

import io
import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from sciml_par import programs
from sciml_par._files import write_text, write_whole
from sciml_par.problems import catalogue_entries, catalogue_entry

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples"))

from _programs import NAMES, equation_of  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
PICTURES, PAGE = FIGURES / "gallery", ROOT / "docs" / "gallery.md"
FOUND = PICTURES / "found.json"
ON_FIRST_PAGE = FIGURES / "burgers.png"
MOST_BYTES, MOST_BYTES_THERE = 60_000, 149_000
SCALES = (0.7, 0.62, 0.55, 0.5, 0.45, 0.4)  # of figures with 200 dots an inch
CIRCUMSTANCES = "circumstances.json"

HEAD = """# Gallery

Run the command under a figure to solve its problem, of the [catalogue](catalogue.md) or of
`examples/`; `make gallery` generates this page. The error is the relative L2 error against the
exact solution or the reference. Seconds are on {cores} cores: of training, of compilation, and of
the processor for the whole command. Other programs ran at the same time: the load is the average
number of processes that were ready to run when the command began.

| Problem | Relative L2 error | Steps | Training | Compilation | Processor | Load |
|---|---|---|---|---|---|---|
"""


@dataclass
class Options(programs.Options):
    names: tuple[str, ...] = ()
    """of problems; all if none is named"""
    again: bool = field(default=False, kw_only=True)
    """solve what has been solved as well"""
    runs: Path = field(default=ROOT / "runs" / "gallery", kw_only=True)
    """folder for the results of the programs"""


def main() -> int:
    options = Options.parse(__doc__)
    names = [
        name if name in NAMES else catalogue_entry(name).name
        for name in options.names or [*catalogue_entries(), *NAMES]
    ]
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in names:
        folder = options.runs / "runs" / name
        if options.again or not (folder / "results.json").exists():
            solve(name, options.runs)
        # Another program may have solved others in the meantime.
        found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
        found[name] = what_was_found(folder)
        write_small(figure_of(folder), PICTURES / f"{name}.png", MOST_BYTES)
        if name == "burgers":
            write_small(figure_of(folder), ON_FIRST_PAGE, MOST_BYTES_THERE, scales=(1.0, 0.85))
        write_text(FOUND, json.dumps(found, indent=1, sort_keys=True) + "\n")
        write_text(PAGE, page_of(found))
        print(row_of(name, found[name]), flush=True)
    return 0


def command_of(name: str) -> list[str]:
    if name in NAMES:
        return [f"examples/{name.replace('-', '_')}.py"]
    return ["scripts/solve.py", name]


def solve(name: str, runs: Path) -> None:
    """Run a program in a folder, and note the load before and the seconds of the CPU."""
    cores, load, before = os.cpu_count(), os.getloadavg()[0], seconds_of_children()
    program, *words = command_of(name)
    words += [] if name in NAMES else ["--output", f"runs/{name}", "--overwrite"]
    command = [sys.executable, str(ROOT / program), *words]
    runs.mkdir(parents=True, exist_ok=True)
    code = subprocess.run(command, check=False, stdout=sys.stderr, cwd=runs).returncode
    if code:
        sys.exit(f"error: {program} {name} ended with code {code}")
    notes = {"load": load, "cpu": seconds_of_children() - before, "cores": cores}
    write_text(runs / "runs" / name / CIRCUMSTANCES, json.dumps(notes) + "\n")


def seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def what_was_found(folder: Path) -> dict[str, Any]:
    file = folder / CIRCUMSTANCES  # without it, nothing is known of a run
    notes: dict[str, Any] = {"load": None, "cpu": None, "cores": os.cpu_count()}
    notes |= json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    (member,) = json.loads((folder / "results.json").read_text(encoding="utf-8"))["members"]
    return {
        "error": member["relative_l2_error"],
        "steps": member["steps"],
        "steps_asked": member["steps_asked"],
        "seconds": member["seconds_train"],
        "compile": member["seconds_compile"],
        **notes,
        "unknowns": {each["name"]: [each["value"], each["true"]] for each in member["unknowns"]},
    }


def figure_of(folder: Path) -> Path:
    """Return the figure of a run that shows its kind of problem best."""
    kinds = ("unknowns", "flow", "slices", "body", "prediction")
    return next(path for kind in kinds if (path := folder / f"{kind}.png").exists())


def write_small(
    source: Path, target: Path, most: int, *, scales: tuple[float, ...] = SCALES
) -> None:
    """Write a figure with 256 colours, in the largest scale in which it is small enough."""
    with Image.open(source) as opened:
        figure = opened.convert("RGB")
    for scale in scales:
        size = (round(figure.width * scale), round(figure.height * scale))
        small = figure.resize(size, Image.Resampling.LANCZOS)
        file = io.BytesIO()
        small.quantize(256, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
        if len(file.getvalue()) <= most:
            break
    else:
        sys.exit(f"error: {target} has {len(file.getvalue()):,} bytes in its smallest scale")
    write_whole(target, lambda out: out.write_bytes(file.getvalue()))


def page_of(found: dict[str, Any]) -> str:
    """Return the text of docs/gallery.md."""
    names = [name for name in (*catalogue_entries(), *NAMES) if name in found]
    parts = [
        HEAD.format(cores=" or ".join(map(str, sorted({of["cores"] for of in found.values()}))))
    ]
    parts += [row_of(name, found[name]) for name in names]
    parts += [section_of(name, found[name]) for name in names]
    return "".join(parts)


def row_of(name: str, of: dict[str, Any]) -> str:
    """Return a row of the table; it says if the time was over before the last step."""
    done, asked = of["steps"], of["steps_asked"]
    steps = str(done) if done == asked else f"{done} of {asked}"
    cpu = "–" if of["cpu"] is None else f"{of['cpu']:.3g}"
    load = "–" if of["load"] is None else f"{of['load']:.0f}"
    return (
        f"| [{name}](#{name}) | {of['error']:.1e} | {steps} | {of['seconds']:.3g} "
        f"| {of['compile']:.3g} | {cpu} | {load} |\n"
    )


def section_of(name: str, of: dict[str, Any]) -> str:
    """Return the problem, its figure, the command and the unknowns that it found."""
    equation = equation_of(name) if name in NAMES else catalogue_entry(name).equation
    unknowns = of["unknowns"].items()
    found = [f"{unknown} = {value:.9g} (true {true:.9g})" for unknown, (value, true) in unknowns]
    return f"""
## {name}

{equation}.

![{name}: the result](figures/gallery/{name}.png)

`python {" ".join(command_of(name))}`{": " if found else ""}{"; ".join(found)}
"""


if __name__ == "__main__":
    programs.run(main)
