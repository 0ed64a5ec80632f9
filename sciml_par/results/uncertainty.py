"""How well data with errors determine the unknowns and the solution, as a result tells it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sciml_par._checks import check_positive
from sciml_par._optional import needed
from sciml_par._text import listed
from sciml_par.errors import InputError
from sciml_par.evaluation.figures.parts.observed import Uncertain
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.unknowns.unknowns import numbers_of
from sciml_par.results.linearized import Linearized

Bands = Callable[[Any], tuple[FloatArray, FloatArray]]

LINEARIZED, PROFILE, RANDOMIZED = "linearized", "profile", "randomized"
METHODS = (LINEARIZED, PROFILE, RANDOMIZED)

_UNDETERMINED = 1.0
"""The relative deviation of a combination of unknowns from which it is not determined."""
_INVOLVED = 0.1
"""The least share of an unknown in a combination."""
_EQUAL = 0.05
_ALL = 0.9
"""The share of the data that degrees of freedom may take."""
_OTHERS = 2
"""How many more than two for each unknown there may be, such as initial values."""
_GONE = 1e-3
"""The size, relative to the start, from which an unknown has become zero."""
_DEPENDENT = 0.1
"""The relative change of a deviation with the tolerance of the equation that is reported."""
_NOT_ENDED = 0.3
"""In deviations: what unknowns would still move by in a training that has ended."""
_FAR_FROM_END = 2.0
"""In deviations: the move of an unknown that leads out of its interval of 95 %."""
_UNENDED = "the training has not ended"


@dataclass(frozen=True, eq=False)
class Uncertainty(Uncertain):
    """Intervals of unknowns, their covariance, and bands of fields, given data with known errors.

    The equation and its conditions are a constraint. With S = ∂u(x_i)/∂a the sensitivities of the
    solution to the unknowns a, and σ the deviation of the observations, the covariance is
    σ² (SᵀS)⁻¹ (Seber and Wild 1989, Nonlinear Regression, section 2.1), computed from the
    Jacobians of the trained network without S.

    Attributes
    ----------
    method : "linearized", "profile" or "randomized".
    level : of intervals and bands, in (0, 1).
    names : of the q numbers: "D", or "c[0]" and so on of an array.
    values : of these numbers, [q], in their own units, like all that follows.
    deviations : standard deviations, [q].
    covariance : [q, q].
    bounds : lower and upper end of the interval of each number, [q, 2]; in the transformed
        variable of unknowns with bounds, so that they stay inside of these.
    numerical : the error of each number by the solution of the equation itself, [q], added to the
        intervals on both sides; NaN where it is not known.
    remarks : a sentence each: what the data do not determine, and what speaks
        against the numbers.
    reason : why nothing is known; "" if it is.
    draws : of "randomized", the values that each member found, [M, q].
    profiles : of "profile", by the name of each number: values, and by how much χ² rises above its
        least value where the number is held there.
    chi_square, degrees : Σ_i ((u(x_i) − u_i)/σ_i)², and the number of data less that of the degrees
        of freedom fitted.
    reach : how many deviations the linearized intervals reach to each side.
    true : the true values, [q], NaN where they are not known.
    prediction : of the solution, for figures.
    observations : the data, for figures, on rank 0; of many thousands a part.
    linearized : of the other methods, the linearization that they began with.
    """

    _bands: Bands | None = None
    _after: Callable[[Any, float], FloatArray] | None = None
    _of_functions: dict[str, Bands] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether intervals are known."""
        return not self.reason

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The interval of each number by its name."""
        return {n: (float(a), float(b)) for n, (a, b) in zip(self.names, self.bounds, strict=True)}

    @property
    def correlations(self) -> FloatArray:
        """The correlation of each pair of numbers, [q, q]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.covariance / np.outer(self.deviations, self.deviations))

    def bands(self, x: Any, *, of: str | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper end of the interval of u(x), [n, m] each (local).

        They hold for each point, not for all points together.

        Parameters
        ----------
        x : the points, [n, d], as for `Result.predict`; of an unknown function its inputs, [n, e].
        of : the name of an unknown function; by default the solution.

        Raises
        ------
        InputError
            Nothing is known, there is no function of this name, or x has another shape.
        """
        if self.reason:
            raise InputError(f"Uncertainty.bands: not known: {self.reason}.")
        found = self._bands if of is None else self._of_functions.get(of)
        if found is None:
            have = ", ".join(map(repr, self._of_functions)) or "none"
            what = "bands of the solution" if of is None else f"an unknown function {of!r}"
            raise InputError(
                f"Uncertainty.bands: there are no {what} here; the unknown functions are {have}."
            )
        return found(x)

    def deviations_after(self, x: Any, *, noise: float) -> FloatArray:
        """Return the deviations that the numbers would have with one more observation (local).

        For an observation of a component of u at x with errors of the deviation σ,
        C′ = C − C h hᵀ C/(σ² + hᵀ C h) with h = ∂u(x)/∂a, linearized: where it is least, one
        learns most. Compare with `deviations`.

        Parameters
        ----------
        x : the places, [n, d], one observation each.
        noise : σ, positive, in units of u.

        Returns
        -------
        [n, m, q], in units of the numbers.

        Raises
        ------
        InputError
            Nothing is known, or σ is not positive.
        """
        check_positive("Uncertainty.deviations_after", noise=noise)
        if self._after is None or self.reason:
            why = self.reason or "it takes method='linearized'"
            raise InputError(f"Uncertainty.deviations_after: not known: {why}.")
        return self._after(x, float(noise))

    def to_pandas(self) -> Any:
        """Return a table with a row for each number: value, deviation, lower, upper, numerical.

        Raises
        ------
        InputError
            pandas is not installed.
        """
        pandas = needed("pandas", "Uncertainty.to_pandas")
        columns = {
            "value": self.values,
            "deviation": self.deviations,
            "lower": self.bounds[:, 0],
            "upper": self.bounds[:, 1],
            "numerical": self.numerical,
        }
        return pandas.DataFrame(columns, index=list(self.names))

    def to_arviz(self) -> Any:
        """Return the draws of "randomized" as the posterior of ArviZ's InferenceData, in one chain.

        Raises
        ------
        InputError
            ArviZ is not installed, or this method has no draws.
        """
        try:
            import arviz
        except ImportError:
            raise InputError("Uncertainty.to_arviz: pip install 'arviz<1' first.") from None
        if not len(self.draws):
            raise InputError(
                f"Uncertainty.to_arviz: method={self.method!r} has no draws; take those of "
                f"result.uncertainty(method='randomized')."
            )
        posterior = {n: each[None] for n, each in zip(self.names, self.draws.T, strict=True)}
        return arviz.from_dict(posterior=posterior)

    def __repr__(self) -> str:
        if self.reason:
            return f"uncertainty: not known: {self.reason}."
        return "\n".join([*lines_of_numbers(self), *self.remarks])


def lines_of_numbers(found: Uncertainty) -> list[str]:
    """Return a line for each number: value, deviation and interval."""
    widest = max(map(len, found.names), default=0)
    rows = zip(found.names, found.values, found.deviations, found.bounds, strict=True)
    return [
        f"{name:<{widest}}  {value:.6g} ± {deviation:.2g}, "
        f"{100 * found.level:g} % interval {low:.6g} to {high:.6g}"
        for name, value, deviation, (low, high) in rows
    ]


def numbers_shift(found: Linearized) -> FloatArray:
    """Return by how many deviations each number would still move, [q]."""
    deviations = np.sqrt(np.sum(found.steps_of_unknowns**2, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.abs(found.shift) / deviations)


def remarks_on(found: Linearized, names: Sequence[str]) -> list[str]:
    """Return sentences on what the data do not determine, and on what speaks against deviations."""
    if not found.known:
        return [f"! {found.reason}."] if found.reason.startswith(_UNENDED) else []
    # As many data as unknowns are fitted, too, by an equation that holds.
    if found.freedom > max(_ALL * found.rows, 2 * len(names) + _OTHERS):
        return [_nothing_left(found, names)]
    remarks = undetermined_in(found, names)
    if numbers_shift(found).max(initial=0.0) > _NOT_ENDED and not remarks:
        remarks.append(f"! {_not_ended(found, names)}.")
    if found.dependence > _DEPENDENT and not remarks:
        remarks.append(
            f"! the deviations change by {100 * found.dependence:.0f} % where the equation may be "
            f"violated ten times less, and are not to be trusted: u or a residual is far from 1 "
            f"in size (write the problem in units in which they are about 1), the network is too "
            f"small to satisfy the equation for other values of the unknowns (take a wider one), "
            f"the observations have too large a weight=, or more than the unknowns is left open, "
            f"as an initial condition that is not given, or a function without a prior."
        )
    return remarks


def _not_ended(found: Linearized, names: Sequence[str]) -> str:
    moves = numbers_shift(found)
    at = int(np.argmax(moves))
    return (
        f"{_UNENDED}: a further step would move {names[at]} by {moves[at]:.1f} of its deviations. "
        f"Train longer, with LevenbergMarquardt()"
    )


def unknown_before_the_end(found: Linearized, names: Sequence[str]) -> str:
    """Return why deviations are not known, if a further step leads out of the intervals."""
    far = found.known and numbers_shift(found).max(initial=0.0) > _FAR_FROM_END
    return _not_ended(found, names) if far and not undetermined_in(found, names) else ""


def _nothing_left(found: Linearized, names: Sequence[str]) -> str:
    """Return a sentence for data that are all fitted, as if there were no equation."""
    starts = np.concatenate([np.ravel(each.start) for each in found.unknowns.values()])
    gone = [
        n for n, v, s in zip(names, found.values, starts, strict=True) if abs(v) < _GONE * abs(s)
    ]
    if len(gone) > 1:
        return (
            f"! the data do not determine {listed(gone)} separately: they have become zero "
            f"together, where the equation holds for any u. Give one of them a value or a prior."
        )
    return (
        f"! equation and conditions leave {found.freedom:.0f} degrees of freedom to {found.rows} "
        f"observed values: the noise is fitted, and the deviations mean nothing. Give conditions, "
        f"priors or more observations."
    )


def relative_steps(steps: FloatArray, slopes: FloatArray, values: FloatArray) -> FloatArray:
    """Return steps of parameters [f, q] as changes of the values, relative to these."""
    return np.asarray(steps * slopes / np.where(values == 0.0, 1.0, values))


def undetermined_in(found: Linearized, names: Sequence[str]) -> list[str]:
    """Return a sentence for each combination of unknowns that the data do not determine."""
    values = found.values
    relative = relative_steps(found.steps_of_unknowns, found.slopes, values)
    if not len(values):
        return []
    if not np.isfinite(relative).all():
        return [f"! the data do not determine {listed(list(names))}."]
    _, spread, combinations = np.linalg.svd(relative, full_matrices=True)
    spread = np.concatenate([spread, np.zeros(len(values) - len(spread))])
    sentences = []
    for size, combination in zip(spread, combinations, strict=True):
        if size > _UNDETERMINED:
            at = _at_bound(found, combination)
            sentences.append(
                _sentence(size, combination, names)
                if at is None
                else f"! {names[at]} has come to one of its bounds: the data are fitted best "
                f"beyond it, and its deviation means nothing. Remove the bound, or look for what "
                f"the equation leaves out."
            )
    return sentences


def _at_bound(found: Linearized, combination: FloatArray) -> int | None:
    """Return the number of the one unknown involved, if it has come to a bound."""
    involved = np.flatnonzero(np.abs(combination) > _INVOLVED)
    slopes = np.abs(found.slopes)[involved]
    usual = numbers_of(found.unknowns, np.ones(len(found.parameters))) - numbers_of(
        found.unknowns, np.zeros(len(found.parameters))
    )
    gone = len(involved) == 1 and slopes[0] < _GONE * np.abs(usual[involved[0]])
    return int(involved[0]) if gone else None


def _sentence(size: float, combination: FloatArray, names: Sequence[str]) -> str:
    involved = np.flatnonzero(np.abs(combination) > _INVOLVED)
    chosen = [names[int(i)] for i in involved]
    if len(chosen) == 1:
        times = f"{size:.1f}" if size < 100 else f"{size:.0e}"
        return (
            f"! the data do not determine {chosen[0]}: its deviation is {times} times its value. "
            f"Observe more, or give it a prior."
        )
    a, b = combination[involved[:2]]
    equal = len(chosen) == 2 and abs(abs(a) - abs(b)) < _EQUAL
    if equal:
        only = f"{chosen[0]}/{chosen[1]}" if a * b > 0 else f"{chosen[0]}·{chosen[1]}"
        return (
            f"! the data do not determine {listed(chosen)} separately, only {only}: give one of "
            f"them a value or a prior."
        )
    parts = " ".join(f"{w:+.2f} {n}" for w, n in zip(combination[involved], chosen, strict=True))
    return (
        f"! the data do not determine {listed(chosen)} separately: relative changes in the "
        f"proportions {parts} leave all observations as they are, within their errors. Give one of "
        f"them a value or a prior."
    )
