"""Gauss–Newton for the parameters in which a network is linear, by rank-revealing QR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_fraction, checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.loss.known import Known, LinearJacobian
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.optimizers.least_squares.linear_system import (
    Linearization,
    Search,
    loss_at,
    or_not_finite,
)
from sciml_par.training.optimizers.least_squares.on_host import found_by_first
from sciml_par.training.optimizers.least_squares.orthogonal_factors import (
    OrthogonalFactors,
    unpacked,
)
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer, Report

Tensor = Any
Array = npt.NDArray[np.float64]

LEAST_GAIN = 0.99
"""A step that leaves more than this share of the loss is the last one."""


class LastStep(NamedTuple):
    """The last direction of Gauss–Newton, [p], and the share of it that was taken."""

    direction: Array
    size: float


class State(NamedTuple):
    """Attributes: the last |step|, [M]; whether no step lowers the loss any more, [M]."""

    step_length: Tensor
    stuck: Tensor


@dataclass(frozen=True)
class LeastSquares(Optimizer):
    """Solve for the output layer of a network, and for unknowns, by Gauss–Newton.

    With r the vector of all weighted residuals, L = |r|², c the weights of the output layer and
    the unknowns, and J = ∂r/∂c,

        c ← c − η J⁺ r        η = 1, ½, ¼, …, the first that lowers L

    A linear equation is solved by the first step, and a nonlinear one by a few. All other weights
    stay as they are, so the network is usually a `sciml_par.networks.RandomFeatures`.

    J is never squared: each rank factorizes its rows, [J r] = Q R, the triangles R of all ranks are
    joined (Demmel, Grigori, Hoemmen and Langou 2012, SIAM J. Sci. Comput. 34(1)), and J⁺ r follows
    by QR with column pivoting (LAPACK's gelsy), which leaves out directions below `cutoff`.

    Parameters
    ----------
    cutoff : the reciprocal condition number, dimensionless, below which directions of c are left
        out; columns of J have length one. At least the rounding of the training's precision is
        taken.
    halvings : how often a step is halved before the method gives up.

    Raises
    ------
    InputError
        A value cannot be used; or, before the first step, the network's output is not known to be
        linear in some of its weights.
    """

    condition_weight: ClassVar[float] = 100.0
    default_steps: ClassVar[int] = 30
    second_order: ClassVar[bool] = True
    least_squares: ClassVar[bool] = True
    most_left: ClassVar[float] = 0.01
    needs: ClassVar[type[Known]] = LinearJacobian

    _: KW_ONLY
    cutoff: float = 1e-14
    halvings: int = 10

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_fraction(name, cutoff=self.cutoff)
        checked_integer(self.halvings, f"{name}: halvings", least=1)

    def cutoff_in(self, dtype: Any) -> float:
        """Return the cut-off in a precision, whose rounding it is at least."""
        return max(self.cutoff, float(np.finfo(dtype).eps) / 32)

    def check(self, layout: ParameterLayout, members: int, dtype: Any) -> None:
        if layout.linear is None:
            raise InputError(
                "LeastSquares (also by start='least-squares'): the network is not known to be "
                "linear in its last weights. Give network=RandomFeatures, an MLP, or a Keras model "
                "that ends with a Dense layer without activation."
            )

    def init(self, objective: Objective, parameters: Tensor) -> State:
        members = parameters.shape[0]
        return State(tf.zeros([members], tf.float64), tf.zeros([members], tf.bool))

    def report(self, state: State) -> Report:
        return Report({"|step|": state.step_length}, state.stuck)

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        line = OrthogonalFactors().linearize(objective, parameters, batch)
        solution = self._solution(line, parameters.dtype)
        direction = objective.layout.of_linear().spread(-solution)
        before = tf.reduce_sum(line.terms, axis=1)

        def unfinished(search: Search) -> Tensor:
            return (search.tried < self.halvings) & tf.reduce_any(~search.ended)

        def attempt(search: Search) -> tuple[Search]:
            moved = parameters + tf.cast(search.size[:, None] * direction, parameters.dtype)
            loss = loss_at(objective, moved, batch)
            good = ~search.ended & (loss < before)
            size = tf.where(good | search.ended, search.size, search.size / 2)
            loss = tf.where(good, loss, search.loss)
            return (Search(search.tried + 1, size, loss, search.ended | good),)

        idle = tf.zeros_like(state.stuck) if at.running is None else ~at.running
        begin = Search(tf.constant(0), tf.ones_like(before), before, idle)
        (end,) = tf.while_loop(unfinished, attempt, (begin,))
        change = tf.where(end.ended[:, None], end.size[:, None] * direction, 0.0)
        stuck = ~(end.loss < LEAST_GAIN * before) & at.same_points
        changed = parameters + tf.cast(or_not_finite(change, line), parameters.dtype)
        return changed, State(tf.norm(change, axis=1), stuck), tf.cast(line.terms, parameters.dtype)

    def _solution(self, line: Linearization, dtype: Any) -> Tensor:
        """Return J⁺ r over the rows of all ranks, [M, q]."""
        cutoff = self.cutoff_in(dtype.as_numpy_dtype)

        def solve(arguments: Sequence[Array], results: Sequence[Array]) -> None:
            for packed, found in zip(arguments[0], results[0], strict=True):
                found[...] = least_squares(unpacked(packed).T, cutoff)

        return found_by_first(line.ranks, solve, [line.matrix], line.gradient)


def least_squares(factor: Array, cutoff: float) -> Array:
    """Return the least squares solution for R of [J r] = Q R: [≤ q + 1, q + 1] -> [q]."""
    from scipy.linalg import lstsq

    q = factor.shape[1] - 1
    if not np.isfinite(factor).all():
        return np.full(q, np.nan)
    lengths = np.linalg.norm(factor[:, :q], axis=0)
    lengths[lengths == 0.0] = 1.0
    columns = factor[:, :q] / lengths
    found = lstsq(columns, factor[:, q], cond=cutoff, lapack_driver="gelsy", check_finite=False)
    return found[0] / lengths
