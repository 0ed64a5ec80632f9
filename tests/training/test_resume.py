"""A training that was interrupted and resumed is the one that was not, bit for bit."""

from __future__ import annotations

import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from trainings import bits, branching, branching_problem, quick, shared, stop_at

import sciml_par.parallel as sp
from sciml_par.errors import InputError, OutputError
from sciml_par.networks import MLP
from sciml_par.problems import Box, Dirichlet, Interval, Problem, laplacian, poisson, two_sines
from sciml_par.training import (
    LBFGS,
    RAD,
    RAR,
    Adam,
    Checkpoint,
    Ensemble,
    LevenbergMarquardt,
    NoProgress,
    Points,
    Progress,
    ReLoBRaLo,
    SSBroyden,
    TargetLoss,
    WallTime,
)
from sciml_par.training.checkpoints import checkpoint_file, resume

pytestmark = pytest.mark.ranks(most=1, reason="the same on any number of ranks")
two = pytest.mark.ranks(most=2, reason="two ranks show what more would")

POINTS = np.linspace(-1, 1, 23)[:, None]  # not divided evenly by any number of ranks here
small = partial(quick, steps=60, points=POINTS, log_every=7)


BRANCHING = branching_problem(Interval(-1, 1), exact=np.cos)
TWO_PHASES: list[tuple[Any, int]] = [(Adam(1e-2), 30), (Adam(1e-3), 30)]
QUASI_NEWTON: dict[str, Any] = {
    "steps": None,
    "phases": [(Adam(1e-2), 10), (LBFGS(memory=8), 25), (SSBroyden(), 25)],
    "mode": Ensemble(members_per_rank=2),
    "precision": "float64",
}
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "float32": ({}, 25),
    "float64": ({"precision": "float64"}, 25),
    "in the first phase": ({"steps": None, "phases": TWO_PHASES}, 25),
    "in the second phase": ({"steps": None, "phases": TWO_PHASES}, 45),
    "at the end of a phase": ({"steps": None, "phases": TWO_PHASES}, 30),
    "no progress": ({"stop": NoProgress(40, least_progress=0.9)}, 25),
    "stacked members": ({"mode": Ensemble(members_per_rank=3)}, 25),
    "minibatches": ({"points": Points(24, batch_size=8, resample_every=20, method="uniform")}, 35),
    "points by the residual": ({"points": Points(23, adapt=RAD(20))}, 45),
    "points added, before they are": (
        {"points": Points(23, adapt=RAR(30)), "mode": Ensemble(members_per_rank=2)},
        30,
    ),
    "in a phase of LBFGS": (QUASI_NEWTON, 25),
    "in a phase of SSBroyden": (QUASI_NEWTON, 50),
    "a Keras optimizer": ({"optimizer": keras.optimizers.AdamW(1e-2, clipnorm=1.0)}, 25),
    "members one by one": (
        {"mode": Ensemble(members_per_rank=2, problems=lambda number: BRANCHING)},
        25,
    ),
    "several stacks": (
        {
            "mode": Ensemble(
                members=2 * sp.size(),
                problems=lambda number: two_sines() if number % 2 else poisson(k=number + 1),
            )
        },
        25,
    ),
}


@cache
def uninterrupted(case: str) -> list[Any]:
    return bits(small(poisson(), **CASES[case][0]))


RARE = ["float64", "in the first phase", "in a phase of SSBroyden", "no progress"]
RARE += ["a Keras optimizer"]
LONG = ["members one by one", "in a phase of LBFGS", "points added, before they are"]
ON_RANKS = ["stacked members", "minibatches", "points by the residual"]


def resumed_cases() -> list[Any]:
    of_three = pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
    marks = dict.fromkeys(ON_RANKS, two) | dict.fromkeys(["float32", "several stacks"], of_three)
    marks |= dict.fromkeys(LONG, pytest.mark.long) | dict.fromkeys(RARE, pytest.mark.all)
    return [pytest.param(case, marks=marks.get(case, [])) for case in CASES]


@pytest.mark.parametrize("case", resumed_cases())
def test_resumed_is_as_if_uninterrupted(case: str, tmp_path: Path) -> None:
    options, at = CASES[case]
    checkpoint = Checkpoint(shared(tmp_path), every=5)
    first = small(poisson(), checkpoint=checkpoint, callbacks=stop_at(at), **options)
    assert "the test" in {member.ended for member in first.members}
    assert min(member.steps for member in first.members) < 60
    resumed = small(poisson(), checkpoint=checkpoint, resume=True, **options)
    assert bits(resumed) == uninterrupted(case)


