"""Compare the time of one training step with other packages, in one run.

All train the same network on the same points with Adam, from the same initial weights, on the same
cores. Before they are timed, in turns, they make some steps each, and their losses are compared:
a peer that computes something else is not timed. What counts is the ratios of the medians.

    python benchmarks/peers.py --quick --cases A

prints a table for each case and writes benchmarks/results/peers.json. benchmarks/README.md says
how the peers are installed; those that are absent are named and left out. With `--device gpu` all
compute on the first GPU, and the file is peers_gpu.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _runner import HERE, RESULTS, VENVS, line, parse, some_of, write_json

sys.path.append(str(HERE / "peers"))

from _peer import Case  # noqa: E402

DTYPES = ("float32", "float64")
TOLERANCE = {"float32": 1e-3, "float64": 1e-6}
"""How far losses may lie apart, relative to the engine's: torch.optim.Adam and Optax place the ε
of Adam otherwise than Keras, and single precision parts after some steps."""

ENGINE = "engine"


@dataclass(frozen=True)
class Size:
    """How large a case is: points and boundary points in d dimensions, a width × depth network."""

    dimension: int
    points: int
    boundary: int
    width: int
    depth: int

    def __str__(self) -> str:
        return (
            f"Poisson {self.dimension}-D, {self.width}×{self.depth}, "
            f"{self.points:,} + {self.boundary} points"
        )


CASES = {
    "A": Size(1, 101, 2, 16, 2),
    "B": Size(2, 2_000, 180, 64, 3),
    "C": Size(2, 20_000, 564, 128, 4),
    "D": Size(2, 200_000, 1_784, 256, 4),
}

TARGETS = {
    "A": (("JAX fori_loop", 0.5), ("JAX jit of a step", 0.25), ("DeepXDE", 0.05)),
    "BCD": (
        ("JAX fori_loop, forward over reverse", 0.6),
        ("JAX fori_loop, forward Laplacian", 0.95),
        ("PyTorch", 0.7),
    ),
}
"""By case: the engine's time is to be at most so many times that of the fastest peer whose name
begins like this."""

COLUMNS = {
    "": "name:<46",
    "µs a step": "median:12,.1f",
    "fastest": "fastest:12,.1f",
    "engine ÷ it": "ratio:13.3f",
    "first step, s": "first_step_seconds:15.1f",
}


@dataclass(frozen=True)
class Peer:
    environment: str | None
    program: str
    arguments: tuple[str, ...] = ()

    def python(self, environments: Path) -> Path:
        """Return the interpreter of its environment, or that of this program."""
        if self.environment is None:
            return Path(sys.executable)
        chosen = os.environ.get(f"PEER_{self.environment.upper()}")
        return Path(chosen or environments / self.environment) / "bin" / "python"


PEERS = {
    ENGINE: Peer(None, "engine_peer.py"),
    "jax": Peer("jax", "jax_peer.py"),
    "torch": Peer("torch", "torch_peer.py"),
    "deepxde-jax": Peer("deepxde", "deepxde_peer.py", ("jax",)),
    "deepxde-tensorflow": Peer("deepxde", "deepxde_peer.py", ("tensorflow",)),
    "deepxde-pytorch": Peer("torch", "deepxde_peer.py", ("pytorch",)),
}
DEVICES = {
    "cpu": {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "PEER_DEVICE": "cpu"},
    "gpu": {
        "JAX_PLATFORMS": "cuda",
        # Otherwise JAX multiplies in TensorFloat-32, with ten bits, which the others do not.
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "PEER_DEVICE": "cuda",
    },
}
"""The environment of the peers, by the device that they compute on."""


@dataclass
class Measured:
    name: str
    loss: float
    first_step_seconds: float
    microseconds: list[float] = field(default_factory=list)


class PeerEnded(Exception):
    """A peer has ended without an answer."""


class Process:
    """A peer that has been started, which answers each command; its errors go to a file."""

    def __init__(self, peer: Peer, options: Namespace, errors: Path) -> None:
        python = peer.python(options.environments)
        if not python.exists():
            raise FileNotFoundError(f"there is no {python}")
        self._process = subprocess.Popen(
            [str(python), str(HERE / "peers" / peer.program), *peer.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors.open("w"),
            env={**os.environ, **limits(options.threads), **DEVICES[options.device]},
            encoding="utf-8",
        )

    def ask(self, **command: Any) -> Any:
        """Return the answer to a command, or the first words without one."""
        if command:
            print(json.dumps(command), file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerEnded(f"ended with exit code {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    options = parse(
        __doc__,
        cases={"type": some_of(CASES), "default": list("ABC"), "metavar": "A,B,…"},
        dtypes=list(DTYPES),
        peers=list(PEERS),
        device={"choices": tuple(DEVICES), "default": "cpu"},
        threads=(1, "cores for every peer"),
        environments=VENVS,
        quick=(False, "few and short rounds, for a trial"),
    )
    options.peers = [ENGINE, *(name for name in PEERS if name in options.peers and name != ENGINE)]
    cores = sorted(os.sched_getaffinity(0))
    if options.threads > len(cores):
        raise SystemExit(f"error: --threads {options.threads}: there are {len(cores)} cores")
    # Some of the peers count the cores that they may use, and heed no variable.
    os.sched_setaffinity(0, cores[: options.threads])
    found = []
    about = {key: getattr(options, key) for key in ("threads", "device", "quick")}
    for letter in options.cases:
        for dtype in options.dtypes:
            measured, absent = measure(letter, dtype, options)
            print(table(letter, dtype, measured, absent), flush=True)
            of = {"case": letter, "size": str(CASES[letter]), "dtype": dtype, **about}
            trainings = [asdict(each) for each in measured]
            found.append({**of, "absent": absent, "trainings": trainings})
    write_json(RESULTS / ("peers.json" if options.device == "cpu" else "peers_gpu.json"), found)


def measure(letter: str, dtype: str, options: Namespace) -> tuple[list[Measured], dict[str, str]]:
    """Measure all peers in a case, the engine first; return also the absent ones, with reasons."""
    rounds, seconds = (3, 0.2) if options.quick else (9, 1.0)
    measured: list[tuple[Process, Measured]] = []
    absent: dict[str, str] = {}

    def progress(text: str) -> None:
        """Print what was measured at once: a run that is cut off then leaves its figures."""
        print(f"{letter}, {dtype}: {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        file = Path(folder) / "case.npz"
        make_case(CASES[letter]).save(file)
        of_case = {"file": str(file), "dtype": dtype, "steps": 5 if letter in "CD" else 20}
        for name in options.peers:
            said = Path(folder) / f"{name}.txt"
            try:
                process = Process(PEERS[name], options, said)
                processes.callback(process.end)
                for training in process.ask()["names"]:
                    begun = process.ask(do="begin", name=training, **of_case)
                    now = Measured(training, begun["loss"], begun["first_step_seconds"])
                    progress(f"{training}: first step {now.first_step_seconds:.1f} s")
                    check(now, [each for _, each in measured], TOLERANCE[dtype])
                    measured.append((process, now))
            except (PeerEnded, FileNotFoundError, ValueError) as error:
                lines = said.read_text().strip().splitlines() if said.exists() else []
                absent[name] = ": ".join([str(error), *lines[-1:]])
                if name == ENGINE:
                    raise SystemExit(f"error: engine: {absent[name]}") from None
        for number in range(1 + rounds):
            for process, training in measured:
                found = process.ask(do="time", name=training.name, seconds=seconds)
                time = f"{training.name}: {found['microseconds']:,.1f} µs a step"
                progress(f"round {number} of {rounds}: {time}")
                if number > 0:  # the first warms up
                    training.microseconds.append(found["microseconds"])
    return [training for _, training in measured], absent


def make_case(size: Size) -> Case:
    """Return points and initial weights, by Glorot's normal rule, with small biases."""
    from sciml_par.problems import Box, Interval

    random = np.random.default_rng(0)
    widths = [size.dimension, *[size.width] * size.depth, 1]
    weights = []
    for inputs, outputs in zip(widths[:-1], widths[1:], strict=True):
        deviation = np.sqrt(2 / (inputs + outputs))
        # Biases of zero would have gradients that vanish but for rounding, whose sign decides
        # Adam's first steps.
        weights += [
            random.normal(scale=deviation, size=[inputs, outputs]),
            random.uniform(-0.1, 0.1, outputs),
        ]
    if size.dimension == 1:
        x, boundary, weight = np.linspace(-1, 1, size.points)[:, None], Interval(-1, 1), 2.0
        f = 4 * np.pi**2 * np.sin(2 * np.pi * x)
    else:
        x, boundary, weight = random.random([size.points, 2]), Box([0, 0], [1, 1]), 1.0
        f = 2 * np.pi**2 * np.prod(np.sin(np.pi * x), axis=1, keepdims=True)
    return Case(x, f, boundary.boundary(size.boundary)[0], weight, weights, "float64")


