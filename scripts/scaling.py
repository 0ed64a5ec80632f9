"""Measure how training scales with the ranks, fit a model of the allreduce, and predict further.

All ranks train one network on the Poisson equation, in mode data. In weak scaling each rank has as
many points as one has alone, in strong scaling the ranks divide them. The allreduce of the gradient
is also timed alone, for several sizes; latency and bandwidth are fitted to these times, and predict
the efficiency on the networks that --network names. Measured, modelled and published values are
kept apart.

    python scripts/scaling.py --ranks 1,2,4
    mpirun -np 2 python scripts/scaling.py --cases A
"""

import functools
import itertools
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter
from scipy.optimize import nnls

from sciml_par import programs, size
from sciml_par.evaluation import save_figure
from sciml_par.parallel import Average, allreduce, barrier

WEAK, STRONG = "weak", "strong"
RANKS = 2 ** np.arange(10)  # of predictions
SIZES = (8, 1 << 12, 1 << 16, 1 << 20, 1 << 23)  # bytes of the allreduces that the fit takes


@dataclass(frozen=True)
class Case:
    """−Δu = f on an interval or a square, and the network that solves it."""

    dimension: int
    points: int
    width: int
    depth: int
    steps: int  # of a run that is timed


CASES = {
    "A": Case(1, 101, 16, 2, 4_000),
    "B": Case(2, 2_000, 64, 3, 200),
    "C": Case(2, 20_000, 128, 4, 5),
}


@dataclass(frozen=True)
class Allreduce:
    """The time of an allreduce of n bytes on P ranks, T(P, n) = α log₂ P + β n (P − 1)/P.

    A reduce-scatter by halving and an allgather by doubling take 2 log₂ P messages and send
    2 n (P − 1)/P bytes (Thakur, Rabenseifner and Gropp 2005, doi 10.1177/1094342005051521). So α
    is twice the latency of a message, and β twice the time of a byte.
    """

    latency: float
    seconds_per_byte: float

    @staticmethod
    def terms(ranks, nbytes):
        """Return the factors of α and β, [k] each."""
        p, n = np.asarray(ranks, float), np.asarray(nbytes, float)
        return np.broadcast_arrays(np.log2(p), n * (p - 1) / p)

    @classmethod
    def fitted(cls, ranks, nbytes, seconds) -> "Allreduce":
        """Minimize Σ_k (T(P_k, n_k)/T_k − 1)² over α, β ≥ 0: small arrays count as large ones."""
        columns = np.stack(cls.terms(ranks, nbytes), axis=1) / np.asarray(seconds)[:, None]
        scale = np.linalg.norm(columns, axis=0)
        return cls(*(nnls(columns / scale, np.ones(len(columns)))[0] / scale).tolist())

    def seconds(self, ranks, nbytes):
        """Return T(P, n), which is 0 on one rank."""
        steps, share = self.terms(ranks, nbytes)
        return self.latency * steps + self.seconds_per_byte * share

    def efficiency(self, ranks, nbytes, computation, *, scaling):
        """Return T₁/T_P in weak and T₁/(P T_P) in strong scaling, without any overlap."""
        alone = computation / (np.asarray(ranks) if scaling == STRONG else 1)
        return alone / (alone + self.seconds(ranks, nbytes))


@dataclass(frozen=True)
class Network:
    """A link between hosts or GPUs: seconds of a message, and bytes a second."""

    latency: float
    bandwidth: float

    def model(self) -> Allreduce:
        """Return the time of a reduce-scatter and an allgather, of log₂ P messages each."""
        return Allreduce(2 * self.latency, 2 / self.bandwidth)


# The bandwidths are the nominal ones, of a direction; the latencies are assumptions.
NETWORKS = {
    "10 GbE": Network(30e-6, 1.25e9),  # IEEE 802.3ae: 10 Gbit/s
    "InfiniBand HDR": Network(1.5e-6, 25e9),  # four lanes of 50 Gbit/s
    "NVLink 3": Network(5e-6, 300e9),  # of an A100, by NVIDIA's description of its architecture
}

