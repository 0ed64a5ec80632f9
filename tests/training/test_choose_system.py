"""Which solver is taken by size and memory, what is said of it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciml_par.errors import InputError
from sciml_par.training import LevenbergMarquardt
from sciml_par.training.preparation.sizes import free_memory

pytestmark = pytest.mark.ranks(most=1, reason="a function of numbers")
GB = 10**9


@pytest.mark.parametrize(
    ("p", "rows", "ranks", "memory", "expected"),
    [
        (257, 1_020, 1, 8 * GB, "normal equations"),
        (257, 1_020, 4, 8 * GB, "normal equations"),
        (1_341, 3_000, 1, None, "normal equations"),
        (5_000, 12_000, 1, 16 * GB, "normal equations"),
        (5_000, 12_000, 2, 4 * GB, "normal equations"),
        (5_000, 12_000, 4, 4 * GB, "block cholesky"),
        (5_000, 12_000, 1, GB // 2, "matrix free"),
        (20_000, 50_000, 1, 999 * GB, "matrix free"),
        (100_000, 240_000, 1, 4 * GB, "matrix free"),
        (100_000, 500, 2, 8 * GB, "kernel"),
    ],
)
def test_choice(p: int, rows: int, ranks: int, memory: Any, expected: str) -> None:
    taken, sentence = LevenbergMarquardt().for_size(p, rows, ranks, memory)
    # The step itself takes normal equations or the kernel, which are usual and not mentioned.
    usual = expected in ("normal equations", "kernel")
    assert taken == LevenbergMarquardt(solver="auto" if usual else expected)
    assert expected in sentence or usual


def test_what_cannot_fit_is_refused_with_numbers() -> None:
    with pytest.raises(InputError, match=r"about 1\.8 GB .* 500\.0 MB are free; .*'matrix free'"):
        LevenbergMarquardt(solver="normal equations").for_size(5_000, 12_000, 1, GB // 2)
    with pytest.raises(InputError, match="use more ranks, fewer points"):
        LevenbergMarquardt().for_size(10**7, 10**6, 1, GB)
    chosen = LevenbergMarquardt(solver="block cholesky")
    assert chosen.for_size(100, 50, 1, GB) == (chosen, "")


def test_the_optimizer_takes_the_choice() -> None:
    taken, sentence = LevenbergMarquardt(damping=0.1).for_size(5_000, 6_000, 4, 8 * GB)
    assert taken == LevenbergMarquardt(damping=0.1, solver="block cholesky")
    assert "5,000 parameters" in sentence
    assert LevenbergMarquardt().for_size(50, 60, 2, 8 * GB) == (LevenbergMarquardt(), "")
    with pytest.raises(InputError, match="'windows'; got 'cholesky'"):
        LevenbergMarquardt(solver="cholesky")


def test_memory_that_is_free(tmp_path: Path) -> None:
    meminfo, group = tmp_path / "meminfo", tmp_path / "group"
    assert free_memory(meminfo, group) is None
    meminfo.write_text("MemTotal:  900 kB\nMemFree:  10 kB\nMemAvailable:   300 kB\n")
    assert free_memory(meminfo, group) == 300 * 1024
    group.mkdir()
    (group / "memory.current").write_text("1000\n")
    (group / "memory.max").write_text("max\n")
    assert free_memory(meminfo, group) == 300 * 1024
    (group / "memory.max").write_text("5000\n")
    assert free_memory(meminfo, group) == 4000
