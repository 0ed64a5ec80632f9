"""The command line of `sciml-par`, and its command `info`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sciml_par._files import draft_of, write_text
from sciml_par.errors import OutputError
from sciml_par.info.facts import gather_facts
from sciml_par.info.report import print_facts, print_outcomes
from sciml_par.info.self_test import self_test
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.startup.init import init
from sciml_par.parallel.startup.launcher_environment import (
    launched_apart,
    launched_rank,
    launched_size,
)
from sciml_par.programs.exit_codes import run
from sciml_par.programs.options import only_rank_0_prints

_PROGRAM = "sciml-par"
_DESCRIPTION = """\
Print versions, MPI, ranks, hosts and GPUs, and try a collective in every way
in which it can run. Under mpirun all ranks take part, and rank 0 prints:

    mpirun -np 4 sciml-par info

The exit code is 0 if every test that was tried is right, and 1 otherwise."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for (collective)."""
    with only_rank_0_prints():
        options = make_parser().parse_args(arguments)
    run(partial(_info, options.json, overwrite=options.overwrite), program=_PROGRAM)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `main`."""
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Parallel scientific machine learning on TensorFlow.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info",
        help="show what this machine has, and test collectives",
        description=_DESCRIPTION,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    info.add_argument("--json", type=Path, metavar="FILE", help="also write the page as JSON")
    info.add_argument("--overwrite", action="store_true", help="let --json replace a file")
    return parser


def _info(file: Path | None, *, overwrite: bool) -> int:
    """Print the facts and the self-test on rank 0, and return the exit code (collective)."""
    environment = dict(os.environ)  # as the user has set it: `init` changes it
    os.environ.setdefault("SCIML_PAR_STALL_LIMIT", "60")  # what is broken may hang
    init()
    world = current_world()
    ranks, launched = world.communicator, launched_size(environment)
    # Each process that the launcher could not join is rank 0 of 1, and one report is enough.
    silent = launched_apart(ranks.size, launched) and bool(launched_rank(environment))
    prints = ranks.rank == 0 and not silent
    file = None if silent else file
    if file is not None:
        ranks.on_root(partial(_check_file, file, overwrite=overwrite))
    facts = gather_facts(world, environment)
    if prints:  # before the self-test, which may end the job
        print_facts(facts)
    outcomes = self_test(facts, ranks)
    if prints:
        print_outcomes(outcomes)
    wrong = any(outcome["wrong"] for outcome in outcomes)
    if file is not None:
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        content = {"date": date, "right": not wrong, "self_test": outcomes, **facts}
        ranks.on_root(partial(write_text, file, f"{json.dumps(content, indent=2)}\n"))
    return int(wrong)


def _check_file(path: Path, *, overwrite: bool) -> None:
    """Raise `OutputError` if `path` must not be replaced or cannot be written."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path} already exists. Name another file, or pass --overwrite.")
    draft = draft_of(path)
    try:
        draft.touch()
        draft.unlink()
    except OSError as error:
        raise OutputError(f"cannot write the file {path}: {error.strerror or error}.") from None
