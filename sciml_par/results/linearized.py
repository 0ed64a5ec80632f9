"""How the errors of the data move the parameters of a trained model, linearized at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.unknowns.unknowns import Unknown, Unknowns, numbers_of


@dataclass(frozen=True, eq=False)
class Linearized:
    """The normal distribution of the parameters θ around those of a member, given its data.

    Attributes
    ----------
    steps : directions in θ, one standard deviation each, [f, p]: the network's weights, those of
        unknown functions and the parameters of unknowns, in this order.
    parameters : of the unknowns, [q], at which it is linearized.
    shift : what a further step of the training would add to these, [q].
    unknowns : the unknowns by name, for their values at other parameters.
    rows : the number n of data.
    chi_square : the sum of the squares of their errors in units of their deviations.
    freedom : how many degrees of freedom the directions take from the data.
    degrees : of freedom of Student's t, of data whose deviation was not known and is that of
        their residuals; infinite where it was.
    scale : by what the deviation that was guessed for these data is multiplied; otherwise 1.
    dependence : the largest relative change of a deviation where the equation may be violated ten
        times less.
    reason : why it is not known; "" if it is.
    seconds : its duration.
    """

    steps: FloatArray
    parameters: FloatArray
    shift: FloatArray
    unknowns: Unknowns
    rows: int = 0
    chi_square: float = math.nan
    freedom: float = math.nan
    degrees: float = math.inf
    scale: float = 1.0
    dependence: float = 0.0
    reason: str = ""
    seconds: float = math.nan

    @classmethod
    def not_known(cls, reason: str, *, seconds: float = math.nan) -> Linearized:
        """Return one that is not known."""
        none: Mapping[str, Unknown] = {}
        return cls(np.empty((0, 0)), np.empty(0), np.empty(0), none, reason=reason, seconds=seconds)

    @property
    def known(self) -> bool:
        """Whether deviations are known."""
        return not self.reason

    def quantile(self, level: float, *, draws: int | None = None) -> float:
        """Return how many deviations an interval of this level reaches to each side.

        draws : the number of those that the deviation is of, rather than of this distribution.
        """
        from scipy.stats import norm, t

        degrees = min(self.degrees, math.inf if draws is None else draws - 1)
        upper = (1 + level) / 2
        return float(norm.ppf(upper) if math.isinf(degrees) else t.ppf(upper, degrees))

    @property
    def steps_of_unknowns(self) -> FloatArray:
        """The part of the steps that belongs to the parameters of unknowns, [f, q]."""
        return self.steps[:, self.steps.shape[1] - len(self.parameters) :]

    @property
    def values(self) -> FloatArray:
        """The values of the unknowns, [q]."""
        return numbers_of(self.unknowns, self.parameters)

    @property
    def slopes(self) -> FloatArray:
        """The derivatives of the values by their parameters, [q]."""
        h = 1e-5
        up, down = (numbers_of(self.unknowns, self.parameters + s * h) for s in (1, -1))
        return (up - down) / (2 * h)

    @property
    def covariance(self) -> FloatArray:
        """The covariance of the values of unknowns, [q, q]; NaN where it is not known."""
        if not self.known:
            return np.full((len(self.parameters), len(self.parameters)), math.nan)
        moved = self.steps_of_unknowns * self.slopes
        return moved.T @ moved

    def intervals(self, level: float) -> FloatArray:
        """Return the interval of each number, [q, 2], symmetric in its parameter; or NaN."""
        if not self.known:
            return np.full((len(self.parameters), 2), math.nan)
        reach = self.quantile(level) * np.sqrt(np.sum(self.steps_of_unknowns**2, axis=0))
        return self.around(reach)

    def around(self, reach: FloatArray) -> FloatArray:
        """Return the values, [q, 2], where parameters are away by `reach`, [q], to both sides."""
        ends = [numbers_of(self.unknowns, self.parameters + sign * reach) for sign in (-1, 1)]
        return np.sort(np.stack(ends, axis=1), axis=1)
