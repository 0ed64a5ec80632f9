"""Average gradients through parameter servers, around a ring, and by this package's allreduce.

With a parameter server, one rank receives the gradients of all others, and sends each of them the
mean: of n bytes on P ranks, (P − 1) n pass it in each direction, and P n where the server is a
separate process next to P workers. Shards let every rank be the server of a P-th of the gradient;
a ring passes a P-th on, P − 1 times to add up and P − 1 times to hand out the sums. Either way
2 (P − 1)/P n pass each rank, however many there are (Patarasuk and Yuan 2009,
doi:10.1016/j.jpdc.2008.09.002; Li et al. 2014, "Scaling distributed machine learning with the
parameter server", OSDI).

These three are written here with messages between two ranks, in blocks, so that sending, receiving
and adding overlap; their bytes are counted where they are sent. The fourth is what training uses.

    python scripts/parameter_server.py --ranks 2,4,8
    mpirun -np 4 python scripts/parameter_server.py --sizes 1KB,1MB
"""

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from sciml_par import programs, rank, size
from sciml_par.errors import InputError
from sciml_par.evaluation import save_figure
from sciml_par.parallel import Average, Max, allreduce, barrier

SERVER, SHARDS, RING, ALLREDUCE = "one server", "sharded servers", "ring", "allreduce"
METHODS = (SERVER, SHARDS, RING, ALLREDUCE)
COUNTED = (SERVER, SHARDS, RING)
BLOCK = 1 << 18  # floats of a message: 1 MiB
MOST_BLOCKS = 64  # of a shard; with several hundred messages under way MPICH takes minutes
GRADIENT, MEAN = 1, 2  # tags
UNITS = {"B": 1, **{f"{prefix}B": 1000**k for k, prefix in enumerate("KMG", start=1)}}
UNITS |= {f"{prefix}iB": 1024**k for k, prefix in enumerate("KMG", start=1)}
Shard = tuple[int, int]  # the first element, and the one after the last
MODEL_RANKS = 2 ** np.arange(1, 8)


@dataclass
class Link:
    """Messages between this rank and others, and the bytes of them (local)."""

    comm: MPI.Comm
    sent: int = 0
    received: int = 0

    def send(self, values: np.ndarray, to: int, tag: int) -> MPI.Request:
        self.sent += values.nbytes
        return self.comm.Isend(values, to, tag)

    def receive(self, values: np.ndarray, source: int, tag: int) -> MPI.Request:
        self.received += values.nbytes
        return self.comm.Irecv(values, source, tag)


