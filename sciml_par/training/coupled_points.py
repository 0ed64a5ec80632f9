"""What to say of residuals that depend on more than their point, where ranks share a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sciml_par.training.least_squares.jacobian import JacobianOfTerm


def remarks_on_coupled_points(
    jacobians: Sequence[JacobianOfTerm], dtype: str, *, ranks: int
) -> list[str]:
    """A sentence for each term whose residual depends on other points or on chance (local).

    Parameters
    ----------
    jacobians : of the terms of a problem.
    ranks : how many share a model; for one there is nothing to say.
    """
    if ranks == 1:
        return []
    return [_remark(each, dtype, ranks) for each in jacobians if _holds(each.couples_points, dtype)]


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
        f"{residual} at a point depends on other points, as by a mean over all of them, but each "
        f"of the {ranks} ranks that share the model sees its own points only: the result is not "
        f"that of one rank. Write what is over all points as an IntegralCondition, train on one "
        f"rank, or train an ensemble with ranks_per_member=1."
    )


def _holds(asked: Callable[[str], bool], dtype: str) -> bool:
    try:
        return asked(dtype)
    except Exception:  # TensorFlow and the user's own function raise all kinds
        return False  # it can be computed on the training points alone, if at all
