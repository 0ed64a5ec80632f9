"""A problem of the catalogue solved by scripts/solve.py, as catalogue.py has it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sciml_par.problems import CatalogueEntry

SOLVE = Path(__file__).parents[1] / "scripts" / "solve.py"
STOPPED = 75  # the exit code of solve.py where its time is over


def solve(
    entry: CatalogueEntry, seed: int, *, seconds: int | None, parameters: Sequence[str]
) -> dict[str, Any]:
    """Run solve.py and return its result; its messages go to the standard error.

    Parameters
    ----------
    seconds : after which a training ends, by the clock; None for never.
    parameters : of the problem, as "noise=0.01".

    Returns
    -------
    The seed, the error, the largest error of unknowns, the steps, the seconds of training and of
    compilation by the clock, those which the processor worked for the whole program, and what says
    whether the catalogue suggests the same today.
    """
    load, before = os.getloadavg()[0], seconds_of_children()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(SOLVE), entry.name, "--seed", str(seed), "--no-plots"]
        command += ["--output", folder]
        command += [] if seconds is None else ["--wall-time", str(seconds)]
        command += [word for each in parameters for word in ("--parameter", each)]
        ended = subprocess.run(command, check=False, stdout=sys.stderr)
        if ended.returncode not in (0, STOPPED):
            sys.exit(f"error: solve.py {entry.name} ended with code {ended.returncode}")
        (member,) = json.loads((Path(folder) / "results.json").read_text())["members"]
    return {
        "seed": seed,
        "error": member["relative_l2_error"],
        "unknowns": max((each["relative_error"] for each in member["unknowns"]), default=0.0),
        "found": {each["name"]: each["value"] for each in member["unknowns"]},
        "steps": member["steps"],
        "seconds": member["seconds_train"],
        "compile": member["seconds_compile"],
        "cpu": seconds_of_children() - before,
        "load": load,
        "ended": member["ended"],
        "with": circumstances(entry, parameters),
    }


def seconds_of_children() -> float:
    """Return the processor's seconds for the programs that this one has started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def circumstances(entry: CatalogueEntry, parameters: Sequence[str]) -> dict[str, Any]:
    """Return all that a run depends on, as JSON: the suggestion and the problem's parameters."""
    suggestion = asdict(entry.suggestion)
    return dict(json.loads(json.dumps({**suggestion, "parameters": sorted(parameters)})))
