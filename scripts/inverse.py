"""Find the unknown of the catalogue's inverse problem from noisy observations, with intervals.

All ranks train one network. The observations know the deviation of their errors, so that the
training ends with an interval of the unknown and bands of the solution. --method randomized and
--method profile train again and show whether the linearized intervals hold.

    python scripts/inverse.py inverse-diffusion --noise 0.05
    mpirun -np 2 python scripts/inverse.py --method profile --output runs/profile
"""

from sciml_par import init, programs


def main() -> int:
    options = programs.parse_inverse_options(__doc__)
    init(quiet=not options.verbose)
    options.announce()
    problem = options.make_problem()
    with options.output_folder() as folder:
        result = options.find(problem, folder)
        result.print()
        found = options.uncertainty(result)
        result.save(
            folder,
            overwrite=True,
            plots=options.plots,
            title=problem.name,
            arguments=vars(options),
        )
        options.report(found, folder, problem.name)
    return programs.conclude(result, folder)


if __name__ == "__main__":
    programs.run(main)
