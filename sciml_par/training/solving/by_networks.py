"""The stages of `solve` by networks and Levenberg–Marquardt, and corrections of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from sciml_par._tensorflow import import_module
from sciml_par.training.estimate.candidates import Candidates, Kind
from sciml_par.training.estimate.side_by_side import best_of
from sciml_par.training.loop.stops import WallTime
from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares
from sciml_par.training.optimizers.least_squares.levenberg_marquardt import LevenbergMarquardt
from sciml_par.training.points.points import Points
from sciml_par.training.solving.ladder import Ladder

_NETWORKS = ((20, 2, 1000), (30, 3, 4000), (40, 3, 8000))
"""Widths, depths and interior points of networks."""
_OF_CORRECTIONS: tuple[Kind, ...] = (("sin", 6.0), ("sin", 12.0), ("sin", 24.0), ("tanh", 8.0))
_FEATURES = 800
_FALL = 3.0
"""An estimate whose residual falls by less is not worth a further correction."""


def climb_by_networks(ladder: Ladder) -> str | None:
    """Train networks by Levenberg–Marquardt (collective); why all ends, if it does."""
    mlp: Any = import_module("sciml_par.networks").MLP
    for width, depth, number in _NETWORKS:
        left = ladder.left()
        if left <= 0:
            return "time is up"
        ladder.train(
            "network",
            f"{width} × {depth}, {number:,} points",
            network=partial(mlp, width=width, depth=depth),
            points=Points(number, method="sobol", seed=ladder.drawn),
            optimizer=LevenbergMarquardt(),
            steps=1_000,
            stop=WallTime(seconds=max(left / 2, 1.0)),
        )
        why = None if ladder.met else climb_by_corrections(ladder)
        if ladder.met or why:
            return why
    return None


def climb_by_corrections(ladder: Ladder) -> str | None:
    """Correct the best solution while that helps (collective); why all ends, if it does."""
    while not ladder.met:
        assert ladder.best is not None
        before = ladder.best.error
        if not before.known or before.reliability < _FALL or before.at_rounding or before.between:
            return None
        if ladder.left() < 3 * before.seconds:
            return "time is up"
        base = ladder.best.networks[0]
        candidates = Candidates(_OF_CORRECTIONS, _FEATURES, ladder.drawn, base)
        number = best_of(ladder.solved(candidates)).number
        activation, scale = candidates.kinds[number]
        ladder.train(
            "correction",
            f"{candidates.features:,} {activation}, scale {scale:g}",
            network=candidates.only(number),
            points=candidates.points,
            optimizer=LeastSquares(),
        )
        after = ladder.best.error
        if not after.known or after.relative > before.relative / 2:
            return None
    return None
