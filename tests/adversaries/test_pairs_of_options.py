"""Every pair of options of `train`: as on one rank, uninterrupted and saved, or a sentence.

A few short trainings show each pair of values of two options, and of an option and a relation.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from selection import covering

import sciml_par as sp
from sciml_par.errors import InputError
from sciml_par.networks import MLP
from sciml_par.problems import (
    Dirichlet,
    Initial,
    Interval,
    Observations,
    Problem,
    Time,
    Unknown,
    UnknownFunction,
    derivative,
)
from sciml_par.results import Result
from sciml_par.training import (
    LBFGS,
    RAD,
    RAR,
    SPRING,
    Adam,
    Causal,
    Checkpoint,
    Ensemble,
    GradientAnnealing,
    LevenbergMarquardt,
    NoProgress,
    Points,
    SelfAdaptive,
    SSBroyden,
    TargetLoss,
)

pytestmark = pytest.mark.long

STEPS = 8
ROD = Interval(0, 1) * Time(0, 1)
AT = np.random.default_rng(0).uniform(size=(9, 2))
tiny = functools.partial(MLP, width=4, depth=1)
Options = dict[str, Any]


def cooling(u: Any, x: Any) -> Any:
    return derivative(u, x, "t") - 0.1 * derivative(u, x, "x", "x")


def cooling_by(u: Any, x: Any, *, D: Any) -> Any:
    return derivative(u, x, "t") - D * derivative(u, x, "x", "x")


def cooling_where(u: Any, x: Any, *, D: Any) -> Any:
    return derivative(u, x, "t") - D(x) * derivative(u, x, "x", "x")


def start(x: Any) -> Any:
    return np.sin(np.pi * x[:, :1])


def bump(N: Any, x: Any) -> Any:
    return tf.sin(np.pi * x[:, :1]) + x[:, 1:] * x[:, :1] * (1 - x[:, :1]) * N(x)


SIDES = [Dirichlet(0.0, on=["left", "right"]), Initial(start)]
SEEN = Observations(AT, start(AT))
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "conditions": lambda: Problem(ROD, cooling, conditions=SIDES),
    "ansatz": lambda: Problem(ROD, cooling, ansatz=bump),
    "unknown": lambda: Problem(
        ROD, cooling_by, conditions=[*SIDES, SEEN], unknowns={"D": Unknown(0.3, lower=0)}
    ),
    "unknown function": lambda: Problem(
        ROD,
        cooling_where,
        conditions=[*SIDES, SEEN],
        unknowns={"D": UnknownFunction(0.3, of="x", network=tiny)},
    ),
}
OPTIMIZERS: dict[str, Callable[[], Options]] = {
    "Adam": lambda: {"optimizer": Adam(1e-2), "steps": STEPS},
    "Keras": lambda: {"optimizer": keras.optimizers.Adam(1e-2, clipnorm=1.0), "steps": STEPS},
    "phases": lambda: {"phases": [(Adam(1e-2), STEPS // 2 - 1), (LBFGS(), STEPS // 2 + 1)]},
    "SSBroyden": lambda: {"optimizer": SSBroyden(), "steps": STEPS},
    "LevenbergMarquardt": lambda: {"optimizer": LevenbergMarquardt(), "steps": STEPS},
    # With less damping a step amplifies the rounding errors of single precision.
    "SPRING": lambda: {"optimizer": SPRING(damping=1e-2), "steps": STEPS},
}
POINTS: dict[str, Callable[[], Any]] = {
    # Left open, the method would be that of the phases at the start, where "phases" has one less.
    "number": lambda: Points(30, method="sobol"),
    "array": lambda: AT,
    "drawn anew": lambda: Points(20, method="uniform", resample_every=3),
    "batches": lambda: Points(24, method="sobol", batch_size=8),
    "RAD": lambda: Points(20, method="sobol", adapt=RAD(3)),
    "RAR": lambda: Points(20, method="sobol", adapt=RAR(3, add=2)),
}
WEIGHTS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "numbers": lambda: {"residual": 2.0},
    "GradientAnnealing": lambda: GradientAnnealing(every=2),
    "SelfAdaptive": lambda: SelfAdaptive(),
    "Causal": lambda: Causal(slices=4),
}
RUNS: dict[str, Callable[[], Options]] = {
    "plain": lambda: {},
    "last": lambda: {"keep": "last", "log_every": 3},
    "stops": lambda: {"stop": [NoProgress(100), TargetLoss(1e-30)], "callbacks": [lambda p: None]},
    "evaluated": lambda: {"evaluation_points": 7, "evaluation_domain": ROD, "log_every": 1},
}
PRECISIONS = ("float32", "float64")

REFUSED = {
    frozenset(("ansatz", "GradientAnnealing")): "the problem has no conditions",
    **{
        frozenset((points, "SelfAdaptive")): "Use the same points at all steps"
        for points in ("drawn anew", "batches", "RAD", "RAR")
    },
}
"""Pairs that do not go together, and the words that say so."""


def call(case: tuple[str, ...], mode: Ensemble, **others: Any) -> Result:
    """Train a case; `first` is the number of steps of a first, interrupted part."""
    kind, optimizer, points, weights, run, precision = case
    options = OPTIMIZERS[optimizer]() | RUNS[run]()
    done = others.pop("first", None)
    if done is not None and "steps" in options:
        options["steps"] = done
    elif done is not None:
        options["phases"] = [(options["phases"][0][0], done)]
    return sp.train(
        PROBLEMS[kind](),
        network=tiny,
        points=POINTS[points](),
        weights=WEIGHTS[weights](),
        precision=precision,
        progress=False,
        mode=mode,
        **({"evaluation_points": 9} | options | others),
    )


def values(result: Result, member: int = 0) -> list[np.ndarray]:
    """Return the compared values on the first rank: the field, the losses and the unknown."""
    if sp.rank() > 0:
        return []
    found = [result.predict(AT).members[member], result.history[member].losses]
    return [*found, *(np.ravel(u.members[member]) for u in _numbers(result))]


def _numbers(result: Result) -> list[Any]:
    return [u for u in result.unknowns.values() if not callable(u)]


SHARED = Ensemble(members=1, seeds=[5])


def as_on_one_rank(case: tuple[str, ...], folder: Path) -> tuple[Any, Any, float]:
    """Compare all ranks together with the first one alone."""
    alone = Ensemble(members=sp.size(), seeds=range(5, 5 + sp.size()), ranks_per_member=1)
    rounding = 1e-2 if case[-1] == "float32" else 1e-6
    return values(call(case, SHARED)), values(call(case, alone)), rounding


def as_if_uninterrupted(case: tuple[str, ...], folder: Path) -> tuple[Any, Any, float]:
    files = Checkpoint(folder / "run")
    call(case, SHARED, checkpoint=files, first=3)
    return (
        values(call(case, SHARED, checkpoint=files, resume=True)),
        values(call(case, SHARED)),
        0.0,
    )


def as_it_was_saved(case: tuple[str, ...], folder: Path) -> tuple[Any, Any, float]:
    result = call(case, SHARED)
    where = result.save(folder / "results")
    if sp.rank() > 0:
        return [], [], 0.0
    return values(Result.load(where, problem=PROBLEMS[case[0]]())), values(result), 0.0


def as_a_member_alone(case: tuple[str, ...], folder: Path) -> tuple[Any, Any, float]:
    """Compare a member among others, stacked on one rank, with one trained alone."""
    together = Ensemble(members=2 * sp.size(), seeds=range(4, 4 + 2 * sp.size()))
    rounding = 1e-2 if case[-1] == "float32" else 1e-6
    return values(call(case, SHARED)), values(call(case, together), 1), rounding


RELATIONS = [as_it_was_saved, as_a_member_alone, as_if_uninterrupted, as_on_one_rank]
COLUMNS: list[list[Any]] = [
    list(PROBLEMS),
    list(OPTIMIZERS),
    list(POINTS),
    list(WEIGHTS),
    list(RUNS),
    list(PRECISIONS),
    RELATIONS,
]


def cases() -> list[Any]:
    """Return a few cases with every pair of values that can be combined."""
    product = itertools.product(*COLUMNS)
    valid = [case for case in product if not any(pair <= set(case) for pair in REFUSED)]
    return [_case(valid[i]) for i in sorted(covering(valid))]


def _case(case: tuple[Any, ...]) -> Any:
    """Return the case with the number of ranks that shows its relation."""
    ranks = 2 if case[-1] in (as_on_one_rank, as_if_uninterrupted) else 1
    marks = pytest.mark.ranks(least=ranks, most=ranks, reason="another number shows the same")
    return pytest.param(case, id=", ".join([*case[:-1], case[-1].__name__]), marks=marks)


@pytest.mark.parametrize("case", cases())
def test_pairs(case: tuple[Any, ...], folder: Path) -> None:
    found, wanted, rounding = case[-1](case[:-1], folder)
    for value, other in zip(found, wanted, strict=True):
        scale = np.max(np.abs(other), initial=1e-30)
        np.testing.assert_allclose(value, other, rtol=0, atol=rounding * scale)


@pytest.mark.ranks(most=1, reason="one rank says what several would")
@pytest.mark.parametrize("pair", list(REFUSED), ids=sorted)
def test_pairs_that_do_not_go_together(pair: frozenset[str]) -> None:
    usual = ("conditions", "Adam", "number", "none", "plain", "float64")
    case = tuple(
        next((value for value in pair if value in column), value)
        for column, value in zip(COLUMNS, usual, strict=False)
    )
    with pytest.raises(InputError, match=REFUSED[pair]):
        call(case, SHARED)
