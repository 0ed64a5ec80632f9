"""What command-line programs on this package share: options, one voice, exit codes.

`run` a `main` that calls `parse` first and `sciml_par.init` next; see scripts/.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciml_par.errors import SciMLParError

if TYPE_CHECKING:
    from sciml_par.results.result import Result

_BAD_INPUT = 2
_NOT_SOUND = 3
_LAUNCHER_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
PROGRAM = Path(sys.argv[0]).stem

_HELP = {
    "default": "default %(default)s",
    "mode": "data: all ranks train one model, each on its part of the domain (default); "
    "ensemble: each rank trains models of its own",
    "steps": "updates of the weights (default %(default)s)",
    "points": "equispaced points per rank, both ends included (default {})",
    "rate": "of Adam (default %(default)s)",
    "scale": "multiply the learning rate by the number of ranks (default in mode data)",
    "width": "units per hidden layer (default %(default)s)",
    "depth": "hidden layers (default %(default)s)",
    "seed": "of the initial weights; members derive theirs from it (default %(default)s)",
    "members": "models per rank in mode ensemble (default %(default)s)",
    "output": "folder for results (default runs/{}-MODE, numbered if it is there)",
    "overwrite": "allow --output to name a folder with the results of another run",
    "log": "steps between recorded losses (default %(default)s)",
}


class Options(argparse.Namespace):
    """The options that every training program has; see `make_parser` for their meaning."""

    program: str
    mode: str
    steps: int
    points: int
    learning_rate: float
    scale_learning_rate: bool
    width: int
    depth: int
    seed: int
    precision: str
    members: int
    output: Path | None
    overwrite: bool
    log_every: int
    plots: bool
    verbose: bool

    def training(self) -> dict[str, Any]:
        """These options as arguments of `sciml_par.train`; call it after `init`."""
        from sciml_par.networks import MLP
        from sciml_par.parallel import size
        from sciml_par.training import Adam

        scale = size() if self.scale_learning_rate else 1
        return {
            "mode": self.mode,
            "points": self.points,
            "network": partial(MLP, width=self.width, depth=self.depth),
            "optimizer": Adam(learning_rate=self.learning_rate * scale),
            "steps": self.steps,
            "members": self.members,
            "seed": self.seed,
            "precision": self.precision,
            "log_every": self.log_every,
        }

    def announce(self) -> None:
        """Say on rank 0 what is about to run (local)."""
        from sciml_par.parallel import current_world

        world = current_world()
        ranks = f"{world.communicator.size} rank{'s' * (world.communicator.size > 1)}"
        models = "" if self.mode == "data" else f", {self.members} member(s) per rank"
        if world.communicator.rank == 0:
            print(
                f"{self.program}: mode {self.mode}, {ranks}{models}, {self.steps:,} steps, "
                f"{self.precision}, {world.threads} thread(s) per rank",
                flush=True,
            )

    @contextlib.contextmanager
    def output_folder(self) -> Iterator[Path]:
        """The folder for the results, made before any work is done (collective).

        Without --output it is runs/PROGRAM-MODE, or that with the first free number, and goes
        again if the work fails.
        """
        from sciml_par.parallel import current_world
        from sciml_par.results.folder import claim_folder, claim_numbered_folder

        def claim() -> Path:
            if self.output is not None:
                return claim_folder(self.output, overwrite=self.overwrite)
            return claim_numbered_folder(Path("runs") / f"{self.program}-{self.mode}")

        communicator = current_world().communicator
        folder = communicator.on_root(claim)
        try:
            yield folder
        finally:
            if self.output is None and communicator.rank == 0:
                with contextlib.suppress(OSError):  # it is not empty, as it should be
                    folder.rmdir()
                    folder.parent.rmdir()


def parse(
    description: str,
    *,
    points: Mapping[str, int],
    arguments: Sequence[str] | None = None,
    program: str = PROGRAM,
) -> Options:
    """The options of the command line (local, before `init`).

    Parameters
    ----------
    description : what --help says of the program.
    points : the default number of points per rank for each mode.

    Raises
    ------
    SystemExit
        Options that cannot be understood, with code 2, or --help. One rank speaks.
    """
    parser = make_parser(description, points=points, program=program)
    with one_voice():
        options = parser.parse_args(arguments, namespace=Options())
        if options.mode == "data" and options.members != 1:
            parser.error("--members needs --mode ensemble: data mode trains one model on all ranks")
    options.program = program
    if options.points is None:
        options.points = points[options.mode]
    if options.scale_learning_rate is None:
        options.scale_learning_rate = options.mode == "data"
    return options


def make_parser(
    description: str, *, points: Mapping[str, int], program: str
) -> argparse.ArgumentParser:
    """The parser of `parse`, for programs with options of their own."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    modes = ", ".join(f"{n} in mode {mode}" for mode, n in points.items())
    add = parser.add_argument
    whole, natural, number = positive_integer, integer_from(0), positive_number
    add("--mode", choices=("data", "ensemble"), default="data", help=_HELP["mode"])
    add("--steps", type=whole, default=30_000, metavar="N", help=_HELP["steps"])
    add("--points", type=integer_from(2), metavar="N", help=_HELP["points"].format(modes))
    add("--learning-rate", type=number, default=1e-3, metavar="R", help=_HELP["rate"])
    add("--scale-learning-rate", action=argparse.BooleanOptionalAction, help=_HELP["scale"])
    add("--width", type=whole, default=16, metavar="N", help=_HELP["width"])
    add("--depth", type=whole, default=2, metavar="N", help=_HELP["depth"])
    add("--seed", type=natural, default=0, metavar="N", help=_HELP["seed"])
    add("--precision", choices=("float32", "float64"), default="float32", help=_HELP["default"])
    add("--members", type=whole, default=1, metavar="M", help=_HELP["members"])
    add("--output", type=Path, metavar="DIR", help=_HELP["output"].format(program))
    add("--overwrite", action="store_true", help=_HELP["overwrite"])
    add("--log-every", type=whole, default=1000, metavar="N", help=_HELP["log"])
    add("--no-plots", dest="plots", action="store_false", help="write no figures")
    add("--verbose", action="store_true", help="show TensorFlow's messages")
    return parser


