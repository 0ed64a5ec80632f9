"""The stages of `solve` by networks and Levenberg–Marquardt."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module
from sciml_par._text import one_line
from sciml_par.errors import InputError, TrainingError
from sciml_par.problems.conditions.periodic import Periodic
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.result import Result
from sciml_par.training.checkpoints.checkpoint import AUTO
from sciml_par.training.estimate.by_correction import MOST_DIMENSIONS
from sciml_par.training.estimate.two_solutions import Difference, OfResult
from sciml_par.training.loop.stops import NoProgress, TargetLoss, WallTime
from sciml_par.training.optimizers.least_squares.levenberg_marquardt import LevenbergMarquardt
from sciml_par.training.points.adapting import RAD
from sciml_par.training.points.points import Points
from sciml_par.training.solving.ladder import Ladder, with_error
from sciml_par.training.train import train

Array = npt.NDArray[Any]

_SHAPES = {1: (32, 2, 400, None), 2: (20, 3, 2_500, None), 3: (20, 3, 4_000, None)}
"""Width, depth, interior points and points of the boundary by dimension."""
_SHAPE_OTHERWISE = (64, 1, 3_000, 1_000)
_FOLLOW = 50
"""After so many steps, points are drawn anew by the residual."""
_SHARE = 0.55
"""Of the time that is left, which the training of a network takes at most."""
_OF_SECOND = 0.45
"""The time of the second network, relative to that of the first."""
_LEAST_SHARE = 0.15
"""Of all the time, which must be left for a further round."""
_TARGET = 0.3
"""The residual, relative to that at the start and to the tolerance, at which a first round ends."""
_STEPS = 10_000
_NO_PROGRESS = 50
"""After so many steps without a fall of the loss, one that fits noise begins to over-fit."""
_LEAST_FALL = 100.0
"""Of the residual since the start, from which a difference of two networks says something. Where
the equation amplifies, both end at the same wrong u with a small residual, as of an epidemic from
one case of which nobody falls ill: 19 times less than at the start."""
_LEAST_WITH_NOISE = 10.0
"""The same where the noise of data, which is not small, remains in the loss."""
_CAUTION = 3.0
"""Of the difference of two networks, whose errors may be alike in part."""


def climb_by_networks(ladder: Ladder) -> str | None:
    """Train a network by Levenberg–Marquardt (collective); why all ends, if it does.

    A second one, which is trained beside it, tells its error.
    """
    first: Result | None = None
    second: Result | None = None
    least = _LEAST_SHARE * ladder.seconds
    while ladder.best is None or ladder.left() > (least if first is not None else 0.0):
        last, seconds = first is not None, _SHARE * ladder.left()
        first = _trained(ladder, first, 0, seconds, last=last)
        if first is None:
            return None
        if ladder.left() > 0:
            second = _trained(ladder, second, 1, _OF_SECOND * seconds, last=last)
            first = first if second is None else _with_error(ladder, first, second)
        else:
            first = with_error(first, ladder.no_time())
        width, depth, interior, _ = _shape(ladder)
        ladder.keep("network", f"{width} × {depth}, {interior:,} points", first)
        if ladder.met:
            return None
    return "time is up"


def _trained(
    ladder: Ladder, before: Result | None, number: int, seconds: float, *, last: bool
) -> Result | None:
    """Train a network, from the beginning or further (collective); None if that fails."""
    width, depth, interior, boundary = _shape(ladder)
    stops: list[Any] = [WallTime(seconds=max(seconds, 1.0))]
    if ladder.fits_noise:
        stops.append(NoProgress(_NO_PROGRESS))
    begin = ladder.at_start(ladder.zero_loss)
    if not last and begin > 0:
        stops.append(TargetLoss((_TARGET * ladder.tolerance) ** 2 * begin))
    seed = ladder.drawn + number
    ladder.doing("training a network" if number == 0 else "training a second network")
    name = "first" if number == 0 else "second"
    # With noise the loss has a floor, which is seen at points that stay.
    fixed = ladder.fits_noise or ladder.problem.domain.dimension > MOST_DIMENSIONS
    follow = None if fixed else RAD(_FOLLOW)
    networks: Any = import_module("sciml_par.networks")
    axes = [each.axis for each in ladder.problem.conditions if isinstance(each, Periodic)]
    embedding = networks.PeriodicEmbedding(axes, domain=ladder.problem.domain) if axes else None

    def copied(*_: Any, **__: Any) -> Any:
        """Copy the network of the result before, which training shall not change."""
        assert before is not None
        model = before.networks[0]
        copy = type(model).from_config(model.get_config())
        copy.set_weights(model.get_weights())
        return copy

    fresh = partial(networks.MLP, width=width, depth=depth, embedding=embedding)
    return _run(
        ladder,
        f"{name}-network{'-further' if last else ''}",
        network=fresh if before is None else copied,
        points=Points(interior, boundary, method="sobol", seed=seed, adapt=follow),
        optimizer=LevenbergMarquardt(),
        seed=seed,
        steps=_STEPS,
        stop=stops,
        estimate=False,
    )


def _run(ladder: Ladder, part: str, **arguments: Any) -> Result | None:
    """Train, and return the result (collective); None, with a line, if that fails.

    part : names the folder of its checkpoints.
    """
    if ladder.checkpoint is not None:
        folder = Path(ladder.checkpoint.folder) / part
        arguments["checkpoint"] = replace(ladder.checkpoint, folder=folder)
        arguments["resume"] = AUTO if ladder.resume else False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(ladder.problem, precision=ladder.precision, progress=False, **arguments)
    except (InputError, TrainingError) as failure:
        wrong = isinstance(failure, InputError) and not ladder.useful
        if wrong or ladder.best is None or "checkpoint" in arguments:
            raise
        ladder.say("", one_line(failure), math.nan, "")
        return None


def _with_error(ladder: Ladder, first: Result, second: Result) -> Result:
    """Return a result with the error that its difference from another one tells."""
    (one,), (other,) = first.members, second.members
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [ladder.share_of(m.validation_loss, m.zero_loss) for m in (one, other)]
        falls = [float(1 / np.float64(share)) for share in shares]
    least = _LEAST_WITH_NOISE if ladder.fits_noise else _LEAST_FALL
    if one.found_little or one.missed or not min(falls) > least:
        why = (
            f"a second network does not tell it: the residuals at unseen points "
            f"of two networks are {falls[0]:.0f} and {falls[1]:.0f} times smaller than that of the "
            f"start, and {least:.0f} times are asked for."
        )
        return with_error(first, ErrorEstimate.not_known(len(one.prediction.fields), why))
    losses = one.validation_loss, other.validation_loss
    x, inside = one.on_own_domain.x, one.on_own_domain.inside
    both = OfResult(first), OfResult(second)
    u, v = (each.unknowns for each in both)
    e = Difference.of(*both, losses, _CAUTION)
    error = e.estimate(
        (x, np.ones(len(x), np.bool_) if inside is None else inside),
        fall=falls[0],
        seconds=other.seconds_train,
        precision=ladder.precision,
        free=ladder.free,
        unknowns={name: (u[name], v[name]) for name in u},
    )
    return with_error(first, error)


def _shape(ladder: Ladder) -> tuple[int, int, int, int | None]:
    return _SHAPES.get(ladder.problem.domain.dimension, _SHAPE_OTHERWISE)