def test_a_finished_training_is_resumed_to_the_same_result_and_by_more_steps(
    tmp_path: Path,
) -> None:
    checkpoint = Checkpoint(shared(tmp_path))
    small(poisson(), checkpoint=checkpoint, steps=40)
    again = small(poisson(), checkpoint=checkpoint, resume=True, steps=40)
    assert bits(again) == bits(small(poisson(), steps=40))
    longer = small(poisson(), checkpoint=checkpoint, resume=True)
    assert bits(longer) == uninterrupted("float32")
    phases = [(Adam(), 60), (Adam(1e-2), 10)]
    more = small(poisson(), checkpoint=checkpoint, resume=True, steps=None, phases=phases)
    assert bits(more) == bits(small(poisson(), steps=None, phases=phases))


def test_a_further_phase_keeps_the_points_that_the_first_one_chose(tmp_path: Path) -> None:
    plate = Problem(Box([0, 0], [1, 1]), branching, exact=lambda x: np.cos(x[:, :1]))
    checkpoint = Checkpoint(shared(tmp_path))
    phases = [(Adam(), 5), (LBFGS(), 5)]
    small(plate, checkpoint=checkpoint, points=25, steps=5)
    more = {"steps": None, "phases": phases}
    resumed = small(plate, checkpoint=checkpoint, points=25, resume=True, **more)
    on_grid = small(plate, points=Points(25, method="grid"), **more)
    assert bits(resumed) == bits(on_grid)


def test_a_lower_target_lets_members_run_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path))
    losses = np.frombuffer(uninterrupted("float32")[0][1][0])
    high, low = (losses[-1] + share * (losses[0] - losses[-1]) for share in (0.7, 0.3))
    first = small(poisson(), checkpoint=checkpoint, stop=TargetLoss(high)).members[0]
    assert first.ended == "target loss"
    then = small(poisson(), checkpoint=checkpoint, resume=True, stop=TargetLoss(low)).members[0]
    assert (then.ended, then.steps > first.steps) == ("target loss", True)
    assert then.loss == small(poisson(), stop=TargetLoss(low)).members[0].loss


def test_the_wall_time_stops_and_is_no_other_training(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path))
    short = small(poisson(), checkpoint=checkpoint, stop=WallTime(seconds=1e-3))
    assert {member.ended for member in short.members} == {"wall time"}
    resumed = small(poisson(), checkpoint=checkpoint, resume=True)
    assert bits(resumed) == uninterrupted("float32")


def test_auto_begins_anew_where_there_is_none_and_goes_on_where_there_is(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path) / "runs" / "new", every=10)
    small(poisson(), checkpoint=checkpoint, resume="auto", callbacks=stop_at(20))
    resumed = small(poisson(), checkpoint=checkpoint, resume="auto")
    assert bits(resumed) == uninterrupted("float32")


SOURCE = {"k": 1.0}
TABLE = np.array([1.0, 0.0])


def by_entry(u: Any, x: Any) -> Any:
    return laplacian(u, x) - SOURCE["k"]


def by_element(u: Any, x: Any) -> Any:
    """It also has no form for several members at once."""
    return branching(u, x) - TABLE[0]


def problem_of(equation: Any) -> Problem:
    return Problem(Interval(-1, 1), equation, conditions=[Dirichlet(0.0)], name="one name")


OTHER_EQUATION: dict[str, tuple[Any, dict[str, Any], int]] = {
    "one model": (by_entry, {}, 25),
    "minibatches": (by_entry, CASES["minibatches"][0], 35),
    "members one by one": (by_element, {"mode": Ensemble(members_per_rank=2)}, 25),
    "points by the residual": (by_entry, CASES["points by the residual"][0], 45),
    "in a phase of LBFGS": (by_entry, QUASI_NEWTON, 25),
    "weights by a strategy": (by_entry, {"weights": ReLoBRaLo(every=5)}, 25),
    "finished": (by_entry, {"steps": 20, "optimizer": LevenbergMarquardt()}, 60),
}


