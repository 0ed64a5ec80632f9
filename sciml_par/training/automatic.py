"""The optimizer that suits the size of a problem, where the caller leaves it open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par.training.least_squares.levenberg_marquardt import LevenbergMarquardt
from sciml_par.training.optimizers.adam import Adam

AUTO = "auto"

_MOST_PARAMETERS = 2_000
_MOST_PRODUCTS = 2e10  # a few seconds on one core


@dataclass(frozen=True)
class Size:
    """What the choice depends on; the same on any number of ranks.

    Attributes
    ----------
    parameters : p, of a member.
    residuals : N, rows of the vector of residuals of all ranks.
    whole : whether every step uses all points.
    """

    parameters: int
    residuals: int
    whole: bool


def largest(sizes: Sequence[Size | None]) -> Size | None:
    """One that is at least each of them, of those that are known (local)."""
    known = [size for size in sizes if size is not None]
    if not known:
        return None
    return Size(
        max(size.parameters for size in known),
        max(size.residuals for size in known),
        all(size.whole for size in known),
    )


def choose(size: Size, precision: str, *, rates: bool = False) -> tuple[Any, str]:
    """The optimizer for problems of this size, and a line that says so (local).

    Parameters
    ----------
    rates : whether members have learning rates of their own.
    """
    parameters, residuals = size.parameters, size.residuals
    against = None
    if rates:
        against = "members have learning rates"
    elif not size.whole:
        against = "steps use minibatches"
    elif parameters > _MOST_PARAMETERS:
        against = f"more than {_MOST_PARAMETERS:,} parameters"
    elif residuals * parameters**2 > _MOST_PRODUCTS:
        against = "so many residuals make long steps"
    elif precision != "float64":
        against = "precision='float64' would allow LevenbergMarquardt"
    chosen: Any = LevenbergMarquardt() if against is None else Adam()
    reason = "" if against is None else f" ({against})"
    said = (
        f"optimizer: {type(chosen).__name__}, for {parameters:,} parameters, {residuals:,} "
        f"residuals, {precision}{reason}"
    )
    return chosen, said
