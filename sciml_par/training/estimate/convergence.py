"""Whether Gauss–Newton has converged, without which no residual tells the error of its solution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sciml_par.results.error_estimate import ErrorEstimate
from sciml_par.training.estimate.two_solutions import sizes_of
from sciml_par.training.optimizers.least_squares.least_squares import LastStep

Array = npt.NDArray[Any]

_LARGER = 10.0
"""Times the claimed error, from which a last step contradicts the claim."""
LARGE = 0.05
"""Of u, from which a last step is the reason why an error is not known."""
NOT_CONVERGED = "the Gauss–Newton steps have not converged"


class Stepped(Protocol):
    """A solution by steps of Gauss–Newton: its parameters, [p], and the last step."""

    @property
    def end(self) -> Array: ...  # noqa: D102
    @property
    def last(self) -> LastStep: ...  # noqa: D102
    def solution(self, theta: Array | None = None) -> Any:
        """Return u, by default at the end (local)."""


def step_size(solved: Stepped, x: Array, free: Sequence[int] = ()) -> float:
    """Return the change of u by the whole last step, relative to u (local).

    Where the linearized equation amplifies, such as e^{λt}, a small residual asks for a large step.
    """
    theta = solved.end
    u = solved.solution(theta)(x)
    e = solved.solution((theta - solved.last.direction).astype(theta.dtype))(x) - u
    return sizes_of(e, u, free)[0] if np.isfinite(e).all() else np.inf


def if_converged(
    error: ErrorEstimate, solved: Stepped, at: tuple[Array, Array], free: Sequence[int]
) -> ErrorEstimate:
    """Return the error, but not known if the last step is too large for it (local)."""
    x, inside = at
    size = step_size(solved, x[inside], free)
    if not size > (_LARGER * error.relative if error.known else LARGE):
        return error
    return ErrorEstimate.not_known(
        len(error.absolute), reason_of(size), reliability=error.reliability, seconds=error.seconds
    )


def reason_of(size: float) -> str:
    """Return why no error is known after a last step of this size, relative to u."""
    return (
        f"{NOT_CONVERGED}: the linearized equation turns the remaining residual into a change of u "
        f"by {size:.1g} of its size, and the step there does not lower the residual; begin "
        f"nearer to the solution by start=, or train(problem, …) on slabs of time."
    )
