"""The stages by which `solve` comes to a tolerance."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tensorflow import import_module, tf
from sciml_par._text import one_line
from sciml_par.errors import InputError, ResultWarning, TrainingError
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.result import Result
from sciml_par.training.estimate.candidates import Candidates, Kind
from sciml_par.training.estimate.side_by_side import (
    Solved,
    best_of,
    in_order,
    solve_side_by_side,
)
from sciml_par.training.loop.stops import WallTime
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.optimizers.least_squares.levenberg_marquardt import LevenbergMarquardt
from sciml_par.training.outcome.evaluate import points_of, values_of
from sciml_par.training.points.points import Points
from sciml_par.training.solving.keep import Keep
from sciml_par.training.train import train

Array = npt.NDArray[Any]

_KINDS: tuple[Kind, ...] = tuple(
    (activation, scale) for activation in ("sin", "tanh") for scale in (2.0, 4.0, 8.0, 16.0, 32.0)
)
_KEPT_KINDS = 2
_STEEPER = 1.5
_FALL = 3.0
"""A stage after which the residual at unseen points has not fallen by this factor is the last."""
_SIZES = {1: (40, 100, 300), 2: (100, 300, 800, 1500), 3: (200, 600, 1500)}
_SIZES_OTHERWISE = (300, 1000)
_NETWORKS = ((20, 2, 1000), (30, 3, 4000), (40, 3, 8000))
"""Widths, depths and interior points of networks."""
_OF_CORRECTIONS: tuple[Kind, ...] = (("sin", 6.0), ("sin", 12.0), ("sin", 24.0), ("tanh", 8.0))
_TINY, _APART = 1e-6, 0.1
"""Residuals, relative to those of u = 0, and the relative difference of two solutions."""
_MOST_ESTIMATED = 500
_MANY = 800
"""From this number of features on, only one kind of more features is tried."""
_GROWTH = 2.5
"""The time of a stage grows with this power of the number of features."""
_SEED = 401


@dataclass
class Ladder:
    """The stages of one solution; see `sciml_par.solve`."""

    problem: Problem
    tolerance: float
    seconds: float
    precision: str
    seed: int
    world: World
    shown: bool
    best: Result | None = None

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        self._x, self._inside = points_of(self.problem.domain, None)
        self._headed, self._drawn = False, _SEED + self.seed
        self._sizes = _SIZES.get(self.problem.domain.dimension, _SIZES_OTHERWISE)

    def climb(self) -> Result:
        """Return the best solution when the tolerance is met, time is up, or nothing helps."""
        why = self._by_features() or self._by_networks()
        assert self.best is not None
        if self._met:
            why = "the tolerance is met"
        self._say_end(why or "no method makes the residual at unseen points fall any further")
        return self.best

    @property
    def _met(self) -> bool:
        return self.best is not None and self.best.error.relative <= self.tolerance

    def _by_features(self) -> str | None:
        """Solve with more and more random features; why the whole ends, if it does."""
        kinds, best, foreseen, longest, smaller = _KINDS, None, None, 0.0, 1
        solved: list[Solved] = []
        for features in self._sizes:
            if not self._has_time(longest * (features / smaller) ** _GROWTH):
                break
            began = time.perf_counter()
            candidates = Candidates(kinds, features, self._drawn)
            solved = self._solved(candidates)
            longest, smaller = self._longest(time.perf_counter() - began), features
            found = best_of(solved)
            now = None if best is None else self._foreseen(best, found)
            self._say("random features", _size(candidates, found.number), found.after, now)
            stalled = best is not None and found.after * _FALL**2 > best.after
            if best is None or found.after < best.after:
                best, foreseen, of_best = found, now, candidates
            if stalled or (now is not None and now.relative <= self.tolerance / _FALL):
                break
            kinds = _next_kinds(kinds, solved, few=features >= _MANY)
        assert best is not None
        undetermined = self._undetermined(solved)
        if undetermined is not None:
            nothing = ErrorEstimate.not_known(self.problem.outputs, undetermined)
            self._keep(best, of_best, nothing, estimate=False)
            return "no other method can decide between these"
        # Features estimate the error of fewer features only.
        estimate = of_best.features <= _MOST_ESTIMATED or foreseen is None
        self._keep(best, of_best, foreseen, estimate=estimate)
        return self._corrected()

    def _undetermined(self, solved: Sequence[Solved]) -> str | None:
        """Return that two functions with tiny residuals differ as solutions do, if so."""
        tiny = [each for each in solved if each.after < _TINY**2 * each.of_zero]
        if len(tiny) < 2:
            return None
        first, second = map(self._values, in_order(tiny)[:2])
        difference = np.linalg.norm(first - second) / np.linalg.norm(first)
        if not difference > _APART:
            return None
        return (
            f"the equation and its conditions do not determine the solution: two functions satisfy "
            f"them up to {_TINY:g} of the residual of u = 0 and differ by {difference:.0%}; add "
            f"boundary or initial conditions."
        )

    def _keep(
        self,
        solved: Solved,
        candidates: Candidates,
        otherwise: ErrorEstimate | None,
        *,
        estimate: bool,
    ) -> None:
        """Make a result of features that are solved for; `otherwise` is a further estimate."""
        optimizer: Any = LeastSquares()
        network: Any = candidates.only(solved.number)
        if not (self.problem.unknowns or self.problem.unknown_functions):
            optimizer, network = Keep(), _given(solved)
        self._train(
            "features, with estimate" if estimate else "features",
            _size(candidates, solved.number),
            network=network,
            points=candidates.points,
            optimizer=optimizer,
            estimate=estimate,
            otherwise=otherwise,
        )

    def _foreseen(self, before: Solved, found: Solved) -> ErrorEstimate | None:
        """Return the estimated error of a solution by the one with fewer features before it."""
        if not 0 < found.after * _FALL**2 <= before.after:
            return None
        q, u = math.sqrt(before.after / found.after), self._values(found)
        e = (u - self._values(before)) / q
        relative = float(np.linalg.norm(e) / np.linalg.norm(u))
        return ErrorEstimate(relative, np.sqrt(np.mean(e**2, axis=0)), q, foreseen=True)

    def _corrected(self) -> str | None:
        """Correct the best solution while that helps; return why the whole ends, if it does."""
        while not self._met:
            assert self.best is not None
            before = self.best.error
            if not before.known or before.reliability < _FALL or before.at_rounding:
                return None
            if not self._has_time(3 * before.seconds):
                return "time is up"
            features = min(max(self._sizes), _MANY)
            base = self.best.networks[0]
            candidates = Candidates(_OF_CORRECTIONS, features, self._drawn, base)
            number = best_of(self._solved(candidates)).number
            self._train(
                "correction",
                _size(candidates, number),
                network=candidates.only(number),
                points=candidates.points,
                optimizer=LeastSquares(),
            )
            after = self.best.error
            if not after.known or after.relative > before.relative / 2:
                return None
        return None

    def _by_networks(self) -> str | None:
        """Train networks by Levenberg–Marquardt; why the whole ends, if it does."""
        mlp: Any = import_module("sciml_par.networks").MLP
        for width, depth, number in () if self._met else _NETWORKS:
            left = self._left()
            if left <= 0:
                return "time is up"
            self._train(
                "network",
                f"{width} × {depth}, {number:,} points",
                network=partial(mlp, width=width, depth=depth),
                points=Points(number, method="sobol", seed=self._drawn),
                optimizer=LevenbergMarquardt(),
                steps=1_000,
                stop=WallTime(seconds=max(left / 2, 1.0)),
            )
            why = None if self._met else self._corrected()
            if self._met or why:
                return why
        return None

    def _solved(self, candidates: Candidates) -> list[Solved]:
        return solve_side_by_side(
            self.problem,
            candidates,
            steps=LeastSquares.default_steps,
            seed=self.seed,
            precision=self.precision,
            world=self.world,
        )

    def _train(
        self,
        method: str,
        size: str,
        *,
        estimate: bool = True,
        otherwise: ErrorEstimate | None = None,
        **arguments: Any,
    ) -> None:
        """Train, and keep the result if it is the best; `otherwise` is a further estimate."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = train(
                    self.problem,
                    seed=self.seed,
                    precision=self.precision,
                    progress=False,
                    estimate=estimate,
                    **arguments,
                )
        except (InputError, TrainingError) as error:
            if self.best is None:
                raise
            self._say(method, size, math.nan, None, failure=one_line(error))
            return
        if otherwise is not None and not result.error.known:
            (member,) = result.members
            # Richer features have not confirmed it: the error may have fallen by less.
            taken = _cautious(otherwise) if estimate else otherwise
            result = replace(result, members=(replace(member, error=taken),))
        self._say(method, size, result.members[0].validation_loss, result.error)
        if self.best is None or _better(result, self.best):
            self.best = result

    def _values(self, solved: Solved) -> Array:
        u = values_of(solved.setup.problem, solved.setup.network)
        theta = solved.stack.layout.unflatten(tf.constant(solved.end))
        x = tf.constant(self._x[self._inside], solved.end.dtype)
        return np.asarray(u(theta, x).numpy(), np.float64)

    def _left(self) -> float:
        """Return the remaining seconds, by the clock of the slowest rank (collective)."""
        return self.seconds - self._longest(time.perf_counter() - self._began)

    def _longest(self, seconds: float) -> float:
        return max(self.world.communicator.allgather_object(seconds))

    def _has_time(self, needed: float) -> bool:
        return self._left() > needed

    def _say(
        self,
        method: str,
        size: str,
        loss: float,
        error: ErrorEstimate | None,
        *,
        failure: str = "",
    ) -> None:
        if not self.shown or self.world.communicator.rank > 0:
            return
        if not self._headed:
            self._headed = True
            print(f"{'method':<24}{'size':<28}{'residual':>9}  {'error':<18}{'time':>8}")
        text = failure
        if error is not None:
            text = f"{error.relative:.1e}" if error.known else "not known"
            text += " (foreseen)" if error.foreseen else ""
        seconds = f"{time.perf_counter() - self._began:6.1f} s"
        print(f"{method:<24}{size:<28}{math.sqrt(loss):9.1e}  {text:<18}{seconds}", flush=True)

    def _say_end(self, why: str) -> None:
        assert self.best is not None
        if self.world.communicator.rank > 0:
            return
        if self.shown:
            print(f"{self.best.error}; {why}")
        if not self._met:
            warnings.warn(
                f"solve: the tolerance {self.tolerance:g} is not met: {self.best.error}; {why}.",
                ResultWarning,
                stacklevel=5,
            )