@dataclass
class Gradients:
    """The gradient of this rank, and room for the mean of all: float32, [n / 4]."""

    nbytes: int
    own: np.ndarray = field(init=False)
    mean: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.own = (1 + rank()) * self._pattern()
            self.mean = np.zeros_like(self.own)
        except MemoryError:
            raise InputError(
                f"--sizes: not enough memory for a gradient of {size_name(self.nbytes)} on each "
                f"of {size()} ranks; take smaller ones"
            ) from None

    def check(self, mean: npt.ArrayLike, method: str) -> None:
        """Raise unless this is the mean over the ranks, which these values have exactly."""
        if not np.array_equal(mean, (1 + size()) / 2 * self._pattern()):
            raise RuntimeError(f"{method}: what {self.nbytes:,} bytes gave is not their mean")

    def _pattern(self) -> np.ndarray:
        return (np.arange(self.nbytes // 4) % 1000).astype(np.float32)


def byte_counts(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)\s*([KMG]i?B|B)?", part.strip())
        found.append(int(match[1]) * UNITS[match[2] or "B"] // 4 * 4 if match else 0)
    return sorted(set(found))


SIZES = programs.option_where(
    byte_counts,
    lambda found: min(found) >= 4,
    f"sizes of 4 B or more with units among {', '.join(UNITS)}, as in 1KB,4MB",
    "1KB,4MB,…",
)


@dataclass(kw_only=True)
class Options(programs.ScalingStudyOptions):
    sizes: Annotated[list[int], SIZES] = field(
        default_factory=partial(byte_counts, "1KB,16KB,256KB,4MB,64MB,256MB")
    )
    """bytes of a gradient; a rank needs about six times the largest as memory"""
    rounds: programs.PositiveInteger = 5
    """number of timed runs, of which the median counts"""
    plots: programs.Switch = True
    """draw a figure"""


def average_by_servers(gradients: Gradients, link: Link, shards: list[Shard]) -> None:
    """Average, where each rank is the server of its shard."""
    others = [other for other in range(size()) if other != rank()]
    waits = []
    for server in others:
        for block in blocks(*shards[server]):
            waits.append(link.receive(gradients.mean[block], server, MEAN))
            waits.append(link.send(gradients.own[block], server, GRADIENT))
    for block in blocks(*shards[rank()]):
        waits += serve(gradients, link, block, others)
    MPI.Request.Waitall(waits)


def serve(gradients: Gradients, link: Link, block: slice, workers: list[int]) -> list[MPI.Request]:
    """Average a block of this rank's own shard, in the order in which the workers' arrive."""
    mean = gradients.mean[block]
    arrived = np.empty((len(workers), len(mean)), mean.dtype)
    receives = [
        link.receive(row, worker, GRADIENT) for row, worker in zip(arrived, workers, strict=True)
    ]
    np.copyto(mean, gradients.own[block])
    for _ in workers:
        mean += arrived[MPI.Request.Waitany(receives)]
    mean /= size()
    return [link.send(mean, worker, MEAN) for worker in workers]


def average_around_the_ring(gradients: Gradients, link: Link, shards: list[Shard]) -> None:
    """Average by a reduce-scatter and an allgather, each of P − 1 messages to the next rank."""
    np.copyto(gradients.mean, gradients.own)
    for step in range(size() - 1):
        pass_on(gradients.mean, link, shards, rank() - step, add=True)
    gradients.mean[slice(*shards[(rank() + 1) % size()])] /= size()
    for step in range(size() - 1):
        pass_on(gradients.mean, link, shards, rank() + 1 - step, add=False)


def pass_on(values: np.ndarray, link: Link, shards: list[Shard], number: int, *, add: bool) -> None:
    """Send this shard to the next rank; from the one before, receive or add the shard before."""
    after, before = (rank() + 1) % size(), (rank() - 1) % size()
    tag = GRADIENT if add else MEAN
    out, into = shards[number % size()], shards[(number - 1) % size()]
    sends = [link.send(values[block], after, tag) for block in blocks(*out)]
    for block in blocks(*into):
        arrived = np.empty_like(values[block]) if add else values[block]
        link.receive(arrived, before, tag).Wait()
        if add:
            values[block] += arrived
    MPI.Request.Waitall(sends)


def blocks(start: int, stop: int) -> Iterator[slice]:
    length = max(BLOCK, math.ceil((stop - start) / MOST_BLOCKS))
    for first in range(start, stop, length):
        yield slice(first, min(stop, first + length))


def measure(options) -> programs.Record:
    if size() == 1:
        return {"exchanges": []}
    comm = MPI.COMM_WORLD.Dup()
    try:
        found = [row for nbytes in options.sizes for row in measure_size(nbytes, comm, options)]
    finally:
        comm.Free()
    return {"exchanges": found}


def measure_size(nbytes: int, comm: MPI.Comm, options) -> list[programs.Record]:
    gradients = Gradients(nbytes)
    count = len(gradients.own)
    shards = list(pairwise(count * k // size() for k in range(size() + 1)))
    whole = [(0, count)] + [(count, count)] * (size() - 1)
    link = Link(comm)
    calls = max(5, min(50, 10**8 // (nbytes * size())))

    def repeated(average: Callable, shards: list[Shard]) -> np.ndarray:
        for _ in range(calls):
            average(gradients, link, shards)
        return gradients.mean

    ways = {
        SERVER: lambda: repeated(average_by_servers, whole),
        SHARDS: lambda: repeated(average_by_servers, shards),
        RING: lambda: repeated(average_around_the_ring, shards),
        ALLREDUCE: compiled_allreduces(gradients, calls),
    }
    seconds = {method: [] for method in METHODS}
    busiest = {}
    for number in range(1 + options.rounds):
        for method, run in ways.items():
            link.sent = link.received = 0
            gradients.mean.fill(0)
            spent, mean = timed(run)
            if number == 0:  # connections are made, and the loop is compiled
                gradients.check(mean, method)
                if method in COUNTED:
                    most = np.int64(max(link.sent, link.received) // calls)
                    busiest[method] = int(allreduce(most, Max))
            else:
                seconds[method].append(spent / calls)
    return [
        {
            "method": method,
            "nbytes": nbytes,
            "seconds": float(np.median(seconds[method])),
            "busiest": busiest.get(method),
        }
        for method in METHODS
    ]


def timed(run: Callable[[], npt.ArrayLike]) -> tuple[float, npt.ArrayLike]:
    """Return the seconds until the last rank is done, and the result (collective)."""
    barrier()
    start = time.perf_counter()
    found = run()
    return float(allreduce(np.float64(time.perf_counter() - start), Max)), found


def compiled_allreduces(gradients: Gradients, calls: int) -> Callable[[], npt.ArrayLike]:
    """Return `calls` allreduces in a compiled loop, as in a training."""
    import tensorflow as tf

    def many(x):
        def more(done, x):
            return done + 1, allreduce(x, Average)

        return tf.while_loop(lambda done, _: done < calls, more, (0, x))[1]

    x = tf.constant(gradients.own)
    # For this shape: TensorFlow warns where functions are traced again and again.
    compiled = tf.function(many, jit_compile=True, autograph=False).get_concrete_function(x)
    return lambda: compiled(x)


def model(method: str, ranks) -> np.ndarray:
    """Return the bytes through the busiest rank, in gradients; one server is a separate process."""
    ranks = np.asarray(ranks, float)
    return ranks if method == SERVER else 2 * (ranks - 1) / ranks


def show(options, records: list[programs.Record], folder: Path) -> None:
    records = [record for record in records if record["exchanges"]]
    if not records:
        print("One rank has nobody to average with: choose two ranks or more.")
        return
    print(
        "\nBytes through the busiest rank, the larger of sent and received, over those of the "
        "gradient: counted, and (by the formula)"
    )
    rows = []
    for record in records:
        shares = (
            f"{busiest_share(record, method):.2f} ({model(method, record['ranks']):.2f})"
            for method in COUNTED
        )
        rows.append([str(record["ranks"]), *shares])
    programs.print_table(["ranks", *COUNTED], rows)
    print("The formula of one server, P, counts P workers next to it; here it is one of P ranks.")
    for record in records:
        print(f"\n{title_of(record)}: µs until all have the mean")
        rows = [
            [size_name(nbytes), *(f"{1e6 * seconds:,.1f}" for seconds in times)]
            for nbytes, times in times_of(record).items()
        ]
        programs.print_table(["gradient", *METHODS], rows)
    if options.plots:
        save_figure(draw(records), folder, "parameter_server")


def busiest_share(record: programs.Record, method: str) -> float:
    """Return the counted bytes through the busiest rank over those of the largest gradient."""
    last = max(
        (each for each in record["exchanges"] if each["method"] == method),
        key=lambda each: each["nbytes"],
    )
    return last["busiest"] / last["nbytes"]


def title_of(record: programs.Record) -> str:
    mark = " (more ranks than cores)" if record["ranks"] > record["cores"] else ""
    return f"{record['ranks']} ranks{mark}"


def times_of(record: programs.Record) -> dict[int, list[float]]:
    """Return the seconds of all `METHODS` by the bytes of the gradient."""
    found: dict[int, list[float]] = {}
    for each in sorted(record["exchanges"], key=lambda each: METHODS.index(each["method"])):
        found.setdefault(each["nbytes"], []).append(each["seconds"])
    return dict(sorted(found.items()))


def size_name(nbytes: int) -> str:
    power = min(3, int(math.log10(nbytes)) // 3)
    return f"{nbytes / 1000**power:,.4g} {('B', 'KB', 'MB', 'GB')[power]}"


def draw(records: list[programs.Record]):
    """Draw bytes over ranks, and for each number of ranks the times over bytes."""
    from sciml_par.evaluation.figures.parts.layout import make_panels
    from sciml_par.evaluation.figures.parts.style import color_of, paper_style

    colors = {method: color_of(k) for k, method in enumerate(METHODS)}
    ranks = [record["ranks"] for record in records]
    shown = np.union1d(MODEL_RANKS, ranks)
    with paper_style():
        grid = make_panels(1 + len(records), 2, 2.3)
        axes, *others = grid.panels.values()
        for method in (SERVER, RING):
            axes.plot(shown, model(method, shown), "--", color=colors[method], linewidth=0.9)
        axes.plot([], [], "k--", linewidth=0.9, label="P, and 2 (P − 1)/P")
        for method, marker in zip(COUNTED, "osx", strict=True):
            counted = [busiest_share(record, method) for record in records]
            axes.plot(ranks, counted, marker, color=colors[method], markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.set(xlabel="ranks P", ylabel="gradients through\nthe busiest rank")
        for axes, record in zip(others, records, strict=True):
            times = times_of(record)
            columns = zip(METHODS, "osxd", zip(*times.values(), strict=True), strict=True)
            for method, marker, seconds in columns:
                look = {"color": colors[method], "markersize": 3.5, "label": method}
                axes.loglog(list(times), seconds, f"{marker}-", **look)
            axes.set(title=title_of(record), xlabel="bytes of the gradient", ylabel="seconds")
        return grid.finish(None)


def main() -> None:
    programs.run_scaling_study(Options.parse(__doc__), measure, show)


if __name__ == "__main__":
    programs.run(main)
