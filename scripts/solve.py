"""Solve a problem of the catalogue with physics-informed networks.

In mode data all ranks train one network, each on its part of the points. In mode ensemble each
rank trains separate networks, which differ in their initial weights. Options that are not given
take the catalogue's suggestions for the problem. With a tolerance, the program tries methods until
the estimated error is below it.

    python scripts/solve.py --list
    mpirun -np 2 python scripts/solve.py burgers
    mpirun -np 2 python scripts/solve.py heat --tolerance 1e-6
"""

from sciml_par import init, programs
from sciml_par.programs import SolvingOptions as Options


def main() -> int:
    options = Options.parse(__doc__)
    if options.list:
        programs.print_catalogue()
        return 0
    init(quiet=not options.verbose)
    options.announce()
    problem = options.make_problem()
    with options.output_folder() as folder:
        result = options.find(problem, folder)
        result.print()
        result.save(
            folder,
            overwrite=True,
            plots=options.plots,
            title=problem.name,
            arguments=vars(options),
        )
    return programs.conclude(result, folder)


if __name__ == "__main__":
    programs.run(main)
