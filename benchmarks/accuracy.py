"""Error against seconds: optimizers of the engine and of others on problems with known solutions.

    python benchmarks/accuracy.py --problems poisson-2d --optimizers lm,adam+lbfgs --seeds 5

trains each problem by each optimizer from the initial weights of each seed, one after the other,
prints a table and writes benchmarks/results/accuracy.json and accuracy.png. The error is measured
at points that are not trained on; neither that nor compilation counts in the seconds.

    python benchmarks/accuracy.py --ranks --problems burgers --optimizers lm

measures the time per iteration on two ranks against one instead, one thread each.
benchmarks/README.md describes problems, optimizers and peers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _measuring import RESULTS, report, run_ranks, some_of, write_json

HERE = Path(__file__).parent

PROBLEMS = (
    "poisson-1d",
    "poisson-2d",
    "poisson-2d-built-in",
    "poisson-5d",
    "burgers",
    "burgers-built-in",
    "kovasznay",
    "helmholtz",
    "allen-cahn",
    "korteweg-de-vries",
    "inverse-diffusion",
)
ENGINE = ("lm", "lbfgs", "ssbroyden", "adam", "lm-scaled")
"""May follow one another, as in adam+lbfgs."""

PEERS = ("scipy-lbfgs", "deepxde")
MANY_STEPS = 1_000_000_000
BUSY = 0.25
"""Of a load average for each core, from which on the figures are not those of a quiet machine."""

ROUNDS = 3
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Options(argparse.Namespace):
    """The options; --help says what they mean."""

    problems: list[str]
    optimizers: list[str]
    seeds: int
    seconds: float | None
    cpu: bool
    steps: int | None
    adam_steps: int
    dtype: str
    threads: int | None
    environments: Path
    json: Path
    figure: Path
    draw: list[Path] | None
    ranks: bool
    per_iteration: bool


def main() -> None:
    options = parsed()
    if options.per_iteration:
        measure_per_iteration(options)
    elif options.ranks:
        compare_ranks(options)
    elif options.draw:
        draw_records(options)
    else:
        compare_optimizers(options)


def parsed(arguments: Sequence[str] | None = None) -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--problems", type=some_of(PROBLEMS), default=list(PROBLEMS), metavar="NAME,…")
    add(
        "--optimizers",
        type=optimizers,
        default=["lm"],
        metavar="NAME,…",
        help=f"of {', '.join(ENGINE)}, several joined by + for phases, and the peers "
        f"{', '.join(PEERS)} (default lm)",
    )
    add("--seeds", type=int, default=5, help="of the initial weights (default %(default)s)")
    add("--seconds", type=float, help="of each training (default: in which its target is due)")
    add(
        "--cpu",
        action="store_true",
        help="count the seconds that this process computes, of all its threads, for a busy machine",
    )
    add("--steps", type=int, help="of the last optimizer at most (default: until the time is over)")
    add(
        "--adam-steps",
        type=int,
        default=1000,
        help="of Adam where another optimizer follows (default %(default)s)",
    )
    add("--dtype", choices=("float32", "float64"), default="float64")
    add("--threads", type=int, help="cores for every training (default: all of this process)")
    add(
        "--environments",
        type=Path,
        default=HERE / ".venvs",
        metavar="FOLDER",
        help="where the peers' Python environments are (default %(default)s); PEER_TORCH names "
        "that of DeepXDE",
    )
    add("--json", type=Path, default=RESULTS / "accuracy.json", metavar="FILE")
    add("--figure", type=Path, default=RESULTS / "accuracy.png", metavar="FILE")
    add(
        "--draw",
        type=Path,
        nargs="+",
        metavar="JSON",
        help="train nothing: print the table and draw the figure of what these files hold",
    )
    add("--ranks", action="store_true", help="time per iteration on two ranks against one")
    add("--per-iteration", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments, namespace=Options())


def optimizers(text: str) -> list[str]:
    """Parse names of optimizers joined by commas, those of the engine also by + as phases."""
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            some_of(ENGINE)(name.replace("+", ","))
    return names


def compare_optimizers(options: Options) -> None:
    """Train everything, print the table, write the figures' numbers and the figure."""
    threads = take_cores(options.threads)
    conditions = conditions_of_measurement(threads)
    print(fairness_text(conditions, cpu=options.cpu), flush=True)
    # After the number of threads is settled: NumPy's library reads it when it is loaded.
    import _accuracy_report as reporting
    from _accuracy_curves import AbsentError
    from _accuracy_problems import CASES

    import sciml_par

    sciml_par.init(threads=threads)
    found: dict[tuple[str, str], list[Any]] = {}
    absent: dict[str, str] = {}
    whole = itertools.product(options.problems, options.optimizers, range(options.seeds))
    for problem, optimizer, seed in whole:
        if optimizer in absent:
            continue
        try:
            curve = trained(CASES[problem], optimizer, seed, options)
        except AbsentError as error:
            absent[optimizer] = str(error)
            continue
        found.setdefault((problem, optimizer), []).append(curve)
        show_one(problem, optimizer, seed, curve)
        if curve.ended.startswith("SIG"):  # a signal, which ends one training, is for all
            break
    print(reporting.table(found, absent), flush=True)
    record = {
        "conditions": conditions,
        "seconds_of": "process" if options.cpu else "wall clock",
        "dtype": options.dtype,
        "adam_steps": options.adam_steps,
        "absent": absent,
        "trainings": [
            {"problem": problem, "optimizer": optimizer, "seed": seed, **asdict(curve)}
            for (problem, optimizer), curves in found.items()
            for seed, curve in enumerate(curves)
        ],
    }
    write_json(options.json, record)
    if found:
        reporting.draw(found, options.figure)
        print(f"written to {options.figure}")


