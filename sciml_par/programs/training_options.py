"""The options of programs that train: parsed, announced, and turned into arguments of `train`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sciml_par._text import counted
from sciml_par.programs.options import (
    VERBOSE,
    add_options,
    add_output_options,
    duration,
    integer_from,
    new_parser,
    output_folder,
    parse_on_rank_0,
    positive_integer,
    positive_number,
)

_RATE = 1e-3
_DEPTH = 2
_WIDTH, _WIDTH_WITH_ADAM = 10, 16
_WIDTHS = f"{_WIDTH}, with adam {_WIDTH_WITH_ADAM}"
_FEWEST_POINTS = 400
"""By default, but with Adam: least squares needs 2.4 residuals for each of the 141 parameters of
the default network, or it fits the points and not what lies between them."""


AUTO, ADAM = "auto", "adam"


@dataclass(frozen=True)
class NamedOptimizer:
    """An optimizer on the command line.

    Attributes
    ----------
    name : in `sciml_par.training`; empty if `train` chooses the optimizer.
    steps : the usual number, None if `train` chooses it.
    precision : by default.
    has_rate : whether it has a learning rate.
    """

    name: str
    steps: int | None = None
    precision: str = "float64"
    has_rate: bool = False

    def make(self, rate: float) -> Any:
        """Return the optimizer, as `train` takes it; this imports TensorFlow."""
        if not self.name:
            return AUTO
        from sciml_par import training

        options = {"learning_rate": rate} if self.has_rate else {}
        return getattr(training, self.name)(**options)


OPTIMIZERS = {
    AUTO: NamedOptimizer(""),
    ADAM: NamedOptimizer("Adam", 30_000, "float32", has_rate=True),
    "lbfgs": NamedOptimizer("LBFGS", 10_000),
    "least-squares": NamedOptimizer("LeastSquares", 30),
    "lm": NamedOptimizer("LevenbergMarquardt", 1_000),
    "ssbroyden": NamedOptimizer("SSBroyden", 10_000),
}
"""By name; an entry here is an option of all training programs."""


class TrainingOptions(argparse.Namespace):
    """The options of every training program; --help explains them."""

    # The options that are completed below; argparse sets the others.
    optimizer: str
    steps: int | None
    points: int
    learning_rate: float
    scale_learning_rate: bool
    width: int
    depth: int
    precision: str

    def training(self, folder: Path) -> dict[str, Any]:
        """Return these options as arguments of `sciml_par.train`; call it after `init`.

        Checkpoints go to the folder, as `output_folder` gives it.
        """
        from sciml_par.networks import MLP
        from sciml_par.parallel import size
        from sciml_par.training import Checkpoint, Ensemble, NoProgress, TargetLoss, WallTime

        kinds = (
            (self.target_loss, TargetLoss),
            (self.stop_without_progress, NoProgress),
            (self.wall_time, lambda limit: WallTime(seconds=limit)),
        )
        scale = size() if self.scale_learning_rate else 1
        return {
            "mode": "data" if self.mode == "data" else Ensemble(members_per_rank=self.members),
            "points_per_rank": self.points,
            "network": partial(MLP, width=self.width, depth=self.depth),
            "optimizer": OPTIMIZERS[self.optimizer].make(self.learning_rate * scale),
            "steps": self.steps,
            "stop": [stop(limit) for limit, stop in kinds if limit is not None],
            "checkpoint": Checkpoint(
                folder, every=self.checkpoint_every, overwrite=self.overwrite and not self.resume
            ),
            "resume": self.resume,
            "seed": self.seed,
            "precision": self.precision,
            "log_every": self.log_every,
        }

    def take_optimizer(self, usual: str) -> None:
        """If no optimizer is named, take Adam if its learning rate is given, else the `usual`."""
        if self.optimizer is None:
            self.optimizer = ADAM if self._speaks_of_the_rate else usual

    def complete(self, points: Mapping[str, int] | None = None) -> None:
        """Set the options that the command line does not give to their defaults.

        Parameters
        ----------
        points : the default with Adam, for each mode; other optimizers use at least 400.
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

    def announce(self) -> None:
        """Print on rank 0 what is about to run."""
        from sciml_par.parallel import current_world

        world = current_world()
        parts = [f"mode {self.mode}", counted(world.communicator.size, "rank")]
        if self.mode == "ensemble":
            parts.append(f"{counted(self.members, 'member')} per rank")
        parts.append(self.optimizer)
        if self.steps is not None:
            parts.append(f"{self.steps:,} steps")
        parts += [self.precision, f"{counted(world.threads, 'thread')} per rank"]
        if world.communicator.rank == 0:
            print(f"{self.program}: {', '.join(parts)}", flush=True)

    @property
    def default_folder(self) -> Path:
        """The default folder for the results, before it gets a number."""
        return Path("runs") / f"{self.program}-{self.mode}"

    def output_folder(self) -> AbstractContextManager[Path]:
        """Return the folder for the results, made before any work is done (collective).

        Without --output it is runs/PROGRAM-MODE with the first free number, and is removed if the
        work fails.
        """
        from sciml_par.parallel import current_world

        on_root = current_world().communicator.on_root
        how = {"overwrite": self.overwrite, "resume": bool(self.resume)}
        return output_folder(self.output, self.default_folder, on_root=on_root, **how)