def run(main: Callable[[], int | None], *, program: str = PROGRAM) -> None:
    """Run a program's `main`; an error of its input is one line and exit code 2 (collective).

    Parameters
    ----------
    main : what it returns, if anything, is the exit code; the same on all ranks.
    program : what messages call it.
    """
    try:
        code = main()
    except SciMLParError as error:
        text = f"{program}: error: {error}"
        _report(error, text)
        sys.exit(_BAD_INPUT)
    if code:
        sys.exit(code)


def conclude(result: Result, folder: Path, *, program: str = PROGRAM) -> int:
    """Say where the results are, and whether all is well with them, on rank 0 (local).

    Returns
    -------
    The exit code, the same on all ranks: 0, or 3 where a member ended before its last step or
    with a loss far above its best. Its results are written all the same.
    """
    if result.communicator.rank == 0:
        print(f"results in {folder}", flush=True)
        if not result.sound:
            print(f"{program}: not all is well: {unsound_text(result)}", file=sys.stderr)
    return 0 if result.sound else _NOT_SOUND


def unsound_text(result: Result) -> str:
    """How many of a result's members ended otherwise than they should, in words."""
    counts = Counter(member.status for member in result.members)
    faults = {
        "not finite": "ended because the loss was not finite",
        "diverged": "ended with a loss far above the best",
    }
    total = len(result.members)
    said = [f"{counts[kind]} of {total} {text}" for kind, text in faults.items() if counts[kind]]
    return f"of the models, {' and '.join(said)}."


def _report(error: SciMLParError, text: str) -> None:
    from sciml_par.parallel.groups import world as parallel_world

    if parallel_world.world is None:
        if launched_rank(os.environ) == 0:
            print(text, file=sys.stderr)
    else:
        parallel_world.world.failures.report(error, text, exit_code=_BAD_INPUT)


def launched_rank(environment: Mapping[str, str]) -> int:
    """The rank that the launcher gave this process, known before MPI starts; 0 without one."""
    for variable in _LAUNCHER_VARIABLES:
        if environment.get(variable, "").isdigit():
            return int(environment[variable])
    return 0


@contextlib.contextmanager
def one_voice() -> Iterator[None]:
    """Let only rank 0 print what argparse has to say."""
    if launched_rank(os.environ) == 0:
        yield
        return
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


def integer_from(least: int) -> Callable[[str], int]:
    """A type for argparse: an integer ≥ `least`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expected an integer ≥ {least}; got {text!r}")
        return value

    return convert


positive_integer = integer_from(1)


def positive_number(text: str) -> float:
    """A type for argparse: a finite number > 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"expected a number > 0; got {text!r}")
    return value
