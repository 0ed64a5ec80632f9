"""What results tell of unknowns, of members made by hand."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_by_hand import diverged, make_member, of_this_process, trained
from rich.console import Console

from sciml_par.results import Result
from sciml_par.results.table import make_table
from sciml_par.results.unknown_values import UnknownValues

pytestmark = pytest.mark.ranks(most=1, reason="local")


def sought(value: float, *, true: float | None = 2.0) -> UnknownValues:
    """k and an array c of two numbers, of which the last is one more than the best."""
    best = np.array([value, 3.0, -1.0])
    return UnknownValues(
        {"k": (), "c": (2,)},
        {} if true is None else {"k": np.array(true)},
        best,
        best + 1,
        np.linspace([1.0, 1.0, 1.0], best + 1, 4),
    )


def with_unknowns(number: int, value: float, **changes: Any) -> Any:
    return make_member(number, **{"unknown_values": sought(value), **changes})


def test_mean_and_deviation_are_over_the_members_that_finished() -> None:
    members = [with_unknowns(0, 1.9), with_unknowns(1, 2.3)]
    members.append(diverged(2))
    members.append(with_unknowns(3, 50.0, loss=5e3))
    found = of_this_process(*members).unknowns
    k, c = found["k"], found["c"]
    assert (k.mean, k.true) == (pytest.approx(2.1), 2.0)
    assert k.deviation == pytest.approx(np.std([1.9, 2.3], ddof=1))
    assert k.relative_error == pytest.approx(0.05)
    np.testing.assert_array_equal(k.members, [1.9, 2.3, 50.0])
    np.testing.assert_array_equal(c.mean, [3, -1])
    assert c.members.shape == (3, 2) and c.true is None and np.isnan(c.relative_error)
    assert repr(k) == "2.1 ± 0.28 (relative error 5.0e-02)"
    assert repr(c) == "[3, -1] ± [0, 0]"


def test_the_values_are_of_the_weights_that_predict() -> None:
    last = with_unknowns(0, 1.9, kept="last")
    assert last.unknowns["k"] == pytest.approx(2.9)
    np.testing.assert_array_equal(last.unknowns["c"], [4, 0])
    assert last.history.unknowns["c"].shape == (4, 2)
    assert make_member(0).unknowns == {} == make_member(0).history.unknowns


def printed(*members: Any) -> str:
    console = Console(width=160, file=StringIO())
    console.print(make_table(members, width=160))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_few_of_them() -> None:
    text = printed(with_unknowns(0, 1.9), make_member(1))
    heading = text.splitlines()[0 if "member" in text.splitlines()[0] else 1]
    for name in (" k ", "error of k", "c[0]", "c[1]"):
        assert name in heading
    assert "error of c[0]" not in heading and "1.9" in text and "5.0e-02" in text
    many = UnknownValues({"c": (4,)}, {}, np.ones(4), np.ones(4), np.ones((4, 4)))
    assert "c[0]" not in printed(make_member(0, unknown_values=many))


def test_of_many_members_the_table_has_the_extremes() -> None:
    text = printed(*(with_unknowns(number, 2.0 + number / 100) for number in range(20)))
    rows = [line for line in text.splitlines() if line.lstrip().startswith(("min", "max"))]
    assert "2 " in rows[0] and "2.19" in rows[1] and "9.5e-02" in rows[1]


def test_files_keep_them_beside_members_without(tmp_path: Path) -> None:
    result = of_this_process(
        trained(0, unknown_values=sought(1.9), kept="last"), trained(1), trained(2)
    )
    result.save(tmp_path / "run")
    assert (tmp_path / "run" / "unknowns.png").is_file()
    loaded = Result.load(tmp_path / "run")
    mine, theirs = result.members[0], loaded.members[0]
    for name in ("best", "last", "history"):
        expected = getattr(mine.unknown_values, name)
        np.testing.assert_array_equal(getattr(theirs.unknown_values, name), expected)
    assert theirs.unknown_values.shapes == {"k": (), "c": (2,)}
    assert theirs.unknowns["k"] == mine.unknowns["k"]
    assert loaded.unknowns["k"].true == 2.0
    assert loaded.members[1].unknowns == {} and loaded.members[1].history.unknowns == {}
    merged = Result.merge([loaded, loaded])
    assert merged.unknowns["k"].members.shape == (2,)
