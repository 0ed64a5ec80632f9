"""The outcome of the training of one model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from sciml_par._text import rank_list
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.data import Prediction, Shard
from sciml_par.evaluation.figures.parts.observed import Observed
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.results.data_fit import DataFit
from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.results.growth import Growth, over_fits
from sciml_par.results.linearized import Linearized
from sciml_par.results.trained_field import FieldForm
from sciml_par.results.unknown_values import NO_UNKNOWNS, UnknownValues

FINISHED, NOT_FINITE, DIVERGED = "finished", "not finite", "diverged"
SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2")
WALL_TIME = "wall time"
"""What `ended` may be where a training was stopped from outside."""
FAR_ABOVE = 1e3
"""A loss that ends at more than this many times its best has risen far."""
_FALL = 10.0
"""By which the loss must have fallen before, for the best weights to be those of a training."""
_ENOUGH_STEPS, _MISSED = 60, 0.5
_NO_DECREASE = "no further decrease"
_MOST_LEFT, _OF_LINEAR = 0.5**0.5, 0.01
"""Shares of the right side that are worth a remark when they are left, and of linear methods, which
solve in the first step."""


@dataclass(frozen=True)
class PredictionElsewhere:
    """A prediction whose arrays are on rank 0, and on the rank that trained the member.

    Attributes
    ----------
    known : whether there is an exact solution to compare with.
    relative_l2_error : as that of `sciml_par.evaluation.Prediction`.
    """

    known: bool
    relative_l2_error: float

    @classmethod
    def of(cls, prediction: Prediction | PredictionElsewhere) -> PredictionElsewhere:
        """Return what other ranks have of a prediction."""
        return cls(prediction.known, prediction.relative_l2_error)

    def __getattr__(self, name: str) -> NoReturn:
        if name not in ("x", "u", "u_exact", "exact"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise InputError(
            f"Result: the arrays of a prediction ({name}) are on rank 0 and on the rank that "
            f"trained the member; others have its relative_l2_error and losses. Read them on rank "
            f"0, or from predictions.npz, or predict anew with result.networks on the rank that "
            f"has the network."
        )


@dataclass(frozen=True)
class RankContribution:
    """The contribution of one rank to a model.

    Attributes
    ----------
    rank : which rank.
    points : how many interior training points it had.
    shard : its sub-domain, unless the points were given; and, on rank 0, interior training points
        of that rank for the figures, [k, d]: all, or as many as a figure needs. Elsewhere those
        of this rank alone, [0, d] for others.
    seconds_compile, seconds_train : spent in compilation, and in steps.
    """

    rank: int
    points: int
    shard: Shard
    seconds_compile: float
    seconds_train: float

    @property
    def lower(self) -> FloatArray | None:
        """The lower corner of the sub-domain, [d], or None where points were given."""
        return None if self.shard.corners is None else self.shard.corners[0]

    @property
    def upper(self) -> FloatArray | None:
        """The upper corner of the sub-domain, [d], or None where points were given."""
        return None if self.shard.corners is None else self.shard.corners[1]

    @property
    def sample(self) -> FloatArray:
        """The training points of the shard, [k, d]."""
        assert self.shard.training_points is not None
        return self.shard.training_points

    def elsewhere(self) -> RankContribution:
        """Return what other ranks have of it, [0, d] points."""
        return replace(self, shard=replace(self.shard, training_points=self.sample[:0]))


@dataclass(frozen=True)
class Weights:
    """The weights of a trained network as flat vectors.

    Attributes
    ----------
    best : those with the least loss, [p].
    last : those after the last update, [p].
    """

    best: npt.NDArray[Any]
    last: npt.NDArray[Any]


@dataclass(frozen=True)
class History:
    """The recorded losses of a member.

    Attributes
    ----------
    member : its number.
    steps : [s]; the other arrays hold what was after that many updates.
    losses : [s].
    terms : what each term of the loss has contributed with its weight, by name, [s] each.
    unknowns : the values of the unknowns, by name, [s, *shape] each.
    weights : the factors of the terms by a strategy, by name, [s] each; of
        points, the mean over those of all ranks. Empty where there was no strategy.
    """

    member: int
    steps: npt.NDArray[np.int64]
    losses: FloatArray
    terms: dict[str, FloatArray]
    unknowns: dict[str, FloatArray] = dataclasses.field(default_factory=dict)
    weights: dict[str, FloatArray] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """One trained model.

    Attributes
    ----------
    number : of the member in the ensemble; 0 in data mode.
    rank : the rank that holds it (in data mode all do, and it is 0).
    problem : name of the problem that it solves.
    seed : of its initial weights.
    steps : updates made.
    steps_asked : updates that were to be made, over all phases.
    ended : why there were no more: "all steps", "target loss", "no progress", "not finite", "no
        further decrease", "wall time", the name of a signal, or what a callback gave as its reason.
    loss : after the last update, over the points of all ranks that trained it; where that is not
        finite, that of the best weights.
    best_loss, best_step : the least loss, and after how many updates.
    kept : "best" or "last": which weights predict.
    loss_steps, losses : the loss after loss_steps[k] updates was losses[k].
    terms : the names of the loss's terms, T of them.
    term_losses : what the terms with their weights have contributed to `losses`, [s, T].
    times_brought_together : how often rounding had driven the ranks' replicas apart, so that they
        got rank 0's weights.
    largest_drift : how far, as ‖θ − θ₀‖ / ‖θ₀‖.
    stacked_with : the numbers of all members of its stacked computation.
    prediction : on the evaluation points, common to all members.
    on_own_domain : on the member's own domain; the same object as `prediction` where that is the
        same domain.
    weights : best and last, on rank 0 and on the ranks that trained it; None elsewhere.
    architecture : of its network, as a text that is equal for networks of equal architecture.
    contributions : of the ranks that trained it, in order.
    validation_loss : the loss of the weights that predict at points that were not trained on; NaN
        where it is not known, as of residuals that hold values for the training points alone, of
        clouds, and of the other weights of `Result.using`.
    zero_loss : the same of a network that is zero everywhere; NaN also where weights of zero do
        not make one.
    misfits : by how much conditions that give u, or its normal derivative, are missed there, by
        the names of their terms: the root mean square as a multiple of that of u or ∇u, or of what
        the condition gives where that is larger.
    fits : how well observations with noise are fitted, as `sciml_par.results.DataFit`, by the names
        of their terms.
    held_out : √((1/N) Σ_i |r(x_i)|²) over the values that are held out, by the names of their
        terms, in units of u or, where it is known, of the deviation of their errors.
    unknown_values : what it found of the unknowns of its problem.
    term_weights : what a strategy has multiplied the terms by in the steps after `loss_steps`, [s,
        T], which `losses` and `term_losses` do not hold; [s, 0] where there was no strategy.
    functions : the unknown functions of its problem, as
        `sciml_par.results.member_function.MemberFunction`.
    form : what its problem makes of its network.
    field : u(x; θ) as a `sciml_par.results.trained_field.TrainedField`, where the network is; None
        or a sentence that says what to do elsewhere.
    error : the estimate of its error, or None.
    linearized : how the errors of its data move its parameters, or None.
    growths : the points that were added on the way. Losses before and after do not compare.
    sizes : what residuals were divided by in the loss, by the names of their terms; empty where
        their units did not ask for it.
    most_left : the share of the right side, the root of `zero_loss`, above which what is left of it
        at other points is worth a remark; it depends on the optimizer.
    observations : the data of `linearized` for figures, on rank 0 and on the ranks that trained
        it; of more than 2,000 a random part. Without `linearized`, all observations of u, of the
        first member alone.
    """

    number: int
    rank: int
    problem: str
    seed: int
    steps: int
    steps_asked: int
    ended: str
    loss: float
    best_loss: float
    best_step: int
    kept: str
    loss_steps: npt.NDArray[np.int64]
    losses: FloatArray
    terms: tuple[str, ...]
    term_losses: FloatArray
    times_brought_together: int
    largest_drift: float
    stacked_with: tuple[int, ...]
    prediction: Prediction | PredictionElsewhere
    on_own_domain: Prediction | PredictionElsewhere
    weights: Weights | None
    architecture: str
    contributions: tuple[RankContribution, ...]
    validation_loss: float = math.nan
    zero_loss: float = math.nan
    misfits: Mapping[str, float] = dataclasses.field(default_factory=dict)
    fits: Mapping[str, DataFit] = dataclasses.field(default_factory=dict)
    held_out: Mapping[str, float] = dataclasses.field(default_factory=dict)
    unknown_values: UnknownValues = dataclasses.field(default_factory=lambda: NO_UNKNOWNS)
    term_weights: FloatArray = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    functions: tuple[Any, ...] = ()
    form: FieldForm = dataclasses.field(default_factory=FieldForm)
    field: Any = None
    error: ErrorEstimate | None = None
    linearized: Linearized | None = None
    growths: tuple[Growth, ...] = ()
    sizes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    most_left: float = _MOST_LEFT
    observations: tuple[Observed, ...] = dataclasses.field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.term_weights.size:
            none = np.empty((len(self.loss_steps), self.term_weights.shape[1]))
            object.__setattr__(self, "term_weights", none)
        if self.error is not None and self.fits:
            error = dataclasses.replace(self.error, data_with_errors=True)
            object.__setattr__(self, "error", error)

    def elsewhere(self) -> Member:
        """Return what ranks have of it that have not trained it, but for rank 0."""
        linearized = self.linearized
        return replace(
            self,
            prediction=PredictionElsewhere.of(self.prediction),
            on_own_domain=PredictionElsewhere.of(self.on_own_domain),
            weights=None,
            field=None,
            error=self.error and self.error.without_field(),
            linearized=linearized and replace(linearized, steps=linearized.steps_of_unknowns),
            functions=tuple(each.elsewhere() for each in self.functions),
            observations=(),
            contributions=tuple(each.elsewhere() for each in self.contributions),
        )

    @property
    def history(self) -> History:
        """Its recorded losses."""
        terms = {name: self.term_losses[:, t] for t, name in enumerate(self.terms)}
        unknowns = self.unknown_values.by_name(self.unknown_values.history)
        # Without a strategy there are no columns of weights.
        weights = dict(zip(self.terms, self.term_weights.T, strict=False))
        return History(self.number, self.loss_steps, self.losses, terms, unknowns, weights)

    @property
    def kept_unknowns(self) -> FloatArray:
        """The values of the unknowns for the weights that predict, [q]."""
        values = self.unknown_values
        return values.best if self.kept == "best" else values.last

    @property
    def unknowns(self) -> dict[str, Any]:
        """The same by name: a float, or an array of the shape of the unknown."""
        return self.unknown_values.by_name(self.kept_unknowns)

    @property
    def finite(self) -> bool:
        """Whether its loss was finite to the end."""
        return self.ended != NOT_FINITE

    @property
    def points(self) -> int:
        """The number of interior training points on all ranks that trained it."""
        return sum(each.points for each in self.contributions)

    @property
    def kept_loss(self) -> float:
        """The loss of the weights that predict."""
        return self.best_loss if self.kept == "best" else self.loss

    @property
    def status(self) -> str:
        """ "finished"; "not finite" if it ended before; "diverged" if the kept weights are lost.

        A loss that ends at more than `FAR_ABOVE` times its best, where that is more than what
        rounding makes of a loss of zero in single precision, leaves its last weights useless. The
        best ones are those of a training if the loss had fallen to a tenth of the first before.
        """
        if not self.finite:
            return NOT_FINITE
        lost = self.kept == "last" or self.best_loss * _FALL > self.losses[0]
        return DIVERGED if self.rise > FAR_ABOVE and lost else FINISHED

    @property
    def rise(self) -> float:
        """The last loss as a multiple of the best (dimensionless)."""
        rounding = float(np.finfo(np.float32).eps) ** 2
        return self.loss / max(self.best_loss, rounding)

    @property
    def losses_of_equations(self) -> tuple[float, float]:
        """The loss of the weights that predict and that at other points, without the noise.

        What noisy observations add is the same in both, and would hide by how much equations that
        hold at the points of the training are violated at others.
        """
        data = sum(fit.loss for fit in self.fits.values())
        return max(self.kept_loss - data, 0.0), self.validation_loss - data

    @property
    def over_fitted(self) -> bool | None:
        """Whether the loss is much larger at other points, or None; see `over_fits`."""
        if math.isnan(self.validation_loss):
            return None
        here, elsewhere = self.losses_of_equations
        return over_fits(elsewhere, here, float(self.losses[0]))

    @property
    def found_little(self) -> bool:
        """Whether more of the right side is left at the end than the optimizer should leave.

        That is `most_left`, or half of the loss of a network of zeros where the error is known.
        False before 60 steps, unless no step lowered the loss any further or one step is a whole
        solution, as of `LeastSquares`; and if the member is over-fitted.
        """
        known = self.error is not None and self.error.known
        ended = self._has_ended or self.most_left <= _OF_LINEAR
        most = _MOST_LEFT if known else self.most_left
        return bool(ended and not self.over_fitted and self.share_left > most)

    @property
    def share_left(self) -> float:
        """The share of the right side that is left at other points; NaN where u = 0 is a solution.

        It is the root of the loss over that of a network of zeros. What the noise of observations
        leaves is in both losses, and is not counted.
        """
        noise = sum(fit.loss for fit in self.fits.values() if not fit.too_large)
        left, at_first = self.validation_loss - noise, self.zero_loss - noise
        return math.sqrt(max(left, 0.0) / at_first) if at_first > 0 else math.nan

    @property
    def _has_ended(self) -> bool:
        """Whether the training made 60 steps, or none lowered the loss any further."""
        return self.steps >= _ENOUGH_STEPS or self.ended == _NO_DECREASE

    @property
    def missed(self) -> tuple[str, ...]:
        """The conditions that are missed by half of the size of u or more, when it has ended."""
        if not self._has_ended or not self.zero_loss > 0:
            return ()
        return tuple(name for name, ratio in self.misfits.items() if ratio > _MISSED)

    @property
    def seems_over_fitted(self) -> bool:
        """Whether it is over-fitted, and no known error says how wrong it is."""
        return bool(self.over_fitted and not (self.error and self.error.known))

    @property
    def doubtful(self) -> bool:
        """Whether the losses at other points speak against the prediction."""
        unlikely = any(fit.too_large or fit.too_small for fit in self.fits.values())
        return bool(self.seems_over_fitted or self.found_little or self.missed or unlikely)

    @property
    def seconds_compile(self) -> float:
        """The time of compilation, on the slowest rank."""
        return max(each.seconds_compile for each in self.contributions)

    @property
    def seconds_train(self) -> float:
        """The time of all steps, on the slowest rank."""
        return max(each.seconds_train for each in self.contributions)

    @property
    def microseconds_per_step(self) -> float:
        """The time of a step, on the slowest rank; NaN without steps."""
        return 1e6 * self.seconds_train / self.steps if self.steps else float("nan")


def in_the_mean(members: Sequence[Member]) -> list[bool]:
    """Return which members enter mean and deviation; all, if none of them finished.

    They are judged by the weights that they keep: a member whose loss became infinite enters if
    its kept weights have no larger loss than those of some member of the same problem that
    finished.
    """
    finished = [member for member in members if member.status == FINISHED]
    worst: dict[Any, float] = {}
    for member in finished:
        key = member.problem, member.terms
        worst[key] = max(worst.get(key, 0.0), member.kept_loss)
    return [
        not finished
        or member.status == FINISHED
        or (
            member.status == NOT_FINITE
            and member.kept_loss <= worst.get((member.problem, member.terms), -1.0)
        )
        for member in members
    ]


def ranks_of(members: Iterable[Member]) -> list[int]:
    """Return the ranks that trained these members, in order, each once."""
    return sorted({each.rank for member in members for each in member.contributions})


def numbers_text(numbers: Sequence[int]) -> str:
    """Return "member 3", "members 0, 2 and 5" or "members 0–63", of ascending numbers."""
    return rank_list(numbers).replace("rank", "member", 1)
