"""Options on the command line, and who prints what is wrong with them."""

from __future__ import annotations

import argparse
import sys

import pytest

from sciml_par.programs import integer_from, parse_training_options, positive_number
from sciml_par.programs.options import only_rank_0_prints
from sciml_par.programs.training_options import OPTIMIZERS

POINTS = {"data": 51, "ensemble": 101}


def parse(*arguments: str):
    return parse_training_options("", points=POINTS, arguments=arguments, program="trial")


def test_defaults_depend_on_the_mode() -> None:
    data, ensemble = (parse("--optimizer", "adam", "--mode", mode) for mode in POINTS)
    assert (data.points, data.scale_learning_rate) == (51, True)
    assert (ensemble.points, ensemble.scale_learning_rate) == (101, False)
    chosen = parse("--points", "7", "--no-scale-learning-rate")
    assert (chosen.points, chosen.scale_learning_rate, chosen.program) == (7, False, "trial")
    auto = parse("--mode", "ensemble")
    assert (auto.optimizer, auto.points, auto.scale_learning_rate) == ("auto", 400, False)


def test_the_defaults_of_least_squares_leave_points_that_are_many() -> None:
    many = parse_training_options("", points={"data": 5000}, arguments=(), program="trial")
    assert many.points == 5000
    assert parse("--optimizer", "lm").points == parse("--optimizer", "lbfgs").points == 400


@pytest.mark.parametrize("rate", [("--learning-rate", "0.5"), ("--no-scale-learning-rate",)])
def test_what_is_said_of_a_rate_takes_adam_or_is_refused(
    rate: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert vars(parse(*rate)) == vars(parse("--optimizer", "adam", *rate))
    for other in ("auto", "lm"):
        with pytest.raises(SystemExit):
            parse("--optimizer", other, *rate)
        assert f"is of adam; --optimizer {other} has no such rate" in capsys.readouterr().err


@pytest.mark.parametrize("launched", [None, "0", "1"])
def test_rank_0_alone_says_what_is_wrong(
    launched: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    if launched is not None:
        monkeypatch.setenv("PMI_RANK", launched)
    with pytest.raises(SystemExit) as ended:
        parse("--members", "2")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert ("trial: error: --members needs --mode ensemble" in said) == (launched != "1")
    with only_rank_0_prints():
        print("out")
        print("err", file=sys.stderr)
    assert capsys.readouterr() == (("", "") if launched == "1" else ("out\n", "err\n"))


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("12", 12), ("-1", None), ("1.5", None)])
def test_integers(text: str, value: int | None) -> None:
    if value is not None:
        assert integer_from(0)(text) == value
        return
    with pytest.raises(argparse.ArgumentTypeError, match=f"integer ≥ 0; got '{text}'"):
        integer_from(0)(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "ten"])
def test_numbers_that_are_not_positive_and_finite(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"number > 0; got '{text}'"):
        positive_number(text)


def test_options_of_long_runs(capsys: pytest.CaptureFixture[str]) -> None:
    plain = parse()
    assert (plain.resume, plain.wall_time, plain.log_every) == (False, None, None)
    chosen = parse("--resume", "--output", "x", "--wall-time", "8:00:05", "--checkpoint-every", "9")
    assert (chosen.resume, chosen.wall_time, chosen.checkpoint_every) == (True, 28805.0, 9)
    assert parse("--output", "x", "--resume", "auto").resume == "auto"
    for wrong, message in {
        ("--resume",): "--resume needs --output",
        ("--output", "x", "--resume", "maybe"): "invalid choice: 'maybe'",
        ("--wall-time", "0:00"): "a time > 0 as H:MM:SS",
        ("--wall-time", "1:2:3:4"): "a time > 0 as H:MM:SS",
        ("--checkpoint-every", "0"): "an integer ≥ 1",
    }.items():
        with pytest.raises(SystemExit):
            parse(*wrong)
        assert message in capsys.readouterr().err


def test_optimizers_have_their_own_defaults() -> None:
    adam, lm, auto = parse("--optimizer", "adam"), parse("--optimizer", "lm"), parse()
    assert (adam.steps, adam.precision, adam.width) == (30_000, "float32", 16)
    assert (lm.steps, lm.precision, lm.width) == (1_000, "float64", 10)
    assert (auto.steps, auto.precision, auto.width) == (None, "float64", 10)
    chosen = parse("--optimizer", "lm", "--steps", "7", "--precision", "float32")
    assert (chosen.steps, chosen.precision) == (7, "float32")
    assert parse("--learning-rate", "0.5").learning_rate == 0.5
    for name, each in OPTIMIZERS.items():
        made = each.make(1e-3)
        assert made == name if name == "auto" else hasattr(made, "step")


def test_help_names_the_usual_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "30,000 of adam, 10,000 of lbfgs, 30 of least-squares, 1,000 of lm" in said
    assert "--optimizer {auto,adam,lbfgs,least-squares,lm,ssbroyden}" in said
