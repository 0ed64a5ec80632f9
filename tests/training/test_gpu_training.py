"""A training on the GPUs, as `make test-gpu` runs it; without one, the same program on the host."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import sciml_par.parallel as sp
from sciml_par.networks import RandomFeatures
from sciml_par.parallel.tensors.memory import has_gpus
from sciml_par.problems import Dirichlet, Interval, Problem, Residual, derivative, laplacian
from sciml_par.training import Adam, LeastSquares, LevenbergMarquardt, train


@pytest.fixture(
    params=[
        pytest.param(
            "host",
            marks=[
                pytest.mark.ranks(most=1, reason="more are in test_rank_invariance.py"),
                pytest.mark.all,
            ],
        ),
        pytest.param("GPU", marks=pytest.mark.gpu),
    ]
)
def place(request: pytest.FixtureRequest) -> str:
    everywhere = sp.current_world().communicator.allgather_object(has_gpus())
    if any(everywhere) != all(everywhere) or (request.param == "GPU") != all(everywhere):
        pytest.skip(f"the programs of this job do not all run on the {request.param}")
    return str(request.param)


def test_phases_of_both_kinds_solve_an_equation(place: str) -> None:
    problem = Problem(
        Interval(-1, 1),
        Residual(lambda u, x, f: laplacian(u, x) + f, data=lambda x: np.pi**2 * np.sin(np.pi * x)),
        conditions=[Dirichlet(0.0)],
        exact=lambda x: np.sin(np.pi * x),
    )
    phases = [(Adam(1e-2), 100), (LevenbergMarquardt(), 40)]
    result = train(problem, phases=phases, precision="float64", progress=False)
    errors = [member.prediction.relative_l2_error for member in result.members]
    assert max(errors) < 1e-4


def test_a_solver_on_the_host_serves_a_program_on_the_device(place: str) -> None:
    result = train(
        Problem(
            Interval(0, 1),
            Residual(lambda u, x: derivative(u, x, 0) + u(x)),
            conditions=[Dirichlet(1.0, on="left")],
            exact=lambda x: np.exp(-x),
        ),
        network=partial(RandomFeatures, features=40),
        optimizer=LeastSquares(),
        points=60,
        precision="float64",
        progress=False,
    )
    assert result.members[0].prediction.relative_l2_error < 1e-9
