"""Predictions to draw: the cases that a run of one, two or eight ranks produces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sciml_par.evaluation import Prediction, Shard

X = np.linspace(-1.0, 1.0, 101)


def two_sines(x: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * np.pi * x) + np.sin(4.0 * np.pi * x)


def slabs(parts: int) -> tuple[Shard, ...]:
    edges = np.linspace(-1.0, 1.0, parts + 1)
    return tuple(
        Shard(f"rank {i}", np.linspace(low, high, 16), (low, high))
        for i, (low, high) in enumerate(zip(edges[:-1], edges[1:], strict=True))
    )


@pytest.fixture
def data_parallel() -> Callable[[int], list[Prediction]]:
    """Return one network, trained by P ranks on a part of the interval each."""

    def make(ranks: int) -> list[Prediction]:
        return [Prediction("prediction", X, two_sines(X) + 0.01, two_sines(X), slabs(ranks))]

    return make


@pytest.fixture
def wild_ensemble() -> Callable[[int], list[Prediction]]:
    """Return P members, good in their own part and far off beside it."""

    def make(ranks: int) -> list[Prediction]:
        curves = []
        for shard in slabs(ranks):
            low, high = (float(corner[0]) for corner in shard.corners)
            outside = np.maximum(0.0, np.maximum(low - X, X - high))
            curves.append(
                Prediction(shard.label, X, two_sines(X) + 1e6 * outside, two_sines(X), (shard,))
            )
        return curves

    return make


@pytest.fixture
def poisson() -> Callable[[int], list[Prediction]]:
    """Return P members that solve −u″ = (kπ)² sin kπx for k = 1..P."""

    def make(ranks: int) -> list[Prediction]:
        shard = Shard("all", np.linspace(-1.0, 1.0, 21), (-1.0, 1.0))
        exact = [np.sin(k * np.pi * X) for k in range(1, ranks + 1)]
        return [
            Prediction(f"k = {k}", X, 1.01 * u, u, (shard,)) for k, u in enumerate(exact, start=1)
        ]

    return make


@pytest.fixture
def seeds() -> Callable[[int], list[Prediction]]:
    """Return P members that solve the same equation from different seeds."""

    def make(ranks: int) -> list[Prediction]:
        exact = np.sin(np.pi * X)
        return [Prediction(f"rank {i}", X, exact + 0.1 * i, exact) for i in range(ranks)]

    return make


@pytest.fixture
def plane() -> Callable[..., list[Prediction]]:
    """Return P members over the unit square, of one or more outputs."""

    def make(ranks: int, components: int = 1) -> list[Prediction]:
        axis = np.linspace(0.0, 1.0, 9)
        x = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        exact = np.repeat(np.sin(np.pi * x[:, :1]) * x[:, 1:], components, axis=1)
        return [Prediction(f"rank {i}", x, exact + 0.01 * (i + 1), exact) for i in range(ranks)]

    return make
