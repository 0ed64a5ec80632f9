"""Programs as users start them: new processes, one rank and two, no variable set."""

from __future__ import annotations

import os
import shutil

import pytest
from launch import launch

pytestmark = [
    pytest.mark.launches,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH"),
]

SOLVE = """
import numpy as np

import sciml_par as sp
from sciml_par.problems import Box, Dirichlet, Problem, Residual, laplacian


def equation(u, x, f):
    return laplacian(u, x) + u(x) ** 3 - f


def source(x):
    return 10 * np.sin(3 * x[:, :1]) * np.cos(2 * x[:, 1:])


sp.init()
square = Box([0, 0], [1, 1])
boundary = Dirichlet(lambda x: x[:, :1] * x[:, 1:])
problem = Problem(square, Residual(equation, data=source), conditions=[boundary])
result = sp.solve(problem, tolerance=0.05, progress=False)

import scipy.linalg  # its BLAS is loaded after init
from threadpoolctl import threadpool_info

pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
assert len(pools) == 2, pools
u = result.predict(square.sample(50, seed=1)).mean
everyone = sp.parallel.current_world().communicator
answer = everyone.allgather_object((max(pools), u.tobytes().hex(), result.error.relative))
if sp.rank() == 0:
    print(*(f"{threads} {u} {error:.10e}" for threads, u, error in answer), sep="\\n")
"""


def test_a_solution_has_the_same_bits_on_one_rank_and_two(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SOLVE)
    one, two = (
        launch(ranks, program, folder=tmp_path, fresh=True).succeeded().out.split("\n")[:-1]
        for ranks in (None, 2)
    )
    (alone, *answer), *others = (line.split() for line in one + two)
    assert [each[1:] for each in others] == [answer, answer]
    cores = len(os.sched_getaffinity(0))
    assert int(alone) == cores
    assert {int(threads) for threads, *_ in others} == {max(1, cores // 2)}
