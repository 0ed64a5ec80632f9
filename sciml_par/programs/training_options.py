"""The options of programs that train, and the arguments of `train` that they stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from cyclopts import Parameter

from sciml_par._text import counted
from sciml_par.errors import InputError
from sciml_par.programs.program import (
    NaturalNumber,
    PositiveInteger,
    PositiveNumber,
    ProgramOptions,
    Switch,
    integer_from,
    option_where,
)

_RATE = 1e-3
_DEPTH = 2
_WIDTH, _WIDTH_WITH_ADAM = 10, 16
_FEWEST_POINTS = 400
"""By default, but with Adam: least squares needs 2.4 residuals for each of the 141 parameters of
the default network, or it fits the points and not what lies between them."""

AUTO, ADAM = "auto", "adam"
OPTIMIZERS = {
    AUTO: None,
    ADAM: 30_000,
    "lbfgs": 10_000,
    "least-squares": 30,
    "lm": 1_000,
    "ssbroyden": 10_000,
}
"""Usual steps by name, as `train` takes it; an entry here is an option of all training programs."""
OptimizerName = Annotated[str, Parameter(choices=tuple(OPTIMIZERS))]
_STEPS = ", ".join(f"{steps:,} of {name}" for name, steps in OPTIMIZERS.items() if steps)


def _seconds(text: str) -> float:
    """Return the seconds of a text such as "90", "15:00" or "8:00:00"."""
    parts = [int(part) for part in text.split(":")]
    if len(parts) > 3 or min(parts) < 0:
        raise ValueError
    return float(sum(part * 60**k for k, part in enumerate(reversed(parts))))


_DURATION = option_where(
    _seconds, lambda seconds: seconds > 0, "a time > 0 as H:MM:SS, MM:SS or in seconds", "H:MM:SS"
)


@dataclass(kw_only=True)
class TrainingOptions(ProgramOptions):
    """The options of every program that trains."""

    mode: Literal["data", "ensemble"] = "data"
    """data: all ranks train one model, each on its part; ensemble: each trains separate models"""
    optimizer: Annotated[OptimizerName | None, Parameter(show_default=AUTO)] = None
    """auto: chosen by the numbers of parameters and points; lm: Levenberg-Marquardt"""
    steps: Annotated[PositiveInteger | None, Parameter(show_default=_STEPS)] = None
    """most updates of the weights; auto chooses them"""
    points: Annotated[int | None, integer_from(2)] = None
    """equispaced points per rank, both ends included"""
    learning_rate: Annotated[PositiveNumber | None, Parameter(show_default=f"{_RATE}")] = None
    """of adam, which is taken where --optimizer is not given"""
    scale_learning_rate: Annotated[Switch | None, Parameter(show_default="in mode data")] = None
    """multiply the learning rate of adam by the number of ranks"""
    precision: Annotated[
        Literal["float32", "float64"] | None, Parameter(show_default="float64, with adam float32")
    ] = None
    """of the training"""
    width: Annotated[
        PositiveInteger | None, Parameter(show_default=f"{_WIDTH}, with adam {_WIDTH_WITH_ADAM}")
    ] = None
    """units per hidden layer"""
    depth: Annotated[PositiveInteger | None, Parameter(show_default=f"{_DEPTH}")] = None
    """hidden layers"""
    seed: NaturalNumber = 0
    """of the initial weights; the seeds of members derive from it"""
    members: PositiveInteger = 1
    """models per rank in mode ensemble"""
    log_every: Annotated[PositiveInteger | None, Parameter(show_default="about 500 records")] = None
    """steps between recorded losses, which are also shown"""
    target_loss: PositiveNumber | None = None
    """end a model when its loss has fallen to this"""
    stop_without_progress: PositiveInteger | None = None
    """end a model when its loss has not fallen for N steps"""
    wall_time: Annotated[float | None, _DURATION] = None
    """stop after this time, with exit code 75; --resume continues"""
    checkpoint_every: PositiveInteger | None = None
    """write a checkpoint every N steps; one is always written at the end or at a signal"""
    resume: Annotated[bool | Literal["auto"], Parameter(metavar="(auto)")] = False
    """continue the run in --output, given the same options; auto starts it if it is new"""
    plots: Switch = True
    """draw figures"""
    usual_points: ClassVar[Mapping[str, int]] = {}

    @classmethod
    def with_points(cls, **points: int) -> type[Self]:
        """Return these options with the default number of points per rank in each mode with Adam.

        Other optimizers use at least 400, and a network of 10 units instead of 16.
        """
        usual = "; ".join(
            f"in mode {mode} {max(n, _FEWEST_POINTS)}, with adam {n}" for mode, n in points.items()
        )
        kind = Annotated[int | None, integer_from(2), Parameter(show_default=usual)]
        space = {"usual_points": points, "__module__": __name__}
        return make_dataclass(
            cls.__name__, [("points", kind, None)], bases=(cls,), kw_only=True, namespace=space
        )

    def suggested(self) -> dict[str, Any]:
        """Return defaults of options that are left out; of the optimizer at the least."""
        return {"optimizer": AUTO}

    def complete(self) -> None:
        """Refuse options that contradict each other, and set those that are left out."""
        suggested = self.suggested()
        if self.optimizer is None:
            speaks_of_rate = (self.learning_rate, self.scale_learning_rate) != (None, None)
            self.optimizer = ADAM if speaks_of_rate else suggested["optimizer"]
        with_adam = self.optimizer == ADAM
        if self.mode == "data" and self.members != 1:
            text = "--members needs --mode ensemble: data mode trains one model on all ranks"
            raise InputError(text)
        if self.resume and self.output is None:
            raise InputError("--resume needs --output: the folder of the run to continue")
        for name in () if with_adam else ("learning_rate", "scale_learning_rate"):
            if getattr(self, name) is not None:
                other = f"--optimizer {self.optimizer} has no such rate"
                raise InputError(f"--{name.replace('_', '-')} is of adam; {other}")
        points = self.usual_points.get(self.mode)
        usual = {
            "points": points if with_adam or points is None else max(points, _FEWEST_POINTS),
            "width": _WIDTH_WITH_ADAM if with_adam else _WIDTH,
            "depth": _DEPTH,
            "learning_rate": _RATE,
            "scale_learning_rate": with_adam and self.mode == "data",
        }
        own = {
            "steps": OPTIMIZERS[self.optimizer],
            "precision": "float32" if with_adam else "float64",
        }
        is_suggested = self.optimizer == suggested["optimizer"]
        values = usual | (own | suggested if is_suggested else suggested | own)
        for name, value in values.items():
            if getattr(self, name, value) is None:
                setattr(self, name, value)

    def training(self, folder: Path) -> dict[str, Any]:
        """Return these options as arguments of `sciml_par.train`; call it after `init`.

        Checkpoints go to the folder, as `output_folder` gives it.
        """
        from sciml_par.networks import MLP
        from sciml_par.parallel import size
        from sciml_par.training import Adam, Checkpoint, Ensemble, NoProgress, TargetLoss, WallTime

        stops: tuple[tuple[Any, Any], ...] = (
            (self.target_loss, TargetLoss),
            (self.stop_without_progress, NoProgress),
            (self.wall_time, lambda limit: WallTime(seconds=limit)),
        )
        layers: dict[str, Any] = {"width": self.width, "depth": self.depth}
        rate = (self.learning_rate or _RATE) * (size() if self.scale_learning_rate else 1)
        return {
            "mode": "data" if self.mode == "data" else Ensemble(members_per_rank=self.members),
            "points_per_rank": self.points,
            "network": partial(MLP, **layers),
            "optimizer": Adam(learning_rate=rate) if self.optimizer == ADAM else self.optimizer,
            "steps": self.steps,
            "stop": [stop(limit) for limit, stop in stops if limit is not None],
            "checkpoint": Checkpoint(
                folder, every=self.checkpoint_every, overwrite=self.overwrite and not self.resume
            ),
            "resume": self.resume,
            "seed": self.seed,
            "precision": self.precision,
            "log_every": self.log_every,
        }

    @property
    def saving(self) -> dict[str, Any]:
        """The options as arguments of `Result.save`."""
        return {"overwrite": True, "plots": self.plots, "arguments": vars(self)}

    def announce(self) -> None:
        """Print on rank 0 what is about to run."""
        from sciml_par.parallel import current_world

        world = current_world()
        ranks, threads = counted(world.communicator.size, "rank"), counted(world.threads, "thread")
        members = f", {counted(self.members, 'member')} per rank" if self.mode == "ensemble" else ""
        steps = "" if self.steps is None else f", {self.steps:,} steps"
        if world.communicator.rank == 0:
            print(
                f"{self.program}: mode {self.mode}, {ranks}{members}, {self.optimizer}{steps}, "
                f"{self.precision}, {threads} per rank",
                flush=True,
            )

    @property
    def default_folder(self) -> Path:
        """The default folder for the results, before it gets a number."""
        return Path("runs") / f"{self.program}-{self.mode}"
