"""What there is to say before a training by an optimizer of least squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sciml_par.training.members.stack import MemberSetup
from sciml_par.training.optimizers.phases import Phase


def advice(phases: Sequence[Phase], setup: MemberSetup, precision: str) -> Iterator[str]:
    """Sentences on precision and minibatches."""
    optimizers = [phase.optimizer for phase in phases]
    names = [type(o).__name__ for o in optimizers if o.least_squares]
    if not names:
        return
    name = names[0]
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


def residuals_of(setup: MemberSetup) -> int:
    """Return the rows of the vector of residuals over all ranks: points times components."""
    assert setup.traced is not None
    pairs = zip(setup.feed.totals, setup.traced.components, strict=True)
    return sum(total * components for total, components in pairs)
