"""The command line of `sciml-par`, and its command `info`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from sciml_par.info.facts import gather_facts
from sciml_par.info.json_file import check_json_file, write_json_file
from sciml_par.info.report import facts_sections, print_report, self_test_sections
from sciml_par.info.self_test import self_test
from sciml_par.parallel.groups.world import current_world
from sciml_par.parallel.startup.init import init
from sciml_par.programs.exit_codes import run
from sciml_par.programs.launcher_environment import launched_rank, launched_size
from sciml_par.programs.options import only_rank_0_prints

PROGRAM = "sciml-par"

_STALL_LIMIT = "SCIML_PAR_STALL_LIMIT"
_STALL_LIMIT_SECONDS = "60"
_INFO = """\
Print versions, MPI, ranks, hosts and GPUs, and try a collective in every way
in which it can run. Under mpirun all ranks take part, and rank 0 prints:

    mpirun -np 4 sciml-par info

The exit code is 0 if every test that was tried is right, and 1 otherwise."""


class InfoOptions(argparse.Namespace):
    """The options of the command line; see `make_parser` for their meaning."""

    command: str
    json: Path | None
    overwrite: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for (collective)."""
    with only_rank_0_prints():
        options = make_parser().parse_args(arguments, namespace=InfoOptions())
    run(lambda: info(json_file=options.json, overwrite=options.overwrite), program=PROGRAM)


def make_parser() -> argparse.ArgumentParser:
    """The parser of `main`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Parallel scientific machine learning on TensorFlow.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    about = commands.add_parser(
        "info",
        help="what this machine has, and whether collectives work",
        description=_INFO,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about.add_argument("--json", type=Path, metavar="FILE", help="write the same as JSON, too")
    about.add_argument(
        "--overwrite", action="store_true", help="allow --json to name a file that is there"
    )
    return parser


def info(*, json_file: Path | None = None, overwrite: bool = False) -> int:
    """Print the facts and the self-test on rank 0 (collective)."""
    # `init` changes it, and what the user has set is what matters.
    environment = dict(os.environ)
    # What does not work may hang, and a diagnosis has to end.
    os.environ.setdefault(_STALL_LIMIT, _STALL_LIMIT_SECONDS)
    init()
    world = current_world()
    communicator = world.communicator
    stray = _is_stray(communicator.size, environment)
    prints = communicator.rank == 0 and not stray
    if json_file is not None and not stray:
        communicator.on_root(partial(check_json_file, json_file, overwrite=overwrite))
    facts = gather_facts(world, environment)
    if prints:
        # Before the self-test, which may end the job.
        print_report(facts_sections(facts))
    outcomes = self_test(facts, communicator)
    if prints:
        print_report(self_test_sections(outcomes))
    if json_file is not None and not stray:
        communicator.on_root(partial(write_json_file, json_file, facts, outcomes))
    return int(any(outcome.wrong for outcome in outcomes))


def _is_stray(size: int, environment: Mapping[str, str]) -> bool:
    """Whether this is one of several processes that the launcher could not join, but the first.

    Each of them is rank 0 of 1, and one report is enough.
    """
    launched_apart = size == 1 and (launched_size(environment) or 1) > 1
    return launched_apart and bool(launched_rank(environment))