def parse_training_options(
    description: str | None,
    *,
    points: Mapping[str, int],
    arguments: Sequence[str] | None = None,
    program: str | None = None,
) -> TrainingOptions:
    """Return the options of the command line; call it before `init`.

    Parameters
    ----------
    description : text of --help.
    points : the default number of points per rank for each mode, with Adam; other optimizers use
        at least 400, and a network of 10 units instead of 16.
    arguments : the words after the program's name; those of the process by default.
    program : its name in messages; the name of its file by default.

    Raises
    ------
    SystemExit
        Invalid options, with code 2, or --help. Only rank 0 prints.
    """

    def check(options: TrainingOptions) -> None:
        options.take_optimizer(AUTO)
        check_together(options, parser)

    parser = make_training_parser(description, points=points, program=program)
    options = parse_on_rank_0(parser, arguments, TrainingOptions(), check)
    options.complete(points)
    return options


def check_together(options: TrainingOptions, parser: argparse.ArgumentParser) -> None:
    """End the program if two options cannot be combined."""
    if options.mode == "data" and options.members != 1:
        parser.error("--members needs --mode ensemble: data mode trains one model on all ranks")
    if options.resume and options.output is None:
        parser.error("--resume needs --output: the folder of the run to continue")
    if OPTIMIZERS[options.optimizer].has_rate:
        return
    for option in ("learning-rate", "scale-learning-rate"):
        if getattr(options, option.replace("-", "_")) is not None:
            other = f"--optimizer {options.optimizer} has no such rate"
            parser.error(f"--{option} is of adam; {other}")


def make_training_parser(
    description: str | None,
    *,
    points: Mapping[str, int] | None = None,
    program: str | None = None,
) -> argparse.ArgumentParser:
    """Return the parser of `parse_training_options`, for programs that add options.

    Without `points`, these are of all ranks, and values that depend on the problem have no default
    here: the points, the optimizer, its steps, the width and the depth of the network.
    """
    parser = new_parser(description, program)
    of_problem, add = points is None, parser.add_argument
    usual = {name: each.steps for name, each in OPTIMIZERS.items() if each.steps is not None}
    steps = ", ".join(f"{steps:,} of {name}" for name, steps in usual.items())
    steps += "; auto chooses it"
    kind = "points in the domain, of all ranks"
    number = width = depth = "that of the problem"
    if points is not None:
        kind = "equispaced points per rank, both ends included"
        of_modes = [
            f"in mode {mode} {max(n, _FEWEST_POINTS)}, with adam {n}" for mode, n in points.items()
        ]
        number, width, depth = "; ".join(of_modes), _WIDTHS, str(_DEPTH)
    modes = (
        "data: all ranks train one model, each on its part of the domain (default); ensemble: "
        "each rank trains separate models"
    )
    optimizers = (
        f"auto{'' if of_problem else ' (default)'}: chosen by the numbers of parameters and "
        f"points; adam; lbfgs; lm: Levenberg-Marquardt, for at most a few thousand parameters; "
        f"ssbroyden"
    )
    rate = "of adam (default 0.001), which is taken where --optimizer is not given"
    seed = "of the initial weights; members derive theirs from it (default 0)"
    least = None if of_problem else _DEPTH
    add_options(
        parser,
        ("--mode", ("data", "ensemble"), None, modes, "data"),
        ("--optimizer", tuple(OPTIMIZERS), None, optimizers),
        ("--steps", positive_integer, "N", f"most updates of the weights (default {steps})"),
        ("--points", integer_from(2), "N", f"{kind} (default {number})"),
        ("--learning-rate", positive_number, "R", rate),
        ("--width", positive_integer, "N", f"units per hidden layer (default {width})"),
        ("--depth", positive_integer, "N", f"hidden layers (default {depth})", least),
        ("--seed", integer_from(0), "N", seed, 0),
        ("--members", positive_integer, "M", "models per rank in mode ensemble (default 1)", 1),
    )
    scale = (
        "multiply the learning rate of adam by the number of ranks (default in mode data); takes "
        "adam as --learning-rate does"
    )
    add("--scale-learning-rate", action=argparse.BooleanOptionalAction, help=scale)
    precision = "default float32 with adam, else float64"
    add("--precision", choices=("float32", "float64"), help=precision)
    add_output_options(parser, f"runs/{parser.prog}-MODE")
    log = "steps between recorded losses, which are also shown (default about 500 records)"
    no_progress = "end a model when its loss has not fallen for N steps"
    wall_time = "stop after this time, with exit code 75; --resume continues"
    checkpoints = (
        "write a checkpoint to the output folder every N steps; in any case one is written at the "
        "end, and when the run is stopped by Ctrl-C, SIGTERM, SIGUSR1 or its wall time"
    )
    add_options(
        parser,
        ("--log-every", positive_integer, "N", log),
        ("--target-loss", positive_number, "L", "end a model when its loss has fallen to L"),
        ("--stop-without-progress", positive_integer, "N", no_progress),
        ("--wall-time", duration, "H:MM:SS", wall_time),
        ("--checkpoint-every", positive_integer, "N", checkpoints),
    )
    resume = (
        "continue the run whose folder --output names, given the same options; '--resume auto' "
        "starts it if it has no checkpoint yet"
    )
    add("--resume", nargs="?", const=True, default=False, choices=("auto",), help=resume)
    add("--no-plots", dest="plots", action="store_false", help="write no figures")
    add_options(parser, VERBOSE)
    return parser
