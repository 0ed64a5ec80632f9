"""The stage of `solve` that refines windows where the residual at unseen points is largest."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._free_memory import free_memory
from sciml_par._tensorflow import import_module
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.convergence import if_converged
from sciml_par.training.estimate.two_solutions import Difference
from sciml_par.training.points.points import Points
from sciml_par.training.solving.by_windows import parts_of, windows_of_features
from sciml_par.training.solving.ladder import Ladder, text_of, with_error

Array = npt.NDArray[Any]

_COUNTS = {1: 8, 2: 16, 3: 8}
_FEATURES = {1: 20, 2: 80, 3: 150}
_SCALE = 6.0
"""Numbers of windows in the first round, their features and the scale of these."""
_POINTS_PER_WEIGHT = 4.0
_FAST = 100.0
"""A part whose last change lowers its squared residual by more is smooth, and gets features."""
_RICHEST = 4
"""Times the features of others, at most."""
_BULK, _MARKED = 0.95, 0.02
"""The share of windows that are refined in the squared residual (Dörfler 1996,
doi:10.1137/0733054), and the least residual of one of them relative to the largest."""
_SHARE = 0.4
"""Of the time that is left, which all rounds may take."""
_NEAR = 0.5
"""Of all time that is left, in which the tolerance is foreseen to be reached."""
_GROWTH = 1.3
"""Of the time of a round, to the next one, at least: it is that of the number of windows."""
_USEFUL = 0.1
"""The relative error from which a solution is kept."""
_QUICKEST, _SLOWEST = 0.6, 0.9
"""Factors by which the change of u falls from round to round, where an error is estimated: the
least that is assumed, and the largest that is accepted."""
_FASTEST = 0.1
"""The least factor from which the number of further rounds is foreseen."""
_TINY = float(np.finfo(np.float64).tiny)
"""In place of a change or a loss of zero."""
_CAUTION = 2.5
_COVERED = 6
"""Numbers of type float64 for each feature and point."""
_ALIKE = 4
"""Rounds in a row that split windows at the same place, where the solution may be singular."""


@dataclass(frozen=True)
class _Round:
    """A solution in windows, with the corners of their parts, [K, d] each.

    falls : by which factor its last change has lowered the squared residual of a part, [K].
    change : of u since the round before, relative.
    """

    windows: Any
    solved: Any
    boxes: tuple[Array, Array]
    falls: Array
    change: float = math.nan

    @property
    def worst(self) -> tuple[Array, Array]:
        """Middle and sides of the part with the largest residual, [d] each."""
        lower, upper = (each[np.argmax(self.solved.residual)] for each in self.boxes)
        return (lower + upper) / 2, upper - lower


def climb_by_splits(ladder: Ladder) -> str | None:
    """Solve in windows that are refined where the residual is largest (collective).

    Where the residual falls fast, windows get more features, and are split elsewhere. It never ends
    all.
    """
    problem, d = ladder.problem, ladder.problem.domain.dimension
    if not ladder.takes_windows or problem.unknowns:
        return None
    end, rounds = (1 - _SHARE) * ladder.left(), list[_Round]()
    error = None
    windows = windows_of_features(parts_of(problem, _COUNTS[d]), _FEATURES[d], _SCALE)
    while True:
        began = time.perf_counter()
        now = _solved(ladder, windows, rounds[-1] if rounds else None)
        if now is None:
            break
        rounds.append(now)
        error = _error(ladder, rounds)
        ladder.say("split windows", _text(now), now.solved.loss, text_of(error))
        following = _refined(now)
        growth = max(_GROWTH, _features(following, d) / _features(windows, d))
        seconds = growth * ladder.longest(time.perf_counter() - began)
        ends = error.relative <= ladder.tolerance or following == windows
        if ladder.decided(ends or not _promising(ladder, rounds, seconds, end)):
            break
        windows = following
        if ladder.decided(_too_large(windows, problem.outputs, d)):
            ladder.note("split windows end: the next ones would not fit into memory")
            break
    place = _singular(rounds)
    if place is not None:
        ladder.note(
            f"the solution may be singular near {place}: the last rounds all split windows there"
        )
    if error is not None and ladder.decided(error.known and error.relative < _USEFUL):
        result = ladder.result_of(rounds[-1].solved, estimate=False)
        if result is not None:
            error = _by_window(ladder, rounds[-1], error)
            ladder.keep("split windows", _text(rounds[-1]), with_error(result, error))
    return None


def _richness(windows: Any, d: int) -> Array:
    return np.asarray(windows.partition([0.0] * d, [1.0] * d).richness)


def _features(windows: Any, d: int) -> float:
    return float(_FEATURES[d] * _richness(windows, d).sum())


def _solved(ladder: Ladder, windows: Any, former: _Round | None) -> _Round | None:
    domain = ladder.problem.domain
    d = domain.dimension
    number = int(_POINTS_PER_WEIGHT * (_FEATURES[d] + 1) * _richness(windows, d).sum())
    solved = ladder.solved_in_windows(windows, Points(number, method="sobol"))
    if solved is None:
        return None
    change, (x, inside) = math.nan, ladder.at
    if former is not None:
        before, after = (each(x[inside]) for each in (former.solved, solved))
        moved, size = (float(np.linalg.norm(each)) for each in (after - before, after))
        change = moved / size if size > 0 else moved
    boxes = windows.boxes(domain.lower, domain.upper)
    falls = _falls(former, windows, solved, boxes)
    return _Round(windows, solved, boxes, falls, ladder.longest(change))


def _falls(former: _Round | None, windows: Any, solved: Any, boxes: tuple[Array, Array]) -> Array:
    """Return by which factor the last change of each part has lowered its residual, [K]."""
    if former is None:
        return np.ones(len(boxes[0]))
    middle = np.mean(boxes, axis=0)[:, None]
    low, high = former.boxes
    parent = np.argmax(((middle > low) & (middle < high)).all(axis=2), axis=1)
    after = np.bincount(parent, solved.loss * solved.residual, len(low))
    fall = (former.solved.loss * former.solved.residual / np.maximum(after, _TINY))[parent]
    d = middle.shape[2]
    changed = np.bincount(parent, _richness(windows, d)) != _richness(former.windows, d)
    return np.where(changed[parent], fall, former.falls[parent])


def _rate(rounds: Sequence[_Round]) -> float:
    """Return the factor by which the change of u falls from round to round."""
    changes = [each.change for each in rounds[-4:] if math.isfinite(each.change)]
    if len(changes) < 2 or not changes[0] > 0:
        return math.nan
    return max((changes[-1] / changes[0]) ** (1 / (len(changes) - 1)), _QUICKEST)


def _error(ladder: Ladder, rounds: Sequence[_Round]) -> ErrorEstimate:
    """Return the error if the change of u falls as it did: Σ_k γ^k of the last one, k ≥ 1."""
    now, rate = rounds[-1], _rate(rounds)
    if not rate <= _SLOWEST:
        why = "u does not yet change less and less from one round of split windows to the next."
        return ErrorEstimate.not_known(ladder.problem.outputs, why)
    # A change that is small by chance says little.
    smooth = max(rate * rounds[-2].change / max(now.change, _TINY), 1.0)
    e = Difference(rounds[-2].solved, now.solved, _CAUTION * smooth * rate / (1 - rate))
    error = e.estimate(
        ladder.at,
        fall=math.sqrt(rounds[0].solved.loss / max(now.solved.loss, _TINY)),
        seconds=0.0,
        precision=ladder.precision,
        free=ladder.free,
        unknowns={},
    )
    for each in rounds[-2:]:
        error = if_converged(error, each.solved, ladder.at, list(ladder.free))
    return error


def _by_window(ladder: Ladder, now: _Round, error: ErrorEstimate) -> ErrorEstimate:
    """Return an error with that of each window."""
    estimate: Any = import_module("sciml_par.training.estimate.by_window")
    found = estimate.error_by_window(
        ladder.problem.domain, now.boxes, now.solved.residual, now.solved, error.evaluate
    )
    return replace(error, by_window=found)


def _promising(ladder: Ladder, rounds: Sequence[_Round], seconds: float, end: float) -> bool:
    """Return whether the tolerance can be reached in the rounds for which time is left.

    Where this is near, they may take the time of the stages that follow.
    """
    left, rate = ladder.left() - end, _rate(rounds)
    if not math.isfinite(rate) or len(rounds) < _ALIKE:
        return seconds <= left
    before, change = (max(each.change, _TINY) for each in rounds[-2:])
    # The first rounds say little of solutions that they hardly saw.
    rate = min(rate, max(change / before, _FASTEST))
    if rate > _SLOWEST:
        return False
    wanted = math.log(ladder.tolerance * (1 - rate) / rate / change) / math.log(rate)
    if math.ceil(wanted) * seconds < _NEAR * ladder.left():
        return True
    return seconds <= left and wanted * seconds < 2 * left


def _refined(now: _Round) -> Any:
    """Return windows of which those with most of the residual are enriched or split.

    Larger neighbours of those that are split are split as well.
    """
    residual = now.solved.residual
    order = np.argsort(-residual)
    before = np.cumsum(residual[order]) - residual[order]
    found = order[(before < _BULK) & (residual[order] > _MARKED * residual.max())]
    partition = now.solved.partition
    smooth = (now.falls > _FAST) & (partition.richness < _RICHEST)
    split = partition.to_split(found[~smooth[found]])
    enriched = list(np.setdiff1d(found[smooth[found]], split))
    others = 2 ** len(partition.parts) - 1
    for number, part in enumerate(split):
        halves = [part, *(partition.count + others * number + np.arange(others))]
        enriched += halves * int(np.log2(partition.richness[part]))
    return now.windows.split(*split).enrich(*enriched)


def _too_large(windows: Any, outputs: int, d: int) -> bool:
    """Return whether the derivatives of all residuals would not fit into free memory."""
    each = _FEATURES[d] * _richness(windows, d) + 1.0
    numbers = outputs**2 * _POINTS_PER_WEIGHT * float(each @ each)
    free = free_memory()
    return free is not None and 8 * _COVERED * numbers > free


def _text(now: _Round) -> str:
    middle, sides = now.worst
    return f"{np.count_nonzero(now.solved.residual)}, worst at {_point(middle, sides)}"


def _point(middle: Array, sides: Array, less: int = 0) -> str:
    """Return a point to as many digits as the sides of its part tell, or fewer."""
    digits = [max(0, math.ceil(-math.log10(2 * each)) - less) for each in sides]
    values = [round(float(v), n) + 0.0 for v, n in zip(middle, digits, strict=True)]
    return f"({', '.join(f'{v:g}' for v in values)})"


def _singular(rounds: Sequence[_Round]) -> str | None:
    """Return where windows were split in each of the last rounds, if at one place."""
    last = [each.worst for each in rounds[-_ALIKE:]]
    if len(last) < _ALIKE:
        return None
    for (before, wide), (after, narrow) in zip(last, last[1:], strict=False):
        touches = np.all(np.abs(after - before) <= (wide + narrow) / 2 * (1 + 1e-9))
        if not touches or not np.all(narrow < wide):
            return None
    return _point(*last[-1], less=1)
