"""What the package weighs: lines by room, and what a reader of one method has to read.

The budgets are only ever lowered. A feature that needs more than its room has left pays by taking
away as much elsewhere in the same change, and moves the budget with it; see CONTRIBUTING.md.
"""

from __future__ import annotations

import collections

import pytest
from test_layers import MODULES, PACKAGE, ROOT, imported_modules, layer_of

LINES = {
    "algebra": 281,
    "assembly": 1_618,
    "evaluation": 3_154,
    "families": 3_315,
    "horovod": 3_686,
    "info": 573,
    "networks": 5_808,
    "parallel": 12_869,
    "problems": 12_946,
    "programs": 808,
    "results": 5_162,
    "training": 23_707,
    "other modules": 1_551,
}
"""Of the Python files of each room, the ones beside the rooms together."""
CLOSURES = {
    "assembly/system.py": (48, 9_300),
    "training/optimizers/least_squares/levenberg_marquardt.py": (11, 1_730),
    "training/solving/by_polynomials.py": (223, 39_270),
}
"""Files and lines that the import of a method runs."""


def lines_of(path) -> int:
    return len(path.read_text().splitlines())


def test_no_room_outgrows_its_budget() -> None:
    found = collections.Counter[str]()
    for path in MODULES:
        room = layer_of(path) if path.parent != PACKAGE else "other modules"
        found[room] += lines_of(path)
    assert set(found) == set(LINES)
    over = {room: (count, LINES[room]) for room, count in found.items() if count > LINES[room]}
    assert not over, f"lines and budgets: {over}; take away as much as you add"
    loose = {room: count for room, count in found.items() if LINES[room] > 1.02 * count + 20}
    assert not loose, f"lower the budgets to what is there: {loose}"


@pytest.mark.parametrize("method", CLOSURES)
def test_a_method_is_read_without_the_whole_package(method: str) -> None:
    files = imported_modules(PACKAGE / method, set())
    lines = sum(map(lines_of, files))
    most_files, most_lines = CLOSURES[method]
    where = f"{method}: {len(files)} files, {lines:,} lines"
    assert len(files) <= most_files and lines <= most_lines, where
    assert lines > 0.9 * most_lines, f"{where}; lower its budget"
    assert all(path.is_relative_to(ROOT) for path in files)
