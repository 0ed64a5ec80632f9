"""What to say of residuals that depend on more than their point, where ranks share a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sciml_par.errors import InputError
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
    if ranks == 1 and not batches:
        return []
    for each in jacobians:
        if _holds(each.mixes_points, dtype):
            raise InputError(_refusal(each, ranks))
    if ranks == 1:
        return []
    return [_remark(each, dtype, ranks) for each in jacobians if _holds(each.couples_points, dtype)]


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


def _remark(jacobian: JacobianOfTerm, dtype: str, ranks: int) -> str:
    residual = f"the residual {jacobian.term.name!r}"
    if _holds(jacobian.draws_random_numbers, dtype):
        return (
            f"{residual} draws random numbers: each of the {ranks} ranks draws its own at every "
            f"step, optimizers that compare losses, such as L-BFGS, compare different ones, and "
            f"no training is repeated exactly. Draw them once with NumPy and give them as "
            f"Residual(..., data=...), if that is not meant."
        )
    return (
        f"{residual} depends on the number or the order of the points, but each of the {ranks} "
        f"ranks that share the model has its own points only: the result is not that of one rank. "
        f"Make it a function of x alone, train on one rank, or train an ensemble with "
        f"ranks_per_member=1."
    )


def _holds(asked: Callable[[str], bool], dtype: str) -> bool:
    try:
        return asked(dtype)
    except Exception:  # TensorFlow and the user's own function raise all kinds
        return False  # it can be computed on the training points alone, if at all
