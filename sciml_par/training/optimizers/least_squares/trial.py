"""One trial of a damping in a step of Levenberg–Marquardt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Residuals
from sciml_par.training.optimizers.least_squares.linear_system import (
    Linearization,
    LinearSystem,
    loss_at,
)
from sciml_par.training.optimizers.optimizer import Batch, Objective

Tensor = Any

_H = 0.1  # the share of v after which the second derivative is taken (Transtrum and Sethna 2012)


class Trials(NamedTuple):
    """What the trials of one step have come to, with the members as first axis.

    Attributes
    ----------
    tried : how many, [M].
    accepted : whether one has lowered the loss, [M]; then the member waits for the others.
    damping : λ of the next trial, or of the next step, [M].
    growth : ν, by which λ grows after the next trial that fails, [M].
    change : of θ, [M, p]; zero until a trial is accepted.
    """

    tried: Tensor
    accepted: Tensor
    damping: Tensor
    growth: Tensor
    change: Tensor


@dataclass(frozen=True)
class Trial:
    """Tries dampings from one θ.

    Attributes
    ----------
    objective, batch : what is minimized.
    parameters : θ, [M, p].
    system, at : what solves the linear systems, and their linearization at θ.
    scale : D, [M, p].
    geodesic : whether to add the acceleration a.
    """

    objective: Objective
    batch: Batch
    parameters: Tensor
    system: LinearSystem
    at: Linearization
    scale: Tensor
    geodesic: bool

    def __call__(self, trials: Trials) -> Trials:
        """Try one λ for every member (collective); those that have found a step keep it."""
        factor = self.system.factorize(self.at, trials.damping, self.scale)
        velocity = -self.system.solve_gradient(self.at, factor)
        change = velocity
        if self.geodesic:
            change += self._acceleration(factor, velocity)
        loss = tf.reduce_sum(self.at.terms, axis=1)
        reached = loss_at(self.objective, self._moved(change), self.batch)
        # |r|² − |r + J v|², by the equation that v solves.
        foreseen = -tf.reduce_sum(self.at.gradient * velocity, axis=1)
        foreseen += trials.damping * tf.reduce_sum((self.scale * velocity) ** 2, axis=1)
        ratio = (loss - reached) / foreseen
        good = reached < loss  # false where it is not a number
        found, failed = good & ~trials.accepted, ~good & ~trials.accepted
        smaller = trials.damping * tf.maximum(1 - (2 * ratio - 1) ** 3, 1 / 3)
        larger = trials.damping * trials.growth
        return Trials(
            trials.tried + tf.cast(~trials.accepted, tf.int32),
            trials.accepted | good,
            tf.where(found, smaller, tf.where(failed, larger, trials.damping)),
            tf.where(failed, 2 * trials.growth, trials.growth),
            tf.where(found[:, None], change, trials.change),
        )

    def _acceleration(self, factor: Any, velocity: Tensor) -> Tensor:
        """Return a, or zero where it is not small compared with v."""
        linear, moved = self.system.along(self.at, velocity), self._moved(_H * velocity)
        after = self.objective.evaluate(Residuals, moved, self.batch).residuals
        curvature = [
            (2 / _H) * ((r - before) / _H - slope)
            for r, before, slope in zip(after, self.at.residuals, linear, strict=True)
        ]
        found = -0.5 * self.system.solve(self.at, factor, curvature)
        small = tf.norm(self.scale * found, axis=1) < 0.5 * tf.norm(self.scale * velocity, axis=1)
        return tf.where(small[:, None], found, 0.0)

    def _moved(self, change: Tensor) -> Tensor:
        return self.parameters + tf.cast(change, self.parameters.dtype)
