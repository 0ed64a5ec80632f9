"""What there is to say before a training by an optimizer of least squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sciml_par.training.parameter_layout import ParameterLayout
from sciml_par.training.phases import Phase
from sciml_par.training.stack import MemberSetup

_ROWS_PER_PARAMETER = 2.4  # measured: with fewer, the error rises while the loss falls


def uses_least_squares(phases: Sequence[Phase]) -> bool:
    """Whether an optimizer minimizes by the residuals' Jacobian."""
    return any(getattr(phase.optimizer, "least_squares", False) for phase in phases)


def advice(phases: Sequence[Phase], setup: MemberSetup, precision: str) -> Iterator[str]:
    """Sentences on precision, minibatches and the number of points (local)."""
    if not uses_least_squares(phases):
        return
    name = next(
        type(phase.optimizer).__name__
        for phase in phases
        if getattr(phase.optimizer, "least_squares", False)
    )
    if precision == "float32":
        yield (
            f"in single precision {name} ends where rounding hides what a step gains, for most "
            f"problems far above what it can reach; precision='float64' goes on from there."
        )
    if setup.feed.steps_per_epoch > 1:
        yield (
            f"{name} takes each step for a minibatch alone, whose least squares are not those of "
            f"all points; leave batch_size out, so that every step uses all of them."
        )
    layout = ParameterLayout.of(_variables(setup), setup.problem.unknowns)
    rows, parameters = residuals_of(setup), layout.size
    if rows < _ROWS_PER_PARAMETER * parameters:
        yield (
            f"{rows:,} residuals are few for {parameters:,} parameters: {name} can make them all "
            f"vanish, while the error between the points rises. Take points for "
            f"{_ROWS_PER_PARAMETER * parameters:,.0f} residuals or more, or a smaller network; "
            f"validation_loss of the result's members is the loss at other points."
        )


def residuals_of(setup: MemberSetup) -> int:
    """The rows of the vector of residuals over all ranks: points times components (local)."""
    assert setup.traced is not None
    pairs = zip(setup.feed.totals, setup.traced.components, strict=True)
    return sum(total * components for total, components in pairs)


def _variables(setup: MemberSetup) -> Sequence[Any]:
    return setup.network.trainable_variables
