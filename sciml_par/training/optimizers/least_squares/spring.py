"""Natural gradient descent that keeps what earlier steps have found: SPRING."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

from sciml_par._checks import check_fraction, check_positive, checked_integer
from sciml_par._tensorflow import tf
from sciml_par.training.loss.known import Jacobian, Known
from sciml_par.training.optimizers.least_squares.linear_system import (
    Linearization,
    LinearSystem,
    Search,
    loss_at,
    or_not_finite,
)
from sciml_par.training.optimizers.least_squares.solvers import (
    AUTO,
    SMALLER,
    check_solver,
    make_system,
)
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer, Report

Tensor = Any
_LARGER_DAMPINGS = 20


class State(NamedTuple):
    """Attributes: φ of the last step, [M, p], zero at a beginning; μ²ᵏ after k steps since then,
    [M]; the last η and |step|, [M]; whether no step lowers the loss any more, [M].
    """

    direction: Tensor
    power: Tensor
    step_size: Tensor
    step_length: Tensor
    stuck: Tensor


@dataclass(frozen=True)
class SPRING(Optimizer):
    """Natural gradient descent with subsampled, projected increments, and a line search.

    With r the vector of all weighted residuals of this step's points, L = |r|², and J its
    derivatives by θ, step k is

        φ_k = μ φ_{k−1} + Jᵀ (J Jᵀ + λ I)⁻¹ (r − μ J φ_{k−1})
        θ ← θ − η φ_k / √(1 − μ²ᵏ)

    φ_k is the direction nearest to μ φ_{k−1} that solves J φ = r as far as λ lets it. It so keeps
    what former points have told, and is meant for points that are drawn anew at every step,
    ``Points(…, resample_every=1)``, fewer than there are parameters. Of η = 1, 1/2, 1/4, … the one
    with the least loss at these points is taken.

    Parameters
    ----------
    damping : λ, positive, in units of J Jᵀ, that is of L/θ². It stays as it is, and what is good
        differs between problems: the smaller, the longer the steps that η then has to shorten.
    momentum : μ, in [0, 1); 0 is energy natural gradient descent.
    trials : how many values of η there are. The search ends where, after one that lowers the loss,
        half of it does not lower it further.
    solver : "kernel" solves as many equations as there are residuals, as above; "normal equations"
        solves (JᵀJ + λ I) d = Jᵀ v for the same step; "auto" takes the one with fewer equations.

    Notes
    -----
    A step costs the Jacobian, the product J Jᵀ or JᵀJ, and three or so evaluations of the
    residuals. Where no η lowers the loss, the next step begins with φ = 0, and where none does then
    the training ends. A matrix that rounding errors keep from being positive definite is tried
    again with ten times the λ.

    For losses of squared residuals the matrix of energy natural gradient descent (Müller and
    Zeinhofer 2023, arXiv:2302.13163) is JᵀJ where the equations are linear: it is SPRING without
    momentum, a Gauss–Newton method with a line search.

    References
    ----------
    Goldshlager, Abrahamsen and Lin (2024), arXiv:2401.10190; with a line search and for
    physics-informed networks Guzmán-Cordero, Dangel, Goldshlager and Zeinhofer (2025),
    arXiv:2505.12149.
    """

    condition_weight: ClassVar[float] = 100.0
    prefers_centres: ClassVar[bool] = True
    default_steps: ClassVar[int] = 1_000
    second_order: ClassVar[bool] = True
    needs: ClassVar[type[Known]] = Jacobian

    _: KW_ONLY
    damping: float = 1e-5
    momentum: float = 0.9
    trials: int = 31
    solver: str = AUTO

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(name, damping=self.damping)
        check_fraction(name, momentum=self.momentum)
        checked_integer(self.trials, f"{name}: trials", least=1)
        check_solver(name, self.solver, SMALLER)

    def init(self, objective: Objective, parameters: Tensor) -> State:
        members = parameters.shape[0]
        none = tf.zeros([members], tf.float64)
        return State(
            tf.zeros(parameters.shape, tf.float64),
            tf.ones([members], tf.float64),
            none,
            none,
            tf.zeros([members], tf.bool),
        )

    def report(self, state: State) -> Report:
        return Report({"η": state.step_size, "|step|": state.step_length}, state.stuck)

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        system = make_system(self.solver, objective, batch, parameters.shape[1], scaled=False)
        line = system.linearize(objective, parameters, batch)
        direction = self._direction(system, line, state)
        power = self.momentum**2 * state.power
        search = self._search(
            objective,
            parameters,
            batch,
            direction / tf.sqrt(1 - power)[:, None],
            tf.reduce_sum(line.terms, axis=1),
        )
        found = search.size > 0
        size = search.size / tf.sqrt(1 - power)
        change = tf.where(found[:, None], -size[:, None] * direction, 0.0)
        after = State(
            tf.where(found[:, None], direction, 0.0),
            tf.where(found, power, 1.0),
            search.size,
            tf.norm(change, axis=1),
            ~found & (state.power == 1) & at.same_points,
        )
        changed = parameters + tf.cast(or_not_finite(change, line), parameters.dtype)
        return changed, after, tf.cast(line.terms, parameters.dtype)

    def _direction(self, system: LinearSystem, line: Linearization, state: State) -> Tensor:
        """Return φ: [M, p]; not finite where the residuals are not."""
        kept = self.momentum * state.direction
        linear = system.along(line, kept)
        rest = [r - before for r, before in zip(line.residuals, linear, strict=True)]
        ones = tf.ones_like(kept)
        sound = tf.math.is_finite(tf.reduce_sum(line.terms, axis=1))

        def unfinished(tried: Tensor, _: Tensor, found: Tensor) -> Tensor:
            bad = sound & ~tf.reduce_all(tf.math.is_finite(found), axis=1)
            return (tried == 0) | ((tried <= _LARGER_DAMPINGS) & tf.reduce_any(bad))

        def solve(tried: Tensor, damping: Tensor, found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            factor = system.factorize(line, damping, ones)
            solved = kept + system.solve(line, factor, rest)
            before = tf.reduce_all(tf.math.is_finite(found), axis=1, keepdims=True)
            return tried + 1, 10 * damping, tf.where(before, found, solved)

        begin = (
            tf.constant(0),
            tf.fill(state.power.shape, tf.constant(self.damping, tf.float64)),
            tf.fill(kept.shape, tf.constant(float("nan"), tf.float64)),
        )
        return tf.while_loop(unfinished, solve, begin)[2]

    def _search(
        self, objective: Objective, parameters: Tensor, batch: Batch, step: Tensor, loss: Tensor
    ) -> Search:
        """Return the best η of θ − η d for d: [M, p], zero where none lowers the loss."""

        def unfinished(search: Search) -> Tensor:
            return (search.tried < self.trials) & tf.reduce_any(~search.ended)

        def try_once(search: Search) -> tuple[Search]:
            size = 0.5 ** tf.cast(search.tried, tf.float64)
            moved = parameters - tf.cast(size * step, parameters.dtype)
            reached = loss_at(objective, moved, batch)
            # False where the loss is not a number.
            better = ~search.ended & (reached < search.loss)
            return (
                Search(
                    search.tried + 1,
                    tf.where(better, size, search.size),
                    tf.where(better, reached, search.loss),
                    search.ended | ((search.size > 0) & ~better),
                ),
            )

        none = tf.zeros_like(loss)
        begin = Search(tf.constant(0), none, loss, tf.zeros(loss.shape, tf.bool))
        (end,) = tf.while_loop(unfinished, try_once, (begin,))
        return end
