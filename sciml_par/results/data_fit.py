"""How well a model fits observations whose errors have a deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass

_CHANCE = 1e-4
"""The probability of the values of χ² that are said to be too large, and of those too small."""
_FAR = 1.5
"""By which factor χ² must also differ, as nobody knows a deviation to a few percent."""
_OF_MEDIAN = 0.37
"""The efficiency of the median of absolute values as an estimate of a normal deviation."""


@dataclass(frozen=True)
class DataFit:
    """How well a model fits one term of observations with noise.

    Attributes
    ----------
    values : the number n of observed values, of all points and components.
    degrees_of_freedom : n (1 − q/N), where q is the number of unknown numbers of the problem, and N
        that of all its observed values; n − q of a single term.
    chi_square : χ²/n = (1/n) Σ_i ((u(x_i) − u_i)/σ_i)², dimensionless and about 1 if errors are as
        large as σ says; NaN where σ is unknown. With a robust loss, (1.4826 median |r_i|)² in its
        place, which outliers do not change.
    scale : √(Σ_i r_i² / ν) over the rows i of each of the c components, [c], with their share ν of
        the degrees of freedom: the deviation of the errors relative to the σ that the training
        used, dimensionless. NaN without degrees of freedom.
    deviation : of errors with an unknown σ, the same in units of u, [c]; empty where σ is known.
    loss : what the term adds to the loss of the weights that predict.
    robust : whether a robust loss was used.
    """

    values: int
    degrees_of_freedom: float
    chi_square: float
    deviation: tuple[float, ...]
    scale: tuple[float, ...]
    loss: float
    robust: bool = False

    @property
    def too_large(self) -> bool:
        """Whether χ² is larger than chance allows (p < 1e-4), and more than 1.5 times too large."""
        return self.chi_square > _FAR and self._tail > 1 - _CHANCE

    @property
    def too_small(self) -> bool:
        """Whether χ² is smaller than chance allows (p < 1e-4), and less than 1/1.5."""
        return self.chi_square < 1 / _FAR and self._tail < _CHANCE

    @property
    def _tail(self) -> float:
        """The probability that χ² is smaller by chance."""
        from scipy.stats import chi2

        free = max(self.degrees_of_freedom, 1.0) * (_OF_MEDIAN if self.robust else 1.0)
        sum_of_squares = self.chi_square * (free if self.robust else self.values)
        return float(chi2.cdf(sum_of_squares, free))

    def text(self, name: str) -> str:
        """Return "χ²/n of 'observations' 0.97", or "σ of 'observations' 0.012"."""
        if self.deviation:
            found = ", ".join(f"{each:.3g}" for each in self.deviation)
            return f"σ of {name!r} {found}"
        what = "robust χ²/n" if self.robust else "χ²/n"
        return f"{what} of {name!r} {self.chi_square:.3g}" if math.isfinite(self.chi_square) else ""
