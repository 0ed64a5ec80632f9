"""A problem solved in a process of its own with its settings, as catalogue.py has it.

python benchmarks/_catalogue_solving.py NAME FOLDER --seed 0 --seconds 300 noise=0.01
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _examples import problem_named, settings_of, training_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("parameters", nargs="*")
    options = parser.parse_args()
    import sciml_par as sp

    sp.init(quiet=True)
    named = (each.split("=") for each in options.parameters)
    problem = problem_named(options.name, **{key: json.loads(value) for key, value in named})
    given = training_of(options.name) | {"seed": options.seed}
    if options.seconds is not None:
        given["stop"] = sp.training.WallTime(seconds=options.seconds)
    sp.train(problem, **given).save(options.folder, overwrite=True, plots=False)


def solve(
    name: str, seed: int, *, seconds: int | None, parameters: Sequence[str]
) -> dict[str, Any]:
    """Solve a problem in another process, whose messages go to the standard error.

    Parameters
    ----------
    seconds : after which a training ends, by the clock; None for never.
    parameters : of the problem, as "noise=0.01".

    Returns
    -------
    The seed, the error, the largest error of unknowns, the steps, the seconds of training and of
    compilation by the clock, those which the processor worked for the whole program, and what says
    whether the problem has the same settings today.
    """
    load, before = os.getloadavg()[0], seconds_of_children()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, name, folder, "--seed", str(seed), *parameters]
        command += [] if seconds is None else ["--seconds", str(seconds)]
        ended = subprocess.run(command, check=False, stdout=sys.stderr)
        if ended.returncode:
            sys.exit(f"error: {name} ended with code {ended.returncode}")
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
        "with": circumstances(name, parameters),
    }


def seconds_of_children() -> float:
    """Return the processor's seconds for the programs that this one has started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def circumstances(name: str, parameters: Sequence[str]) -> dict[str, Any]:
    """Return all that a run depends on, as JSON: the settings and the problem's parameters."""
    return dict(json.loads(json.dumps({**settings_of(name), "parameters": sorted(parameters)})))


if __name__ == "__main__":
    main()
