"""What to say of residuals that depend on more than their point, where ranks share a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.problem import Problem
from sciml_par.training.least_squares.jacobian import JacobianOfTerm


def remarks_on_coupled_points(
    jacobians: Sequence[JacobianOfTerm], dtype: str, *, ranks: int, batches: bool = False
) -> list[str]:
    """A sentence for each term whose residual depends on the number of points or on chance (local).

    Parameters
    ----------
    jacobians : of the terms of a problem.
    ranks : how many share a model.
    batches : whether a step uses some of the points only.

    Raises
    ------
    InputError
        A residual at one point depends on others, of which each rank or batch has a part only.
    """
    rest: list[JacobianOfTerm] = []
    remarks: list[str] = []
    for each in jacobians:
        if _holds(each.draws_random_numbers, dtype):
            remarks.append(_of_random_numbers(each))
        else:
            rest.append(each)
    if ranks == 1 and not batches:
        return remarks
    for each in rest:
        if _holds(each.mixes_points, dtype):
            raise InputError(_refusal(each, ranks))
    if ranks > 1:
        counting = [each for each in rest if _holds(each.couples_points, dtype)]
        remarks += [_of_counts(each, ranks) for each in counting]
    return remarks


def refuse_coupling_ansatz(problem: Problem, network: Any, dtype: str) -> None:
    """See that an ansatz gives the same at a point, whichever others are with it (local).

    Raises
    ------
    InputError
        It does not: predictions, conditions and ranks have other points than the equations.
    """
    if problem.ansatz is None:
        return
    domain, u = problem.domain, problem.field(network)
    few = np.random.default_rng(0).uniform(size=(4, domain.dimension))
    x = tf.constant(domain.lower + few * (np.asarray(domain.upper) - domain.lower), dtype)
    together, alone = np.asarray(u(x)), np.concatenate([u(x[i : i + 1]) for i in range(4)])
    rounding = 1e4 * np.finfo(dtype).eps * np.max(np.abs(together), initial=1e-30)
    if np.max(np.abs(together - alone)) > rounding:
        raise InputError(
            "Problem: what the ansatz gives at one point depends on the other points it is called "
            "with, as by a mean over them, and predictions and conditions have other points than "
            "the equations. Write it for each point alone; what is over all points is an "
            "IntegralCondition."
        )


def _refusal(jacobian: JacobianOfTerm, ranks: int) -> str:
    seen = f"each of the {ranks} ranks that share the model" if ranks > 1 else "each batch"
    instead = (
        "on one rank, or an ensemble with ranks_per_member=1" if ranks > 1 else "in no batches"
    )
    return (
        f"train: the residual {jacobian.term.name!r} at a point depends on other points, as by a "
        f"mean over all of them, but {seen} has some of the points only, which makes another "
        f"equation. Write what is over all points as an IntegralCondition, or train {instead}."
    )


def _of_random_numbers(jacobian: JacobianOfTerm) -> str:
    return (
        f"the residual {jacobian.term.name!r} draws random numbers, new ones at every step and on "
        f"every rank: optimizers that compare losses, such as L-BFGS and LevenbergMarquardt, "
        f"compare different ones, and no training is repeated exactly. If that is not meant, draw "
        f"them once with NumPy and pass them as Residual(..., data=...)."
    )


def _of_counts(jacobian: JacobianOfTerm, ranks: int) -> str:
    return (
        f"the residual {jacobian.term.name!r} depends on the number or the order of the points, "
        f"but each of the {ranks} ranks that share the model has its own points only: the result "
        f"is not that of one rank. Make it a function of x alone, train on one rank, or train an "
        f"ensemble with ranks_per_member=1."
    )


def _holds(asked: Callable[[str], bool], dtype: str) -> bool:
    try:
        return asked(dtype)
    except Exception:  # TensorFlow and the user's own function raise all kinds
        return False  # it can be computed on the training points alone, if at all
