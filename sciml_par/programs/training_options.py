"""The options of programs that train: parsed, announced, and turned into arguments of `train`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from sciml_par._text import counted
from sciml_par.programs.options import (
    add_output_options,
    add_verbose_option,
    integer_from,
    new_parser,
    only_rank_0_prints,
    positive_integer,
    positive_number,
)
from sciml_par.programs.output_folder import output_folder

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
    "log": "steps between recorded losses (default %(default)s)",
}


class TrainingOptions(argparse.Namespace):
    """The options that every training program has; --help says what they mean."""

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
        ranks = counted(world.communicator.size, "rank")
        members = f", {counted(self.members, 'member')} per rank"
        if world.communicator.rank == 0:
            print(
                f"{self.program}: mode {self.mode}, {ranks}"
                f"{members if self.mode == 'ensemble' else ''}, {self.steps:,} steps, "
                f"{self.precision}, {counted(world.threads, 'thread')} per rank",
                flush=True,
            )

    def output_folder(self) -> AbstractContextManager[Path]:
        """The folder for the results, made before any work is done (collective).

        Without --output it is runs/PROGRAM-MODE, or that with the first free number, and goes
        again if the work fails.
        """
        from sciml_par.parallel import current_world

        return output_folder(
            self.output,
            Path("runs") / f"{self.program}-{self.mode}",
            overwrite=self.overwrite,
            on_root=current_world().communicator.on_root,
        )


def parse_training_options(
    description: str | None,
    *,
    points: Mapping[str, int],
    arguments: Sequence[str] | None = None,
    program: str | None = None,
) -> TrainingOptions:
    """The options of the command line (local, before `init`).

    Parameters
    ----------
    description : what --help says of the program.
    points : the default number of points per rank for each mode.
    arguments : the words behind the program's name; those of the process by default.
    program : what messages call it; the name of its file by default.

    Raises
    ------
    SystemExit
        Options that cannot be understood, with code 2, or --help. Rank 0 alone prints.
    """
    parser = make_training_parser(description, points=points, program=program)
    with only_rank_0_prints():
        options = parser.parse_args(arguments, namespace=TrainingOptions())
        if options.mode == "data" and options.members != 1:
            parser.error("--members needs --mode ensemble: data mode trains one model on all ranks")
    options.program = parser.prog
    if options.points is None:
        options.points = points[options.mode]
    if options.scale_learning_rate is None:
        options.scale_learning_rate = options.mode == "data"
    return options


def make_training_parser(
    description: str | None, *, points: Mapping[str, int], program: str | None = None
) -> argparse.ArgumentParser:
    """The parser of `parse_training_options`, for programs with options of their own."""
    parser = new_parser(description, program)
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
    add_output_options(parser, f"runs/{parser.prog}-MODE")
    add("--log-every", type=whole, default=1000, metavar="N", help=_HELP["log"])
    add("--no-plots", dest="plots", action="store_false", help="write no figures")
    add_verbose_option(parser)
    return parser
