"""The problem and the training that most programs of the tables vary."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import sciml_par as sp
from sciml_par.networks import MLP
from sciml_par.problems import Dirichlet, Interval, Problem, laplacian
from sciml_par.training import LevenbergMarquardt

X = np.linspace(0, 1, 5)[:, None]
UNIT = Interval(0, 1)
solve = functools.partial(
    sp.train,
    network=functools.partial(MLP, width=8, depth=1),
    optimizer=LevenbergMarquardt(),
    steps=40,
    points=40,
    precision="float64",
    evaluation_points=20,
    progress=False,
)
wider = functools.partial(
    solve, network=functools.partial(MLP, width=12, depth=1), steps=60, points=80
)


def rod(residual: Any = None, **others: Any) -> Problem:
    """Return u″ = −2 on (0, 1), or the problem of another residual, with u = 0 at both ends."""
    arguments = {"conditions": [Dirichlet(0.0)]} | others
    return Problem(UNIT, residual or (lambda u, x: laplacian(u, x) + 2), **arguments)


def loaded(load: Any) -> Problem:
    """Return the rod under a load, u″ = −2 load(), whose solution is `bent(load())`."""
    return rod(lambda u, x: laplacian(u, x) + 2 * load())


def bent(load: Any) -> Any:
    return load * X * (1 - X)


def solved(problem: Problem, **options: Any) -> Any:
    """Return what a training of the problem found, and the solution of the rod."""
    return solve(problem, **options).predict(X).mean, bent(1.0)
