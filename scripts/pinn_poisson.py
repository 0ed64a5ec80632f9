"""Solve −u″ = (kπ)² sin kπx, u(±1) = 0, with physics-informed networks.

In mode data all ranks train one network for k = 2, each on its part of [-1, 1]. In mode ensemble
rank r trains separate networks for k = r + 1 on the whole of [-1, 1].

    mpirun -np 2 python scripts/pinn_poisson.py --mode ensemble
"""

from sciml_par import init, programs, rank, train
from sciml_par.problems import poisson

Options = programs.TrainingOptions.with_points(data=51, ensemble=101)


def main() -> int:
    options = Options.parse(__doc__)
    init(quiet=not options.verbose)
    options.announce()
    problem = poisson(k=2 if options.mode == "data" else rank() + 1)
    with options.output_folder() as folder:
        result = train(problem, **options.training(folder))
        result.print()
        result.save(folder, title=f"Poisson equation, {options.mode}", **options.saving)
    return programs.conclude(result, folder)


if __name__ == "__main__":
    programs.run(main)
