"""Points that lie as close as the numbers of a precision."""

from __future__ import annotations

import numpy as np
import pytest

from sciml_par._rounding import coarse_rounding


def grid(*axes: tuple[float, float, int]) -> np.ndarray:
    lines = [np.linspace(*each) for each in axes]
    return np.stack(np.meshgrid(*lines), axis=-1).reshape(-1, len(axes))


@pytest.mark.parametrize(
    "x",
    [
        grid((0, 1, 100_000)),
        grid((1e2, 1e2 + 1, 60)),
        grid((0, 1e-12, 60)),
        grid((0, 1, 40), (1e6, 1e6 + 100, 5)),
        np.random.default_rng(0).random((300_000, 1)),
        np.random.default_rng(0).random((100_000, 2)),
        np.array([[0.3], [0.1 + 0.2], [1.0]]),  # one point, computed twice
        np.full((5, 2), 1e8),
        np.zeros((0, 2)),
    ],
)
def test_single_precision_is_fine(x: np.ndarray) -> None:
    assert coarse_rounding(x, "float32") is None


@pytest.mark.parametrize(
    ("x", "before", "after"),
    [
        (grid((1e6, 1e6 + 1, 40)), 40, 17),
        (grid((1e6, 1e6 + 1, 40), (0, 1, 10)), 400, 170),
        (grid((1e12, 1e12 + 1, 40)), 40, 1),
        (grid((1e39, 2e39, 3)), 3, 1),
        (1 - np.array([[0.5], [0.0], [1e-9], [2e-9]]), 4, 2),
    ],
)
def test_points_that_become_one(x: np.ndarray, before: int, after: int) -> None:
    found = coarse_rounding(x, "float32")
    assert found is not None and found.coincide
    assert (found.before, found.after) == (before, after)
    assert coarse_rounding(x, "float64") is None


def test_scattered_points_on_one_coordinate() -> None:
    x = [0, 1e6] + np.random.default_rng(0).random((1000, 2))
    found = coarse_rounding(x, "float32")
    assert found is not None and found.coincide and found.axis == 1 and found.step == 0.0625


def test_double_precision_has_an_end() -> None:
    found = coarse_rounding(grid((1e15, 1e15 + 1, 40)), "float64")
    assert found is not None and found.coincide
    assert "float64'" not in found.text("float64", "the points", ["x"])


def test_a_flat_face_has_one_coordinate_up_to_rounding() -> None:
    x = np.append(np.random.default_rng(0).random((50, 1)), np.full((50, 1), 2.0), axis=1)
    x[::3, 1] -= np.spacing(1.0)
    assert coarse_rounding(x, "float64") is None


def test_coarse_and_not_yet_one() -> None:
    found = coarse_rounding(grid((1e4, 1e4 + 1, 40)), "float32")
    assert found is not None and not found.coincide
    assert "'x'" in found.text("float32", "the points", ["x"])
