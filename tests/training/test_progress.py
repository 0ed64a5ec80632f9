"""What a user sees while training runs."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

import sciml_par as sp
from sciml_par._terminal import console
from sciml_par.networks import MLP
from sciml_par.problems import poisson
from sciml_par.training import LBFGS, Adam, LevenbergMarquardt
from sciml_par.training.run.meeting import Meeting
from sciml_par.training.run.progress import Pace, ProgressWatcher, Reporter, clock_text, loss_text

pytestmark = pytest.mark.ranks(most=1, reason="local")


def test_texts() -> None:
    assert loss_text([0.25]) == "2.50e-01"
    assert loss_text([3e-5, 0.25, 1.0]) == "3.00e-05 to 1.00e+00"
    assert clock_text(7.4) == "0:07"
    assert clock_text(3725) == "1:02:05"
    assert clock_text(float("inf")) == "?"


@pytest.mark.parametrize(
    ("ranks", "shown"),
    [
        ([(1, 1, 100), (0, 1, 60)], 60),  # rank 0 has done its steps, and waits for the other
        ([(0, 1, 40), (0, 1, 60)], 40),
        ([(1, 1, 100), (1, 1, 80)], 100),  # all are done; the other one ended early
        ([(1, 2, 120), (0, 1, 60)], 120),  # which has half as many steps to make in all
    ],
)
def test_the_rank_that_is_furthest_behind_is_shown(
    ranks: list[tuple[int, int, int]], shown: int
) -> None:
    seen: list[int] = []

    class Seen(Reporter):
        def update(self, done: int, *_: Any) -> None:
            seen.append(done)

    everyone = [
        SimpleNamespace(course=c, courses=n, done=d, notes=(), not_finite=(), terms=(), measures={})
        for c, n, d in ranks
    ]
    stack = SimpleNamespace(numbers=(0,), terms=())
    course = SimpleNamespace(stack=stack, steps=[], position=SimpleNamespace(phase=0))
    meeting = SimpleNamespace(
        everyone=everyone, courses=[course], course=course, losses=[0.1, 0.2], unknowns={}
    )
    watcher = ProgressWatcher(Seen(100, shown=False), all_records=False)
    for _ in range(2):  # before the first there was nothing to show
        watcher.met(cast(Meeting, meeting))
    assert seen == [shown]


def test_a_phase_is_named_and_tells_of_no_step_before_its_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    phases = [(Adam(), 20), (LBFGS(), 10)]
    sp.train(poisson(), points=9, phases=phases, network=partial(MLP, width=3, depth=1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["compiling", "phase 2 of 2, from step 20: LBFGS"]
    assert lines[-1].startswith("step 30 of 30") and "step length" in lines[-1]
    for line in lines[2:-1]:
        assert not line.startswith("step 20 of 30") or "step length" not in line


def test_pace_counts_no_time_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 100.0, 102.0, 106.0, 200.0, 204.0, 300.0, 400.0, 402.0])
    stopped = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("sciml_par.training.run.progress.time", stopped)
    pace = Pace(100)
    pace.resume()
    pace.update(20)
    assert pace.rate == pytest.approx(10)
    assert pace.seconds_left == pytest.approx(8)
    pace.update(60)
    assert pace.rate == pytest.approx(10)
    pace.resume()
    pace.update(100)
    assert pace.rate == pytest.approx(10)
    assert pace.seconds_left == 0
    resumed = Pace(1000)
    resumed.start_at(900)
    assert resumed.seconds_left == float("inf")
    resumed.resume()
    resumed.update(950)
    assert (resumed.rate, resumed.seconds_left) == (pytest.approx(25), pytest.approx(2))


def test_lines_are_plain_and_the_last_is_always_there(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(2000) as reporter:
        reporter.ready()
        reporter.update(1000, [0.5], {})
        reporter.update(2000, [0.25, 0.5], {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("step 2,000 of 2,000   loss 2.50e-01 to 5.00e-01   ")
    assert lines[0].endswith("steps/s   0:00 left")


def test_a_line_for_each_record_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(2000) as reporter:
        reporter.begin(500)
        reporter.ready()
        reporter.record(1000, [0.5], {"residual": 0.25, "dirichlet": 0.25})
        reporter._said = -1e9  # a line would be due
        reporter.update(1100, [0.5], {})
        reporter.record(1200, [0.25, 0.5], {})
        reporter.update(2000, [0.25], {})
    begin, first, second, last = capsys.readouterr().out.splitlines()
    assert begin == "resumed at step 500; compiling"
    assert first == "step 1,000 of 2,000   loss 5.00e-01 (residual 2.5e-01, dirichlet 2.5e-01)"
    assert second == "step 1,200 of 2,000   loss 2.50e-01 to 5.00e-01"
    assert last.startswith("step 2,000 of 2,000   loss 2.50e-01   ")


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
def test_a_narrow_terminal_shows_the_step_the_loss_and_the_time_left(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with Reporter(100_000) as reporter:
        reporter.begin(0)
        reporter.ready()
        terms = {"residual": 0.25, "dirichlet": 0.25, "initial": 0.1, "observations": 0.1}
        reporter.update(50_000, [0.5], terms, {"λ": 1e-3}, {"conductivity": [1.234567]})
        assert reporter._bar is not None
        shown = "".join(
            segment.text for segment in reporter._bar.console.render(reporter._bar.get_renderable())
        ).rstrip()
    assert "\n" not in shown and len(shown) <= columns and "…" not in shown
    assert shown.startswith("step 50,000 of 100,000") and shown.endswith(" left")
    assert "loss 5.00e-01" in shown
    assert ("conductivity 1.23457" in shown) == (columns >= 80)
    assert ("steps/s" in shown) == (columns == 160)
    capsys.readouterr()


def test_a_run_of_hours_has_some_hundreds_of_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(
        "sciml_par.training.run.progress.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    with Reporter(72_000) as reporter:
        reporter.ready()
        for half_second in range(1, 72_001):
            now[0] = half_second / 2
            reporter.update(half_second, [0.5], {})
    lines = capsys.readouterr().out.splitlines()
    assert 200 < len(lines) < 500 and lines[-1].startswith("step 72,000 of 72,000")


def test_a_notice_is_shown_once_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    small = partial(MLP, width=3, depth=1)
    options = {"points": 9, "steps": 2, "precision": "float64", "network": small}
    for _ in range(2):
        sp.train(poisson(), optimizer=LevenbergMarquardt(), **options)
    said = capsys.readouterr().out
    assert said.count("network's first layer start with centres") <= 1
    assert said.count("conditions without a weight have the weight 100") <= 1


def test_a_moving_line_on_a_terminal_and_plain_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    with Reporter(10) as reporter:
        assert reporter._bar is not None
        reporter.begin(0)
        reporter.ready()
        reporter.update(5, [0.5], {})
        assert reporter._bar.tasks[0].completed == 5
        assert "loss 5.00e-01" in reporter._bar.tasks[0].description
    # Open MPI's launcher gives each rank a terminal, though what it writes may go to a file.
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert Reporter(10)._bar is None and not console().is_terminal
    capsys.readouterr()
    silent = Reporter(10, shown=False)
    silent.begin(0)
    silent.update(10, [0.5], {})
    assert capsys.readouterr().out == ""
