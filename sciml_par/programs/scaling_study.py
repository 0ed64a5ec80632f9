"""A program measured on several numbers of ranks: `--ranks 1,2,4`, and the resulting table.

Started by `mpirun`, such a program measures once. Started without, with `--ranks`, it launches
itself under `mpirun` for each number in turn and collects the records. `run_scaling_study` does
either; see scripts/pi.py.
"""

import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from sciml_par._files import write_text
from sciml_par._terminal import console, prints_to_terminal
from sciml_par._text import counted, listed
from sciml_par.errors import InputError, OutputError
from sciml_par.parallel.startup.cpu_threads import cores_of_this_process
from sciml_par.parallel.startup.launcher_environment import launched_rank
from sciml_par.programs.program import PositiveInteger, PositiveNumber, ProgramOptions, option_where
from sciml_par.results.stored.files import versions
from sciml_par.results.stored.folder import RESULTS

Record = dict[str, Any]

_WIDTH_WITHOUT_TERMINAL = 120
_NUMBERS = option_where(
    lambda text: tuple(sorted(int(part) for part in text.split(",") if text)),
    lambda counts: all(n >= 1 for n in counts) and len(set(counts)) == len(counts),
    "different integers ≥ 1",
    "P,Q,…",
)
_PAST_LIMIT = 124  # as the command `timeout` has it
_GRACE_SECONDS = 10.0
# Open MPI refuses more ranks than cores unless told; the names are those of versions 4 and 5.
_OVERSUBSCRIBE = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":OVERSUBSCRIBE",
}


@dataclass(kw_only=True)
class ScalingStudyOptions(ProgramOptions):
    """The options of every scaling study, to which a program adds fields."""

    ranks: Annotated[tuple[int, ...], _NUMBERS] = ()
    """launch the program under mpirun on each of these numbers of ranks, and compare them"""
    record: Annotated[Path | None, Parameter(metavar="FILE")] = None
    """write the record of this run, and neither table nor folder, as the runs of --ranks do"""
    threads: PositiveInteger = 1
    """cores that a rank keeps busy; with 1, ranks are compared and not threads"""
    time_limit: PositiveNumber = 600.0
    """seconds after which a run of --ranks is ended"""

    def complete(self) -> None:
        """Refuse --ranks in a program that mpirun has started."""
        if self.ranks and launched_rank(os.environ) is not None:
            raise InputError("--ranks starts mpirun: start the program without it")


def run_scaling_study(
    options: ScalingStudyOptions,
    measure: Callable[[Any], Record],
    show: Callable[[Any, list[Record], Path], None],
) -> None:
    """Measure on the ranks there are, or launch and compare, as the options say.

    Collective under `mpirun`; local with --ranks.

    Parameters
    ----------
    options : of the command line.
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
    if options.ranks:
        with options.output_folder() as folder:
            _finish(options, list(_launched(options, folder)), folder, show)
        return
    from sciml_par.parallel import current_world, init

    init(quiet=not options.verbose, threads=options.threads)
    world, communicator = current_world(), current_world().communicator
    place: Any = contextlib.nullcontext() if options.record else options.output_folder()
    with place as folder:
        local = {(world.host.world_ranks[0], core) for core in cores_of_this_process()}
        cores = len(set().union(*communicator.allgather_object(local)))
        ran_on = {"ranks": communicator.size, "threads": options.threads, "cores": cores}
        record = {**ran_on, **measure(options)}
        if options.record:
            text = json.dumps(record, indent=2) + "\n"
            communicator.on_root(partial(write_text, options.record, text))
        else:
            communicator.on_root(partial(_finish, options, [record], folder, show))


def _launched(options: ScalingStudyOptions, folder: Path) -> Iterator[Record]:
    """Yield the record of each number of ranks, in a folder without those of another study."""
    for old in (folder / RESULTS, *folder.glob("ranks-*.json")):
        old.unlink(missing_ok=True)
    for ranks in options.ranks:
        file = folder / f"ranks-{ranks}.json"
        words = [*sys.argv, "--ranks=", f"--record={file}"]  # an option's last value holds
        limits: Any = {"threads": options.threads, "seconds": options.time_limit}
        launch(ranks, words, program=options.program, **limits)
        try:
            yield json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise OutputError(f"a run has ended without its record {file}: {error}.") from None


def launch(
    ranks: int, arguments: Sequence[str], *, threads: int, seconds: float, program: str
) -> None:
    """Run `python arguments...` on `ranks` ranks, and wait for its end.

    What it prints is printed. It ends with this process, when that is interrupted or terminated.
    """
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise InputError(
            "--ranks needs mpirun, and there is none on PATH. Install one with "
            "pip install 'sciml-par[mpich]', or load your cluster's MPI module."
        )
    on = counted(ranks, "rank")
    print(f"{program}: {on} …", flush=True)
    crowded = ranks * threads > len(cores_of_this_process())
    environment = {**(_OVERSUBSCRIBE if crowded else {}), **os.environ}
    command = [mpirun, "-np", str(ranks), sys.executable, *arguments]
    leave = lambda number, _: sys.exit(128 + number)  # noqa: E731
    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        code = _PAST_LIMIT
    finally:
        process.terminate()  # asks a launcher that still runs to end its ranks
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    if code:
        code = code if code > 0 else 128 - code
        how = (
            f"was ended after {seconds:g} s" if code == _PAST_LIMIT else f"failed, exit code {code}"
        )
        print(f"{program}: error: the run on {on} {how}", file=sys.stderr)
        sys.exit(code)


def _finish(
    options: ScalingStudyOptions, records: list[Record], folder: Path, show: Callable[..., None]
) -> None:
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


def speed_up(ranks: npt.ArrayLike, seconds: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return S_P = P₀ T_{P₀} / T_P for numbers of ranks P: [k], P₀ the fewest; P is ideal."""
    p, t = np.asarray(ranks, np.float64), np.asarray(seconds, np.float64)
    return np.asarray(p.min() * t[p.argmin()] / t)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    console(width=None if prints_to_terminal() else _WIDTH_WITHOUT_TERMINAL).print(table)
