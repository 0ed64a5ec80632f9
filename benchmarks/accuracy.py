"""Error against seconds: optimizers of the engine and of others on problems with known solutions.

    python benchmarks/accuracy.py --problems poisson-2d --optimizers lm,adam+lbfgs --seeds 5

trains each problem by each optimizer from the initial weights of each seed, one after the other,
prints a table and writes benchmarks/results/accuracy.json and accuracy.png. The error is measured
at points that are not trained on; neither that nor compilation counts in the seconds.

benchmarks/README.md describes problems, optimizers and peers.
"""

from __future__ import annotations

import itertools
import os
import statistics
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from _runner import RESULTS, VENVS, Row, measure, parse, report, some_of, stored

PROBLEMS = (
    "poisson-1d", "poisson-2d", "poisson-2d-built-in", "poisson-5d", "burgers", "burgers-built-in",
    "kovasznay", "helmholtz", "allen-cahn", "korteweg-de-vries", "inverse-diffusion",
)  # fmt: skip
ENGINE = ("lm", "lbfgs", "ssbroyden", "adam", "lm-scaled")
"""May follow one another, as in adam+lbfgs."""

PEERS = ("scipy-lbfgs", "deepxde")
MANY_STEPS = 1_000_000_000
BUSY = 0.25
"""Of a load average for each core, from which on the figures are not those of a quiet machine."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
COLUMNS = {
    "problem": "problem:<20",
    "optimizer": "optimizer:<16",
    "seed": "seed:5",
    "error": "error:10.1e",
    "iterations": "iterations:12,",
    "seconds": "seconds:9.1f",
    "compile, s": "compile_seconds:12.1f",
    "  ended": "ended:<30",
}
OVER_SEEDS = {
    "optimizer": "optimizer:<20",
    "error": "error:10.1e",
    "least": "least:10.1e",
    "largest": "largest:10.1e",
    "iterations": "iterations:12,.0f",
    "seconds": "seconds:9.1f",
    "compile, s": "compile_seconds:12.1f",
    "   target": "target:<40",
}


def main() -> None:
    options = parsed()
    cores = sorted(os.sched_getaffinity(0))
    threads = options.threads or len(cores)
    if threads > len(cores):
        raise SystemExit(f"error: --threads {threads}: there are {len(cores)} cores")
    # Before NumPy is loaded, whose library reads them.
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    if options.draw:
        runs = [run for file in options.draw for run in stored(file)["runs"]]
        return conclude([run for run in runs if run["problem"] in options.problems], {}, options)
    print(fairness_text(threads, len(cores), os.getloadavg()[0], cpu=options.cpu), flush=True)
    os.sched_setaffinity(0, cores[:threads])
    import _accuracy_training as training

    import sciml_par

    sciml_par.init(threads=threads)
    absent: dict[str, str] = {}
    ended: list[str] = []

    def cases() -> Iterator[Row]:
        words = options.problems, options.optimizers, range(options.seeds)
        for problem, optimizer, seed in itertools.product(*words):
            # A signal, which ends one training, is for all.
            if optimizer not in absent and not any(each.startswith("SIG") for each in ended):
                yield {"problem": problem, "optimizer": optimizer, "seed": seed}

    def run(problem: str, optimizer: str, seed: int) -> Row | None:
        try:
            curve = training.trained(problem, optimizer, seed, options)
        except training.AbsentError as error:
            absent[optimizer] = str(error)
            return None
        ended.append(curve["ended"])
        return curve

    conclude(measure(cases(), COLUMNS, run, file=options.json), absent, options)


def parsed(arguments: Sequence[str] | None = None) -> Namespace:
    return parse(
        __doc__,
        arguments,
        problems=list(PROBLEMS),
        optimizers=({"type": optimizers, "default": ["lm"], "metavar": "NAME,…"},
                    f"of {', '.join(ENGINE)}, several joined by + for phases, and the peers "
                    f"{', '.join(PEERS)} (default lm)"),
        seeds=(5, "of the initial weights"),
        seconds=(float, "of each training (default: in which its target is due)"),
        cpu=(False, "count the seconds that this process computes, of all its threads, for a "
             "busy machine"),
        steps=(MANY_STEPS, "of the last optimizer at most"),
        adam_steps=(1000, "of Adam where another optimizer follows"),
        dtype={"choices": ("float32", "float64"), "default": "float64"},
        threads=(int, "cores for every training (default: all of this process)"),
        environments=VENVS,
        json=RESULTS / "accuracy.json",
        figure=RESULTS / "accuracy.png",
        draw=({"type": Path, "nargs": "+", "metavar": "JSON"},
              "train nothing: print the table and draw the figure of what these files hold"),
    )  # fmt: skip


def optimizers(text: str) -> list[str]:
    """Parse names of optimizers joined by commas, those of the engine also by + as phases."""
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            some_of(ENGINE)(name.replace("+", ","))
    return names


def fairness_text(threads: int, cores: int, load: float, *, cpu: bool = False) -> str:
    kind = "of computation by this process" if cpu else "of wall clock"
    text = (
        f"Seconds {kind} while training, without compilation and without measuring errors; "
        f"{threads} of {cores} cores, and as many threads for "
        f"TensorFlow and BLAS; load average at the start {load:.2f}."
    )
    if load > BUSY * cores:
        text += "\nWarning: the machine is busy. Errors hold, iterations hold; seconds do not."
    return text


def conclude(runs: Sequence[Row], absent: Mapping[str, str], options: Namespace) -> None:
    from _accuracy_problems import CASES

    for problem in dict.fromkeys(run["problem"] for run in runs):
        case = CASES[problem]
        print(
            f"\n{problem}: {case.title}; to reach: {case.target:.0e} in {case.seconds:.0f} s, "
            f"stretch {case.stretch:.0e}"
        )
        report(OVER_SEEDS, summaries([r for r in runs if r["problem"] == problem], case.target))
    for name, why in absent.items():
        print(f"absent: {name}: {why}")
    if runs:
        draw(runs, options.figure)
        print(f"written to {options.figure}")


def summaries(runs: Sequence[Row], target: float) -> list[Row]:
    """Return a row for each optimizer: medians over the seeds except least, largest, compile."""
    rows = []
    for optimizer in dict.fromkeys(run["optimizer"] for run in runs):
        chosen = [run for run in runs if run["optimizer"] == optimizer]
        errors = [run["error"] for run in chosen]
        row = {"optimizer": optimizer, "error": statistics.median(errors)}
        row |= {key: statistics.median(r[key] for r in chosen) for key in ("iterations", "seconds")}
        row |= {"least": min(errors), "largest": max(errors)}
        row["compile_seconds"] = max(run["compile_seconds"] for run in chosen)
        # After how many iterations and seconds each run was there.
        points = (next((p[:2] for p in r["rows"] if p[3] <= target), None) for r in chosen)
        reached = [point for point in points if point]
        row["target"] = "   missed"
        if reached:
            step, seconds = (statistics.median(each) for each in zip(*reached, strict=True))
            row["target"] = (
                f"   {'reached' if row['error'] <= target else 'missed'}, by {len(reached)} of "
                f"{len(chosen)}: after {step:,.0f} iterations, {seconds:.1f} s"
            )
        rows.append(row)
    return rows


def draw(runs: Sequence[Row], file: Path) -> None:
    """Draw the error against seconds, a panel a problem; the median seed strong, others pale."""
    from _accuracy_problems import CASES
    from _examples import panels

    from sciml_par.evaluation.figures.parts.style import DASHES, PALETTE

    order = list(dict.fromkeys(run["optimizer"] for run in runs))

    def draw_panel(axes: Any, problem: str) -> dict[str, Any]:
        case, handles = CASES[problem], {}
        for index, optimizer in enumerate(order):
            style = {"color": PALETTE[index % len(PALETTE)], "ls": DASHES[index % len(DASHES)]}
            chosen = [r for r in runs if (r["problem"], r["optimizer"]) == (problem, optimizer)]
            chosen.sort(key=lambda run: run["error"])
            for number, run in enumerate(chosen):
                strong = number == (len(chosen) - 1) // 2
                _, seconds, _, errors = zip(*run["rows"], strict=True)
                look = {"lw": 1.4 if strong else 0.6, "alpha": 1.0 if strong else 0.35}
                (drawn,) = axes.plot(seconds, errors, **look, **style)
                if strong:
                    handles[optimizer] = drawn
        axes.axhline(case.target, color="#7f7f7f", linewidth=0.8, linestyle=":", zorder=1)
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.set_xlim(left=0)
        axes.set_title(f"{case.title}\ndotted: to reach, {case.target:.0e}", fontsize=7.5)
        return handles

    names = list(dict.fromkeys(run["problem"] for run in runs))
    columns = 2 if len(names) == 4 else min(len(names), 3)
    panels(names, draw_panel, file, columns=columns, size=(2.9, 2.3), x="seconds of training")


if __name__ == "__main__":
    main()
