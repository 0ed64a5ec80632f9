"""The options of solve.py: the suggestions of the catalogue, and what overrides them."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from sciml_par.errors import InputError
from sciml_par.networks import NETWORK_NAMES
from sciml_par.problems import catalogue_entries
from sciml_par.programs.training_options import OPTIMIZERS

SOLVE = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "solve.py"))


def parse(*arguments):
    return SOLVE["Options"].parse("", arguments=arguments, program="solve")


@pytest.mark.parametrize("name", catalogue_entries())
def test_what_is_left_open_is_what_the_catalogue_suggests(name):
    options, suggestion = parse(name), catalogue_entries()[name].suggestion
    for each in ("points", "boundary", "width", "depth", "network", "optimizer", "steps"):
        assert getattr(options, each) == getattr(suggestion, each), each
    assert options.precision == suggestion.precision
    assert suggestion.optimizer in OPTIMIZERS and suggestion.network in NETWORK_NAMES


def test_options_override_the_suggestions(tmp_path):
    options = parse(
        "heat", "--points", "50", "--width", "7", "--steps", "9", "--precision", "float32"
    )
    given = options.training(tmp_path)
    assert given["points"].interior == 50
    assert given["network"].keywords == {"width": 7, "depth": options.depth}
    assert (given["steps"], given["precision"]) == (9, "float32")
    assert "points_per_rank" not in given


def test_another_optimizer_brings_its_own_steps_and_precision():
    options = parse("heat", "--optimizer", "adam")
    assert (options.steps, options.precision) == (30_000, "float32")
    assert parse("heat", "--optimizer", "lm", "--steps", "3").precision == "float64"


def test_points_are_placed_where_the_problem_says(tmp_path):
    points = parse("burgers", "--points", "64").training(tmp_path)["points"]
    assert points.interior.shape == (64, 2)


def test_a_rate_is_of_adam():
    options = parse("heat", "--learning-rate", "0.01")
    assert (options.optimizer, options.steps, options.learning_rate) == ("adam", 30_000, 0.01)
    with pytest.raises(InputError, match="--optimizer lm has no such rate"):
        parse("heat", "--optimizer", "lm", "--learning-rate", "0.01")


def test_a_name_is_needed_and_must_be_known():
    with pytest.raises(InputError, match="--list"):
        parse()
    with pytest.raises(InputError, match="did you mean 'burgers'"):
        parse("burger")
    with pytest.raises(InputError, match="kdv is a program now: python examples/kdv.py"):
        parse("kdv")


def test_the_list(capsys):
    assert parse("--list").list
    SOLVE["print_catalogue"]()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(catalogue_entries())


def test_help_has_no_default_that_is_none(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    said = capsys.readouterr().out
    assert "NAME --name" in said and "None" not in said


def test_a_tolerance_takes_the_place_of_options_of_a_training():
    assert parse("heat", "--tolerance", "1e-3").tolerance == 1e-3
    with pytest.raises(InputError, match="--width is for a training"):
        parse("heat", "--tolerance", "1e-3", "--width", "3")
    with pytest.raises(InputError, match="add --tolerance"):
        parse("heat", "--seconds", "3")


def test_parameters_are_those_of_the_problem():
    options = parse("inverse-diffusion", "--parameter", "noise=0.01", "--parameter", "observed=30")
    problem = options.make_problem()
    (measured,) = (each for each in problem.conditions if hasattr(each, "u"))
    assert len(measured.u) == 30 and np.any(measured.u != problem.exact(measured.x))
    with pytest.raises(InputError, match=r"no parameter 'nose'. It has diffusivity, observed"):
        parse("inverse-diffusion", "--parameter", "nose=1").make_problem()
    with pytest.raises(InputError, match="expected NAME=NUMBER"):
        parse("heat", "--parameter", "diffusivity")
