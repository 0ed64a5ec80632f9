"""The options of programs that train: parsed, announced, and turned into arguments of `train`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from sciml_par._text import counted
from sciml_par.programs.optimizers import ADAM, AUTO, OPTIMIZERS
from sciml_par.programs.options import (
    add_output_options,
    add_verbose_option,
    duration,
    integer_from,
    new_parser,
    only_rank_0_prints,
    positive_integer,
    positive_number,
)
from sciml_par.programs.output_folder import output_folder

_HELP = {
    "mode": "data: all ranks train one model, each on its part of the domain (default); "
    "ensemble: each rank trains models of its own",
    "optimizer": "auto{}: what suits the numbers of parameters and points; adam; lbfgs; lm: "
    "Levenberg-Marquardt, for a few thousand parameters at most; ssbroyden",
    "precision": "default float32 with adam, else float64",
    "steps": "updates of the weights, at most (default {}; with auto what is usual for its choice)",
    "points": "{} (default {})",
    "rate": "of adam (default 0.001), which is taken where --optimizer is not given",
    "scale": "multiply the learning rate of adam by the number of ranks (default in mode data); "
    "takes adam as --learning-rate does",
    "width": "units per hidden layer (default {})",
    "depth": "hidden layers (default {})",
    "seed": "of the initial weights; members derive theirs from it (default %(default)s)",
    "members": "models per rank in mode ensemble (default %(default)s)",
    "log": "steps between recorded losses, which are also shown (default about 500 records)",
    "target": "end a model when its loss has come down to L",
    "progress": "end a model when its loss has not fallen for N steps",
    "wall": "stop after this time, with exit code 75; --resume goes on",
    "checkpoint": "write a checkpoint to the output folder every N steps; in any case one is "
    "written at the end, and when the run is stopped by Ctrl-C, SIGTERM, SIGUSR1 or its wall time",
    "resume": "go on with the run whose folder --output names, given the same options; with "
    "'--resume auto' begin it where it has no checkpoint yet",
}


_RATE = 1e-3
_DEPTH = 2
_WIDTH, _WIDTH_WITH_ADAM = 10, 16
_WIDTHS = f"{_WIDTH}, with adam {_WIDTH_WITH_ADAM}"
_FEWEST_POINTS = 400
"""By default, but with Adam: least squares needs 2.4 residuals for each of the 141 parameters of
the default network, or it fits the points and not what lies between them."""
_EQUISPACED = "equispaced points per rank, both ends included"
_OF_PROBLEM = "that of the problem"


class TrainingOptions(argparse.Namespace):
    """The options that every training program has; --help says what they mean."""

    program: str
    mode: str
    optimizer: str
    steps: int | None
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
    log_every: int | None
    target_loss: float | None
    stop_without_progress: int | None
    wall_time: float | None
    checkpoint_every: int | None
    resume: bool | str
    plots: bool
    verbose: bool

    def training(self, folder: Path) -> dict[str, Any]:
        """These options as arguments of `sciml_par.train`; call it after `init`.

        Parameters
        ----------
        folder : for checkpoints, as `output_folder` gives it.
        """
        from sciml_par.networks import MLP
        from sciml_par.parallel import size
        from sciml_par.training import Checkpoint, Ensemble

        scale = size() if self.scale_learning_rate else 1
        return {
            "mode": "data" if self.mode == "data" else Ensemble(members_per_rank=self.members),
            "points_per_rank": self.points,
            "network": partial(MLP, width=self.width, depth=self.depth),
            "optimizer": OPTIMIZERS[self.optimizer].make(self.learning_rate * scale),
            "steps": self.steps,
            "stop": self._stops(),
            "checkpoint": Checkpoint(
                folder, every=self.checkpoint_every, overwrite=self.overwrite and not self.resume
            ),
            "resume": self.resume,
            "seed": self.seed,
            "precision": self.precision,
            "log_every": self.log_every,
        }

    def take_optimizer(self, usual: str) -> None:
        """Where none is named, take Adam if its learning rate is spoken of, else `usual`.

        Parameters
        ----------
        usual : a name of `OPTIMIZERS`.
        """
        if self.optimizer is None:
            self.optimizer = ADAM if self._speaks_of_the_rate else usual

    def complete(self, points: Mapping[str, int] | None = None) -> None:
        """Give what the command line leaves open the values that are usual.

        Parameters
        ----------
        points : usual with Adam, for each mode; with other optimizers there are 400 or more.
        """
        self.take_optimizer(AUTO)
        named, with_adam = OPTIMIZERS[self.optimizer], self.optimizer == ADAM
        if self.points is None and points is not None:
            usual = points[self.mode]
            self.points = usual if with_adam else max(usual, _FEWEST_POINTS)
        self.width = self.width or (_WIDTH_WITH_ADAM if with_adam else _WIDTH)
        self.steps = self.steps or named.steps
        self.precision = self.precision or named.precision
        self.learning_rate = self.learning_rate or _RATE
        if self.scale_learning_rate is None:
            self.scale_learning_rate = self.mode == "data" and named.has_rate

    @property
    def _speaks_of_the_rate(self) -> bool:
        return self.learning_rate is not None or self.scale_learning_rate is not None

    def _stops(self) -> list[Any]:
        from sciml_par.training import NoProgress, TargetLoss, WallTime

        stops: list[Any] = []
        if self.target_loss is not None:
            stops.append(TargetLoss(self.target_loss))
        if self.stop_without_progress is not None:
            stops.append(NoProgress(self.stop_without_progress))
        if self.wall_time is not None:
            stops.append(WallTime(seconds=self.wall_time))
        return stops

    def announce(self) -> None:
        """Say on rank 0 what is about to run."""
        from sciml_par.parallel import current_world

        world = current_world()
        ranks = counted(world.communicator.size, "rank")
        members = f", {counted(self.members, 'member')} per rank"
        steps = "" if self.steps is None else f", {self.steps:,} steps"
        if world.communicator.rank == 0:
            print(
                f"{self.program}: mode {self.mode}, {ranks}"
                f"{members if self.mode == 'ensemble' else ''}, {self.optimizer}{steps}, "
                f"{self.precision}, {counted(world.threads, 'thread')} per rank",
                flush=True,
            )

    @property
    def default_folder(self) -> Path:
        """The folder for the results where none is named, before it gets a number."""
        return Path("runs") / f"{self.program}-{self.mode}"

    def output_folder(self) -> AbstractContextManager[Path]:
        """Return the folder for the results, made before any work is done (collective).

        Without --output it is runs/PROGRAM-MODE, or that with the first free number, and goes
        again if the work fails.
        """
        from sciml_par.parallel import current_world

        return output_folder(
            self.output,
            self.default_folder,
            overwrite=self.overwrite,
            resume=bool(self.resume),
            on_root=current_world().communicator.on_root,
        )


def parse_training_options(
    description: str | None,
    *,
    points: Mapping[str, int],
    arguments: Sequence[str] | None = None,
    program: str | None = None,
) -> TrainingOptions:
    """Return the options of the command line (local, before `init`).

    Parameters
    ----------
    description : what --help says of the program.
    points : the default number of points per rank for each mode, with Adam; with other optimizers
        it is at least 400, and the network is 10 units wide and not 16.
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
        options.take_optimizer(AUTO)
        check_together(options, parser)
    options.program = parser.prog
    options.complete(points)
    return options