def _cautious(foreseen: ErrorEstimate) -> ErrorEstimate:
    """Return a foreseen error for an error that has fallen by √q where the residual fell by q."""
    factor = math.sqrt(max(foreseen.reliability, 1.0))
    return replace(
        foreseen, relative=factor * foreseen.relative, absolute=factor * foreseen.absolute
    )


def _size(candidates: Candidates, number: int) -> str:
    activation, scale = candidates.kinds[number]
    return f"{candidates.features:,} {activation}, scale {scale:g}"


def _given(solved: Solved) -> Callable[..., Any]:
    """Return what gives the network of a solution, with the weights that were solved for."""
    network = solved.setup.network
    for variable, value in zip(
        network.trainable_variables, solved.stack.layout.unflatten(solved.end), strict=True
    ):
        variable.assign(value)
    return lambda: network.model


def _next_kinds(kinds: Sequence[Kind], solved: Sequence[Solved], *, few: bool) -> tuple[Kind, ...]:
    """Return the best kinds, and a steeper one than the best; where few are asked for, that."""
    best = [kinds[each.number] for each in in_order(list(solved))[:_KEPT_KINDS]]
    activation, scale = best[0]
    if few:
        return ((activation, _STEEPER * scale),)
    return tuple(dict.fromkeys([*best, (activation, _STEEPER * scale)]))


def _better(result: Result, other: Result) -> bool:
    a, b = result.error, other.error
    if a.known and b.known:
        return a.relative < b.relative
    return a.known or (not b.known and _loss(result) < _loss(other))


def _loss(result: Result) -> float:
    loss = result.members[0].validation_loss
    return loss if math.isfinite(loss) else math.inf
