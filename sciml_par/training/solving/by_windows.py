"""The stages of `solve` by random features in more and more windows."""

from __future__ import annotations

import math
import time
import timeit
from functools import partial
from typing import Any

import numpy as np

from sciml_par._tensorflow import import_module
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.points.points import Points
from sciml_par.training.solving.ladder import USEFUL, Ladder, loss_of, useless_text, with_error

_COUNTS = {1: (54, 162), 2: (25, 64, 144, 256), 3: (27, 64)}
_FEATURES = {1: 25, 2: 150, 3: 200}
_SCALE = 8.0
"""Numbers of windows, their features and the scale of these."""
_POINTS_PER_WEIGHT = 3.0
_GROWTH = 1.25
"""The time of a stage grows with this power of the number of windows."""
_WITH_ERROR = 3.0
"""The time of a stage with the estimate of its error, relative to one without."""
_SHARE = 0.8
"""Of the time that is left, which one stage with its error may take."""
_TIMED = 512
"""Rows of the matrices whose product is timed."""
_FALL = 3.0
"""A stage after which the residual at unseen points has not fallen by this factor is the last."""


def climb_by_windows(ladder: Ladder) -> str | None:
    """Solve with random features in more and more windows (collective); never ends all.

    The error is estimated once, when it is foreseen to meet the tolerance or nothing falls further.
    """
    problem, d = ladder.problem, ladder.problem.domain.dimension
    assert ladder.best is not None
    nothing_left = ladder.decided(not loss_of(ladder.best) > 0.0)
    if nothing_left or not ladder.takes_windows:
        return None
    x, inside = ladder.at
    loss, u = loss_of(ladder.best), ladder.best.predict(x[inside]).mean
    smaller = _COUNTS[d][0]
    # That a linear equation is solved for shows in the second step and the third.
    each = max(ladder.most_steps - 2, 1) * _least_seconds(
        parts_of(problem, smaller), problem.outputs
    )
    concluded: tuple[tuple[int, ...], Any, float] | None = None
    for count in _COUNTS[d]:
        each *= (count / smaller) ** _GROWTH
        if ladder.decided(_WITH_ERROR * each > _SHARE * ladder.left()):
            break
        began, parts = time.perf_counter(), parts_of(problem, count)
        features = _FEATURES[d]
        windows = windows_of_features(parts, features, _SCALE)
        number = int(_POINTS_PER_WEIGHT * math.prod(parts) * (features + 1))
        solved = ladder.solved_in_windows(windows, Points(number, method="sobol"))
        if solved is None:
            break
        ladder.say("windows", _text(parts), solved.loss, "")
        each, smaller = ladder.longest(time.perf_counter() - began), count
        fall = math.sqrt(loss / max(solved.loss, np.finfo(float).tiny))
        if ladder.decided(not fall > _FALL):
            break
        concluded = parts, solved, _WITH_ERROR * each
        before, u, loss = u, solved(x[inside]), solved.loss
        change = float(np.linalg.norm(u - before) / np.linalg.norm(u))
        if ladder.decided(change <= fall * ladder.tolerance):
            break
    if concluded is not None:
        _conclude(ladder, *concluded)
    return None


def _conclude(ladder: Ladder, parts: tuple[int, ...], solved: Any, seconds: float) -> None:
    """Keep a solution, with its error if the time is left that this takes (collective)."""
    share = ladder.share_of(solved.loss, ladder.zero_loss)
    useless = ladder.decided(share > USEFUL)
    estimate = not useless and ladder.decided(seconds <= ladder.left())
    result = ladder.result_of(solved, estimate=estimate)
    if result is None:
        return
    if estimate:
        ladder.keep("windows, and error", _text(parts), result)
        return
    error = ErrorEstimate.not_known(ladder.problem.outputs, useless_text(share))
    error = error if useless else ladder.no_time()
    ladder.keep("windows", _text(parts), with_error(result, error))


def _least_seconds(parts: tuple[int, ...], outputs: int) -> float:
    """Return the time of one factorization for the first stage, of which no other one tells.

    P columns in a band of width b take P b² operations, at the speed of a product of matrices here.
    """
    shorter = sorted(parts)[:-1]
    q = outputs * (_FEATURES[len(parts)] + 1)
    width = q * (1 + sum(math.prod(shorter[:k]) for k in range(len(parts))))
    a = np.ones((_TIMED, _TIMED))
    speed = 2 * _TIMED**3 / min(timeit.repeat(lambda: a @ a, number=1, repeat=3))
    return math.prod(parts) * q * width**2 / speed


def _text(parts: tuple[int, ...]) -> str:
    return f"{'×'.join(map(str, parts))} of {_FEATURES[len(parts)]} features"


def parts_of(problem: Problem, count: int) -> tuple[int, ...]:
    """Return the numbers of parts along the axes, `count` in all, about as long as wide."""
    extent = np.asarray(problem.domain.extent, np.float64)
    side = (np.prod(extent) / count) ** (1 / len(extent))
    parts = np.maximum(np.round(extent / side), 1).astype(int)
    # Where some axes have one part, the others have as many as are wanted.
    free = parts > 1
    if free.any() and not free.all():
        factor = (count / np.prod(parts)) ** (1 / free.sum())
        parts = np.where(free, np.maximum(np.round(parts * factor), 1), 1).astype(int)
    return tuple(int(each) for each in parts)


def windows_of_features(parts: tuple[int, ...], features: int, scale: float) -> Any:
    """Return windows of random features, for the function `network` of a training."""
    networks: Any = import_module("sciml_par.networks")
    inner = partial(networks.RandomFeatures, features=features, scale=scale)
    return networks.Windows(inner, parts=parts)
