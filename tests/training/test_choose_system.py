"""Which solver is taken by size and memory, what is said of it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciml_par._free_memory import free_memory
from sciml_par.errors import InputError
from sciml_par.training import LevenbergMarquardt
from sciml_par.training.optimizers.least_squares.choose_system import choose_system, needed_memory
from sciml_par.training.optimizers.least_squares.panels import Panels

pytestmark = pytest.mark.ranks(most=1, reason="a function of numbers")
GB = 10**9


@pytest.mark.parametrize(
    ("p", "rows", "ranks", "memory", "expected"),
    [
        (257, 1_020, 1, 8 * GB, "normal equations"),
        (257, 1_020, 4, 8 * GB, "normal equations"),
        (1_341, 3_000, 1, None, "normal equations"),
        (5_000, 12_000, 1, 16 * GB, "normal equations"),
        (5_000, 12_000, 4, 4 * GB, "block cholesky"),
        (5_000, 12_000, 1, GB // 2, "matrix free"),
        (20_000, 50_000, 1, 999 * GB, "matrix free"),
        (100_000, 240_000, 1, 4 * GB, "matrix free"),
    ],
)
def test_choice(p: int, rows: int, ranks: int, memory: Any, expected: str) -> None:
    choice = choose_system(p, rows, ranks, memory)
    assert choice.solver == expected
    assert memory is None or choice.bytes <= memory
    # What is usual is not said.
    quiet = expected == "normal equations" and choice.bytes < 2**30
    assert bool(choice.sentence) != quiet
    assert expected in choice.sentence or quiet


def test_memory_of_5000_parameters() -> None:
    rows = 12_000
    whole = needed_memory("normal equations", 5_000, rows, 1)
    assert whole == pytest.approx(8 * (2 * 5_000 * rows + 3 * 5_000**2))
    assert whole < 1.6e9
    divided = [needed_memory("block cholesky", 5_000, rows // n, n) for n in (1, 2, 4, 8)]
    assert all(later < 0.62 * earlier for earlier, later in zip(divided, divided[1:], strict=False))
    assert needed_memory("matrix free", 5_000, rows, 1) < 0.02 * whole


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("p", [1, 2, 30, 1_341, 5_000])
def test_panels_cover_the_columns(p: int, ranks: int) -> None:
    panels = Panels(p, ranks)
    assert panels.count <= max(24, ranks)
    columns = [c for k in range(panels.count) for c in range(panels.first(k), panels.end(k))]
    assert columns == list(range(p))
    owned = [k for rank in range(ranks) for k in panels.of(rank)]
    assert sorted(owned) == list(range(panels.count))
    assert all(k in panels.of(panels.owner(k)) for k in owned)
    total = sum(rows * width for rows, width in map(panels.shape, owned))
    assert p * (p + 1) / 2 <= total <= p * p
    assert panels.most_elements() * ranks >= total
    if p == 5_000 and ranks < 8:
        assert panels.most_elements() <= 1.5 * total / ranks


def test_what_cannot_fit_is_refused_with_numbers() -> None:
    with pytest.raises(InputError, match=r"'normal equations' needs about 1\.6 GB .*500\.0 MB are"):
        choose_system(5_000, 12_000, 1, GB // 2, solver="normal equations")
    with pytest.raises(InputError, match=r"960\.0 MB of it for the .* solver='matrix free'"):
        choose_system(5_000, 12_000, 1, GB // 2, solver="qr")
    with pytest.raises(InputError, match="use more ranks, fewer points"):
        choose_system(10**7, 10**6, 1, GB)
    taken = choose_system(100, 50, 1, GB, solver="block cholesky")
    assert taken.solver == "block cholesky"
    assert taken.sentence == ""


def test_the_optimizer_takes_the_choice() -> None:
    taken, sentence = LevenbergMarquardt(damping=0.1).for_size(5_000, 6_000, 2, 8 * GB)
    assert taken == LevenbergMarquardt(damping=0.1, solver="block cholesky")
    assert "5,000 parameters" in sentence
    assert LevenbergMarquardt().for_size(50, 60, 2, 8 * GB) == (LevenbergMarquardt(), "")
    with pytest.raises(InputError, match="'matrix free'; got 'cholesky'"):
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
