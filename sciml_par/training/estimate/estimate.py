"""Estimate the error of a trained field by solving the linearized equation with richer features."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._text import one_line
from sciml_par.errors import SciMLParError
from sciml_par.evaluation.figures.parts.data import Prediction
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import SURE, ErrorEstimate
from sciml_par.training.estimate.by_correction import Corrected, estimate_by, reliability_of
from sciml_par.training.estimate.candidates import Candidates, Kind
from sciml_par.training.estimate.side_by_side import (
    Solved,
    columns_of,
    in_order,
    solve_side_by_side,
)
from sciml_par.training.estimate.uniqueness import Free, free_of, smooth_functions
from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.optimizers.least_squares.on_host import threads
from sciml_par.training.outcome.together import Ended, EndedError

Array = npt.NDArray[Any]

_POINTS = 300
"""At which it is asked whether functions are free."""
KINDS: tuple[Kind, ...] = (
    *(("sin", scale) for scale in (3.0, 6.0, 12.0, 24.0)),
    *(("tanh", scale) for scale in (2.0, 4.0, 8.0)),
)
"""Activations and scales of the features among which the residual at unseen points chooses."""
_FEATURES = (300, 800)
_MOST_COLUMNS = 2_400
"""Features times components of u, at most: about 0.1 GB for the derivatives of the residuals."""
_BEST_KINDS = 2
_SEED = 977
_CONVERGENCE = 1.5
"""The factor by which more features must lower the residual, where it falls by less than `SURE`."""


def estimate_error(
    problem: Problem,
    setup: MemberSetup,
    kept: Array,
    prediction: Prediction,
    *,
    seed: int,
    world: World,
    suitable: tuple[Sequence[Kind], int] | None = None,
    better: Callable[[], Corrected] | None = None,
    ended: Ended | None = None,
) -> ErrorEstimate:
    """Return the estimated error of a member with parameters `kept`, [p] (collective).

    suitable : kinds and number of features that suit the solution; by default many are tried.
    better : makes a correction that resolves more (collective). Features then tell only whether the
        solution is determined.
    """
    began, m = time.perf_counter(), problem.outputs
    why = _obstacle(problem)
    if why is not None:
        return ErrorEstimate.not_known(m, why)
    try:
        found, converges = _corrections(
            problem, setup, kept, seed=seed, world=world, suitable=suitable, ended=ended
        )
        free = free_functions(found[0], world.communicator)
        corrected: list[Corrected] = [*found] if better is None else [better()]
        of = corrected, problem, prediction, began, free
        return estimate_by(*of, converges=converges, opened=found[0])
    except EndedError as error:
        seconds = time.perf_counter() - began
        return ErrorEstimate.not_known(m, f"its estimate was cut: {error}", seconds=seconds)
    except Exception as error:  # a training of days is not to be lost for its estimate
        alike = isinstance(error, SciMLParError)  # these are raised on all ranks or on none
        if not alike and world.communicator.size > 1:
            raise
        why = f"its estimate failed: {type(error).__name__}: {one_line(error)}"
        return ErrorEstimate.not_known(m, why, seconds=time.perf_counter() - began)


def _corrections(
    problem: Problem,
    setup: MemberSetup,
    kept: Array,
    *,
    seed: int,
    world: World,
    suitable: tuple[Sequence[Kind], int] | None,
    ended: Ended | None,
) -> tuple[list[Solved], bool]:
    """Return corrections, the best one first, and whether more features lower the residual."""
    base = _in_double_precision(setup.network.model)

    def solved(kinds: Sequence[Kind], features: int) -> list[Solved]:
        number = min(features, _MOST_COLUMNS // problem.outputs)
        found = solve_side_by_side(
            problem,
            Candidates(kinds, number, _SEED + seed, base),
            steps=1,
            seed=seed,
            precision=str(base.trainable_variables[0].dtype),
            world=world,
            known=kept[setup.size_of_own :],
            ended=ended,
        )
        return in_order(found)

    if suitable is not None:
        return solved(*suitable), False
    few, many = _FEATURES
    first = solved(KINDS, few)
    best = first[0]
    if reliability_of(best) >= SURE:
        return first, True
    richer = solved([KINDS[each.number] for each in first[:_BEST_KINDS]], many)
    converges = richer[0].after * _CONVERGENCE**2 < best.after
    return max(first, richer, key=lambda found: reliability_of(found[0])), converges


def _obstacle(problem: Problem) -> str | None:
    """Return why no estimate can be made, if so."""
    if math.isnan(problem.domain.volume) or not problem.residuals:
        return "it takes points that were not trained on, and only given points are known here."
    if problem.unknown_functions:
        names = " and ".join(problem.unknown_functions)
        return (
            f"the error of the unknown function {names} is part of it, which random features for u "
            f"do not see; compare networks of several seeds, as with "
            f"mode=Ensemble(members=2)."
        )
    return None


def _in_double_precision(model: Any) -> Any:
    """Return a copy of a model in double precision; a model without a configuration as it is."""
    try:
        copy = type(model).from_config(_doubled(model.get_config()))
        copy.set_weights([np.asarray(weight, np.float64) for weight in model.get_weights()])
    except (NotImplementedError, TypeError, ValueError):  # a subclass that describes itself badly
        return model
    return copy


def _doubled(config: Any) -> Any:
    """Return a configuration of a Keras model with "float64" in place of "float32"."""
    if isinstance(config, dict):
        return {key: _doubled(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return type(config)(map(_doubled, config))
    return "float64" if config == "float32" else config


def free_functions(solved: Solved, communicator: Communicator) -> Free:
    """Return the functions that can be added to a solution without a residual (collective).

    With J the derivatives of all residuals by the c_j of u = Σ c_j φ_j, and g smooth functions,

        min |J c|² + δ² |Σ c_j φ_j − g|²        δ small

    has Σ c_j φ_j ≈ 0 if the solution is unique, and otherwise the part of g that is free. What
    counts is the change of u, which a constant in a stream function does not make.
    """
    x = solved.setup.problem.domain.sample(_POINTS, seed=0, method="sobol")
    factor = solved.method.factor(solved.end, solved.batch)[:, :-1]

    def free_on_root() -> Free:
        with threads(1):
            values = _values_by_parameters(solved, x, factor.shape[1])
            smooth = smooth_functions(solved.setup.problem, x)
            of_u = partial(_changes, solved, x=x)
            free = free_of(factor, values, smooth, _outputs(solved), of_u)
            changes, usual = map(solved.method.spread, free[1:3])
            return free._replace(changes=changes, usual=usual)

    return communicator.on_root(free_on_root)


def _changes(solved: Solved, c: Array, x: Array) -> Array:
    """Return by how much u changes in each component for changes c: [q, K] -> [K, m]."""
    u, means = solved.solution()(x), solved.setup.problem.means(x)
    changed = [solved.solution(solved.end + row)(x) for row in solved.method.spread(c.T)]
    return np.array([np.linalg.norm(means * (each - u), axis=0) for each in changed])


def _values_by_parameters(solved: Solved, x: Array, q: int) -> Array:
    """Return the derivatives of the network's outputs at x by the parameters solved for."""
    columns = columns_of(solved.setup.network.model, x)
    (n, count), m = columns.shape, _outputs(solved)
    found = np.zeros((n, m, q))
    for output in range(m):
        found[:, output, output : count * m : m] = columns
    return found.reshape(n * m, q)


def _outputs(solved: Solved) -> int:
    return int(solved.setup.network.model.output_size)
