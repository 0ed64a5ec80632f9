"""The command line of `sciml-par`, and its command `info`."""

import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

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
from sciml_par.programs.program import Options, run

_PROGRAM = "sciml-par"
_DESCRIPTION = """\
Print versions, MPI, ranks, hosts and GPUs, and try a collective in every way
in which it can run.

Under mpirun all ranks take part, and rank 0 prints:

    mpirun -np 4 sciml-par info

The exit code is 0 if every test that was tried is right, and 1 otherwise."""


@dataclass(kw_only=True)
class InfoOptions(Options):
    """The options of `sciml-par info`."""

    command: Literal["info"] = field(default="info", kw_only=False)
    """show what this machine has, and test collectives"""
    json: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """also write the page as JSON"""
    overwrite: bool = False
    """let --json replace a file"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for (collective)."""

    def info() -> int:
        return _info(InfoOptions.parse(_DESCRIPTION, arguments=arguments, program=_PROGRAM))

    run(info, program=_PROGRAM)


def _info(options: InfoOptions) -> int:
    """Print the facts and the self-test on rank 0, and return the exit code (collective)."""
    environment = dict(os.environ)  # as the user has set it: `init` changes it
    os.environ.setdefault("SCIML_PAR_STALL_LIMIT", "60")  # what is broken may hang
    init()
    ranks = current_world().communicator
    if launched_apart(ranks.size, launched_size(environment)) and launched_rank(environment):
        return 0  # of processes that the launcher could not join, the first one reports
    if options.json is not None:
        ranks.on_root(partial(_check_file, options.json, overwrite=options.overwrite))
    facts = gather_facts(current_world(), environment)
    if ranks.rank == 0:  # before the self-test, which may end the job
        print_facts(facts)
    outcomes = self_test(facts, ranks)
    if ranks.rank == 0:
        print_outcomes(outcomes)
    right = not any(outcome["wrong"] for outcome in outcomes)
    if options.json is not None:
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        content = {"date": date, "right": right, "self_test": outcomes, **facts}
        ranks.on_root(partial(write_text, options.json, f"{json.dumps(content, indent=2)}\n"))
    return int(not right)


def _check_file(path: Path, *, overwrite: bool) -> None:
    """Raise `OutputError` if `path` must not be replaced or cannot be written."""
    draft = draft_of(path)
    try:
        draft.touch()
        draft.unlink()
    except OSError as error:
        raise OutputError(f"cannot write the file {path}: {error.strerror or error}.") from None
    if path.exists() and not overwrite:
        raise OutputError(f"{path} already exists. Name another file, or pass --overwrite.")
