"""Solve a problem to a tolerance, by a ladder of methods that the estimated error climbs."""

from __future__ import annotations

import math
from typing import Any

from sciml_par._checks import is_positive
from sciml_par._other_names import by_name
from sciml_par.errors import InputError
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.problem import Problem
from sciml_par.results.result import Result
from sciml_par.training.solving.by_features import climb_by_features
from sciml_par.training.solving.by_networks import climb_by_corrections, climb_by_networks
from sciml_par.training.solving.ladder import Ladder

_LEAST = {"float32": 1e-5, "float64": 1e-13}
"""Tolerances that each precision can hold."""


@by_name
def solve(
    problem: Problem,
    *,
    tolerance: float = 1e-6,
    seconds: float = 120.0,
    precision: str = "float64",
    seed: int = 0,
    progress: bool = True,
) -> Result:
    """Solve a problem until its estimated relative error is below a tolerance (collective).

    The methods are tried in this order, each while the residual at unseen points falls:
    random features of growing number, whose output layer is solved for (`LeastSquares`); a
    network by `LevenbergMarquardt`, with more points where the residual at unseen points leaves
    that of the training behind; and corrections of the best solution by further features.

    Parameters
    ----------
    problem : what to solve; the same on all ranks.
    tolerance : of the relative L2 error of u over the domain, dimensionless and positive.
    seconds : of wall time, after which no further method begins.
    precision : "float64" or "float32".
    seed : of points and networks.
    progress : show a line for each stage on rank 0.

    Returns
    -------
    An ordinary `Result`, whose `error` says how wrong the solution is, as far as that is known.

    Raises
    ------
    InputError
        A tolerance that is not positive or below what the precision can hold, or a problem that
        cannot be solved as it is given; on all ranks.

    Warns
    -----
    ResultWarning
        The tolerance is not met, or it is not known whether it is.

    Examples
    --------
    >>> import sciml_par as sp
    >>> sp.init()
    >>> result = sp.solve(sp.problems.poisson(k=1), tolerance=1e-8, progress=False)
    >>> result.error.relative < 1e-8
    True
    """
    world = current_world()
    world.communicator.attempt(lambda: _check(problem, tolerance, seconds, precision))
    ladder = Ladder(problem, tolerance, seconds, precision, seed, world, shown=progress)
    why = None
    for climb in (climb_by_features, climb_by_corrections, climb_by_networks):
        if why is None and not ladder.met:
            why = climb(ladder)
    return ladder.end(why)


def _check(problem: Any, tolerance: Any, seconds: Any, precision: Any) -> None:
    if not isinstance(problem, Problem):
        raise InputError(f"solve: expected a Problem; got {problem!r}.")
    if math.isnan(problem.domain.volume):
        raise InputError(
            "solve: its methods draw points from the domain, and a point cloud has only the points "
            "that it was given; use train(problem, …)."
        )
    if not problem.residuals:
        raise InputError("solve: the problem has no equation; fit its data by train(problem, …).")
    if precision not in _LEAST:
        raise InputError(f"solve: expected precision to be float64 or float32; got {precision!r}.")
    if not is_positive(tolerance):
        raise InputError(f"solve: tolerance must be a number > 0, such as 1e-6; got {tolerance!r}.")
    if tolerance < _LEAST[precision]:
        better = "; write precision='float64'" if precision == "float32" else ""
        raise InputError(
            f"solve: {precision} holds relative errors down to about {_LEAST[precision]:g}; got "
            f"tolerance={tolerance!r}{better}."
        )
    if not is_positive(seconds):
        raise InputError(f"solve: seconds must be a number > 0, such as 120; got {seconds!r}.")
