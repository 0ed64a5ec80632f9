"""When a model over-fits its points, and the points that were added for that."""

from __future__ import annotations

from typing import NamedTuple

_MANY_TIMES, _LITTLE = 10, 1e-9


class Growth(NamedTuple):
    """Points that `train` has added, since the model over-fitted those that it had.

    Attributes
    ----------
    step : after how many updates.
    before, after : how many interior points were asked for, and are since.
    loss, validation_loss : at the points until then, and at others, both without what the noise of
        observations adds.
    """

    step: int
    before: int
    after: int
    loss: float
    validation_loss: float

    def __str__(self) -> str:
        return (
            f"points: {self.before:,} → {self.after:,} after step {self.step:,}, since the loss "
            f"was {self.loss:.1e} at these and {self.validation_loss:.1e} at others"
        )


def over_fits(validation_loss: float, loss: float, first: float) -> bool:
    """Return whether a loss at other points is much larger than that at the training points.

    Much larger is more than 10 times, and more than 1e-9 of the first: with less, the errors in the
    catalogue are below 1e-4, however small the loss is.
    """
    return bool(validation_loss > max(_MANY_TIMES * loss, _LITTLE * first))
