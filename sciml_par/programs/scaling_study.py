"""A program measured on several numbers of ranks: `--ranks 1,2,4`, and the resulting table.

Started by `mpirun`, such a program measures once. Started without, with `--ranks`, it launches
itself under `mpirun` for each number in turn and collects the records. `run_scaling_study` does
either; see scripts/pi.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from sciml_par._files import write_text
from sciml_par._terminal import console, prints_to_terminal
from sciml_par._text import counted, listed
from sciml_par.errors import OutputError
from sciml_par.parallel.startup.launcher_environment import launched_rank
from sciml_par.programs.launcher import launch
from sciml_par.programs.options import (
    VERBOSE,
    add_options,
    add_output_options,
    new_parser,
    only_rank_0_prints,
    output_folder,
    positive_integer,
    positive_number,
)
from sciml_par.results.stored.files import versions
from sciml_par.results.stored.folder import RESULTS

Record = dict[str, Any]
Show = Callable[[Any, list[Record], Path], None]

_WIDTH_WITHOUT_TERMINAL = 120


def make_scaling_study_parser(
    description: str | None, *, program: str | None = None
) -> argparse.ArgumentParser:
    """Return a parser with the options of every scaling study, for a program to add its options."""
    parser = new_parser(description, program)
    _add_own_options(parser)
    cores = "cores that a rank keeps busy (default 1, to compare ranks, not threads)"
    limit = "end a run of --ranks after this time (default 600)"
    add_options(
        parser,
        ("--threads", positive_integer, "N", cores, 1),
        ("--time-limit", positive_number, "SECONDS", limit, 600),
        VERBOSE,
    )
    return parser


def run_scaling_study(
    parser: argparse.ArgumentParser, measure: Callable[[Any], Record], show: Show
) -> None:
    """Measure on the ranks there are, or launch and compare, as the command line says.

    Collective under `mpirun`; local with --ranks.

    Parameters
    ----------
    parser : from `make_scaling_study_parser`.
    measure : given the options, does the work on every rank after `init` and returns what JSON
        can hold. Rank 0's is kept, with "ranks", "threads" and "cores" added.
    show : given the options, the records [k] by number of ranks, and the folder of the results,
        prints the table and draws; it runs on one process.

    Raises
    ------
    InputError
        With --ranks, there is no mpirun.
    OutputError
        The folder holds other results, or cannot be written.
    SystemExit
        A launched run has failed: with its exit code, or 124 if it was past the time limit.
    """
    with only_rank_0_prints():
        options = parser.parse_args()
        if options.ranks and launched_rank(os.environ) is not None:
            parser.error("--ranks starts mpirun: start the program without it")
    options.program = parser.prog
    if options.ranks:
        _compare(options, show)
    else:
        _measure_here(options, measure, show)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    console(width=None if prints_to_terminal() else _WIDTH_WITHOUT_TERMINAL).print(table)


def _add_own_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that a launched run does not inherit."""
    ranks = (
        "launch this program under mpirun on each of these numbers of ranks, one after the other, "
        "and compare them, such as 1,2,4"
    )
    record = (
        "write the record of this run to FILE, and neither table nor folder, as the runs of "
        "--ranks do"
    )
    options = ("--ranks", _rank_counts, "P,Q,…", ranks), ("--record", Path, "FILE", record)
    add_options(parser, *options)
    add_output_options(parser, f"runs/{parser.prog}")


def _rank_counts(text: str) -> tuple[int, ...]:
    counts = sorted(positive_integer(part) for part in text.split(","))
    if len(set(counts)) < len(counts):
        raise argparse.ArgumentTypeError(f"expected each number once; got {text!r}")
    return tuple(counts)


def _compare(options: argparse.Namespace, show: Show) -> None:
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_own_options(own)
    _, inherited = own.parse_known_args()
    with _output_folder(options, lambda claim: claim()) as folder:
        for old in (folder / RESULTS, *folder.glob("ranks-*.json")):
            old.unlink(missing_ok=True)
        records, limits = [], {"threads": options.threads, "seconds": options.time_limit}
        for ranks in options.ranks or ():
            file = folder / f"ranks-{ranks}.json"
            arguments = [sys.argv[0], *inherited, "--record", str(file)]
            launch(ranks, arguments, program=options.program, **limits)
            try:
                records.append(json.loads(file.read_text(encoding="utf-8")))
            except (OSError, ValueError) as error:
                text = f"a run has ended without its record {file}: {error}."
                raise OutputError(text) from None
        _finish(options, records, folder, show)


def _measure_here(
    options: argparse.Namespace, measure: Callable[[Any], Record], show: Show
) -> None:
    from sciml_par.parallel import current_world, init
    from sciml_par.parallel.startup.cpu_threads import cores_of_this_process

    init(quiet=not options.verbose, threads=options.threads)
    world, communicator = current_world(), current_world().communicator
    on_root = communicator.on_root

    def measured() -> Record:
        local = {(world.host.world_ranks[0], core) for core in cores_of_this_process()}
        cores = len(set().union(*communicator.allgather_object(local)))
        ran_on = {"ranks": communicator.size, "threads": options.threads, "cores": cores}
        return {**ran_on, **measure(options)}

    if options.record is not None:
        text = json.dumps(measured(), indent=2) + "\n"
        on_root(partial(write_text, options.record, text))
        return
    with _output_folder(options, on_root) as folder:
        record = measured()
        on_root(partial(_finish, options, [record], folder, show))


def _output_folder(
    options: argparse.Namespace, on_root: Callable[[Callable[[], Path]], Path]
) -> AbstractContextManager[Path]:
    default = Path("runs") / options.program
    return output_folder(options.output, default, overwrite=options.overwrite, on_root=on_root)


def _finish(options: argparse.Namespace, records: list[Record], folder: Path, show: Show) -> None:
    """Show the records with a remark on the cores, and write them."""
    show(options, records, folder)
    print(remark_on_cores(records), end="")
    summary = {
        "arguments": {name: value for name, value in vars(options).items() if name != "record"},
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "runs": records,
    }
    write_text(folder / RESULTS, json.dumps(summary, indent=2, default=str) + "\n")
    print(f"results in {folder}")


def remark_on_cores(records: Sequence[Record]) -> str:
    """Return a remark on runs with more busy threads than cores, empty if there are none."""
    crowded = [r for r in records if r["ranks"] * r["threads"] > r["cores"]]
    if not crowded:
        return ""
    counts, cores = listed([str(r["ranks"]) for r in crowded]), crowded[-1]["cores"]
    return (
        f"More ranks than cores: {counts} ranks shared {counted(cores, 'core')}. Their times do "
        "not show how the program scales.\n"
    )
