"""What to say of residuals that depend on more than one point, where ranks share a model."""

from __future__ import annotations

from collections.abc import Sequence

from sciml_par.training.least_squares.jacobian import JacobianOfTerm


def remarks_on_coupled_points(
    jacobians: Sequence[JacobianOfTerm], dtype: str, *, ranks: int
) -> list[str]:
    """A sentence for each term whose residual at a point depends on other points (local).

    Parameters
    ----------
    jacobians : of the terms of a problem.
    ranks : how many share a model; for one there is nothing to say.
    """
    if ranks == 1:
        return []
    return [
        f"the residual {each.term.name!r} at a point depends on other points, as by a mean over "
        f"all of them, but each of the {ranks} ranks that share the model sees its own points "
        f"only: the result is not that of one rank. Write what is over all points as an "
        f"IntegralCondition, train on one rank, or train an ensemble with ranks_per_member=1."
        for each in jacobians
        if _couples_points(each, dtype)
    ]


def _couples_points(jacobian: JacobianOfTerm, dtype: str) -> bool:
    try:
        return jacobian.couples_points(dtype)
    except Exception:  # TensorFlow and the user's own function raise all kinds
        return False  # it can be computed on the training points alone, if at all
