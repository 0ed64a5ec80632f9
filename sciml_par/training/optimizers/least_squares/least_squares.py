"""Gauss–Newton steps by rank-revealing least squares, for networks that are linear in what is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_count, check_fraction
from sciml_par._tensorflow import tf
from sciml_par.training.identity.described import Described
from sciml_par.training.optimizers.least_squares import lapack
from sciml_par.training.optimizers.least_squares.linear_system import or_not_finite
from sciml_par.training.optimizers.least_squares.on_host import algebra_on_host
from sciml_par.training.optimizers.least_squares.orthogonal_factors import OrthogonalFactors, _unpacked
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Report

Tensor = Any
Array = npt.NDArray[np.float64]


class State(NamedTuple):
    step_length: Tensor
    stuck: Tensor


@dataclass(frozen=True)
class LeastSquares(Described):
    condition_weight: ClassVar[float] = 100.0
    default_steps: ClassVar[int] = 30
    second_order: ClassVar[bool] = True
    least_squares: ClassVar[bool] = True

    _: KW_ONLY
    cutoff: float = 1e-14
    halvings: int = 10

    def with_ranks(self, size: int) -> "LeastSquares":
        return self

    def prepare(self, objective: Objective, parameters: Tensor, batch: Batch) -> None:
        objective.prepare_jacobian(parameters, batch)

    def init(self, objective: Objective, parameters: Tensor) -> State:
        members = parameters.shape[0]
        return State(tf.zeros([members], tf.float64), tf.zeros([members], tf.bool))

    def finish(self, objective: Objective, parameters: Tensor, state: State) -> Tensor:
        return parameters

    def report(self, state: State) -> Report:
        return Report({"|step|": state.step_length}, state.stuck)

    def step(self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At):
        solved = objective.layout.solved()
        line = OrthogonalFactors(solved).linearize(objective, parameters, batch)
        direction = _spread(-self._solution(objective, line), solved, parameters.shape[1])
        before = tf.reduce_sum(line.terms, axis=1)

        def tried(size: Tensor) -> Tensor:
            moved = parameters + tf.cast(size[:, None] * direction, parameters.dtype)
            squares = [tf.reduce_sum(tf.cast(r, tf.float64) ** 2, axis=1) for r in objective.residuals(moved, batch)]
            return tf.reduce_sum(objective.sum_over_ranks(tf.stack(squares, axis=1)), axis=1)

        def unfinished(number: Tensor, size: Tensor, accepted: Tensor) -> Tensor:
            return (number < self.halvings) & tf.reduce_any(~accepted)

        def halve(number: Tensor, size: Tensor, accepted: Tensor):
            good = tried(size) < before
            return number + 1, tf.where(accepted | good, size, size / 2), accepted | good

        size = tf.ones_like(before)
        begin = tf.zeros_like(state.stuck) if at.running is None else ~at.running
        _, size, accepted = tf.while_loop(unfinished, halve, (0, size, begin))
        change = tf.where(accepted[:, None], size[:, None] * direction, 0.0)
        after = State(tf.norm(change, axis=1), ~accepted & at.same_points)
        change = or_not_finite(change, line)
        return parameters + tf.cast(change, parameters.dtype), after, tf.cast(line.terms, parameters.dtype)

    def _solution(self, objective: Objective, line: Any) -> Tensor:
        solution = line.gradient
        if objective.on_first_rank:
            shape = tuple(solution.shape)

            def solve(arguments: Sequence[Array], results: Sequence[Array]) -> None:
                from scipy.linalg import lstsq

                for packed, out in zip(arguments[0], results[0], strict=True):
                    factor = _unpacked(packed).T
                    p = len(out)
                    if not np.isfinite(factor).all():
                        out[...] = np.nan
                        continue
                    norms = np.linalg.norm(factor[:, :p], axis=0)
                    norms[norms == 0] = 1.0
                    out[...] = lstsq(factor[:, :p] / norms, factor[:, p], cond=self.cutoff, lapack_driver="gelsy")[0] / norms

            solution = algebra_on_host(solve, [line.matrix], [shape], columns=shape[1])[0]
        return objective.from_first_rank(solution)


def _spread(values: Tensor, places: Sequence[slice], size: int) -> Tensor:
    """[M, q] at some places of a row, zero at the others: [M, p]."""
    parts, at, taken = [], 0, 0
    for place in places:
        count = place.stop - place.start
        parts += [tf.zeros([values.shape[0], place.start - at], values.dtype), values[:, taken : taken + count]]
        at, taken = place.stop, taken + count
    parts.append(tf.zeros([values.shape[0], size - at], values.dtype))
    return tf.concat(parts, axis=1)
