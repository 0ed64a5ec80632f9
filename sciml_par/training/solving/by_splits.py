"""The stage of `solve` that splits windows where the residual at unseen points is largest."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._free_memory import free_memory
from sciml_par._tensorflow import import_module
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.result import Result
from sciml_par.training.estimate.estimate import MOST_DIMENSIONS
from sciml_par.training.estimate.two_solutions import Difference, Values
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.points.points import Points
from sciml_par.training.solving.by_windows import parts_of
from sciml_par.training.solving.ladder import Ladder, with_error

Array = npt.NDArray[Any]

_COUNTS = {1: 8, 2: 16, 3: 8}
_FEATURES = {1: 20, 2: 80, 3: 150}
_SCALE = 6.0
"""Numbers of windows in the first round, their features and the scale of these."""
_POINTS_PER_WEIGHT = 4.0
_MARKED = 0.8
"""The share in the residual of the windows that are split (Dörfler 1996,
doi:10.1137/0733054)."""
_SHARE = 0.6
"""Of the time that is left, which all rounds may take."""
_GROWTH = 1.3
"""Of the time of a round, to the next one."""
_SLOWEST = 0.9
"""The largest factor by which the change of u falls from round to round, where an error is told."""
_CAUTION = 1.5
_COVERED = 6
"""Numbers of type float64 for each feature and point."""
_ALIKE = 4
"""Rounds in a row that split windows at the same place, where the solution may be singular."""


@dataclass(frozen=True)
class _Round:
    """A solution in windows.

    Attributes
    ----------
    windows : as `train` was given them.
    result : without an error.
    boxes : corners of the parts, [K, d] each.
    residual : the share of each in the residual at unseen points, [K].
    change : of u since the round before, relative.
    """

    windows: Any
    result: Result
    boxes: tuple[Array, Array]
    residual: Array
    change: float = math.nan

    @property
    def worst(self) -> tuple[Array, Array]:
        """Middle and sides of the part with the largest residual, [d] each."""
        lower, upper = (each[np.argmax(self.residual)] for each in self.boxes)
        return (lower + upper) / 2, upper - lower


def climb_by_splits(ladder: Ladder) -> str | None:
    """Solve in windows that are split where the residual is largest (collective); never ends all."""
    problem, d = ladder.problem, ladder.problem.domain.dimension
    if d > MOST_DIMENSIONS or problem.unknown_functions or problem.unknowns:
        return None
    end, rounds = (1 - _SHARE) * ladder.left(), list[_Round]()
    windows = _windows(parts_of(problem, _COUNTS[d]), d)
    while True:
        began = time.perf_counter()
        now = _solved(ladder, windows, rounds[-1] if rounds else None)
        if now is None:
            break
        rounds.append(now)
        result = with_error(now.result, _error(ladder, rounds))
        ladder.keep("split windows", _text(now), result)
        seconds = _GROWTH * ladder.longest(time.perf_counter() - began)
        if ladder.met or not ladder.decided(_promising(ladder, rounds, seconds, end)):
            break
        windows = windows.split(*_marked(now))
        if ladder.decided(_too_large(windows, problem.outputs, d)):
            ladder.note("split windows end: the next ones would not fit into memory")
            break
    place = _singular(rounds)
    if place is not None:
        ladder.note(f"the solution may be singular near {place}, where windows were split again and again")
    return None


def _windows(parts: tuple[int, ...], d: int) -> Any:
    networks: Any = import_module("sciml_par.networks")
    return networks.Windows(
        partial(networks.RandomFeatures, features=_FEATURES[d], scale=_SCALE), parts=parts
    )


def _solved(ladder: Ladder, windows: Any, former: _Round | None) -> _Round | None:
    domain = ladder.problem.domain
    boxes = windows.boxes(domain.lower, domain.upper)
    weights = len(boxes[0]) * (_FEATURES[domain.dimension] + 1)
    result = ladder.run(
        network=windows,
        points=Points(int(_POINTS_PER_WEIGHT * weights), method="sobol"),
        optimizer=LeastSquares(),
        keep="last",
        estimate=False,
    )
    if result is None:
        return None
    by_window: Any = import_module("sciml_par.training.estimate.by_window")
    residual = by_window.residual_by_window(
        ladder.problem,
        windows,
        result.networks[0],
        seed=ladder.drawn,
        precision=ladder.precision,
        world=ladder.world,
    )
    change = math.nan if former is None else _change(ladder, former.result, result)
    return _Round(windows, result, boxes, residual, change)


def _change(ladder: Ladder, former: Result, result: Result) -> float:
    """Return the relative change of u between two results."""
    x, inside = ladder.at
    before, after = (_values(each)(x[inside]) for each in (former, result))
    return ladder.longest(float(np.linalg.norm(after - before) / np.linalg.norm(after)))


def _values(result: Result) -> Values:
    return lambda x: np.asarray(result.predict(x).mean, np.float64)


def _rate(rounds: Sequence[_Round]) -> float:
    """Return the factor by which the change of u falls from round to round."""
    changes = [each.change for each in rounds[-4:] if math.isfinite(each.change)]
    if len(changes) < 2 or not changes[0] > 0:
        return math.nan
    return max((changes[-1] / changes[0]) ** (1 / (len(changes) - 1)), 0.3)


def _error(ladder: Ladder, rounds: Sequence[_Round]) -> ErrorEstimate:
    """Return the error if the change of u falls as it did: Σ_k γ^k of the last one, k ≥ 1."""
    by_window: Any = import_module("sciml_par.training.estimate.by_window")
    now, rate, domain = rounds[-1], _rate(rounds), ladder.problem.domain
    (member,), u = now.result.members, _values(now.result)
    if not rate <= _SLOWEST:
        why = "u does not yet change less and less from one round of split windows to the next."
        error = ErrorEstimate.not_known(len(member.prediction.fields), why)
        e = None
    else:
        e = Difference(_values(rounds[-2].result), u, _CAUTION * rate / (1 - rate))
        first = float(rounds[0].result.members[0].validation_loss)
        error = e.estimate(
            ladder.at,
            fall=math.sqrt(first / member.validation_loss),
            seconds=0.0,
            precision=ladder.precision,
            free=ladder.free,
            unknowns={},
        )
    return replace(error, by_window=by_window.by_window(domain, now.boxes, now.residual, u, e))


def _promising(ladder: Ladder, rounds: Sequence[_Round], seconds: float, end: float) -> bool:
    """Return whether time is left for another round, and the tolerance can be reached in it."""
    left, rate = ladder.left() - end, _rate(rounds)
    if seconds > left:
        return False
    if not math.isfinite(rate) or len(rounds) < _ALIKE:
        return True
    if rate > _SLOWEST:
        return False
    wanted = math.log(ladder.tolerance * (1 - rate) / rate / rounds[-1].change) / math.log(rate)
    return wanted * seconds < 2 * left


def _marked(now: _Round) -> list[int]:
    """Return the fewest windows that have most of the residual, and larger neighbours."""
    order = np.argsort(-now.residual)
    count = int(np.searchsorted(np.cumsum(now.residual[order]), _MARKED)) + 1
    partition = now.result.networks[0].partition
    return list(partition.to_split(order[:count]))


def _too_large(windows: Any, outputs: int, d: int) -> bool:
    """Return whether the derivatives of all residuals would not fit into free memory."""
    count, features = len(windows.boxes([0.0] * d, [1.0] * d)[0]), _FEATURES[d] + 1
    rows = _POINTS_PER_WEIGHT * count * features * outputs
    free = free_memory()
    return free is not None and 8 * _COVERED * rows * features * outputs > free


def _text(now: _Round) -> str:
    middle, sides = now.worst
    return f"{np.count_nonzero(now.residual)}, worst at {_point(middle, sides)}"


def _point(middle: Array, sides: Array) -> str:
    """Return a point to as many digits as the sides of its part tell."""
    digits = [max(0, math.ceil(-math.log10(2 * each))) for each in sides]
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
    return _point(*last[-1])
