"""Ranks that would not train alike are refused, with the first thing that differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from trainings import quick, tiny

import sciml_par.parallel as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Box,
    Dirichlet,
    Interval,
    Neumann,
    Problem,
    Residual,
    laplacian,
    poisson,
)
from sciml_par.training import Adam, Points

small = partial(quick, steps=4, points_per_rank=9, log_every=2)
several = pytest.mark.skipif("sp.size() == 1", reason="one rank always agrees with itself")
UNIT, SQUARE = Interval(0, 1), Box([0, 0], [1, 1])


def with_conditions(*conditions: Any, domain: Box = UNIT) -> Problem:
    return Problem(domain, lambda u, x: laplacian(u, x) - 1.0, conditions=conditions, name="p")


def with_factor(factor: float) -> Problem:
    return Problem(UNIT, lambda u, x: factor * laplacian(u, x) - 1.0, name="p")


def minus(u: Any, x: Any) -> Any:
    return laplacian(u, x) - 1.0


def plus(u: Any, x: Any) -> Any:
    return laplacian(u, x) + 1.0


# What rank r gives, r being 0 on rank 0 and 1 elsewhere; and how the difference is called.
Arguments = Callable[[int], dict[str, Any]]
DATA: dict[str, Arguments] = {
    "learning_rate of the optimizer": lambda r: {"optimizer": Adam(learning_rate=1e-3 * (1 + r))},
    "epsilon of the optimizer": lambda r: {"optimizer": Adam(epsilon=[1e-7, 1e-8][r])},
    "optimizer": lambda r: {"optimizer": [Adam(), type("Mine", (Adam,), {})()][r]},
    "problem": lambda r: {"problem": poisson(k=1 + r)},
    "domain": lambda r: {"problem": with_conditions(domain=Interval(0, 1 + r))},
    "terms of the loss": lambda r: {"problem": with_conditions([Dirichlet(), Neumann()][r])},
    "weight of term 'dirichlet'": lambda r: {"problem": with_conditions(Dirichlet(weight=1 + r))},
    "value of term 'dirichlet'": lambda r: {"problem": with_conditions(Dirichlet(float(r)))},
    "points of term 'dirichlet'": lambda r: {
        "problem": with_conditions(Dirichlet(where=lambda x: x[:, 0] == r), domain=SQUARE)
    },
    "points of term 'neumann'": lambda r: {
        "problem": with_conditions(Neumann(), domain=SQUARE),
        "points_per_rank": None,
        "points": Points(16, boundary=10 + 10 * r),
    },
    "weight of term 'residual'": lambda r: {
        "problem": Problem(UNIT, Residual(minus, weight=1 + r))
    },
    "values of the data of term 'residual'": lambda r: {
        "problem": Problem(
            UNIT, Residual(lambda u, x, f: laplacian(u, x) - f, data=lambda x: (1 + r) * x)
        ),
        "points_per_rank": None,
        "points": 16,
    },
    "function of term 'residual'": lambda r: {"problem": Problem(UNIT, [minus, plus][r])},
    "exact solution": lambda r: {"problem": Problem(UNIT, minus, exact=[None, np.cos][r])},
    "points": lambda r: {"points_per_rank": None, "points": 9 + r},
    "points_per_rank": lambda r: {"points_per_rank": 9 + r},
    "batch_size": lambda r: {"points_per_rank": None, "points": Points(16, batch_size=4 + r)},
    "width of the network": lambda r: {"network": partial(tiny, width=4 + r)},
    "activation of the network": lambda r: {
        "network": partial(tiny, activation=["tanh", "sin"][r])
    },
    "network": lambda r: {"network": [MLP, type("Mine", (MLP,), {})][r]},
}
BOTH: dict[str, Arguments] = {
    "steps": lambda r: {"steps": 4 + r},
    "seed": lambda r: {"seed": r},
    "precision": lambda r: {"precision": ["float32", "float64"][r]},
    "log_every": lambda r: {"log_every": 2 + r},
    "evaluation_points": lambda r: {"evaluation_points": 11 + r},
    "evaluation_domain": lambda r: {"evaluation_domain": Interval(-1, 1 + r)},
    "dimensions of the problem": lambda r: {
        "problem": with_conditions(domain=[UNIT, SQUARE][r]),
        "points_per_rank": 16,
    },
    "outputs of the problem": lambda r: {"problem": Problem(UNIT, minus, outputs=1 + r)},
}


def check_refused(name: str, arguments: Arguments, **options: Any) -> str:
    given = {"problem": poisson()} | arguments(min(sp.rank(), 1)) | options
    with pytest.raises(InputError, match=f"the ranks differ in {name}\\.\n  rank 0: ") as caught:
        small(given.pop("problem"), **given)
    assert re.search(r"\n  ranks? 1.*: ", str(caught.value))
    everyone = sp.current_world().communicator.allgather_object(str(caught.value))
    assert len(set(everyone)) == 1
    return everyone[0]


# How many ranks there are changes nothing of what is compared, so two try all of it.
IN_DATA_MODE = ["steps", "seed", *DATA] if sp.size() <= 2 else ["steps", "domain", "network"]
IN_ENSEMBLES = list(BOTH) if sp.size() <= 2 else ["seed", "outputs of the problem"]


@several
@pytest.mark.parametrize("name", IN_DATA_MODE)
def test_data_mode_compares_all_that_decides_the_result(name: str) -> None:
    check_refused(name, (BOTH | DATA)[name])


@several
@pytest.mark.parametrize("name", IN_ENSEMBLES)
def test_an_ensemble_compares_what_the_ranks_do_together(name: str) -> None:
    check_refused(name, BOTH[name], mode="ensemble")


@several
def test_the_mode() -> None:
    message = check_refused("mode", lambda r: {"mode": ["data", "ensemble"][r]})
    assert "rank 0: 'data'" in message


@several
def test_data_of_equations_are_compared_where_ranks_have_points_of_their_own() -> None:
    of = Residual(lambda u, x, f: laplacian(u, x) - f, data=lambda x: (1 + sp.rank()) * x)
    check_refused("values of the data of term 'residual'", lambda _: {"problem": Problem(UNIT, of)})


@several
def test_point_arrays_that_differ_are_refused() -> None:
    """As when each rank draws its own, or gives its share alone."""
    mine = np.random.default_rng(sp.rank()).uniform(-1, 1, (12, 1))
    message = check_refused("points", lambda r: {"points_per_rank": None, "points": mine})
    assert r"array of shape [12, 1], digest" in message
    assert "give all points to each" in message
    share = np.linspace(-1, 1, 12)[sp.rank() :: sp.size(), None]
    check_refused("points", lambda r: {"points_per_rank": None, "points": share})


class Law:
    nu = 1.0


def reads_an_attribute(r: int) -> Problem:
    Law.nu = 1.0 + r
    return Problem(UNIT, lambda u, x: Law.nu * u(x))


def reads_a_dict(r: int) -> Problem:
    table = {"k": 1.0 + r}
    return Problem(UNIT, lambda u, x: table["k"] * u(x))


def reads_an_integer(r: int) -> Problem:
    return Problem(UNIT, lambda u, x: (1 + r) * u(x))


@several
@pytest.mark.parametrize(
    "make",
    [lambda r: with_factor(1.0 + r), reads_an_attribute, reads_a_dict, reads_an_integer],
    ids=["closure", "class attribute", "dict", "integer"],
)
def test_numbers_that_a_residual_reads_are_compared(make: Callable[[int], Problem]) -> None:
    name = "the computation of term 'residual'"
    message = check_refused(name, lambda r: {"problem": make(r)})
    assert message.count("a graph with the digest") > 1


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_in_an_ensemble_problem_points_network_and_optimizer_may_differ() -> None:
    r = sp.rank()
    result = small(
        poisson(k=r + 1),
        mode="ensemble",
        points_per_rank=9 + r,
        network=partial(tiny, width=4 + r),
        optimizer=Adam(learning_rate=1e-3 * (1 + r)),
    )
    assert [member.contributions[0].points for member in result.members] == [
        9 + rank for rank in range(sp.size())
    ]


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_what_may_differ_in_data_mode_is_let_through() -> None:
    """The rank itself, data of its own, who shows progress, and how Keras numbers models."""
    rank = sp.rank()
    for _ in range(rank):
        MLP(1, 1)  # so that Keras gives the next another name
    own = np.linspace(0, 1, 5 + rank)

    def residual(u: Any, x: Any, f: Any) -> Any:
        assert rank >= 0
        return u(x) - f

    problem = Problem(UNIT, Residual(residual, data=lambda x: np.interp(x, own, own)))
    result = small(problem, progress=rank == sp.size() - 1)
    assert np.isfinite(result.members[0].loss)


@pytest.mark.ranks(most=2, reason="two ranks show what more would")
def test_unlike_rounding_of_points_is_no_difference() -> None:
    points = np.linspace(0.1, 0.9, 16)[:, None] * (1 + 1e-15 * sp.rank())
    value = 0.1 + 0.2 if sp.rank() else 0.3
    problem = with_conditions(Dirichlet(lambda x: tf.cast(value, x.dtype) * x))
    assert np.isfinite(small(problem, points=points, points_per_rank=None).members[0].loss)
