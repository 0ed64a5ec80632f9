"""Find the unknown of the catalogue's inverse problem from noisy observations, with intervals.

All ranks train one network. The observations know the deviation of their errors, so that the
training ends with an interval of the unknown and bands of the solution. --method randomized and
--method profile train again and show whether the linearized intervals hold.

    python scripts/inverse.py inverse-diffusion --noise 0.05
    mpirun -np 2 python scripts/inverse.py --method profile --output runs/profile
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from sciml_par import evaluation, init, programs, train
from sciml_par.errors import InputError
from sciml_par.parallel import current_world

PROBLEM, LEVEL, STEPS = "inverse-diffusion", 0.95, 300
Share = Annotated[
    float, programs.option_where(float, lambda p: 0 < p < 1, "a number between 0 and 1", "P")
]


@dataclass(kw_only=True)
class Options(programs.CatalogueOptions):
    name: str = field(default=PROBLEM, kw_only=False)
    """of the problem"""
    noise: Share = 0.05
    """of the observations, relative to their root mean square"""
    level: Share = LEVEL
    """of the intervals"""
    method: Literal["linearized", "profile", "randomized"] = "linearized"
    """of the intervals"""
    draws: programs.PositiveInteger = 64
    """trainings on perturbed data, with --method randomized"""

    def suggested(self):
        return super().suggested() | {"steps": STEPS}

    def complete(self) -> None:
        if self.mode != "data":
            raise InputError("--mode ensemble: intervals are of one model that all ranks train")
        if self.entry.name != PROBLEM:
            raise InputError(f"{self.name} has no unknowns; {PROBLEM} has")
        super().complete()
        # With the initial values, noisy data determine the unknown.
        self.parameter = [("initial", 1), *self.parameter, ("noise", self.noise)]


def report(options: Options, found, folder: Path, title: str) -> None:
    """Print and draw what the table and figures of the result do not have already."""
    if not found.known or (options.method, options.level) != ("linearized", LEVEL):
        print(found, flush=True)
    if not options.plots or not found.known:
        return
    figures = {
        "bands": evaluation.plot_bands(found, title=title),
        "corner": evaluation.plot_corner(found, title=title),
        "next_observation": evaluation.plot_next_observation(found),
    }
    if options.method == "profile":
        figures["profiles"] = evaluation.plot_profiles(found, title=title)
    for name, figure in figures.items():
        evaluation.save_figure(figure, folder, name)


def main() -> int:
    options = Options.parse(__doc__)
    init(quiet=not options.verbose)
    options.announce()
    problem = options.make_problem()
    with options.output_folder() as folder:
        result = train(problem, **options.training(folder))
        result.print()
        found = result.uncertainty(options.level, method=options.method, members=options.draws)
        result.save(folder, title=problem.name, **options.saving)
        draw = partial(report, options, found, folder, problem.name)
        current_world().communicator.on_root(draw)
    return programs.conclude(result, folder)


if __name__ == "__main__":
    programs.run(main)
