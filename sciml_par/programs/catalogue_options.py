"""The options of programs that train networks for problems of the catalogue."""

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
from sciml_par.problems.catalogue.registry import catalogue_entry
from sciml_par.problems.problem import Problem
from sciml_par.programs.program import PositiveInteger, integer_from, option_where
from sciml_par.programs.training_options import OptimizerName, TrainingOptions

_EVALUATED = {1: 401, 2: 101**2}
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
    """of the problem; python scripts/solve.py --list prints all"""


@dataclass(kw_only=True)
class CatalogueOptions(TrainingOptions, _Named):
    """The options of a training; the problem's suggestions are their defaults."""

    optimizer: Annotated[OptimizerName | None, _SUGGESTED] = None
    points: Annotated[int | None, integer_from(2), _SUGGESTED] = None
    """points in the domain, of all ranks"""
    boundary: Annotated[PositiveInteger | None, _SUGGESTED] = None
    """points on the boundary, of all ranks"""
    network: Annotated[str | None, Parameter(choices=NETWORK_NAMES), _SUGGESTED] = None
    width: Annotated[PositiveInteger | None, _SUGGESTED] = None
    depth: Annotated[PositiveInteger | None, _SUGGESTED] = None
    parameter: Annotated[list[tuple[str, float]], _NAMED_NUMBERS] = field(default_factory=list)
    """of the problem, as noise=0.01; may be repeated"""

    @property
    def entry(self) -> CatalogueEntry:
        """The problem's entry in the catalogue."""
        if self.name is None:
            raise InputError(
                "NAME is missing; scripts/solve.py --list prints those of the problems"
            )
        return catalogue_entry(self.name)

    @property
    def default_folder(self) -> Path:
        """The default folder for the results, before it gets a number."""
        return Path("runs") / f"{self.name}-{self.mode}"

    def suggested(self) -> dict[str, Any]:
        """Return the catalogue's values; steps and precision are those of its optimizer."""
        return asdict(self.entry.suggestion)

    def make_problem(self) -> Problem:
        """Return the problem with the parameters of the command line, or raise `InputError`."""
        make, values = self.entry.make, dict(self.parameter)
        known = inspect.signature(make).parameters
        if unknown := [name for name in values if name not in known]:
            has = f"has no parameter {unknown[0]!r}. It has {', '.join(known)}."
            raise InputError(f"--parameter: {self.name} {has}")
        return make(**values)

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
            "evaluation_points": _EVALUATED[dimension],
        }

    def announce(self, *, training: bool = True) -> None:
        """Print on rank 0 the equation and, of a training, what is about to run."""
        if current_world().communicator.rank == 0:
            print(f"{self.name}: {self.entry.equation}", flush=True)
        if training:
            super().announce()
