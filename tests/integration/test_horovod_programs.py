"""Programs written for Horovod, on two ranks, against the same training in NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from launch import ROOT, start

PROGRAMS = ROOT / "tests" / "horovod" / "programs"
RANKS = 2
STEPS = 6
RATE = 0.05 * RANKS
MOMENTUM = 0.5


def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rank)
    return rng.normal(size=(8, 3)), rng.normal(size=(8, 1))


def batch(rank: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = data(rank)
    begin = 4 * (step % 2)
    return x[begin : begin + 4], y[begin : begin + 4]


def gradient(w: np.ndarray, rank: int, step: int) -> np.ndarray:
    x, y = batch(rank, step)
    return 2 / len(x) * x.T @ (x @ w - y)


def trained(*, shared_from_the_start: bool, steps: int = STEPS) -> np.ndarray:
    """The weights, where rank r starts from 1 + r, and takes over rank 0's before or after the
    first step."""
    start = [np.full((3, 1), 1.0 + (0 if shared_from_the_start else r)) for r in range(RANKS)]
    w, velocity = start[0], np.zeros((3, 1))
    for step in range(steps):
        at = start if step == 0 else [w] * RANKS
        mean = sum(gradient(at[r], r, step) for r in range(RANKS)) / RANKS
        velocity = MOMENTUM * velocity + mean
        w = w - RATE * velocity
    return w


def loss(w: np.ndarray, rank: int, step: int) -> float:
    x, y = batch(rank, step)
    return float(np.mean((x @ w - y) ** 2))


@pytest.mark.launches
def test_programs_run_with_only_the_import_changed(tmp_path: Path) -> None:
    running = []
    for name in ("custom_loop", "monitored_session", "sets_from_the_start"):
        folder = tmp_path / name
        folder.mkdir()
        running.append(start(RANKS, PROGRAMS / f"{name}.py", folder=folder, threads=1))
    for each in running:
        ended = each.end()
        assert ended.code == 0, ended.err
    check_custom_loop(tmp_path / "custom_loop")
    check_monitored_session(tmp_path / "monitored_session")


def weights_of_all(folder: Path) -> np.ndarray:
    assert list((folder / "checkpoints").iterdir())
    first, second = (np.load(folder / f"weights-{rank}.npy") for rank in range(RANKS))
    np.testing.assert_array_equal(first, second)
    return first


def check_custom_loop(folder: Path) -> None:
    found = weights_of_all(folder)
    np.testing.assert_allclose(found, trained(shared_from_the_start=False), 1e-4, 1e-5)
    before = trained(shared_from_the_start=False, steps=STEPS - 1)
    losses = [loss(before, rank, STEPS - 1) for rank in range(RANKS)]
    np.testing.assert_allclose(np.load(folder / "losses.npy"), losses, 1e-4)


def check_monitored_session(folder: Path) -> None:
    """It has saved the weights before the last step, and the mean loss at it."""
    found = weights_of_all(folder)
    before = trained(shared_from_the_start=True, steps=STEPS - 1)
    np.testing.assert_allclose(found, before, 1e-4, 1e-5)
    mean = np.mean([loss(before, rank, STEPS - 1) for rank in range(RANKS)])
    for rank in range(RANKS):
        assert np.load(folder / f"average-{rank}.npy") == pytest.approx(mean, 1e-4)
