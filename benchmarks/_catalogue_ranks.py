"""Whether one and two ranks do the same on all problems, for catalogue.py."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _examples import problem_named, training_of

PROGRAM = Path(__file__).parent / "catalogue.py"

TO_ROUNDING = 1e-8
"""What losses and predictions may differ by, relatively. A step of least squares solves equations
of a condition of up to 1e10 or so, which makes that of the last digits, 1e-16."""

HEADING = f"{'problem':20}{'steps':>6}{'losses':>10}{'prediction':>12}"


def compare(names: Sequence[str], numbers: Sequence[int], steps: int) -> dict[str, Any]:
    """Train the problems on each number of ranks, print how far they differ, and return it."""
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            train_on(number, names, steps, Path(folder))
        print(HEADING, flush=True)
        found = {}
        for name in names:
            files = [np.load(file_of(Path(folder), name, number)) for number in numbers]
            found[name] = difference(files)
            print(row(name, found[name]), flush=True)
    return found


def train_on(number: int, names: Sequence[str], steps: int, folder: Path) -> None:
    """Train all problems in one job, which writes a file for each."""
    command = ["mpirun", "-np", str(number), sys.executable, str(PROGRAM), *names]
    command += ["--steps", str(steps), "--write", str(folder)]
    ended = subprocess.run(command, check=False, stdout=sys.stderr)
    if ended.returncode:
        sys.exit(f"error: the job of {number} ranks ended with code {ended.returncode}")


def file_of(folder: Path, name: str, ranks: int) -> Path:
    """Return the file in which a job of `ranks` ranks writes its result of a problem."""
    return folder / f"{name}-{ranks}.npz"


def train_each(names: Sequence[str], steps: int, folder: Path) -> None:
    """Train the problems with their settings, a few steps each, and write a file for each.

    The files hold the loss from the start on and the prediction at the end (collective).
    """
    import sciml_par

    sciml_par.init(quiet=True)
    for name in names:
        arguments = training_of(name) | {"steps": steps, "log_every": 1, "progress": False}
        result = sciml_par.train(problem_named(name), **arguments)
        if sciml_par.rank() == 0:
            member = result.members[0]
            found = {"losses": member.losses, "prediction": member.prediction.u}
            np.savez(file_of(folder, name, sciml_par.size()), **found)
            print(f"{name} on {sciml_par.size()}", flush=True)


def difference(files: Sequence[Any]) -> dict[str, float]:
    """Return the largest relative difference of losses and predictions from the first file."""
    first, *others = files
    found: dict[str, float] = {"steps": len(first["losses"]) - 1}
    for name in ("losses", "prediction"):
        scale = np.abs(first[name]) if name == "losses" else np.nanmax(np.abs(first[name]))
        found[name] = max(float(np.nanmax(np.abs(o[name] - first[name]) / scale)) for o in others)
    return found


def row(name: str, found: dict[str, float]) -> str:
    """Return a line of the table."""
    same = max(found["losses"], found["prediction"]) <= TO_ROUNDING
    return (
        f"{name:20}{found['steps']:6}{found['losses']:10.0e}{found['prediction']:12.0e}"
        f"{'' if same else '  more than by rounding'}"
    )