@pytest.mark.parametrize(
    "case",
    [
        "one model",
        pytest.param("minibatches", marks=pytest.mark.long),
        pytest.param("members one by one", marks=pytest.mark.long),
        *(pytest.param(case, marks=pytest.mark.all) for case in list(OTHER_EQUATION)[3:]),
    ],
)
def test_refuses_to_resume_with_another_number_wherever_the_equation_reads_it(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    equation, options, at = OTHER_EQUATION[case]
    checkpoint = Checkpoint(shared(tmp_path))
    # The terms of the loss tell, whatever the description of the problem sees.
    monkeypatch.setattr(resume, "check_identity", lambda *_: None)
    small(problem_of(equation), checkpoint=checkpoint, callbacks=stop_at(at), **options)
    with monkeypatch.context() as changed:
        changed.setitem(SOURCE, "k", 8.0)
        changed.setattr(sys.modules[__name__], "TABLE", np.array([8.0, 0.0]))
        with pytest.raises(InputError, match=r"term 'residual' of the loss.* was .* there, and is"):
            small(problem_of(equation), checkpoint=checkpoint, resume=True, **options)
    again = small(problem_of(equation), checkpoint=checkpoint, resume="auto", **options)
    assert all(member.steps <= 60 for member in again.members)


@pytest.mark.long
def test_terms_that_differ_by_rounding_alone_are_those_of_the_same_equation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss at the level of rounding has no correct digit, and the same equation has another."""

    def equation(u: Any, x: Any) -> Any:
        r = laplacian(u, x) - 1.0
        return (SOURCE["k"] + r) - SOURCE["k"]

    monkeypatch.setattr(resume, "check_identity", lambda *_: None)
    options = {"steps": 60, "optimizer": LevenbergMarquardt(), "network": partial(MLP, width=12)}
    checkpoint = Checkpoint(tmp_path)
    first = small(problem_of(equation), checkpoint=checkpoint, **options).members[0]
    assert first.loss < 1e-10
    monkeypatch.setitem(SOURCE, "k", 24.0)
    content = checkpoint_file.read(checkpoint.files()[0])
    stored = content.arrays["course-0/terms at the weights"]
    again = small(problem_of(equation), checkpoint=checkpoint, resume=True, **options).members[0]
    assert abs(again.loss / stored.sum() - 1) > 1e-3


@pytest.mark.ranks(most=3, reason="a third rank is neither the first nor the last")
def test_each_group_of_an_ensemble_writes_a_file_and_one_that_is_missing_begins_anew(
    tmp_path: Path,
) -> None:
    options, at = CASES["stacked members"]
    checkpoint = Checkpoint(shared(tmp_path), every=5)
    small(poisson(), checkpoint=checkpoint, callbacks=stop_at(at), **options)
    names = [f"checkpoint-group-{rank}.npz" for rank in range(sp.size())]
    assert [file.name for file in checkpoint.files()] == names
    if sp.size() > 1:
        sp.current_world().communicator.on_root((shared(tmp_path) / names[-1]).unlink)
        resumed = small(poisson(), checkpoint=checkpoint, resume=True, **options)
        assert bits(resumed) == uninterrupted("stacked members")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": 3}, "seed was 0 there, and is 3 here"),
    "precision": ({"precision": "float64"}, "precision was 'float32' there"),
    "points": ({"points": POINTS[:-1]}, "points was array of shape .23, 1.*is array of shape .22"),
    "network": ({"network": partial(MLP, width=5, depth=1)}, "network.* was .*4.*is .*5.* here"),
    "optimizer": ({"optimizer": Adam(1e-2)}, "learning_rate of the optimizer was 0.001 there"),
    "steps": ({"steps": 10}, "at step 25, and steps is 10 now"),
    "mode": ({"mode": "ensemble"}, "of a training in mode 'data', and this one is in mode 'ensem"),
}


@cache
def interrupted() -> Path:
    import tempfile

    folder = shared(Path(tempfile.mkdtemp()))
    checkpoint = Checkpoint(folder, every=25)
    small(poisson(), checkpoint=checkpoint, callbacks=stop_at(25))
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_to_resume_another_training(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=f"(?s){message}"):
        small(poisson(), checkpoint=Checkpoint(interrupted()), resume=True, **options)


def test_refuses_to_resume_another_problem() -> None:
    with pytest.raises(
        InputError, match=r"problem was 'poisson, k = 2' there, and is 'poisson, k = 3"
    ):
        small(poisson(k=3), checkpoint=Checkpoint(interrupted()), resume=True)


def test_refuses_to_resume_with_another_number_of_a_condition(tmp_path: Path) -> None:
    checkpoint = Checkpoint(shared(tmp_path))
    of = partial(Problem, Interval(-1, 1), laplacian)
    small(of(conditions=[Dirichlet(0.0)]), checkpoint=checkpoint, callbacks=stop_at(25))
    with pytest.raises(InputError, match="value of term 'dirichlet' was 0.0 there, and is 1.0"):
        small(of(conditions=[Dirichlet(1.0)]), checkpoint=checkpoint, resume=True)


def test_what_is_only_shown_may_be_otherwise() -> None:
    other = {"log_every": 20, "evaluation_points": 5, "keep": "last", "stop": TargetLoss(0.0)}
    resumed = small(poisson(), checkpoint=Checkpoint(interrupted()), resume=True, **other)
    assert resumed.members[0].loss == uninterrupted("float32")[0][0][3]


@two
def test_refuses_to_lose_a_checkpoint(tmp_path: Path) -> None:
    folder = shared(tmp_path)
    small(poisson(), checkpoint=Checkpoint(folder))
    with pytest.raises(InputError, match=r"holds checkpoint.npz.*resume=True.*overwrite=True"):
        small(poisson(), checkpoint=Checkpoint(folder))
    anew = small(poisson(), checkpoint=Checkpoint(folder, overwrite=True))
    assert bits(anew) == uninterrupted("float32")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resume": True}, "resume=True needs checkpoint=Checkpoint"),
        (
            {"checkpoint": "runs/x"},
            r"expected checkpoint=Checkpoint\(folder, every=1000\).*'runs/x'",
        ),
        ({"checkpoint": Checkpoint("x"), "resume": "yes"}, "True, False or 'auto'.*'yes'"),
        ({"callbacks": 3}, "expected callbacks to be functions.*got 3"),
    ],
)
def test_refuses_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(poisson(), **arguments)


@pytest.mark.parametrize("every", [0, -1, 2.5, True, "100"])
def test_refuses_a_bad_number_of_steps(every: Any) -> None:
    with pytest.raises(InputError, match="every must be an integer of at least 1"):
        Checkpoint("runs/x", every=every)


def test_there_is_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no checkpoint in .*resume='auto'"):
        small(poisson(), checkpoint=Checkpoint(shared(tmp_path)), resume=True)


@two
def test_a_folder_that_cannot_be_made_is_an_error_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write to the folder"):
        small(poisson(), checkpoint=Checkpoint(shared(tmp_path) / "file" / "below"))


@pytest.mark.parametrize(
    "damage", [pytest.param("cut short", marks=two), "one bit", "empty", "foreign", "newer"]
)
def test_a_file_that_cannot_be_used_is_an_error_on_all_ranks(damage: str, tmp_path: Path) -> None:
    folder = shared(tmp_path)
    if sp.rank() == 0:
        raw = bytearray((interrupted() / "checkpoint.npz").read_bytes())
        raw[len(raw) // 2] ^= damage == "one bit"
        changed = {
            "cut short": raw[:-200],
            "empty": b"",
            "foreign": b"weights of another program" * 10,
            "newer": raw.replace(b"format 0001", b"format 0007"),
        }
        (folder / "checkpoint.npz").write_bytes(changed.get(damage, raw))
    else:
        interrupted()
    expected = {
        "cut short": "is damaged: its end is missing",
        "one bit": "is damaged: its checksum does not fit",
        "empty": "is damaged: it is empty",
        "foreign": "is not a checkpoint of sciml_par",
        "newer": "is a checkpoint of format 7, and this sciml_par reads formats up to 1",
    }
    with pytest.raises(InputError, match=f"checkpoint.npz {expected[damage]}"):
        small(poisson(), checkpoint=Checkpoint(folder), resume=True)


@two
def test_a_file_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder is gone in the midst of it."""
    folder = shared(tmp_path) / "gone"

    def remove(progress: Progress) -> None:
        if progress.step == 20 and sp.rank() == 0:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()

    result = small(poisson(), checkpoint=Checkpoint(folder, every=10), callbacks=remove)
    assert bits(result) == uninterrupted("float32")
    said = capfd.readouterr().err
    assert ("checkpoint.npz cannot be written (No such file" in said) == (sp.rank() == 0)
