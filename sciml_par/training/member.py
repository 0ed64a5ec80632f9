"""What the training of one model gave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from sciml_par.errors import InputError
from sciml_par.evaluation.norms import relative_l2_error

FloatArray = npt.NDArray[np.float64]

FINISHED, NOT_FINITE, DIVERGED = "finished", "not finite", "diverged"
FAR_ABOVE = 1e3
"""A loss that ends at more than this many times its best has diverged."""


@dataclass(frozen=True)
class Comparison:
    """A prediction beside the exact solution.

    Attributes
    ----------
    x : points, [n, d].
    u : prediction, [n, m].
    u_exact : exact solution, [n, m]; all NaN where it is not known.
    """

    x: FloatArray
    u: FloatArray
    u_exact: FloatArray

    @property
    def known(self) -> bool:
        """Whether there is an exact solution to compare with."""
        return not bool(np.isnan(self.u_exact).all())

    @property
    def relative_l2_error(self) -> float:
        """‖u − u*‖₂ / ‖u*‖₂ (dimensionless), NaN where u* is not known or zero everywhere."""
        if not self.known or not self.u_exact.any():
            return float("nan")
        return float(relative_l2_error(self.u, self.u_exact))

    def elsewhere(self) -> ComparisonElsewhere:
        """What a rank that does not hold the arrays has of it."""
        return ComparisonElsewhere(self.known, self.relative_l2_error)


@dataclass(frozen=True)
class ComparisonElsewhere:
    """A comparison whose arrays are on rank 0, and on the rank that trained the member.

    Attributes
    ----------
    known : whether there is an exact solution to compare with.
    relative_l2_error : as that of `Comparison`.
    """

    known: bool
    relative_l2_error: float

    @property
    def x(self) -> NoReturn:
        """Not here: raises `InputError`."""
        raise self._not_here("x")

    @property
    def u(self) -> NoReturn:
        """Not here: raises `InputError`."""
        raise self._not_here("u")

    @property
    def u_exact(self) -> NoReturn:
        """Not here: raises `InputError`."""
        raise self._not_here("u_exact")

    def _not_here(self, name: str) -> InputError:
        return InputError(
            f"Result: the arrays of a prediction ({name}) are on rank 0 and on the rank that "
            f"trained the member; others have its relative_l2_error and losses. Read them on rank "
            f"0, or from predictions.npz, or predict anew with result.networks on the rank that "
            f"has the network."
        )


@dataclass(frozen=True)
class Portion:
    """What one rank contributed to a model.

    Attributes
    ----------
    rank : which rank.
    points : how many interior training points it had.
    lower, upper : corners of its sub-domain, [d] each, or None where points were given.
    seconds_compile, seconds_train : spent in compilation, and in steps.
    sample : on rank 0, interior training points of that rank for the figures, [k, d]: all, or as
        many as a figure needs; elsewhere those of this rank alone, [0, d] for others.
    """

    rank: int
    points: int
    lower: FloatArray | None
    upper: FloatArray | None
    seconds_compile: float
    seconds_train: float
    sample: FloatArray


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
    steps_asked : updates that were to be made; more than `steps` if the loss was not finite.
    loss : after the last update, over the points of all ranks that trained it.
    loss_steps, losses : the loss after loss_steps[k] updates was losses[k].
    finite : whether it came to its end; else it has the last weights whose loss was finite.
    times_brought_together : how often rounding had driven the ranks' replicas apart, so that they
        got rank 0's weights.
    largest_drift : how far, as ‖θ − θ₀‖ / ‖θ₀‖.
    prediction : on the evaluation points, common to all members.
    own : on the member's own domain; the same as `prediction` where that is the same domain.
    portions : of the ranks that trained it, in order.
    """

    number: int
    rank: int
    problem: str
    seed: int
    steps: int
    steps_asked: int
    loss: float
    loss_steps: npt.NDArray[np.int64]
    losses: FloatArray
    finite: bool
    times_brought_together: int
    largest_drift: float
    prediction: Comparison | ComparisonElsewhere
    own: Comparison | ComparisonElsewhere
    portions: tuple[Portion, ...]

    @property
    def best_loss(self) -> float:
        """The least loss that was recorded."""
        finite = self.losses[np.isfinite(self.losses)]
        return float(finite.min()) if len(finite) else float("nan")

    @property
    def status(self) -> str:
        """ "finished"; "not finite" if it ended before; "diverged" if its loss ended far above.

        Far above is more than `FAR_ABOVE` times the best recorded loss, where that is more than
        what rounding makes of a loss of zero in single precision.
        """
        if not self.finite:
            return NOT_FINITE
        rounding = float(np.finfo(np.float32).eps) ** 2
        return DIVERGED if self.loss > FAR_ABOVE * max(self.best_loss, rounding) else FINISHED

    @property
    def seconds_compile(self) -> float:
        """Of compilation, on the slowest rank."""
        return max(p.seconds_compile for p in self.portions)

    @property
    def seconds_train(self) -> float:
        """Of steps, on the slowest rank."""
        return max(p.seconds_train for p in self.portions)

    @property
    def microseconds_per_step(self) -> float:
        """On the slowest rank; NaN without steps."""
        return 1e6 * self.seconds_train / self.steps if self.steps else float("nan")

    def with_portions(self, portions: tuple[Portion, ...]) -> Member:
        """The same model with other portions."""
        return replace(self, portions=portions)