def draw_records(options: Options) -> None:
    """Print the table and draw the figure of trainings that were made before."""
    import _accuracy_report as reporting
    from _accuracy_curves import Curve

    found: dict[tuple[str, str], list[Any]] = {}
    assert options.draw is not None
    trainings = [
        each for file in options.draw for each in json.loads(file.read_text())["trainings"]
    ]
    chosen = [each for each in trainings if each["problem"] in options.problems]
    for each in sorted(chosen, key=lambda each: options.problems.index(each["problem"])):
        rows = [tuple(row) for row in each["rows"]]
        curve = Curve(rows, each["compile_seconds"], each["ended"])
        found.setdefault((each["problem"], each["optimizer"]), []).append(curve)
    print(reporting.table(found, {}))
    reporting.draw(found, options.figure)
    print(f"written to {options.figure}")


def trained(case: Any, optimizer: str, seed: int, options: Options) -> Any:
    """Return the curve of a training."""
    import _accuracy_peers as peers
    from _accuracy_curves import Limits
    from _accuracy_training import by_engine, phases_of

    limits = Limits(
        seconds=options.seconds or case.seconds,
        steps=options.steps or MANY_STEPS,
        adam_steps=options.adam_steps,
        dtype=options.dtype,
        cpu=options.cpu,
    )
    if optimizer == "scipy-lbfgs":
        return peers.by_scipy(case, seed, limits)
    if optimizer == "deepxde":
        return peers.by_deepxde(case, seed, limits, options.environments)
    return by_engine(case, phases_of(optimizer, limits), seed, limits)


def show_one(problem: str, optimizer: str, seed: int, curve: Any) -> None:
    """Print the result of one training, since each takes long."""
    step, seconds, loss, error = curve.rows[-1]
    print(
        f"{problem}, {optimizer}, seed {seed}: error {error:.1e}, loss {loss:.1e}, "
        f"{step:,} iterations in {seconds:.1f} s, {curve.ended}",
        flush=True,
    )


def take_cores(threads: int | None) -> int:
    """Restrict the process, and peers, to some cores with as many threads; return their number."""
    cores = sorted(os.sched_getaffinity(0))
    count = threads or len(cores)
    if count > len(cores):
        raise SystemExit(f"error: --threads {count}: there are {len(cores)} cores")
    os.sched_setaffinity(0, cores[:count])
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    return count


@dataclass(frozen=True)
class Conditions:
    """Under what the measurement is made; the load is the average of the last minute before it."""

    cores: int
    threads: int
    load: float

    @property
    def busy(self) -> bool:
        """Return whether other processes run."""
        return self.load > BUSY * self.cores


def conditions_of_measurement(threads: int) -> dict[str, Any]:
    """Return the conditions of the measurement, for the record."""
    found = Conditions(os.cpu_count() or 1, threads, os.getloadavg()[0])
    return {**asdict(found), "busy": found.busy, "began": time.strftime("%Y-%m-%d %H:%M:%S")}


def fairness_text(conditions: dict[str, Any], *, cpu: bool = False) -> str:
    """Return the meaning of the seconds, and a warning if the machine is busy."""
    kind = "of computation by this process" if cpu else "of wall clock"
    text = (
        f"Seconds {kind} while training, without compilation and without measuring errors; "
        f"{conditions['threads']} of {conditions['cores']} cores, and as many threads for "
        f"TensorFlow and BLAS; load average at the start {conditions['load']:.2f}."
    )
    if conditions["busy"]:
        text += "\nWarning: the machine is busy. Errors hold, iterations hold; seconds do not."
    return text


def compare_ranks(options: Options) -> None:
    """Print the time per iteration on two ranks divided by that on one, in turns."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    conditions = conditions_of_measurement(1)
    print(f"{fairness_text(conditions)}\nEach rank has one thread.", flush=True)
    found = []
    for problem in options.problems:
        for optimizer in options.optimizers:
            times: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(ROUNDS):
                for ranks, measured in times.items():
                    child = ["--per-iteration", "--problems", problem, "--optimizers", optimizer]
                    child += ["--steps", str(options.steps or 20), "--dtype", options.dtype]
                    said = run_ranks(ranks, str(HERE / "accuracy.py"), *child)
                    measured.append(said["seconds"])
            one, two = (statistics.median(times[ranks]) for ranks in (1, 2))
            print(
                f"{problem}, {optimizer}: {1e3 * one:,.1f} ms per iteration on one rank, "
                f"{1e3 * two:,.1f} ms on two: {two / one:.2f}",
                flush=True,
            )
            found.append({"problem": problem, "optimizer": optimizer, "seconds": times})
    write_json(options.json.with_stem("accuracy_ranks"), {"conditions": conditions, "times": found})


def measure_per_iteration(options: Options) -> None:
    """Print, as JSON, the time of an iteration on the slowest rank of this job (collective)."""
    from _accuracy_curves import Limits
    from _accuracy_problems import CASES
    from _accuracy_training import network_factory, phases_of

    import sciml_par

    sciml_par.init(threads=1)
    case = CASES[options.problems[0]]
    problem = case.make()
    assert options.steps is not None
    limits = Limits(0.0, options.steps, options.adam_steps, options.dtype)
    result = sciml_par.train(
        problem,
        network=network_factory(case, problem, 0),
        points=case.points(),
        phases=phases_of(options.optimizers[0], limits)[-1:],
        precision=options.dtype,
        progress=False,
    )
    member = result.members[0]
    seconds = max(each.seconds_train for each in member.contributions) / member.steps
    report({"seconds": seconds})


if __name__ == "__main__":
    main()
