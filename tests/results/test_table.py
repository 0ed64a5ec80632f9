"""The table at the end of a training, and what is said under it."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from made_by_hand import diverged, ended, ensemble, make_member, never_finite, one_model
from rich.console import Console

import sciml_par.parallel as sp
from sciml_par.results import Member, Result
from sciml_par.results.data_fit import DataFit
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.member import FAR_ABOVE, in_the_mean
from sciml_par.results.table import make_table

pytestmark = pytest.mark.ranks(most=2, reason="two ranks show what more would")


def printed(result: Result, capsys: pytest.CaptureFixture[str]) -> str | None:
    """What rank 0 prints; None elsewhere, where nothing may be printed."""
    result.print()
    out = capsys.readouterr().out
    if sp.rank() > 0:
        assert out == ""
        return None
    return out


def table_of(result: Result, width: int) -> list[str]:
    """The lines of the table on a terminal of this width."""
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(make_table(result.members, width=width))
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


def test_a_row_for_a_model_of_several_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    result = one_model(3)
    if (out := printed(result, capsys)) is None:
        return
    lines = out.splitlines()
    heading = next(line for line in lines if "rank" in line)
    for word in ("problem", "points", "loss", "rel. L2 error", "per step", "compilation"):
        assert word in heading
    assert "ended" not in heading
    (row,) = [line for line in lines if "poisson, k = 1" in line]
    assert row.split()[:2] == ["0", "0–2"]
    assert f"{result.members[0].loss:.2e}" in row and " 27 " in row  # of all three ranks
    assert "2.50 s" in row and "!" not in out  # of the slowest rank


@pytest.mark.parametrize(
    ("loss", "other", "over_fitted"),
    [
        (7.5e-7, 1.4e-4, True),
        (1e-4, 9e-4, False),
        (1e-17, 1e-15, False),  # many times next to nothing
        (1e-17, 1e-8, True),
        (1e-7, np.nan, None),
    ],
)
def test_a_loss_at_other_points_is_judged(
    loss: float, other: float, over_fitted: bool | None
) -> None:
    member = make_member(0, losses=np.array([1.0, 0.5, 0.3, loss]), validation_loss=other)
    assert member.over_fitted is over_fitted
    said = [text for text in ensemble(member).remarks if "at others" in text]
    assert bool(said) is bool(over_fitted)


@pytest.mark.parametrize("known", [True, False])
def test_where_the_error_is_known_over_fitting_is_no_doubt(known: bool) -> None:
    error = ErrorEstimate(1e-3, np.array([1e-3]), 50.0, reason="" if known else "too little time")
    losses = np.array([1.0, 0.5, 0.3, 7.5e-7])
    member = make_member(0, losses=losses, validation_loss=1.4e-4, error=error)
    said = [text for text in ensemble(member).remarks if "at others" in text]
    assert member.over_fitted and bool(said) is member.doubtful is not known


def test_the_noise_of_observations_does_not_hide_a_loss_at_other_points() -> None:
    fits = {"seen": DataFit(20, 19.0, 1.0, (), (1.0,), loss=1e-3)}
    losses = np.array([1.0, 0.5, 0.3, 1e-3 + 1e-8])
    member = make_member(0, losses=losses, validation_loss=1e-3 + 1e-5, fits=fits)
    assert member.over_fitted
    (remark,) = ensemble(member).remarks
    assert (
        "of the equations and conditions is 1.00e-08 at the training points and 1.00e-05" in remark
    )


@pytest.mark.parametrize(
    ("values", "chi_square", "said"),
    [(20, 2.2, None), (20, 2.8, "by more than their noise"), (500, 1.6, "by more than their noise")]
    + [(20, 0.4, None), (20, 0.1, "noise= is too large"), (10**5, 1.1, None)],
)
def test_chi_square_is_judged_by_chance(values: int, chi_square: float, said: str | None) -> None:
    fit = DataFit(values, values - 1.0, chi_square, (), (1.0,), loss=0.0)
    (text, *others) = ensemble(make_member(0, fits={"seen": fit})).remarks or [""]
    assert not others and (said or "") in text and bool(text) is bool(said)
    assert f"χ²/n of 'seen' {chi_square:.3g}" in repr(ensemble(make_member(0, fits={"seen": fit})))


def test_a_remark_on_other_points_has_both_numbers_and_the_factor() -> None:
    losses = np.array([1.0, 0.5, 0.3, 1e-6])
    members = [make_member(n, losses=losses, validation_loss=(n + 1) * 1e-4) for n in range(2)]
    (remark,) = ensemble(*members).remarks
    assert "1.00e-06 at the training points and 1.00e-04 to 2.00e-04 at others" in remark
    assert "100 to 200 times" in remark
    assert remark.count(". ") == 1  # two sentences


@pytest.mark.parametrize(
    ("steps", "loss", "zero", "misfit", "said"),
    [
        (60, 0.6, 1.0, 0.1, "6.00e-01, and that of a network of zeros is 1.00e+00: little of"),
        (60, 0.6, 1.0, 2.0, "a network of zeros"),
        (60, 0.4, 1.0, 0.1, None),
        (59, 0.6, 1.0, 2.0, None),
        (60, 0.6, 0.0, 2.0, None),  # u = 0 is a solution
        (60, 0.6, np.nan, 2.0, None),
        (60, 9.0, 1.0, 0.1, "the loss is 2.50e-01 at the training points"),
        (60, 0.4, 1.0, 2.0, "the condition 'dirichlet' is missed by 2 times the size of"),
    ],
)
def test_a_prediction_is_compared_with_zero(
    steps: int, loss: float, zero: float, misfit: float, said: str | None
) -> None:
    known = {"validation_loss": loss, "zero_loss": zero, "misfits": {"dirichlet": misfit}}
    member = make_member(0, steps=steps, **known)
    assert [said in text for text in ensemble(member).remarks] == [True] * (said is not None)
    assert member.doubtful == (said is not None)


def test_a_row_for_each_member(capsys: pytest.CaptureFixture[str]) -> None:
    if (out := printed(ensemble(), capsys)) is None:
        return
    rows = [line.split() for line in out.splitlines() if "poisson, k = " in line]
    assert [row[:2] for row in rows] == [["0", "0"], ["1", "0"], ["2", "1"], ["3", "1"]]


def test_members_that_did_not_simply_finish_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    never = never_finite(3, rank=1)
    result = ensemble(make_member(0), ended(1), diverged(2, rank=1), never)
    assert not result.sound
    if (out := printed(result, capsys)) is None:
        return
    assert "! member 1, rank 0: ended at step 7 of 25, after which the loss is not" in out
    assert "it has the weights of step 6, of the least loss." in out
    assert "! member 2, rank 1: diverged; the loss ended at 5.00e+03, more than 1,000" in out
    assert "! member 3, rank 1: the loss is not finite at the initial weights" in out
    rows = [line for line in out.splitlines() if "poisson" in line]
    assert ["!" in row for row in rows] == [False, True, True, True]
    assert ["not finite" in row for row in rows] == [False, True, False, True]
    assert "8.33e-02" in rows[2]  # the loss of the weights that are kept


def test_what_is_said_of_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    result = one_model(2, times_brought_together=1200, largest_drift=2e-6)
    assert result.sound
    if (out := printed(result, capsys)) is not None:
        assert "the model: rounding drove the ranks' weights apart by 2e-06 at most" in out
        assert "they got the first rank's 1,200 times." in out
    if (out := printed(one_model(2, loss=5e3), capsys)) is not None:
        assert "! the model: diverged; the loss ended at" in out
    for kept, said in (("best", "the weights of that step"), ("last", "the last weights")):
        risen = one_model(1, loss=1.0, best_loss=0.1, best_step=20, kept=kept)
        (remark,) = risen.remarks
        assert remark.startswith(
            "the model: the loss ended at 1.00e+00, 10 times its best, 1.00e-01 after step 20; "
        )
        assert remark.endswith(f"{said} are kept{', as was asked' * (kept == 'last')}.")
        assert risen.sound


def test_members_of_whom_the_same_is_to_be_said_share_a_sentence() -> None:
    unsound = {
        1: ended(1),
        2: diverged(2),
        5: ended(5, steps=19),
        9: never_finite(9),
        10: never_finite(10),
    }
    risen = {n: make_member(n, loss=1.0, best_loss=0.1 / n) for n in (20, 21, 22)}
    members = [
        {**unsound, **risen}.get(n, make_member(n, kept="last" if n == 3 else "best"))
        for n in range(64)
    ]
    found = ensemble(*members).remarks
    assert len(found) == 4
    assert found[0].startswith("! members 9 and 10: the loss is not finite at the initial weights")
    assert found[1].startswith("! members 1 and 5: ended at step 7 to 19 of 25, after which")
    assert found[1].endswith("each has the weights of its least loss.")
    assert found[2].startswith("! member 2, rank 0: diverged")
    assert found[3].startswith(
        "members 20, 21 and 22: the loss ended at 1.00e+00, 200 to 220 times"
    )


def test_members_that_were_no_single_computation_are_named() -> None:
    stacks = {0: (0, 1), 1: (0, 1), 2: (2,), 3: (3, 4), 4: (3, 4)}
    members = [make_member(n, stacked_with=stack) for n, stack in stacks.items()]
    (remark,) = ensemble(*members).remarks
    assert remark.startswith("members 0 and 1, member 2 and members 3 and 4 on rank 0 were trained")
    alone = [make_member(n, rank=n // 3, stacked_with=(n,)) for n in range(6)]
    (remark,) = ensemble(*alone).remarks
    assert remark.startswith("members 0, 1 and 2 on rank 0 were trained one after the other, and")
    assert ensemble(*[make_member(n, rank=n, stacked_with=(n,)) for n in range(4)]).remarks == []


def test_of_many_members_there_are_some_rows_and_the_ranges() -> None:
    members = [ended(n) if n in (40, 50) else make_member(n, rank=n // 8) for n in range(64)]
    lines = table_of(ensemble(*members), 120)
    rows = [line.split() for line in lines if "poisson" in line]
    assert [int(row[0]) for row in rows] == [*range(8), 40, 50]
    assert lines[-4].split() == ["…"]
    assert lines[-1].strip().endswith("; min and max are of all 64 members")
    losses = [member.kept_loss for member in members]
    for line, of in ((lines[-3], min), (lines[-2], max)):
        assert line.split()[0] == of.__name__ and f"{of(losses):.2e}" in line
    assert "ranks:" not in " ".join(table_of(ensemble(*members), 80))  # hidden rows have others
    few = table_of(ensemble(*members[:16]), 120)
    assert len([line for line in few if "poisson" in line]) == 16 and "max" not in few[-1]


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal_and_loses_no_number(width: int) -> None:
    members = [ended(0, problem="a problem with quite a long name"), make_member(1)]
    lines = table_of(ensemble(*members), width)
    assert max(map(len, lines)) <= width
    for member, row in zip(members, (r for r in lines if "e-0" in r), strict=True):
        assert f"{member.kept_loss:.2e}" in row
        assert f"{member.on_own_domain.relative_l2_error:.2e}" in row
        assert member.ended in row
    assert "…" not in " ".join(lines)
    if width == 80:
        assert "points: 9" in " ".join(lines)  # the same for all, so that it needs no column


def test_no_heading_is_cut_where_names_of_problems_are_short() -> None:
    members = [make_member(number, problem="short", steps=0) for number in range(2)]
    for width in range(90, 110):
        (heading, *_) = table_of(ensemble(*members), width)
        assert heading.endswith("compilation") and "…" not in heading


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
    assert make_member(0, losses=np.array(losses), kept="last").status == status
    assert make_member(0, losses=np.array(losses), kept="best").status == "finished"


def test_the_weights_that_are_kept_are_judged() -> None:
    def risen(number: int, best: float) -> Member:
        return make_member(number, losses=np.array([1.0, best, 1.0, 1e5]), problem="one")

    def lost(number: int, best: float) -> Member:
        return ended(number, losses=np.array([1.0, best]), best_loss=best, problem="one")

    members = risen(0, 1e-3), risen(1, 0.2), lost(2, 9e-4), lost(3, 1.1e-3)
    statuses = [member.status for member in members]
    assert statuses == ["finished", "diverged", "not finite", "not finite"]
    assert in_the_mean(members) == [True, False, True, False]
    assert in_the_mean(members[1:]) == [True] * 3, "where none finished, all"
    assert in_the_mean([members[0], replace(members[2], problem="another")]) == [True, False]
