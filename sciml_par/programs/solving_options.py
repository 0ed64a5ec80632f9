"""The options of the program that solves the problems of the catalogue."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sciml_par.errors import InputError
from sciml_par.networks.models.named import NETWORK_NAMES
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.catalogue.entry import CatalogueEntry
from sciml_par.problems.catalogue.registry import catalogue_entries, catalogue_entry
from sciml_par.problems.problem import Problem
from sciml_par.programs.options import (
    add_options,
    only_rank_0_prints,
    parse_on_rank_0,
    positive_integer,
    positive_number,
)
from sciml_par.programs.training_options import (
    TrainingOptions,
    check_together,
    make_training_parser,
)
from sciml_par.results.result import Result

_OF_TRAINING = ("points", "boundary", "network", "width", "depth", "optimizer", "steps")
"""Options that `solve` chooses automatically."""

_IN_ONE, _IN_TWO = 401, 101**2
"""About how many points the error is measured at, by the dimension."""


class SolvingOptions(TrainingOptions):
    """The options of a training; the problem's suggestions are their defaults."""

    boundary: int | None
    network: str
    tolerance: float | None
    seconds: float | None

    @property
    def entry(self) -> CatalogueEntry:
        """The problem's entry in the catalogue."""
        return catalogue_entry(self.name)

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
        known = list(inspect.signature(make).parameters)
        if unknown := [name for name in given if name not in known]:
            has = f"has no parameter {unknown[0]!r}. It has {', '.join(known)}."
            raise InputError(f"--parameter: {self.name} {has}")
        return make(**given)

    def take_suggestions(self) -> None:
        """Take options that the command line does not give from the catalogue.

        Steps and precision are those of the suggestion where the optimizer is.
        """
        suggestion = self.entry.suggestion
        self.take_optimizer(suggestion.optimizer)
        if self.optimizer == suggestion.optimizer:
            self.steps = self.steps or suggestion.steps
            self.precision = self.precision or suggestion.precision
        for name in ("points", "boundary", "network", "width", "depth"):
            if getattr(self, name) is None:
                setattr(self, name, getattr(suggestion, name))

    def training(self, folder: Path) -> dict[str, Any]:
        """Return the options as arguments of `train`, as `TrainingOptions.training`."""
        from sciml_par.networks import network_named
        from sciml_par.training import Points

        arguments, dimension = super().training(folder), self.make_problem().domain.dimension
        del arguments["points_per_rank"]
        entry, suggestion = self.entry, self.entry.suggestion
        interior: Any = self.points
        methods: Any = {"interior": suggestion.method} if suggestion.method else {}
        if entry.place is not None and isinstance(interior, int):
            interior, methods = entry.place(interior), {}
        return arguments | {
            "points": Points(interior, boundary=self.boundary, method=methods),
            "network": network_named(self.network, width=self.width, depth=self.depth),
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
        given: dict[str, Any] = {} if self.seconds is None else {"seconds": self.seconds}
        return solve(problem, tolerance=self.tolerance, seed=self.seed, **given)


def parse_solving_options(
    description: str | None, *, arguments: Sequence[str] | None = None, program: str | None = None
) -> SolvingOptions:
    """Return the options of the command line, as `parse_training_options`; call it before `init`.

    Raises
    ------
    InputError
        There is no problem of this name.
    SystemExit
        Invalid options, with code 2, or --help. Only rank 0 prints.
    """

    def check(options: SolvingOptions) -> None:
        if options.list:
            return
        if options.name is None:
            parser.error("NAME is missing; --list prints the names of the problems")
        if options.tolerance is not None:
            for name in _OF_TRAINING:
                if getattr(options, name) is not None:
                    parser.error(f"--{name} is for a training; with --tolerance, solve chooses it")
        elif options.seconds is not None:
            parser.error("--seconds is the time of a solution to a tolerance; add --tolerance")
        options.take_suggestions()
        check_together(options, parser)

    parser = make_solving_parser(description, program=program)
    options = parse_on_rank_0(parser, arguments, SolvingOptions(), check)
    if not options.list:
        options.complete()
    return options


def make_solving_parser(
    description: str | None, *, program: str | None = None
) -> argparse.ArgumentParser:
    """Return the parser of `parse_solving_options`."""
    parser = make_training_parser(description, program=program)
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="of the problem; --list prints all")
    tolerance = "solve until the estimated relative error is below E, as sciml_par.solve does"
    seconds = "after which no further method begins, with --tolerance (default 120)"
    boundary = "points on the boundary, of all ranks (default that of the problem)"
    listed = "print the names of the problems and their equations"
    add_options(
        parser,
        ("--tolerance", positive_number, "E", tolerance),
        ("--seconds", positive_number, "S", seconds),
        ("--boundary", positive_integer, "N", boundary),
        ("--list", None, None, listed),
        ("--network", tuple(NETWORK_NAMES), None, "default that of the problem"),
    )
    add_parameters(parser, "noise=0.01")
    return parser


def add_parameters(parser: argparse.ArgumentParser, example: str) -> None:
    """Add the option for parameters of the problem."""
    parser.add_argument(
        "--parameter",
        type=_named_number,
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help=f"of the problem, as {example}; may be repeated",
    )


def _named_number(text: str) -> tuple[str, float | int]:
    """Return a name and a number, of a text such as "noise=0.01"."""
    name, _, value = text.partition("=")
    for kind in (int, float):
        try:
            return name.strip(), kind(value)
        except ValueError:
            continue
    raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, as noise=0.01; got {text!r}")


def print_catalogue() -> None:
    """Print the problems of the catalogue on rank 0, one per line; needs no `init`."""
    entries = catalogue_entries().values()
    width = max(len(entry.name) for entry in entries)
    with only_rank_0_prints():
        for entry in entries:
            print(f"{entry.name:{width}}  {entry.equation}")
