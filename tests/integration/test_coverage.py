"""benchmarks/coverage.py: its solutions are those of the equations, and it runs."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from launch import ROOT, launch

sys.path.append(str(ROOT / "benchmarks"))

import _coverage_problems as exact
import _coverage_statistics as statistics
from _coverage_problems import CASES

pytestmark = pytest.mark.long

PROGRAM = ROOT / "benchmarks" / "coverage.py"


def test_the_flow_satisfies_its_equations_at_every_viscosity():
    viscosity, h = 0.07, 1e-4
    x = np.array([[0.1, 0.2], [0.7, 0.4]])
    (right, left), (up, down) = (
        [exact.flow(np.array([[viscosity]]), x + s * h * e)[0] for s in (1, -1)] for e in np.eye(2)
    )
    w = exact.flow(np.array([[viscosity]]), x)[0]
    slopes = (right - left) / (2 * h), (up - down) / (2 * h)
    diffusion = (right + left + up + down - 4 * w) / h**2
    amplitude = exact.FORCE / (2 * np.pi**2 * viscosity)
    pressure_slope = -(amplitude**2) * np.pi / 2 * np.sin(2 * np.pi * x)
    advection = w[:, :1] * slopes[0] + w[:, 1:] * slopes[1]
    np.testing.assert_allclose(
        advection + pressure_slope - viscosity * diffusion, exact.force(x), atol=1e-5
    )
    np.testing.assert_allclose(slopes[0][:, 0] + slopes[1][:, 1], 0, atol=1e-6)


def test_conduction_and_reaction_satisfy_their_equations():
    x, h = np.linspace(0.2, 0.7, 7)[:, None], 1e-4
    c = np.array([[1.0, 0.5, 0.2]])
    middle = [exact.conductivity(c, x + s * h / 2)[0] for s in (-1, 1)]
    u = [exact.conduction(c, x + s * h)[0, :, 0] for s in (-1, 0, 1)]
    flux = middle[1] * (u[2] - u[1]) - middle[0] * (u[1] - u[0])
    np.testing.assert_allclose(-flux / h**2, exact.SOURCE, rtol=1e-5)
    ends = exact.wave(np.array([[-0.7], [0.7]]))[:, 0]
    found = exact.reaction(np.array([[exact.REACTION, *ends]]), x)
    np.testing.assert_allclose(found[0], exact.wave(x), atol=1e-11)


def test_least_squares_of_many_data_sets_has_the_spread_of_the_bound():
    case = CASES["diffusion"]
    sigma = case.deviation(0.05)

    def model(c):
        return case.solution(c, case.places).reshape(len(c), -1)

    errors = np.random.default_rng(0).normal(size=(4000, 50))
    fits = statistics.least_squares(
        model, model(case.true[None]) + sigma * errors, sigma, case.true
    )
    bound = np.sqrt(statistics.covariances(model, case.true[None], sigma))[0, 0]
    assert fits.estimates.std() == pytest.approx(float(bound[0]), rel=0.05)
    intervals = statistics.symmetric(fits.estimates, np.sqrt(fits.covariances[:, :, 0]))
    (held,) = statistics.coverage(intervals, case.true)["0.95"]
    assert held == pytest.approx(0.95, abs=0.015)


@pytest.mark.launches
def test_it_runs(tmp_path):
    ended = launch(None, PROGRAM, "reaction", "--quick", folder=tmp_path)
    lines = ended.succeeded().out.splitlines()
    assert [line.split()[2] for line in lines[1:3]] == ["k", "bands"]
    assert float(lines[1].split()[7]) == pytest.approx(1.0, abs=0.05)  # width over the bound
