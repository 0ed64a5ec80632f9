"""Solve a problem of the catalogue with physics-informed networks.

In mode data all ranks train one network, each on its part of the points. In mode ensemble each
rank trains separate networks, which differ in their initial weights. Options that are not given
take the catalogue's suggestions for the problem. With a tolerance, the program tries methods until
the estimated error is below it.

    python scripts/solve.py --list
    mpirun -np 2 python scripts/solve.py burgers
    mpirun -np 2 python scripts/solve.py heat --tolerance 1e-6
"""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from sciml_par import init, programs, solve, train
from sciml_par.errors import InputError
from sciml_par.problems import catalogue_entries

# What `solve` chooses itself.
OF_TRAINING = ("points", "boundary", "network", "width", "depth", "optimizer", "steps")


@dataclass(kw_only=True)
class Options(programs.CatalogueOptions):
    tolerance: programs.PositiveNumber | None = None
    """solve until the estimated relative error is below it, as sciml_par.solve does"""
    seconds: Annotated[programs.PositiveNumber | None, Parameter(show_default="120")] = None
    """after which no further method begins, with --tolerance"""
    list: bool = False
    """print the names of the problems and their equations"""

    def complete(self) -> None:
        if self.list:
            return
        if self.tolerance is None and self.seconds is not None:
            raise InputError("--seconds is the time of a solution to a tolerance; add --tolerance")
        for name in OF_TRAINING if self.tolerance is not None else ():
            if getattr(self, name) is not None:
                raise InputError(f"--{name} is for a training; with --tolerance, solve chooses it")
        super().complete()

    def find(self, problem, folder):
        if self.tolerance is None:
            return train(problem, **self.training(folder))
        limit = {} if self.seconds is None else {"seconds": self.seconds}
        return solve(problem, tolerance=self.tolerance, seed=self.seed, **limit)


def print_catalogue() -> None:
    entries = catalogue_entries().values()
    width = max(len(entry.name) for entry in entries)
    with programs.only_rank_0_prints():
        for entry in entries:
            print(f"{entry.name:{width}}  {entry.equation}")


def main() -> int:
    options = Options.parse(__doc__)
    if options.list:
        print_catalogue()
        return 0
    init(quiet=not options.verbose)
    options.announce(training=options.tolerance is None)
    problem = options.make_problem()
    with options.output_folder() as folder:
        result = options.find(problem, folder)
        result.print()
        result.save(folder, title=problem.name, **options.saving)
    return programs.conclude(result, folder)


if __name__ == "__main__":
    programs.run(main)
