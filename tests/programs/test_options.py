"""Options on the command line, and who prints what is wrong with them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from sciml_par import programs
from sciml_par.errors import InputError
from sciml_par.programs import NaturalNumber, Options, PositiveNumber, TrainingOptions
from sciml_par.programs.program import only_rank_0_prints
from sciml_par.programs.training_options import OPTIMIZERS

POINTS = {"data": 51, "ensemble": 101}


def parse(*arguments: str):
    return TrainingOptions.with_points(**POINTS).parse("", arguments=arguments, program="trial")


def test_defaults_depend_on_the_mode() -> None:
    data, ensemble = (parse("--optimizer", "adam", "--mode", mode) for mode in POINTS)
    assert (data.points, data.scale_learning_rate) == (51, True)
    assert (ensemble.points, ensemble.scale_learning_rate) == (101, False)
    chosen = parse("--points", "7", "--no-scale-learning-rate")
    assert (chosen.points, chosen.scale_learning_rate, chosen.program) == (7, False, "trial")
    auto = parse("--mode", "ensemble")
    assert (auto.optimizer, auto.points, auto.scale_learning_rate) == ("auto", 400, False)


def test_the_defaults_of_least_squares_leave_points_that_are_many() -> None:
    many = TrainingOptions.with_points(data=5000).parse("", arguments=())
    assert many.points == 5000
    assert parse("--optimizer", "lm").points == parse("--optimizer", "lbfgs").points == 400


@pytest.mark.parametrize("rate", [("--learning-rate", "0.5"), ("--no-scale-learning-rate",)])
def test_what_is_said_of_a_rate_takes_adam_or_is_refused(rate: tuple[str, ...]) -> None:
    assert vars(parse(*rate)) == vars(parse("--optimizer", "adam", *rate))
    for other in ("auto", "lm"):
        with pytest.raises(InputError, match=f"of adam; --optimizer {other} has no such rate"):
            parse("--optimizer", other, *rate)


@pytest.mark.parametrize("launched", [None, "0", "1"])
def test_rank_0_alone_says_what_is_wrong(
    launched: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sciml_par.parallel.groups.world.world", None)  # as before `init`
    if launched is not None:
        monkeypatch.setenv("PMI_RANK", launched)
    with pytest.raises(SystemExit) as ended:
        programs.run(partial(parse, "--members", "2"), program="trial")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert ("trial: error: --members needs --mode ensemble" in said) == (launched != "1")
    with only_rank_0_prints():
        print("out")
        print("err", file=sys.stderr)
    assert capsys.readouterr() == (("", "") if launched == "1" else ("out\n", "err\n"))


@dataclass(kw_only=True)
class Numbers(Options):
    whole: NaturalNumber = 3
    """of things"""
    real: PositiveNumber = 1.5


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("12", 12), ("-1", None), ("1.5", None)])
def test_integers(text: str, value: int | None) -> None:
    if value is not None:
        assert Numbers.parse("", arguments=["--whole", text]).whole == value
        return
    with pytest.raises(InputError, match=f"--whole: expected an integer ≥ 0; got '{text}'"):
        Numbers.parse("", arguments=["--whole", text])


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "ten"])
def test_numbers_that_are_not_positive_and_finite(text: str) -> None:
    with pytest.raises(InputError, match=f"--real: expected a number > 0; got '{text}'"):
        Numbers.parse("", arguments=["--real", text])


def test_what_is_no_option_is_corrected_and_the_last_value_holds() -> None:
    with pytest.raises(InputError, match=r"Unknown option: --hole. Did you mean --whole\?"):
        Numbers.parse("", arguments=["--hole", "1"])
    with pytest.raises(InputError, match="Unused Tokens"):
        Numbers.parse("", arguments=["1"])
    assert Numbers.parse("", arguments=["--real", "1", "--real=2"]).real == 2


def test_an_argument_that_is_no_utf_8_is_told_after_init_as_well(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        programs.run(partial(parse, "--mode=\udcff"), program="trial")
    assert ended.value.code == 2 and 'value "\\udcff" for --mode' in capfd.readouterr().err


def test_help_has_docstrings_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Numbers.parse("A text\nof two lines.\n\nSo:\n\n    python x.py", arguments=["--help"])
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "A text of two lines." in said and "\n    python x.py\n" in said
    assert "--whole N  of things [default: 3]" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--steps 0", "--steps: expected an integer ≥ 1; got '0'"),
        ("--points -3", "--points: expected an integer ≥ 2; got '-3'"),
        ("--mode ensemble --members 0", "--members: expected an integer ≥ 1; got '0'"),
        ("--learning-rate nan", "--learning-rate: expected a number > 0"),
        ("--seed -1", "--seed: expected an integer ≥ 0; got '-1'"),
        ("--precision float16", 'Invalid value "float16" for --precision. Choose from: "float32"'),
    ],
)
def test_values_that_no_training_takes(words: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(*words.split())


def test_options_of_long_runs() -> None:
    plain = parse()
    assert (plain.resume, plain.wall_time, plain.log_every) == (False, None, None)
    chosen = parse("--resume", "--output", "x", "--wall-time", "8:00:05", "--checkpoint-every", "9")
    assert (chosen.resume, chosen.wall_time, chosen.checkpoint_every) == (True, 28805.0, 9)
    assert parse("--output", "x", "--resume", "auto").resume == "auto"
    for wrong, message in {
        ("--resume",): "--resume needs --output",
        ("--output", "x", "--resume", "maybe"): 'Invalid value "maybe" for --resume',
        ("--wall-time", "0:00"): "a time > 0 as H:MM:SS",
        ("--wall-time", "1:2:3:4"): "a time > 0 as H:MM:SS",
        ("--wall-time", "1:-2"): "a time > 0 as H:MM:SS",
        ("--checkpoint-every", "0"): "an integer ≥ 1",
    }.items():
        with pytest.raises(InputError, match=message):
            parse(*wrong)


def test_optimizers_have_their_own_defaults() -> None:
    adam, lm, auto = parse("--optimizer", "adam"), parse("--optimizer", "lm"), parse()
    assert (adam.steps, adam.precision, adam.width) == (30_000, "float32", 16)
    assert (lm.steps, lm.precision, lm.width) == (1_000, "float64", 10)
    assert (auto.steps, auto.precision, auto.width) == (None, "float64", 10)
    chosen = parse("--optimizer", "lm", "--steps", "7", "--precision", "float32")
    assert (chosen.steps, chosen.precision) == (7, "float32")
    assert parse("--learning-rate", "0.5").learning_rate == 0.5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_train_takes_the_optimizers_and_has_the_same_usual_steps(name: str, tmp_path: Path) -> None:
    from sciml_par.training.optimizers.phases import as_optimizer

    optimizer = parse("--optimizer", name).training(tmp_path)["optimizer"]
    if name == "auto":
        assert optimizer == "auto"
    else:
        assert as_optimizer(optimizer).default_steps == OPTIMIZERS[name]


def test_help_names_the_usual_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    said = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "30,000 of adam, 10,000 of lbfgs, 30 of least-squares, 1,000 of lm" in said
    assert "[choices: auto, adam, lbfgs, least-squares, lm, ssbroyden]" in said
    assert "in mode data 400, with adam 51; in mode ensemble 400, with adam 101" in said
