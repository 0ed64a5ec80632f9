"""Solve a problem to a tolerance, by a ladder of methods that the estimated error climbs."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciml_par._checks import is_positive
from sciml_par._other_names import by_name
from sciml_par._tensorflow import import_module
from sciml_par.errors import InputError, ResultWarning
from sciml_par.parallel.groups.world import current_world
from sciml_par.problems.checks.functions import values_at
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Arrays
from sciml_par.results.result import Result
from sciml_par.training.checkpoints.checkpoint import Checkpoint, compare_checkpoints
from sciml_par.training.preparation.contradictions import contradictions
from sciml_par.training.preparation.jumps import jumps
from sciml_par.training.run.signals import signals_caught
from sciml_par.training.solving.ladder import Ladder

_LEAST = {"float32": 1e-5, "float64": 1e-13}
"""Tolerances that each precision can hold."""
_POINTS = 100
"""About at how many points of each condition values are compared."""


@by_name
def solve(
    problem: Problem,
    *,
    tolerance: float = 1e-6,
    seconds: float = 120.0,
    precision: str = "float64",
    seed: int = 0,
    progress: bool = True,
    checkpoint: Checkpoint | None = None,
    resume: bool | str = False,
    start: Any = None,
) -> Result:
    """Solve a problem until its estimated relative error is below a tolerance (collective).

    The methods are tried in this order, each while the residual at unseen points falls:
    polynomials of growing degree on the box, then slab by slab of time, whose lengths the estimated
    error chooses, or in windows that are divided where the residual is largest, where residuals are
    functions of u, its derivatives and unknown coefficients (`sciml_par.networks.Polynomials`);
    random features of growing number, whose output layer is solved for (`LeastSquares`), each
    beginning with the solution before; a network by `LevenbergMarquardt` whose points follow the
    residual, and a second one for its error where features cannot tell it. Data with noise are
    fitted by polynomials, or else a network alone, until numerical errors are a tenth of what the
    noise leaves open.

    Slabs of time that a domain has, such as `Time(0, 100, slabs=50)`, are those of `train`; here
    the estimated error chooses others.

    Parameters
    ----------
    problem : what to solve; the same on all ranks.
    tolerance : of the relative L2 error of u over the domain, dimensionless and positive.
    seconds : of wall time, at which a method that has begun is cut and the best solution so far is
        returned; it can take some seconds more, as a compilation does. A signal, such as Ctrl-C,
        ends it in the same way. The first method is not cut: without it there is no solution.
    precision : "float64" or "float32".
    seed : of points and networks.
    progress : show a line for each stage on rank 0.
    checkpoint : the folder for checkpoints of the networks that are trained, as for `train`.
    resume : continue these trainings from their checkpoints; the stages by random features take
        seconds, and are made again. `seconds` are those of this call. "auto" starts from the
        beginning where there is no checkpoint.
    start : u with which nonlinear steps begin: a number, one for each component, a function
        x: [n, d] -> [n, m], or a `Result` of a similar problem. By default a constant that suits
        the conditions. Unknowns stay at their own start until u suits them. Networks begin with
        their random weights.

    Returns
    -------
    An ordinary `Result`, whose `error` says how wrong the solution is, as far as that is known.

    Raises
    ------
    InputError
        A tolerance that is not positive or below what the precision can hold, a problem that cannot
        be solved as it is given, or a folder whose checkpoints cannot be used; on all ranks.

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
    given = f"tolerance={tolerance!r}, {seconds=}, {precision=}, {seed=}"
    everyone = world.communicator.allgather_object(given)
    if len(set(everyone)) > 1:
        raise InputError(f"solve: expected the same arguments on every rank; got {everyone}.")
    begin = world.communicator.attempt(lambda: _begin(problem, start))
    with signals_caught(world, until=time.monotonic() + seconds) as signals:
        world.communicator.on_root(lambda: _refuse_jumps(problem))
        world.communicator.on_root(lambda: _warn_of_contradictions(problem))
        compare_checkpoints(checkpoint, resume, world.communicator)
        world.communicator.on_root(lambda: _check_folder(checkpoint, resume))
        ladder = Ladder(
            problem.without_slabs().with_finer_integrals(),
            tolerance,
            seconds,
            precision,
            seed,
            world,
            shown=progress,
            checkpoint=checkpoint,
            resume=bool(resume),
            start=begin,
            signals=signals,
        )
        with ladder.live():
            why = _climbed(ladder)
    return ladder.end(why)


@np.errstate(all="ignore")  # what is not finite is judged where it matters
def _climbed(ladder: Ladder) -> str | None:
    """Solve by one method after another (collective); why that ended, if there was a reason."""
    # Their imports take time, and a TensorFlow after `init`.
    polynomials: Any = import_module("sciml_par.training.solving.by_polynomials")
    why: str | None = polynomials.climb_by_polynomials(ladder)
    if why is not None or ladder.met:
        return why
    if ladder.best is not None and ladder.left() <= 0:
        return "time is up"
    networks: Any = import_module("sciml_par.training.solve_by_networks")
    why = networks.climb_by_networks(ladder)
    return why


def _begin(problem: Problem, start: Any) -> Callable[[Any], Any] | None:
    """Return the function of x: [n, d] -> [n, m] with which steps begin, if any."""
    if start is None:
        return None
    if problem.ansatz is not None:
        raise InputError("solve: start= is u itself, and an ansatz makes u of the network.")
    m = problem.outputs
    if isinstance(start, Result):
        return lambda x: np.asarray(start.predict(x).mean, np.float64)
    begin: Callable[[Any], Any]
    if callable(start):
        begin = partial(values_at, start, what="solve: start", columns=m)
    else:
        try:
            constant = np.broadcast_to(np.asarray(start, np.float64), (m,))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"solve: expected start to be a number, {m} numbers (one for each component), a "
                f"function of x or a Result; got {start!r}."
            ) from error
        begin = lambda x: np.tile(constant, (len(x), 1))  # noqa: E731
    if not np.isfinite(begin(problem.domain.sample(5, seed=0))).all():
        raise InputError("solve: start is not finite everywhere in the domain.")
    return begin


def _refuse_jumps(problem: Problem) -> None:
    for text in jumps(problem):
        raise InputError(f"solve: {text}")


def _warn_of_contradictions(problem: Problem) -> None:
    def points(condition: Any) -> Arrays:
        with contextlib.suppress(InputError):  # training raises it, if it needs points there
            return condition.points(problem.domain, _POINTS)
        return (np.zeros((0, problem.domain.dimension)),) * 3  # on a small part of a face

    for text in contradictions(problem, list(map(points, problem.conditions))):
        warnings.warn(f"solve: {text}", ResultWarning, stacklevel=6)


def _check_folder(checkpoint: Checkpoint | None, resume: bool | str) -> None:
    """Check that the folder holds checkpoints if these are to be resumed, and none otherwise."""
    if checkpoint is None:
        return
    files = sorted(Path(checkpoint.folder).rglob("*-network*/*.npz"))
    if files and not resume and not checkpoint.overwrite:
        raise InputError(
            f"solve: {checkpoint.folder} holds checkpoints, such as {files[0].parent.name}. Write "
            f"resume=True to continue them, Checkpoint(…, overwrite=True) to start anew, or "
            f"another folder."
        )
    if resume is True and not files:
        raise InputError(
            f"solve: there is no checkpoint in {checkpoint.folder} to resume from. Its networks "
            f"may not have begun; resume='auto' starts from the beginning in that case."
        )


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