def limits(threads: int) -> dict[str, str]:
    names = ("OMP", "MKL", "OPENBLAS", "TF_INTRAOP", "TF_INTEROP")
    chosen = {f"{name}_NUM_THREADS": str(threads) for name in names}
    chosen |= {f"TF_NUM_{each}OP_THREADS": str(threads) for each in ("INTRA", "INTER")}
    return {**chosen, "TF_CPP_MIN_LOG_LEVEL": "3"}


def check(now: Measured, before: Sequence[Measured], tolerance: float) -> None:
    if before and not abs(now.loss / before[0].loss - 1) <= tolerance:
        raise ValueError(f"{now.name} has the loss {now.loss}, the engine {before[0].loss}. ")


def table(letter: str, dtype: str, measured: Sequence[Measured], absent: Mapping[str, str]) -> str:
    """Return the medians, their ratios to the engine's, the targets and the absent peers."""
    medians = {each.name: statistics.median(each.microseconds) for each in measured}
    lines = [f"\n{letter}: {CASES[letter]}, {dtype}", line(COLUMNS)]
    for each in measured:
        median = medians[each.name]
        row = {"median": median, "ratio": medians[ENGINE] / median}
        lines.append(line(COLUMNS, asdict(each) | row | {"fastest": min(each.microseconds)}))
    for beginning, most in next(of for letters, of in TARGETS.items() if letter in letters):
        times = [time for name, time in medians.items() if name.startswith(beginning)]
        if times:
            ratio = medians[ENGINE] / min(times)
            verdict = "reached" if ratio <= most else "missed"
            lines.append(f"  target ≤ {most} × fastest of “{beginning}”: {ratio:.3f}, {verdict}")
    lines += [f"  absent: {name}: {why}" for name, why in absent.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