# Weak scaling, in efficiencies by the number of ranks.
PUBLISHED = {
    # Sergeev and Del Balso 2018, arXiv:1802.05799; one number each, on 128 hosts of 4 GPUs.
    "Horovod, Inception V3 and ResNet-101": {512: 0.90},
    "Horovod, VGG-16": {512: 0.68},
    # Escapil-Inchauspé and Ruz 2023, Scientific Reports 13:17562, on one host of 8 GPUs.
    "Schrödinger, Escapil-Inchauspé & Ruz": {1: 1.0, 2: 0.90, 4: 0.86, 8: 0.77},
    "Navier–Stokes, Escapil-Inchauspé & Ruz": {1: 1.0, 2: 0.96, 4: 0.92, 8: 0.89},
}


def named_network(text: str) -> tuple[str, Network]:
    name, _, numbers = text.rpartition("=")
    latency, bandwidth = (float(number) for number in numbers.split(","))
    if not (name and 0 <= latency < math.inf and 0 < bandwidth < math.inf):
        raise ValueError
    return name, Network(1e-6 * latency, 1e9 * bandwidth)


TRAINED = "; ".join(
    f"{name}: {case.dimension}-D, {case.width} × {case.depth}, {case.points:,} points"
    for name, case in CASES.items()
)
CASE_NAMES = programs.option_where(
    lambda text: text.split(","),
    lambda names: set(names) <= set(CASES) and len(set(names)) == len(names),
    f"some of {','.join(CASES)}",
    "A,B,C",
)
NAMED_NETWORKS = programs.option_where(
    named_network,
    bool,
    "NAME=LATENCY,GB/S with numbers as in 'my link=2,12.5'",
    "NAME=LATENCY,GB/S",
    repeated=True,
)
LINKS = (
    "predict for a link with this latency in microseconds and bandwidth in 10^9 bytes a second; "
    "may be given several times"
)


@dataclass(kw_only=True)
class Options(programs.ScalingStudyOptions):
    cases: Annotated[list[str], CASE_NAMES, Parameter(help=f"what to train; {TRAINED}")] = field(
        default_factory=lambda: ["A", "B"]
    )
    rounds: programs.PositiveInteger = 5
    """number of timed runs, of which the median counts"""
    steps: programs.PositiveInteger | None = None
    """training steps of a timed run, in place of those of the case"""
    precision: Literal["float32", "float64"] = "float32"
    """of the training"""
    network: Annotated[
        list[tuple[str, Network]],
        NAMED_NETWORKS,
        Parameter(help=LINKS, show_default="10 GbE=30,1.25; InfiniBand HDR=1.5,25; NVLink 3=5,300"),
    ] = field(default_factory=list)
    plots: programs.Switch = True
    """draw a figure"""


def measure(options) -> programs.Record:
    cases = {}
    for name in options.cases:
        case = CASES[name]
        cases[name] = {
            "parameters": parameters_of(case),
            WEAK: step_times(case, size() * case.points, options),
            STRONG: step_times(case, case.points, options),
        }
    bytes_of_number = np.dtype(options.precision).itemsize
    gradients = {bytes_of_number * found["parameters"] for found in cases.values()}
    several = [
        {"nbytes": nbytes, "seconds": allreduce_time(nbytes, options)}
        for nbytes in sorted(gradients | set(SIZES))
        if size() > 1
    ]
    return {"cases": cases, "allreduces": several}


def parameters_of(case: Case) -> int:
    widths = [case.dimension, *[case.width] * case.depth, 1]
    return sum((a + 1) * b for a, b in zip(widths[:-1], widths[1:], strict=True))