def check_together(options: TrainingOptions, parser: argparse.ArgumentParser) -> None:
    """End the program where two options do not go together."""
    if options.mode == "data" and options.members != 1:
        parser.error("--members needs --mode ensemble: data mode trains one model on all ranks")
    if options.resume and options.output is None:
        parser.error("--resume needs --output: the folder of the run that is to go on")
    if OPTIMIZERS[options.optimizer].has_rate:
        return
    for option, value in {
        "--learning-rate": options.learning_rate,
        "--scale-learning-rate": options.scale_learning_rate,
    }.items():
        if value is not None:
            parser.error(f"{option} is of adam; --optimizer {options.optimizer} has no such rate")


def make_training_parser(
    description: str | None,
    *,
    points: Mapping[str, int] | None = None,
    program: str | None = None,
) -> argparse.ArgumentParser:
    """The parser of `parse_training_options`, for programs with options of their own.

    Without `points`, these are of all ranks, and what depends on the problem has no default here:
    the points, the optimizer, its steps, the width and the depth of the network.
    """
    parser = new_parser(description, program)
    own = points is None
    kind = "points in the domain, of all ranks" if own else _EQUISPACED
    texts = {
        "optimizer": _HELP["optimizer"].format("" if own else " (default)"),
        "points": _HELP["points"].format(kind, _modes(points) if points else _OF_PROBLEM),
        "width": _HELP["width"].format(_OF_PROBLEM if own else _WIDTHS),
        "depth": _HELP["depth"].format(_OF_PROBLEM if own else _DEPTH),
    }
    add = parser.add_argument
    whole, natural, number = positive_integer, integer_from(0), positive_number
    add("--mode", choices=("data", "ensemble"), default="data", help=_HELP["mode"])
    add("--optimizer", choices=tuple(OPTIMIZERS), help=texts["optimizer"])
    add("--steps", type=whole, metavar="N", help=_HELP["steps"].format(_usual_steps()))
    add("--points", type=integer_from(2), metavar="N", help=texts["points"])
    add("--learning-rate", type=number, metavar="R", help=_HELP["rate"])
    add("--scale-learning-rate", action=argparse.BooleanOptionalAction, help=_HELP["scale"])
    add("--width", type=whole, metavar="N", help=texts["width"])
    add("--depth", type=whole, default=None if own else _DEPTH, metavar="N", help=texts["depth"])
    add("--seed", type=natural, default=0, metavar="N", help=_HELP["seed"])
    add("--precision", choices=("float32", "float64"), help=_HELP["precision"])
    add("--members", type=whole, default=1, metavar="M", help=_HELP["members"])
    add_output_options(parser, f"runs/{parser.prog}-MODE")
    add("--log-every", type=whole, metavar="N", help=_HELP["log"])
    add("--target-loss", type=number, metavar="L", help=_HELP["target"])
    add("--stop-without-progress", type=whole, metavar="N", help=_HELP["progress"])
    add("--wall-time", type=duration, metavar="H:MM:SS", help=_HELP["wall"])
    add("--checkpoint-every", type=whole, metavar="N", help=_HELP["checkpoint"])
    add("--resume", nargs="?", const=True, default=False, choices=("auto",), help=_HELP["resume"])
    add("--no-plots", dest="plots", action="store_false", help="write no figures")
    add_verbose_option(parser)
    return parser


def _modes(points: Mapping[str, int]) -> str:
    """Return the default numbers of points of each mode."""
    return "; ".join(
        f"in mode {mode} {max(n, _FEWEST_POINTS)}, with adam {n}" for mode, n in points.items()
    )


def _usual_steps() -> str:
    known = {name: each.steps for name, each in OPTIMIZERS.items() if each.steps is not None}
    return ", ".join(f"{steps:,} of {name}" for name, steps in known.items())
