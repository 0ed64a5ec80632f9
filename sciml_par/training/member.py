"""What the training of one model gave."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sciml_par.evaluation.norms import relative_l2_error

FloatArray = npt.NDArray[np.float64]


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
        """‖u − u*‖₂ / ‖u*‖₂ (dimensionless), NaN where u* is not known."""
        return float(relative_l2_error(self.u, self.u_exact)) if self.known else float("nan")


@dataclass(frozen=True)
class Portion:
    """What one rank contributed to a model.

    Attributes
    ----------
    rank : which rank.
    points : its interior training points, [n, d].
    lower, upper : corners of its sub-domain, [d] each, or None where points were given.
    seconds_compile, seconds_train : spent in compilation, and in steps.
    """

    rank: int
    points: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    seconds_compile: float
    seconds_train: float


@dataclass(frozen=True)
class Member:
    """One trained model.

    Attributes
    ----------
    number : of the member in the ensemble; 0 in data mode.
    rank : the rank that holds it (in data mode all do, and it is 0).
    problem : name of the problem that it solves.
    seed : of its initial weights.
    steps : updates.
    loss : after the last update, over the points of all ranks that trained it.
    loss_steps, losses : the loss after loss_steps[k] updates was losses[k].
    prediction : on the evaluation points, common to all members.
    own : on the member's own domain; the same as `prediction` where that is the same domain.
    portions : of the ranks that trained it, in order.
    """

    number: int
    rank: int
    problem: str
    seed: int
    steps: int
    loss: float
    loss_steps: npt.NDArray[np.int64]
    losses: FloatArray
    prediction: Comparison
    own: Comparison
    portions: tuple[Portion, ...]

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
        """On the slowest rank."""
        return 1e6 * self.seconds_train / self.steps

    def with_portions(self, portions: tuple[Portion, ...]) -> Member:
        """The same model with the portions of several ranks."""
        return replace(self, portions=portions)
