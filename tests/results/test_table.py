"""The table at the end of a training, and what is said under it."""

from __future__ import annotations

import numpy as np
import pytest
from made_by_hand import diverged, ended, ensemble, make_member, one_model

from sciml_par.results import Result
from sciml_par.results.member import FAR_ABOVE


def printed(result: Result, capsys: pytest.CaptureFixture[str]) -> str | None:
    """What rank 0 prints; None elsewhere, where nothing may be printed."""
    result.print()
    out = capsys.readouterr().out
    if result.communicator.rank > 0:
        assert out == ""
        return None
    return out


def test_a_row_for_each_rank(capsys: pytest.CaptureFixture[str]) -> None:
    result = one_model(3)
    if (out := printed(result, capsys)) is None:
        return
    lines = out.splitlines()
    heading = next(line for line in lines if "rank" in line)
    for word in ("problem", "final loss", "rel. L2 error", "per step", "compilation"):
        assert word in heading
    rows = [line for line in lines if "poisson, k = 1" in line]
    assert [int(row.split()[0]) for row in rows] == [0, 1, 2]
    assert all(f"{result.members[0].loss:.2e}" in row for row in rows)
    assert ["0.50 s" in rows[0], "2.50 s" in rows[2], "!" in out] == [True, True, False]


def test_a_row_for_each_member(capsys: pytest.CaptureFixture[str]) -> None:
    if (out := printed(ensemble(), capsys)) is None:
        return
    rows = [line.split() for line in out.splitlines() if "poisson, k = " in line]
    assert [row[:2] for row in rows] == [["0", "0"], ["0", "1"], ["1", "2"], ["1", "3"]]


def test_members_that_did_not_simply_finish_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    never = make_member(3, rank=1, steps=0, loss=float("nan"), finite=False)
    result = ensemble(make_member(0), ended(1), diverged(2, rank=1), never)
    assert not result.sound
    if (out := printed(result, capsys)) is None:
        return
    assert "! member 1, rank 0: ended at step 7 of 25, after which the loss is not" in out
    assert "! member 2, rank 1: diverged; the loss ended at 5.00e+03, more than 1,000" in out
    assert "! member 3, rank 1: the loss is not finite at the initial weights" in out
    assert "! 4.00e-01" in out and "! 5.00e+03" in out and "! 2.50e-01" not in out


def test_what_is_said_of_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    result = one_model(2, times_brought_together=1200, largest_drift=2e-6)
    assert result.sound
    if (out := printed(result, capsys)) is not None:
        assert "the model: rounding drove the ranks' weights apart by 2e-06 at most" in out
        assert "they got rank 0's 1,200 times." in out
    if (out := printed(one_model(2, loss=5e3), capsys)) is not None:
        assert "! the model: diverged; the loss ended at" in out


@pytest.mark.parametrize(
    ("losses", "status"),
    [
        ([1.0, 1e-3, 0.9 * FAR_ABOVE * 1e-3], "finished"),
        ([1.0, 1e-3, 1.1 * FAR_ABOVE * 1e-3], "diverged"),
        ([1.0, 0.0, 1e-15], "finished"),
        ([1.0, 0.0, 1e-9], "diverged"),
    ],
)
def test_how_far_above_its_best_a_loss_has_diverged(losses: list[float], status: str) -> None:
    assert make_member(0, losses=np.array(losses), loss=losses[-1]).status == status
