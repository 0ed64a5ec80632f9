"""The trainings of `coverage.py`: one on data without errors, and stacked members from there."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from _coverage_problems import Case

import sciml_par as sp
from sciml_par.problems import Problem
from sciml_par.training import Ensemble, LevenbergMarquardt
from sciml_par.training.weights.of_noise import DataFirst, weights_of_noise

FloatArray = npt.NDArray[np.float64]

OBSERVATIONS = "observations"
DAMPING = 1e-8
"""Of Levenberg–Marquardt from a trained network, near to Gauss–Newton."""
_STAGES = 10
"""Steps until the observations weigh as little as at the end."""


@dataclass(frozen=True)
class Start:
    """A training on data without errors: weights, unknowns, and the weight of observations."""

    weights: list[FloatArray]
    unknowns: dict[str, float]
    weights_of_data: dict[str, float]
    seconds: float


def train_start(case: Case, sigma: float, seed: int) -> Start:
    """Train on data without errors from the start values of the unknowns, 1.5 times too large."""
    problem = case.problem(case.observed, sigma, {n: 1.5 * v for n, v in case.unknowns.items()})
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*where 1 is likely")  # of data without errors
        result = sp.train(
            problem,
            network=case.network,
            optimizer=LevenbergMarquardt(),
            steps=case.steps,
            points=case.points,
            precision="float64",
            seed=seed,
            grow=False,
            progress=False,
        )
    weighed = problem.with_condition_weight(LevenbergMarquardt.condition_weight)
    return Start(
        [np.asarray(v.numpy()) for v in result.networks[0].trainable_variables],
        {name: float(result.unknowns[name].mean) for name in case.unknowns},
        weights_of_noise(weighed, {}),
        time.perf_counter() - began,
    )


def train_members(case: Case, start: Start, data: FloatArray, sigma: float, seed: int) -> Any:
    """Train a member on each data set [B, n, m] from the start, all as one computation."""
    problem = case.problem(case.observed, sigma, start.unknowns)
    problem = problem.with_term_weights(start.weights_of_data)

    def network(d: int, m: int, **options: Any) -> Any:
        model = case.network(d, m, **options)
        for variable, value in zip(model.trainable_variables, start.weights, strict=True):
            variable.assign(value)
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loss that hardly falls is what is expected here
        result = sp.train(
            problem,
            mode=Ensemble(members=len(data), problems=lambda i: with_data(problem, data[i])),
            network=network,
            optimizer=LevenbergMarquardt(damping=DAMPING),
            steps=case.more_steps,
            points=case.points,
            precision="float64",
            seed=seed,
            grow=False,
            progress=False,
            evaluation_points=4,
            weights=DataFirst(tuple(start.weights_of_data), stages=_STAGES, every=1),
            uncertainty=True,
        )
    stacked = {len(member.stacked_with) for member in result.members}
    if stacked != {len(data)}:
        raise RuntimeError(f"expected one stack of {len(data)} members; got stacks of {stacked}")
    return result


def with_data(problem: Problem, u: FloatArray) -> Problem:
    """Return the problem with other observed values, traced once for all data sets."""
    (term,) = (each for each in problem.terms if each.name == OBSERVATIONS)
    x, _, *errors = term.points(1)
    return problem.with_arrays(OBSERVATIONS, (x, u, *errors))
