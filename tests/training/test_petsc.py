"""The equations of windows by PETSc where petsc4py is installed, else the sentence that says so."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
import tensorflow as tf

from sciml_par.errors import InputError, TrainingError
from sciml_par.networks import MLP, RandomFeatures, Windows
from sciml_par.problems import (
    Dirichlet,
    Interval,
    Observations,
    Periodic,
    Problem,
    Unknown,
    laplacian,
    problem_by_name,
)
from sciml_par.results import Result
from sciml_par.training import LeastSquares, Points, train

needs_petsc = pytest.mark.skipif(find_spec("petsc4py") is None, reason="petsc4py is not installed")


def trained(problem: Problem, windows: Windows, solver: str, **options: object) -> Result:
    return train(
        problem,
        network=windows,
        optimizer=LeastSquares(solver=solver),
        points=options.pop("points", Points(4000, method="sobol")),
        precision="float64",
        keep="last",
        progress=False,
        **options,
    )


def windows(parts: tuple[int, ...], features: int = 40) -> Windows:
    return Windows(partial(RandomFeatures, features=features, scale=6.0), parts=parts)


@needs_petsc
def test_a_solution_and_its_error_are_those_of_the_strips() -> None:
    problem = problem_by_name("poisson-2d")
    x = np.random.default_rng(0).uniform(size=(50, 2))
    results = [
        trained(problem, windows((4, 3)), each, estimate=True) for each in ("strips", "petsc")
    ]
    u, v = (each.predict(x).mean for each in results)
    assert np.abs(u - v).max() < 1e-9 * np.abs(u).max()
    one, other = (each.error.relative for each in results)
    assert other == pytest.approx(one, rel=1e-3)


@needs_petsc
def test_unknowns_and_periodic_conditions() -> None:
    """Columns beside those of the windows; a strip of windows from both ends."""
    problem = Problem(
        Interval(0, 2 * np.pi),
        lambda u, x, a: laplacian(u, x) - u(x) + a * tf.cos(x),
        conditions=[
            Periodic("x"),
            Observations(np.linspace(0, 6, 20)[:, None], np.cos(np.linspace(0, 6, 20)[:, None])),
        ],
        unknowns={"a": Unknown(1.0)},
    )
    result = trained(problem, windows((7,)), "petsc", points=400)
    found = result.members[0].unknown_values
    assert found.by_name(found.best)["a"] == pytest.approx(2)


@needs_petsc
def test_what_does_not_converge_is_said() -> None:
    from petsc4py import PETSc

    chosen = {"windows_ksp_type": "cg", "windows_pc_type": "none", "windows_ksp_max_it": 2}
    for name, value in chosen.items():
        PETSc.Options().setValue(name, value)
    try:
        with pytest.raises(TrainingError, match=r"petsc.*KSPConvergedReason -3"):
            trained(problem_by_name("poisson-2d"), windows((4, 3)), "petsc")
    finally:
        for name in chosen:
            PETSc.Options().delValue(name)


@pytest.mark.skipif(find_spec("petsc4py") is not None, reason="petsc4py is installed")
def test_without_petsc_a_sentence_says_how_to_get_it() -> None:
    with pytest.raises(InputError, match=r"petsc4py cannot be imported .*\[petsc\]"):
        trained(problem_by_name("poisson-2d"), windows((3, 3)), "petsc")


def test_only_windows_take_it() -> None:
    with pytest.raises(InputError, match="for a network in Windows"):
        train(
            Problem(Interval(0, 1), laplacian, conditions=[Dirichlet(0.0)]),
            network=partial(MLP, width=4, depth=1),
            optimizer=LeastSquares(solver="petsc"),
            steps=2,
            progress=False,
        )
    with pytest.raises(InputError, match="'strips', 'petsc'; got 'mumps'"):
        LeastSquares(solver="mumps")
