"""Levenberg–Marquardt with geodesic acceleration."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sciml_par._checks import check_flag, check_positive, checked_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.training.loss.known import Jacobian, Known, LinearMap, Residuals, WindowJacobian
from sciml_par.training.optimizers.least_squares.linear_system import (
    Linearization,
    LinearSystem,
    loss_at,
    or_not_finite,
)
from sciml_par.training.optimizers.least_squares.solvers import (
    AUTO,
    KERNEL,
    MATRIX_FREE,
    NORMAL_EQUATIONS,
    WINDOWS,
    check_solver,
    choose_solver,
    make_system,
)
from sciml_par.training.optimizers.optimizer import At, Batch, Objective, Optimizer, Report

if TYPE_CHECKING:
    from sciml_par.training.loss.window_jacobian import WindowBand

Tensor = Any

LEAST_SQUARES = "least-squares"

# λ is not let fall below this share of its first value, where it changes nothing any more: the
# trials of a step must be able to raise it to where it does.
_LEAST_DAMPING = 1e-20
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


class State(NamedTuple):
    """Attributes: λ [M]; the largest norms of J's columns, [M, p]; the last |step|, [M]; whether no
    step lowers the loss any more, [M].
    """

    damping: Tensor
    column_norms: Tensor
    step_length: Tensor
    stuck: Tensor


@dataclass(frozen=True)
class LevenbergMarquardt(Optimizer):
    """Least squares by damped Gauss–Newton steps along geodesics.

    With r the vector of all weighted residuals, L = |r|², and J its derivatives by θ,

        (JᵀJ + λ D²) v = −Jᵀ r            (JᵀJ + λ D²) a = −½ Jᵀ r_vv
        θ ← θ + v + a where |a| < ½ |v|, θ + v elsewhere, if that lowers L

    where r_vv ≈ (2/h) [(r(θ + h v) − r)/h − J v] is the second derivative of r along v (Transtrum
    and Sethna 2012, arXiv:1201.5885). λ follows the ratio ρ of the reduction of L found to that
    foreseen: λ ← λ max(1/3, 1 − (2ρ − 1)³) after a step, and λ ← λ ν, ν ← 2ν after a trial that
    fails (Nielsen 1999; Madsen, Nielsen and Tingleff 2004, section 3.2).

    Parameters
    ----------
    damping : λ before the first step, positive, in units of JᵀJ, that is of L/θ².
    geodesic : whether to add a. It costs one evaluation of the residuals and one solution.
    scale_columns : whether D is the largest norm that each column of J has had, rather than 1.
    trials : how many values of λ a step tries before it gives up.
    solver : of the linear systems: "normal equations", the p equations above; "kernel", as many as
        there are residuals, for the same v; "block cholesky", which divides JᵀJ over the ranks;
        "qr"; "matrix free", which forms neither JᵀJ nor J; "windows", for a network of `Windows`,
        whose JᵀJ is banded; or "auto", which chooses by the size and the free memory.
    start : "least-squares" lets `LeastSquares` make the first of the steps: it solves for the
        output layer, and the network must end with a linear layer. None, the default, does not.
        The initial loss falls by orders of magnitude. A network whose hidden layers are trained
        then usually converges more slowly, to a larger error; see the documentation.

    Raises
    ------
    InputError
        A value cannot be used; or, before the first step, `start` is given and the network's
        output is not known to be linear in some of its weights.

    Notes
    -----
    A step costs the Jacobian, the product JᵀJ, in which the time goes for many parameters, and a
    few evaluations of the residuals. All ranks make the same step: see `NormalEquations`
    and `KernelForm`.
    """

    condition_weight: ClassVar[float] = 100.0
    prefers_centres: ClassVar[bool] = True
    default_steps: ClassVar[int] = 1_000
    second_order: ClassVar[bool] = True
    least_squares: ClassVar[bool] = True
    most_left: ClassVar[float] = 0.1

    _: KW_ONLY
    damping: float = 1e-2
    geodesic: bool = True
    scale_columns: bool = False
    trials: int = 12
    solver: str = AUTO
    start: str | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(name, damping=self.damping)
        check_flag(name, "geodesic", self.geodesic)
        check_flag(name, "scale_columns", self.scale_columns)
        checked_integer(self.trials, f"{name}: trials", least=1)
        check_solver(name, self.solver)
        if not (isinstance(self.start, str | None) and self.start in (None, LEAST_SQUARES)):
            raise InputError(
                f"{name}: expected start to be {LEAST_SQUARES!r} or None; got {self.start!r}."
            )

    def in_phases(self, steps: int) -> tuple[tuple[Optimizer, int], ...]:
        if self.start is None:
            return ((self, steps),)
        from sciml_par.training.optimizers.least_squares.least_squares import LeastSquares

        pairs = ((LeastSquares(), 1), (replace(self, start=None), steps - 1))
        return pairs if steps > 1 else pairs[:1]

    def for_size(
        self,
        p: int,
        rows: int,
        ranks: int,
        memory: int | None,
        *,
        members: int = 1,
        band: WindowBand | None = None,
    ) -> tuple[LevenbergMarquardt, str]:
        """Return the same with the solver for this size, and a sentence for the user or "".

        Raises
        ------
        InputError
            The chosen solver does not fit into the memory.
        """
        taken, sentence = choose_solver(
            p, rows, ranks, memory, solver=self.solver, members=members, band=band
        )
        if taken in (NORMAL_EQUATIONS, KERNEL):
            return self, sentence  # the step takes the one with the smaller matrix
        return replace(self, solver=taken), sentence

    @property
    def needs(self) -> type[Known]:  # type: ignore[override]
        if self.solver == WINDOWS:
            return WindowJacobian
        return LinearMap if self.solver == MATRIX_FREE else Jacobian

    def init(self, objective: Objective, parameters: Tensor) -> State:
        members = parameters.shape[0]
        return State(
            tf.fill([members], tf.constant(self.damping, tf.float64)),
            tf.zeros(parameters.shape, tf.float64),
            tf.zeros([members], tf.float64),
            tf.zeros([members], tf.bool),
        )

    def report(self, state: State) -> Report:
        return Report({"λ": state.damping, "|step|": state.step_length}, state.stuck)

    def step(
        self, objective: Objective, parameters: Tensor, state: State, batch: Batch, at: At
    ) -> tuple[Tensor, State, Tensor]:
        system = make_system(
            self.solver, objective, batch, parameters.shape[1], scaled=self.scale_columns
        )
        line = system.linearize(objective, parameters, batch)
        norms, scale = state.column_norms, tf.ones_like(state.column_norms)
        if self.scale_columns:
            norms = tf.maximum(norms, tf.sqrt(system.squared_column_norms(line)))
            scale = tf.maximum(norms, 1e-8 * tf.reduce_max(norms, axis=1, keepdims=True))
        trial = Trial(objective, batch, parameters, system, line, scale, self.geodesic)

        def unfinished(trials: Trials) -> Tensor:
            return tf.reduce_any(~trials.accepted & (trials.tried < self.trials))

        members = parameters.shape[0]
        begin = Trials(
            tf.zeros([members], tf.int32),
            # Members that have ended try nothing, for which the others would wait.
            tf.zeros([members], tf.bool) if at.running is None else ~at.running,
            state.damping,
            tf.fill([members], tf.constant(2.0, tf.float64)),
            tf.zeros(parameters.shape, tf.float64),
        )
        (end,) = tf.while_loop(unfinished, lambda trials: (trial(trials),), (begin,))
        after = State(
            tf.where(
                end.accepted, tf.maximum(end.damping, _LEAST_DAMPING * self.damping), state.damping
            ),
            norms,
            tf.norm(end.change, axis=1),
            # On other points the next step may succeed.
            ~end.accepted & at.same_points,
        )
        changed = parameters + tf.cast(or_not_finite(end.change, line), parameters.dtype)
        return changed, after, tf.cast(line.terms, parameters.dtype)
