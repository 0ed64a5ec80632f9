"""Fit a network to measured values: regression, without an equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.checks.arrays import finite_array
from sciml_par.problems.conditions.observations import Observations
from sciml_par.problems.domains.box import Box
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem
from sciml_par.results.result import Result
from sciml_par.training.optimizers.adam import Adam
from sciml_par.training.preparation.automatic import AUTO
from sciml_par.training.train import train

_FEW = 10
"""Of so few points, none is held out by default."""


def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    noise: Any = None,
    holdout: Any = None,
    domain: Domain | None = None,
    optimizer: Any = None,
    precision: str = "float64",
    **options: Any,
) -> Result:
    """Fit a network u to measured values, u(x_i) ≈ y_i, but not to their noise (collective).

        minimize (1/n) Σ_i |u(x_i; θ) − y_i|²/σ_i²  over the points that are trained on

    The result predicts with the weights that have the least error at the points that are held out,
    and the training ends when that error has not fallen for long. It is ``train`` of
    ``Problem(domain, None, conditions=[Observations(x, y, …)])``.

    Parameters
    ----------
    x : array [n, d], or [n] where d = 1; all points on every rank, which share them.
    y : array [n, m], or [n] where m = 1; in any unit.
    noise : standard deviations σ of the errors of y, as for `Observations`; by default equal ones.
    holdout : the share of the points that are held out, or booleans [n]; by default 0.2 of 10
        points or more. 0 trains on all points, to the end, as for values without noise.
    domain : where to predict; by default the smallest box around the points.
    optimizer : by default `Adam()`, whose path from the initial weights passes smooth functions
        first; without points held out "auto", which finds smaller losses.
    precision : "float64" or "float32".
    options : all else that `train` takes, as ``network``, ``seed``, ``stop``, or
        ``mode=Ensemble(members=20, bootstrap=True)`` for the spread that the noise causes.

    Returns
    -------
    The `Result`; `Member.held_out` is the root mean square of the error at the points held out.

    Raises
    ------
    InputError
        As for `Observations` and `train`; on all ranks.

    Examples
    --------
    >>> import numpy as np
    >>> import sciml_par as sp
    >>> sp.init()
    >>> x = np.linspace(0, 6, 40)
    >>> y = np.sin(x) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> result = sp.fit(x, y, progress=False)
    >>> result.predict([[1.5], [4.5]]).mean.shape
    (2, 1)
    """
    problem = current_world().communicator.attempt(lambda: _problem(x, y, noise, holdout, domain))
    if optimizer is None and "phases" not in options:
        optimizer = Adam() if problem.conditions[0].held_out is not None else AUTO
    return train(problem, optimizer=optimizer, precision=precision, **options)


def _problem(x: Any, y: Any, noise: Any, holdout: Any, domain: Domain | None) -> Problem:
    points, values = finite_array(x, "fit: x"), finite_array(y, "fit: y")
    if points.ndim not in (1, 2) or values.ndim not in (1, 2) or len(points) != len(values):
        raise InputError(
            f"fit: expected x: [n, d] and y: [n, m], with a row for each point; got "
            f"{list(points.shape)} and {list(values.shape)}."
        )
    points = points.reshape(len(points), -1)
    if holdout is None:
        holdout = 0.2 if len(points) >= _FEW else 0
    held = None if np.ndim(holdout) == 0 and not holdout else holdout
    if domain is None:
        lower, upper = points.min(axis=0), points.max(axis=0)
        if not (lower < upper).all():
            axis = int(np.argmin(lower < upper))
            raise InputError(
                f"fit: column {axis} of x has one value, {lower[axis]:g}, so that nothing can be "
                f"learned about it; leave it out, or give domain=Box([…], […])."
            )
        domain = Box(lower, upper)
    # A weight, since there is no equation that could hold in spite of the noise.
    measured = Observations(points, values, noise=noise, holdout=held, weight=1.0)
    outputs = 1 if values.ndim == 1 else values.shape[1]
    return Problem(domain, None, conditions=[measured], outputs=outputs, name="fit")