def step_times(case: Case, points: int, options) -> list[float]:
    """Return the seconds of a training step of all ranks together, of each round (collective)."""
    from sciml_par import train
    from sciml_par.networks import MLP
    from sciml_par.training import Points

    x = problem_of(case).domain.sample(points, seed=0, method="uniform")

    def seconds() -> float:
        steps = options.steps or case.steps
        result = train(
            problem_of(case),
            network=functools.partial(MLP, width=case.width, depth=case.depth),
            points=Points(interior=x, boundary=4 * round(math.sqrt(case.points))),
            steps=steps,
            precision=options.precision,
            progress=False,
        )
        return result.members[0].seconds_train / steps

    seconds()  # compiles; the others find it compiled
    return [seconds() for _ in range(options.rounds)]


@functools.cache
def problem_of(case: Case):
    from sciml_par.problems import Interval, poisson, problem_by_name

    of_a_line = case.dimension == 1
    return poisson(k=1, domain=Interval(0, 1)) if of_a_line else problem_by_name("poisson-2d")


def allreduce_time(nbytes: int, options) -> float:
    """Return the median seconds of one allreduce among many in a compiled loop (collective)."""
    import tensorflow as tf

    calls = max(5, min(50, 10**8 // nbytes))

    def many(x):
        def more(done, x):
            return done + 1, allreduce(x, Average)

        return tf.while_loop(lambda done, _: done < calls, more, (0, x))[1]

    x = tf.zeros([nbytes // 4])
    # For this shape: TensorFlow warns where functions are traced again and again.
    compiled = tf.function(many, jit_compile=True, autograph=False).get_concrete_function(x)
    seconds = []
    for number in range(1 + options.rounds):
        barrier()
        start = time.perf_counter()
        compiled(x).numpy()
        if number > 0:  # the first one compiles
            seconds.append((time.perf_counter() - start) / calls)
    return float(np.median(seconds))


def show(options, records: list[programs.Record], folder: Path) -> None:
    model = fitted(records)
    for name in options.cases:
        for scaling in (WEAK, STRONG):
            show_case(name, scaling, records, options, model)
    predictions = predict(options, records)
    show_predictions(predictions)
    if options.plots:
        for name in options.cases:
            draw(name, records, options, predictions, model, folder)


def show_case(name, scaling, records, options, model) -> None:
    case, parameters = CASES[name], records[0]["cases"][name]["parameters"]
    print(
        f"\n{name}: {case.dimension}-D, {case.width} × {case.depth}, "
        f"{parameters:,} parameters, {options.precision}; {scaling} "
        f"scaling, {case.points:,} points {'a rank' if scaling == WEAK else 'in all'}"
    )
    ranks, efficiency = efficiencies(name, scaling, records)
    alone, nbytes = alone_of(records, name, scaling), nbytes_of(records[0], name, options)
    rows = []
    for record, p, share in zip(records, ranks, efficiency, strict=True):
        spent = [each["seconds"] for each in record["allreduces"] if each["nbytes"] == nbytes]
        modelled = None
        if model is not None and alone is not None:
            modelled = float(model.efficiency(p, nbytes, alone, scaling=scaling))
        rows.append(
            [
                f"{p}{' *' if crowded(record) else ''}",
                f"{1e6 * step_time(record, name, scaling):,.1f}",
                f"{1e6 * spent[0]:,.1f}" if spent else "",
                f"{share:.2f}",
                "" if modelled is None else f"{modelled:.2f}",
            ]
        )
    headings = ["ranks", "µs a step", "µs allreduce", "efficiency", "modelled"]
    programs.print_table(headings, rows)


def step_time(record, name: str, scaling: str) -> float:
    return float(np.median(record["cases"][name][scaling]))


def efficiencies(name: str, scaling: str, records) -> tuple[list[int], np.ndarray]:
    ranks = [record["ranks"] for record in records]
    seconds = np.array([step_time(record, name, scaling) for record in records])
    # Of weak scaling, the time for the work of one rank.
    times = seconds / ranks if scaling == WEAK else seconds
    return ranks, programs.speed_up(ranks, times) / ranks


def nbytes_of(record, name: str, options) -> int:
    return np.dtype(options.precision).itemsize * record["cases"][name]["parameters"]


def alone_of(records, name: str, scaling: str) -> float | None:
    """Return the seconds of a step on one rank; None if that was not measured."""
    return step_time(records[0], name, scaling) if records[0]["ranks"] == 1 else None


def crowded(record) -> bool:
    return record["ranks"] * record["threads"] > record["cores"]


def fitted(records) -> Allreduce | None:
    """Fit a model to the allreduces of all runs with a core for each rank, if there are any."""
    rows = [
        (record["ranks"], each["nbytes"], each["seconds"])
        for record in records
        if not crowded(record)
        for each in record["allreduces"]
    ]
    if not rows:
        measured = any(record["allreduces"] for record in records)
        why = "had a core for each rank" if measured else "was needed"
        print(f"\nNo allreduce {why}, so that no model is fitted.")
        return None
    ranks, nbytes, seconds = (np.array(column) for column in zip(*rows, strict=True))
    model = Allreduce.fitted(ranks, nbytes, seconds)
    error = np.max(np.abs(model.seconds(ranks, nbytes) / seconds - 1))
    counts = ", ".join(str(p) for p in sorted(set(ranks.tolist())))
    print(
        f"\nAllreduce on {counts} ranks, fitted: T(P, n) = {1e6 * model.latency:.3g} µs · log₂ P + "
        f"n (P − 1)/P / ({1e-9 / max(model.seconds_per_byte, 1e-30):.3g} GB/s), to "
        f"{100 * error:.0f} % of each time at worst"
    )
    return model


def predict(options, records) -> dict[tuple[str, ...], np.ndarray]:
    """Predict efficiencies [k] on `RANKS` by network with its message, case and scaling."""
    found = {}
    for network, link in (dict(options.network) if options.network else NETWORKS).items():
        message = f"{1e6 * link.latency:g} µs, {1e-9 * link.bandwidth:g} GB/s"
        for name, scaling in itertools.product(options.cases, (WEAK, STRONG)):
            if (alone := alone_of(records, name, scaling)) is not None:
                nbytes = nbytes_of(records[0], name, options)
                values = link.model().efficiency(RANKS, nbytes, alone, scaling=scaling)
                found[network, message, name, scaling] = values
    return found


def show_predictions(predictions) -> None:
    if not predictions:
        print("\nNothing is predicted without a run on one rank.")
        return
    print(
        "\nPredicted efficiencies: the step of one rank as measured here, the allreduce by "
        "latency and bandwidth alone"
    )
    chosen = [1, 3, 6, 9]
    rows = [
        [network, message, f"{name}, {scaling}", *(f"{value:.2f}" for value in values[chosen])]
        for (network, message, name, scaling), values in predictions.items()
    ]
    headings = ["network", "a message", "case", *(f"P = {p}" for p in RANKS[chosen])]
    programs.print_table(headings, rows)


def draw(name: str, records, options, predictions, model, folder: Path) -> None:
    """Draw the efficiencies of one case next to published ones."""
    from sciml_par.evaluation import ScalingCurve, plot_scaling

    curves = []
    for scaling in (WEAK, STRONG):
        ranks, efficiency = efficiencies(name, scaling, records)
        curves.append(ScalingCurve("here", ranks, efficiency, scaling=scaling))
        alone = alone_of(records, name, scaling)
        if model is not None and alone is not None and len(ranks) > 1:
            nbytes = nbytes_of(records[0], name, options)
            values = model.efficiency(ranks, nbytes, alone, scaling=scaling)
            curves.append(ScalingCurve("here", ranks, values, kind="modelled", scaling=scaling))
    curves += [
        ScalingCurve(network, RANKS, values, kind="modelled", scaling=scaling)
        for (network, _, case, scaling), values in predictions.items()
        if case == name
    ]
    curves += [
        ScalingCurve(label, list(points), list(points.values()), kind="published", scaling=WEAK)
        for label, points in PUBLISHED.items()
    ]
    title = f"Case {name}, a step of one rank as measured here"
    save_figure(plot_scaling(curves, title=title), folder, f"scaling_{name}")


def main() -> None:
    programs.run_scaling_study(Options.parse(__doc__), measure, show)


if __name__ == "__main__":
    programs.run(main)
