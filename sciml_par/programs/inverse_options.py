"""The options of the program that finds unknowns with their intervals, and its report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.problem import Problem
from sciml_par.programs.options import (
    add_options,
    number_where,
    parse_on_rank_0,
    positive_integer,
)
from sciml_par.programs.solving_options import SolvingOptions, add_parameters
from sciml_par.programs.training_options import check_together, make_training_parser
from sciml_par.results.result import Result
from sciml_par.results.uncertainty import LINEARIZED, METHODS, PROFILE, Uncertainty

_PROBLEM = "inverse-diffusion"
_NOISE, _LEVEL, _MEMBERS, _STEPS = 0.05, 0.95, 64, 300


class InverseOptions(SolvingOptions):
    """The options of a training with noisy observations, and of its uncertainty."""

    noise: float
    level: float
    method: str
    draws: int
    parameter: list[tuple[str, float]]

    def make_problem(self) -> Problem:
        """Return the problem with its noise and the parameters of the command line."""
        # With the initial values, noisy data determine the unknown.
        self.parameter = [("initial", 1), *self.parameter, ("noise", self.noise)]
        return super().make_problem()

    def take_suggestions(self) -> None:
        """Take options that are not given from the catalogue, with more steps."""
        if self.optimizer is None and not self._speaks_of_the_rate:
            self.steps = self.steps or _STEPS
        super().take_suggestions()

    def uncertainty(self, result: Result) -> Uncertainty:
        """Return intervals by the method of the command line (collective)."""
        return result.uncertainty(self.level, method=self.method, members=self.draws)

    def report(self, found: Uncertainty, folder: Path, title: str) -> None:
        """Print the intervals on rank 0, and draw them there (collective)."""
        current_world().communicator.on_root(partial(self._report, found, folder, title))

    def _report(self, found: Uncertainty, folder: Path, title: str) -> None:
        in_table = found.known and (self.method, self.level) == (LINEARIZED, _LEVEL)
        if not in_table:
            print(found, flush=True)
        if not self.plots or not found.known:
            return
        from sciml_par import evaluation

        figures = {
            "bands": evaluation.plot_bands(found, title=title),
            "corner": evaluation.plot_corner(found, title=title),
            "next_observation": evaluation.plot_next_observation(found),
        }
        if self.method == PROFILE:
            figures["profiles"] = evaluation.plot_profiles(found, title=title)
        for name, figure in figures.items():
            evaluation.save_figure(figure, folder, name)


def parse_inverse_options(
    description: str | None, *, arguments: Sequence[str] | None = None, program: str | None = None
) -> InverseOptions:
    """Return the options of the command line, as `parse_training_options`; call it before `init`.

    Raises
    ------
    InputError
        There is no problem of this name.
    SystemExit
        Invalid options, with code 2, or --help. Only rank 0 prints.
    """

    def check(options: InverseOptions) -> None:
        if options.mode != "data":
            parser.error("--mode ensemble: intervals are of one model that all ranks train")
        if options.entry.name != _PROBLEM:
            parser.error(f"{options.name} has no unknowns; {_PROBLEM} has")
        options.take_suggestions()
        check_together(options, parser)

    parser = make_inverse_parser(description, program=program)
    options = parse_on_rank_0(parser, arguments, InverseOptions(), check)
    options.complete()
    return options


def make_inverse_parser(
    description: str | None, *, program: str | None = None
) -> argparse.ArgumentParser:
    """Return the parser of `parse_inverse_options`."""
    parser = make_training_parser(description, program=program)
    names = f"of the problem (default {_PROBLEM})"
    parser.add_argument("name", nargs="?", default=_PROBLEM, metavar="NAME", help=names)
    noise = f"of the observations, relative to their root mean square (default {_NOISE})"
    draws = f"trainings on perturbed data, with --method randomized (default {_MEMBERS})"
    share = number_where(float, lambda value: 0 < value < 1, "a number between 0 and 1")
    add_options(
        parser,
        ("--noise", share, "S", noise, _NOISE),
        ("--level", share, "P", f"of the intervals (default {_LEVEL})", _LEVEL),
        ("--draws", positive_integer, "M", draws, _MEMBERS),
        ("--method", tuple(METHODS), None, "of the intervals", LINEARIZED),
    )
    add_parameters(parser, "seed=1")
    parser.set_defaults(tolerance=None, seconds=None, boundary=None, network=None, list=False)
    return parser
