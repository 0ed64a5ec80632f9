"""Fit networks to u(x) = sin 2πx + sin 4πx on [-1, 1].

In mode data all ranks train one network, each on the points of its part of the interval. In mode
ensemble each rank trains separate networks on its part alone.

    mpirun -np 2 python scripts/function_approximation.py --mode data
"""

from sciml_par import init, programs, rank, size, train
from sciml_par.problems import Interval, two_sines

Options = programs.TrainingOptions.with_points(data=16, ensemble=16)


def main() -> int:
    options = Options.parse(__doc__)
    init(quiet=not options.verbose)
    options.announce()
    whole = Interval(-1, 1)
    own = whole if options.mode == "data" else whole.split(size())[rank()]
    with options.output_folder() as folder:
        result = train(two_sines(domain=own), evaluation_domain=whole, **options.training(folder))
        result.print()
        result.save(folder, title=f"Function approximation, {options.mode}", **options.saving)
    return programs.conclude(result, folder)


if __name__ == "__main__":
    programs.run(main)
