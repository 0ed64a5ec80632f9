"""The command line of `sciml-par`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from sciml_par.console.info import info
from sciml_par.programs.exit_codes import run
from sciml_par.programs.options import only_rank_0_prints

PROGRAM = "sciml-par"

_INFO = """\
Print versions, MPI, ranks, hosts and GPUs, and try a collective in every way
in which it can run. Under mpirun all ranks take part, and rank 0 prints:

    mpirun -np 4 sciml-par info

The exit code is 0 if every test that was tried is right, and 1 otherwise."""


class Options(argparse.Namespace):
    """The options of the command line; see `make_parser` for their meaning."""

    command: str
    json: Path | None
    overwrite: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for (collective).

    Parameters
    ----------
    arguments : the words behind the program's name; those of the process by default.

    Raises
    ------
    SystemExit
        With code 1 if a test went wrong, with 2 if the options or their files cannot be used.
    """
    with only_rank_0_prints():
        options = make_parser().parse_args(arguments, namespace=Options())
    run(lambda: info(record=options.json, overwrite=options.overwrite), program=PROGRAM)


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
