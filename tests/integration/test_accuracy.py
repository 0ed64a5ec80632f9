"""benchmarks/accuracy.py: its problems have the solutions that it scores by, and it runs."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from typing import Any

import numpy as np
import pytest
from launch import ROOT, launch

sys.path.append(str(ROOT / "benchmarks"))

import _accuracy_problems as problems
import _accuracy_training
import accuracy
from _accuracy_training import OVER
from _runner import stored

from sciml_par._tensorflow import tf
from sciml_par.problems import Box, derivative
from sciml_par.problems.catalogue.in_time import points_near_the_front
from sciml_par.training import LevenbergMarquardt

pytestmark = pytest.mark.long

PROGRAM = ROOT / "benchmarks" / "accuracy.py"


def test_names_are_those_of_the_problems_and_optimizers() -> None:
    assert tuple(problems.CASES) == accuracy.PROBLEMS
    assert set(accuracy.ENGINE) == {*_accuracy_training.OPTIMIZERS}


@pytest.mark.parametrize("name", problems.CASES)
def test_points_and_weights(name: str) -> None:
    case = problems.CASES[name]
    problem, x = case.make(), case.test()
    assert problem.exact is not None
    assert np.all(problem.domain.contains(x)) and problem.exact(x).shape[1] == problem.outputs
    if name != "poisson-1d":
        weight = problems.CONDITION_WEIGHT
        assert all(term.weight == weight for term in problem.terms[len(problem.residuals) :])


def test_points_are_dense_near_the_front() -> None:
    x = points_near_the_front(4096, share=0.5, scale=0.05)
    assert np.all(problems.SPACE_TIME.contains(x))
    near = np.mean(np.abs(x[:, 0]) < 0.05)
    assert near == pytest.approx(0.5 * 0.05 + 0.5 * (np.pi / 4) / np.arctan(20), abs=0.01)
    assert np.mean(x[:, 1]) == pytest.approx(0.5, abs=0.01)


def test_the_start_of_allen_cahn_is_smooth_where_the_period_ends() -> None:
    problem = problems.CASES["allen-cahn"].make()
    start = problem.field(lambda x: tf.zeros_like(x[:, :1]))
    place = np.linspace(-1, 1, 21)[:, None]
    first = start(tf.constant(np.hstack([place, 0 * place]))).numpy()
    np.testing.assert_allclose(first, place**2 * np.cos(np.pi * place), atol=1e-15)
    times = np.array([[0.01], [0.5], [1.0]])
    for side in (-1, 1):
        ends = np.hstack([0 * times + side * (1 - 1e-12), times])
        slopes = derivative(start, tf.constant(ends), "x").numpy()
        np.testing.assert_allclose(slopes, 0, atol=1e-8)  # ∓2 without what rounds it off


def test_embedded_networks_are_periodic_with_their_centres_in_the_box_of_the_embedding() -> None:
    case = problems.CASES["helmholtz"]
    problem, x = case.make(), case.test()[:50]
    model = problems.network(case, problem, 1)
    moved = x + np.array([2.0, -4.0])
    np.testing.assert_allclose(model(x), model(moved), atol=1e-12)
    weight, bias, *_ = model.get_weights()
    assert weight.shape == (4, case.width)
    # |w·x₀| ≤ |w|₁ for x₀ in [−1, 1]⁴.
    assert np.all(np.abs(bias) <= np.abs(weight).sum(axis=0)) and np.ptp(bias) > 0.5
    names = problem.domain.names
    assert case.periods is not None and len(case.periods) == len(names)


def test_an_unknown_is_scored_by_its_own_error() -> None:
    limits = Namespace(seconds=100.0, dtype="float64", cpu=True)
    case = problems.CASES["inverse-diffusion"]
    rows, _, _ = _accuracy_training.by_engine(case, [(LevenbergMarquardt(), 40)], 0, limits)
    steps, seconds, _, errors = zip(*rows, strict=True)
    assert steps[-1] == 40 and errors[0] == pytest.approx(9.0)  # it begins at 1, and is 0.1
    # The last row is what the result holds, those before are the recorder's.
    assert 0 < errors[-1] < 1e-4 and 0 < errors[-2] < 1e-4
    assert list(seconds) == sorted(seconds) and seconds[-1] < 100.0


def test_the_first_layer_has_its_centres_in_the_domain() -> None:
    domain = Box([0, -2], [1, 3])
    weight, bias, _, hidden, last, output = problems.initial_weights([2, 50, 7, 3], domain, 3.0, 1)
    norms = np.linalg.norm(weight, axis=0)
    assert 0.9 <= norms.min() < 1.5 and 2.5 < norms.max() <= 3.0
    # The line on which a neuron is zero passes through the box: not all corners lie on one side.
    corners = np.array([[0, -2], [0, 3], [1, -2], [1, 3]]) @ weight + bias
    assert np.all(corners.min(axis=0) < 0) and np.all(corners.max(axis=0) > 0)
    assert last.shape == (7, 3) and hidden.std() > 0.1 and not output.any()
    other = problems.initial_weights([2, 50, 7, 3], domain, 3.0, 2)
    assert not np.allclose(other[0], weight)


def run(errors: list[float], optimizer: str = "lm") -> dict[str, Any]:
    """Return a run with a second and ten iterations between two errors."""
    rows = [(10 * k, float(k), 0.1, error) for k, error in enumerate(errors)]
    last = {"error": errors[-1], "iterations": rows[-1][0], "seconds": rows[-1][1]}
    of = {"problem": "poisson-1d", "optimizer": optimizer, "ended": OVER}
    return {**of, **last, "rows": rows, "compile_seconds": 3.0}


def test_the_table_says_when_the_target_was_reached(tmp_path, capsys) -> None:
    runs = [run([1.0, 1e-10, 2e-10]), run([1.0, 1e-4, 1e-11]), run([1.0, 1e-2])]
    options = accuracy.parsed([f"--figure={tmp_path / 'found.png'}"])
    accuracy.conclude([*runs, run([1.0, 1e-2], "adam")], {"lbfgs": "not here"}, options)
    lm, adam, absent, _ = capsys.readouterr().out.splitlines()[3:]
    assert lm.split()[1:7] == ["2.0e-10", "1.0e-11", "1.0e-02", "20", "2.0", "3.0"]
    assert lm.endswith("reached, by 2 of 3: after 15 iterations, 1.5 s")
    assert adam.endswith("missed") and absent == "absent: lbfgs: not here"


def test_unknown_names_are_refused() -> None:
    assert accuracy.optimizers("adam+lbfgs,deepxde") == ["adam+lbfgs", "deepxde"]
    for wrong in ("adam+deepxde", "sgd", "lm,"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected some of lm,lbfgs"):
            accuracy.optimizers(wrong)


@pytest.mark.launches
def test_a_short_run(tmp_path) -> None:
    files = [f"--json={tmp_path / 'found.json'}", f"--figure={tmp_path / 'found.png'}"]
    ended = launch(
        None,
        PROGRAM,
        *["--problems", "poisson-1d", "--optimizers", "lm,scipy-lbfgs,deepxde"],
        *["--seeds", "2", "--steps", "30", "--environments", str(tmp_path), *files],
        folder=tmp_path,
    ).succeeded()
    assert "Seconds of wall clock while training, without compilation" in ended.out
    assert f"absent: deepxde: there is no {tmp_path}/torch/bin/python" in ended.out
    runs = stored(tmp_path / "found.json")["runs"]
    names = [(each["optimizer"], each["seed"]) for each in runs]
    assert names == [(name, seed) for name in ("lm", "scipy-lbfgs") for seed in (0, 1)]
    begins = {name: [] for name, _ in names}
    for training in runs:
        steps, seconds, losses, errors = zip(*training["rows"], strict=True)
        assert steps[0] == 0 and 1 <= steps[-1] <= 30
        assert list(seconds) == sorted(seconds) and seconds[0] == 0 < seconds[-1]
        assert losses[-1] < losses[0] and min(errors) > 0
        begins[training["optimizer"]].append(errors[0])
    # All start from the same weights, which differ between seeds.
    first, *others = begins.values()
    assert first[0] != first[1]
    for each in others:
        assert each == pytest.approx(first)
    assert (tmp_path / "found.png").stat().st_size > 10_000
