"""benchmarks/peers.py: the engine as it is measured, and how peers are judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launch import ROOT

sys.path += [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "peers")]

import engine_peer
import peers
from _peer import LEARNING_RATE, Case

pytestmark = pytest.mark.long

SMALL = peers.Size(2, 30, 12, 5, 2)

SERVED = """
import sys
sys.path.append({folder!r})
from _peer import serve

class Slow:
    def __init__(self, case):
        self.steps, self.case = 0, case
        print("a library's own words")
    def advance(self, steps):
        self.steps += steps
    def loss(self):
        return self.steps + self.case.weight

serve({{"slow": Slow}}, {{"version": "1"}})
"""


def small_case(tmp_path: Path, dtype: str) -> Case:
    peers.make_case(SMALL).save(tmp_path / "case.npz")
    return Case.load(tmp_path / "case.npz", dtype)


@pytest.mark.ranks(most=1, reason="a peer is one process")
def test_the_engine_starts_from_the_case_and_makes_steps_of_adam(tmp_path: Path) -> None:
    case = small_case(tmp_path, "float64")
    training = engine_peer.EngineTraining(case)
    assert training.loss() == pytest.approx(loss_by_differences(case), rel=1e-6)
    training.advance(1)
    parameters = training._course.state.parameters.numpy()[0]
    start = np.concatenate([w.ravel() for w in case.weights])
    # Adam's first step is the learning rate in every component, whatever the gradient.
    moved = np.abs(parameters - start)
    assert np.median(moved) == pytest.approx(LEARNING_RATE, rel=1e-3)
    before = training.loss()
    training.advance(50)
    assert training.loss() < before


def loss_by_differences(case: Case) -> float:
    """Compute the loss in NumPy, with second derivatives by central differences."""

    def u(x):
        for w, b in zip(case.weights[0:-2:2], case.weights[1:-2:2], strict=True):
            x = np.tanh(x @ w + b)
        return x @ case.weights[-2] + case.weights[-1]

    h = 1e-4 * np.eye(case.dimension)
    laplacian = sum(u(case.x + e) - 2 * u(case.x) + u(case.x - e) for e in h) / 1e-8
    edge = case.weight * np.mean(u(case.boundary) ** 2)
    return float(np.mean((laplacian + case.f) ** 2) + edge)


@pytest.mark.launches
def test_a_peer_answers_commands_whatever_its_libraries_print(tmp_path: Path) -> None:
    small_case(tmp_path, "float32")
    program = SERVED.format(folder=str(ROOT / "benchmarks" / "peers"))
    of_case = {"file": str(tmp_path / "case.npz"), "dtype": "float32", "steps": 7}
    commands = [
        {"do": "begin", "name": "slow", **of_case},
        {"do": "time", "name": "slow", "seconds": 1e-4},
    ]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input="".join(json.dumps(command) + "\n" for command in commands),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    hello, begun, timed = map(json.loads, ended.stdout.splitlines())
    assert hello == {"names": ["slow"], "about": {"version": "1"}}
    assert begun["loss"] == 8.0 and begun["first_step_seconds"] > 0
    assert timed["microseconds"] > 0 and timed["steps"] >= 1
    assert "a library's own words" in ended.stderr


def test_another_loss_is_refused() -> None:
    engine = peers.Measured("engine", 2.0, 0.1)
    peers.check(peers.Measured("peer", 2.0 + 1e-7, 0.1), [engine], 1e-6)
    for loss in (2.1, float("nan")):
        with pytest.raises(ValueError, match="peer has the loss"):
            peers.check(peers.Measured("peer", loss, 0.1), [engine], 1e-6)


def test_the_table_compares_with_the_fastest_of_a_kind() -> None:
    times = {
        "engine": [5.0, 6.0, 70.0],
        "JAX fori_loop, forward Laplacian": [10.0, 8.0, 9.0],
        "JAX fori_loop, forward Laplacian in one": [8.0, 8.0, 8.0],
        "JAX fori_loop, forward over reverse": [12.0, 12.0, 12.0],
    }
    measured = [peers.Measured(name, 1.0, 2.0, each) for name, each in times.items()]
    text = peers.table("B", "float64", measured, {"torch": "there is no python"})
    assert "“JAX fori_loop, forward Laplacian”: 0.750, reached" in text
    assert "“JAX fori_loop, forward over reverse”: 0.500, reached" in text
    assert "PyTorch" not in text and "absent: torch: there is no python" in text
