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
from sciml_par.errors import InputError, ResultWarning
from sciml_par.parallel.groups.world import World
from sciml_par.problems.problem import Problem
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.result import Result
from sciml_par.training.estimate.estimate import POINTS_PER_FEATURE, Kind, Sums
from sciml_par.training.estimate.side_by_side import Solved, best_of, solve_side_by_side
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
_SMALL, _APART = 1e-4, 0.1
"""Residuals, relative to those of u = 0, and the relative difference of two solutions."""
_MOST_ESTIMATED = 500
_MANY = 800
"""From this number of features on, only one kind of more features is tried."""
_GROWTH = 2.5
"""The time of a stage grows with this power of the number of features."""
_SEED = 401


@dataclass(frozen=True)
class Features:
    """Makes random features of another kind for each seed."""

    kinds: Sequence[Kind]
    features: int

    def __call__(self, d: int, m: int, *, seed: int, dtype: str, box: Any) -> Any:
        models: Any = import_module("sciml_par.networks")
        activation, scale = self.kinds[seed]
        return models.RandomFeatures(
            d,
            m,
            features=self.features,
            activation=activation,
            scale=scale,
            seed=_SEED,
            box=box,
            dtype=dtype,
        )


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
        self._headed = False
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
            solved = self._solved(Features(kinds, features), len(kinds), features)
            longest, smaller = self._longest(time.perf_counter() - began), features
            found = best_of(solved)
            now = None if best is None else self._foreseen(best, found)
            size = f"{features:,} {kinds[found.number][0]}, scale {kinds[found.number][1]:g}"
            self._say("random features", size, found.after, now)
            stalled = best is not None and found.after * _FALL**2 > best.after
            if best is None or found.after < best.after:
                best, foreseen, chosen = found, now, (kinds[found.number], features)
            if stalled or (now is not None and now.relative <= self.tolerance / _FALL):
                break
            kinds = _next_kinds(kinds, solved, few=features >= _MANY)
        assert best is not None
        self._check_uniqueness(solved)
        self._keep(best, foreseen, *chosen)
        return self._corrected()

    def _check_uniqueness(self, solved: Sequence[Solved]) -> None:
        """Raise if two solutions with small residuals differ by as much as a solution."""
        small = [s for s in solved if s.after < _SMALL**2 * s.of_zero]
        if len(small) < 2:
            return
        first, second = map(self._values, sorted(small, key=lambda each: each.after)[:2])
        difference = np.linalg.norm(first - second) / np.linalg.norm(first)
        if difference > _APART:
            raise InputError(
                f"solve: the equation and its conditions do not determine the solution: two "
                f"functions satisfy them up to {_SMALL:g} of the residual of u = 0 and differ by "
                f"{difference:.0%}. Add boundary or initial conditions."
            )

    def _keep(
        self, solved: Solved, foreseen: ErrorEstimate | None, kind: Kind, features: int
    ) -> None:
        """Make a result of features that are solved for, with the best estimate there is."""
        # Features estimate the error of fewer features only.
        richer = features <= _MOST_ESTIMATED or foreseen is None
        optimizer: Any = LeastSquares()
        network = _one(Features((kind,), features))
        if not (self.problem.unknowns or self.problem.unknown_functions):
            optimizer, network = Keep(), _given(solved)
        self._train(
            "features, with estimate" if richer else "features",
            f"{features:,} {kind[0]}, scale {kind[1]:g}",
            network=network,
            points=_points(features),
            optimizer=optimizer,
            estimate=richer,
            otherwise=foreseen,
        )

    def _foreseen(self, before: Solved, found: Solved) -> ErrorEstimate | None:
        """Return the estimated error of a solution by the one with fewer features before it."""
        q = math.sqrt(before.after / found.after) if found.after > 0 else math.inf
        u = self._values(found)
        e = (u - self._values(before)) / q
        relative = float(np.linalg.norm(e) / np.linalg.norm(u))
        if not q >= _FALL:
            return None
        return ErrorEstimate(relative, np.sqrt(np.mean(e**2, axis=0)), q, foreseen=True)

    def _corrected(self) -> str | None:
        """Correct the best solution as long as that helps; why the whole ends, if it does."""
        while not self._met:
            assert self.best is not None
            before = self.best.error
            if not before.known or before.reliability < _FALL or before.at_rounding:
                return None
            if not self._has_time(3 * before.seconds):
                return "time is up"
            features = min(max(self._sizes), _MANY)
            kinds: tuple[Kind, ...] = (("sin", 6.0), ("sin", 12.0), ("sin", 24.0), ("tanh", 8.0))
            base = self.best.networks[0]
            solved = self._solved(Sums(base, kinds, features), len(kinds), features)
            kind = kinds[best_of(solved).number]
            self._train(
                "correction",
                f"{features:,} {kind[0]}, scale {kind[1]:g}",
                network=_one(Sums(base, (kind,), features)),
                points=_points(features),
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
                points=Points(number, method="sobol", seed=_SEED),
                optimizer=LevenbergMarquardt(),
                steps=1_000,
                stop=WallTime(seconds=max(left / 2, 1.0)),
            )
            why = None if self._met else self._corrected()
            if self._met or why:
                return why
        return None

    def _solved(self, make: Callable[..., Any], count: int, features: int) -> list[Solved]:
        return solve_side_by_side(
            self.problem,
            make,
            count,
            points=_points(features),
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
        if otherwise is not None and not result.error.known:
            (member,) = result.members
            result = replace(result, members=(replace(member, error=otherwise),))
        self._say(method, size, result.members[0].validation_loss, result.error)
        if self.best is None or _better(result, self.best):
            self.best = result

    def _values(self, solved: Solved) -> Array:
        u = values_of(solved.setup.problem, solved.setup.network)
        theta = solved.stack.layout.unflatten(tf.constant(solved.end))
        x = tf.constant(self._x[self._inside], solved.end.dtype)
        return np.asarray(u(theta, x).numpy(), np.float64)

    def _left(self) -> float:
        """Seconds that are left, by the clock of the slowest rank (collective)."""
        return self.seconds - self._longest(time.perf_counter() - self._began)

    def _longest(self, seconds: float) -> float:
        return max(self.world.communicator.allgather_object(seconds))

    def _has_time(self, needed: float) -> bool:
        return self._left() > needed

    def _say(self, method: str, size: str, loss: float, error: ErrorEstimate | None) -> None:
        if not self.shown or self.world.communicator.rank > 0:
            return
        if not self._headed:
            self._headed = True
            print(f"{'method':<24}{'size':<28}{'residual':>9}  {'error':<18}{'time':>8}")
        text = ""
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


def _one(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the first of the networks, whatever the seed of the training."""

    def first(d: int, m: int, *, seed: int, dtype: str, box: Any = None) -> Any:
        return make(d, m, seed=0, dtype=dtype, box=box)

    return first


def _given(solved: Solved) -> Callable[..., Any]:
    """Return what gives the network of a solution, with the weights that were solved for."""
    network = solved.setup.network
    for variable, value in zip(
        network.trainable_variables, solved.stack.layout.unflatten(solved.end), strict=True
    ):
        variable.assign(value)
    return lambda: network.model


def _points(features: int) -> Points:
    return Points(int(POINTS_PER_FEATURE * features), method="sobol", seed=_SEED)


def _next_kinds(kinds: Sequence[Kind], solved: Sequence[Solved], *, few: bool) -> tuple[Kind, ...]:
    """Return the best kinds, and a steeper one than the best; where few are asked for, that."""
    ordered = sorted(solved, key=lambda each: each.after if math.isfinite(each.after) else math.inf)
    best = [kinds[each.number] for each in ordered[:_KEPT_KINDS]]
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
