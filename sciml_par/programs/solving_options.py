"""The options of programs that solve problems of the catalogue."""

import contextlib
import inspect
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sciml_par.errors import InputError
from sciml_par.networks.models.named import NETWORK_NAMES
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.catalogue.entry import CatalogueEntry
from sciml_par.problems.catalogue.registry import catalogue_entries, catalogue_entry
from sciml_par.problems.problem import Problem
from sciml_par.programs.program import (
    PositiveInteger,
    PositiveNumber,
    integer_from,
    only_rank_0_prints,
    option_where,
)
from sciml_par.programs.training_options import OPTIMIZERS, TrainingOptions
from sciml_par.results.result import Result

_OF_TRAINING = ("points", "boundary", "network", "width", "depth", "optimizer", "steps")
"""Options that `solve` chooses automatically."""

_IN_ONE, _IN_TWO = 401, 101**2
"""About how many points the error is measured at, by the dimension."""

_SUGGESTED = Parameter(show_default="that of the problem")


def _named_number(text: str) -> tuple[str, float]:
    """Return a name and a number, of a text such as "noise=0.01"."""
    name, _, value = text.partition("=")
    with contextlib.suppress(ValueError):
        return name.strip(), int(value)
    return name.strip(), float(value)


_NAMED_NUMBERS = option_where(
    _named_number, bool, "NAME=NUMBER, as noise=0.01", "NAME=NUMBER", repeated=True
)


@dataclass
class _Named:
    name: str | None = None
    """of the problem; --list prints all"""


@dataclass(kw_only=True)
class SolvingOptions(TrainingOptions, _Named):
    """The options of a training; the problem's suggestions are their defaults."""

    optimizer: Annotated[str | None, Parameter(choices=tuple(OPTIMIZERS)), _SUGGESTED] = None
    points: Annotated[int | None, integer_from(2), _SUGGESTED] = None
    """points in the domain, of all ranks"""
    boundary: Annotated[PositiveInteger | None, _SUGGESTED] = None
    """points on the boundary, of all ranks"""
    network: Annotated[str | None, Parameter(choices=NETWORK_NAMES), _SUGGESTED] = None
    width: Annotated[PositiveInteger | None, _SUGGESTED] = None
    depth: Annotated[PositiveInteger | None, _SUGGESTED] = None
    tolerance: PositiveNumber | None = None
    """solve until the estimated relative error is below it, as sciml_par.solve does"""
    seconds: Annotated[PositiveNumber | None, Parameter(show_default="120")] = None
    """after which no further method begins, with --tolerance"""
    parameter: Annotated[list[tuple[str, float]], _NAMED_NUMBERS] = field(default_factory=list)
    """of the problem, as noise=0.01; may be repeated"""
    list: bool = False
    """print the names of the problems and their equations"""

    @property
    def entry(self) -> CatalogueEntry:
        """The problem's entry in the catalogue."""
        return catalogue_entry(str(self.name))

    @property
    def default_folder(self) -> Path:
        """The default folder for the results, before it gets a number."""
        return Path("runs") / f"{self.name}-{self.mode}"

    def make_problem(self) -> Problem:
        """Return the problem with the parameters of the command line.

        Raises
        ------
        InputError
            It has no such parameter.
        """
        make, given = self.entry.make, dict(self.parameter)
        known = inspect.signature(make).parameters
        if unknown := [name for name in given if name not in known]:
            has = f"has no parameter {unknown[0]!r}. It has {', '.join(known)}."
            raise InputError(f"--parameter: {self.name} {has}")
        return make(**given)

    def suggested(self) -> dict[str, Any]:
        """Return the catalogue's values; steps and precision are those of its optimizer."""
        return asdict(self.entry.suggestion)

    def complete(self) -> None:
        """Refuse options that contradict each other, and take the catalogue's for the others.

        Raises
        ------
        InputError
            They contradict each other, or there is no problem of this name.
        """
        if self.list:
            return
        if self.name is None:
            raise InputError("NAME is missing; --list prints the names of the problems")
        if self.tolerance is None and self.seconds is not None:
            raise InputError("--seconds is the time of a solution to a tolerance; add --tolerance")
        for name in _OF_TRAINING if self.tolerance is not None else ():
            if getattr(self, name) is not None:
                raise InputError(f"--{name} is for a training; with --tolerance, solve chooses it")
        super().complete()

    def training(self, folder: Path) -> dict[str, Any]:
        """Return the options as arguments of `train`, as `TrainingOptions.training`."""
        from sciml_par.networks import network_named
        from sciml_par.training import Points

        arguments, dimension = super().training(folder), self.make_problem().domain.dimension
        del arguments["points_per_rank"]
        entry, method = self.entry, self.entry.suggestion.method
        interior: Any = self.points
        if entry.place is not None and isinstance(interior, int):
            interior, method = entry.place(interior), None
        methods: Any = {"interior": method} if method else {}
        return arguments | {
            "points": Points(interior, boundary=self.boundary, method=methods),
            "network": network_named(str(self.network), width=self.width, depth=self.depth),
            "evaluation_points": {1: _IN_ONE, 2: _IN_TWO}[dimension],
        }

    def announce(self) -> None:
        """Print on rank 0 the equation and what is about to run."""
        if current_world().communicator.rank == 0:
            print(f"{self.name}: {self.entry.equation}", flush=True)
        if self.tolerance is None:
            super().announce()

    def find(self, problem: Problem, folder: Path) -> Result:
        """Return the solution by `solve` if there is a tolerance, else by `train` (collective)."""
        from sciml_par.training import solve, train

        if self.tolerance is None:
            return train(problem, **self.training(folder))
        limit: dict[str, Any] = {} if self.seconds is None else {"seconds": self.seconds}
        return solve(problem, tolerance=self.tolerance, seed=self.seed, **limit)


def print_catalogue() -> None:
    """Print the problems of the catalogue on rank 0, one per line; needs no `init`."""
    entries = catalogue_entries().values()
    width = max(len(entry.name) for entry in entries)
    with only_rank_0_prints():
        for entry in entries:
            print(f"{entry.name:{width}}  {entry.equation}")
