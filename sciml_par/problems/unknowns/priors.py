"""What is known of unknowns before any observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sciml_par._checks import check_flag, is_positive
from sciml_par._other_names import ByName
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray, finite_array

Number = float | Sequence[float] | npt.NDArray[Any]

JITTER = 1e-8
"""The share of the variance that is added to the diagonal of the covariance of `Smooth`."""


class _OfNumber(ByName):
    """A prior of an `Unknown`, whose fields are its center and its deviation."""

    positive: ClassVar[bool] = False
    """Whether the density of values ≤ 0 is zero."""
    deviation: Number

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name, positive in zip(self._names, (self.positive, True), strict=True):
            given = getattr(self, name)
            array = finite_array(given, f"{owner}: {name}")
            if array.size == 0 or (positive and not np.all(array > 0)):
                raise InputError(
                    f"{owner}: {name} must be a {'positive ' if positive else ''}number or an "
                    f"array of these, got {given!r}."
                )
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def _names(self) -> list[str]:
        return [each.name for each in fields(self)]  # type: ignore[arg-type]

    @property
    def center(self) -> FloatArray:
        """The value of highest density, or the median."""
        return np.asarray(getattr(self, self._names[0]))

    def residual(self, value: Tensor) -> Tensor:
        """Compute (D − mean)/deviation, or that of the logarithms, of the shape of D (local)."""
        center = np.log(self.center) if self.positive else self.center
        mean, deviation = (tf.constant(v, value.dtype) for v in (center, self.deviation))
        return ((tf.math.log(value) if self.positive else value) - mean) / deviation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({as_text(self.center)}, {as_text(self.deviation)})"


@dataclass(frozen=True, eq=False, repr=False)
class Normal(_OfNumber):
    """The prior D ~ Normal(mean, deviation²) of an `Unknown`.

    It adds ((D − mean)/deviation)² to χ², as an independent measurement of D would. Between the
    bounds of the unknown, the density is that of the normal distribution; outside it is zero.

    Parameters
    ----------
    mean : float or array
        In the unit of the unknown; of its shape, or one number for all elements.
    deviation : float or array
        The standard deviation, positive, in the unit of the unknown.

    Raises
    ------
    InputError
        An argument is not finite, or the deviation is not positive. `Unknown` raises if the shapes
        differ, or if the mean lies outside the bounds.

    Examples
    --------
    >>> from sciml_par.problems import Normal, Unknown
    >>> Unknown(1.0, lower=0, prior=Normal(1.0, 0.5))
    Unknown(1.0, lower=0.0, prior=Normal(1.0, 0.5))
    """

    mean: Number
    deviation: Number


@dataclass(frozen=True, eq=False, repr=False)
class LogNormal(_OfNumber):
    """The prior log D ~ Normal(log median, deviation²) of a positive `Unknown`.

    It adds ((log D − log median)/deviation)² to χ². With 68 % probability D lies within a factor of
    exp(deviation) of the median: deviation=0.1 is about 10 %, deviation=2.3 a factor of ten.

    Parameters
    ----------
    median : float or array
        Positive, in the unit of the unknown; of its shape, or one number for all elements.
    deviation : float or array
        The standard deviation of the natural logarithm, positive, dimensionless.

    Raises
    ------
    InputError
        An argument is not positive. `Unknown` raises if the shapes differ, if it is not positive by
        its own bounds, or if the median lies outside the bounds.

    Examples
    --------
    >>> from sciml_par.problems import LogNormal, Unknown
    >>> unknown = Unknown(1.0, lower=0, prior=LogNormal(2.0, 0.5))
    """

    positive: ClassVar[bool] = True
    median: Number
    deviation: Number


@dataclass(frozen=True, eq=False)
class Smooth(ByName):
    """The prior that an `UnknownFunction` is a Gaussian process with the Matérn kernel 5/2.

    Its values k(z) are normally distributed around `mean`, with the covariance

        C(z, z′) = amplitude² (1 + √5 ρ + 5/3 ρ²) exp(−√5 ρ)
        ρ² = Σ_i ((z_i − z′_i)/length_i)²

    It adds |L⁻¹ (k − mean)|² to χ², with C + 1e-8 amplitude² I = L Lᵀ at the points of a grid over
    the box of the function's arguments. The grid has twelve points per length, or fewer, at least
    four, so that there are 400 at most; and at least 41 points in one dimension, 15 × 15 in two.
    Such functions have two derivatives. The squared exponential kernel is not offered: its
    functions are analytic, and its covariance on such a grid is singular to rounding.

    With bounds of the function, k itself is normally distributed between them, or log k with
    ``log=True``; it is not the variable in which the optimizer changes k.

    Parameters
    ----------
    length : float or sequence of float
        The distance at which values become independent, positive, in the unit of the arguments; one
        for all of them, or one for each. The correlation at this distance is 0.52, at twice the
        length 0.14.
    amplitude : float
        The standard deviation of k around its mean at any one point, in the unit of k; with
        ``log=True`` that of log k, dimensionless. Positive.
    mean : float or callable, optional
        In the unit of k; or a function z: [n, e] -> [n, 1] or, if e = 1, [n], in NumPy or
        TensorFlow. By default the start of the unknown function. With ``log=True`` it is the
        median.
    log : bool
        Whether log k is the Gaussian process, for functions that vary by factors. It needs
        ``lower=0`` or more.

    Raises
    ------
    InputError
        A number is not positive, or the mean is neither a number nor a function. `Problem` raises
        if a grid of four points per length has more than 400 points, or if the function depends on
        components of the solution, whose range is not known.

    References
    ----------
    Rasmussen, Williams 2006, Gaussian Processes for Machine Learning, equation (4.17).

    Examples
    --------
    >>> from sciml_par.problems import Smooth, UnknownFunction
    >>> k = UnknownFunction(1.0, lower=0, prior=Smooth(length=0.2, amplitude=0.5))
    """

    _: KW_ONLY
    length: float | Sequence[float]
    amplitude: float
    mean: float | Callable[[Any], Any] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        lengths = finite_array(self.length, "Smooth: length")
        if lengths.ndim > 1 or lengths.size == 0 or not np.all(lengths > 0):
            raise InputError(
                f"Smooth: length must be a positive number, or one for each argument of the "
                f"function; got {self.length!r}."
            )
        object.__setattr__(self, "length", lengths)
        if not is_positive(self.amplitude):
            raise InputError(
                f"Smooth: amplitude must be a positive number, the standard deviation of the "
                f"function around its mean; got {self.amplitude!r}."
            )
        check_flag("Smooth", "log", self.log)
        if self.mean is None or callable(self.mean):
            return
        mean = finite_array(self.mean, "Smooth: mean, unless a function,")
        if mean.ndim or (self.log and mean <= 0):
            kind = "positive number" if self.log else "number"
            raise InputError(f"Smooth: mean must be a {kind} or a function, got {self.mean!r}.")

    def covariance(self, z: FloatArray, *, jitter: float = JITTER) -> FloatArray:
        """Return C of k, or of log k, at points z: [n, e] -> [n, n] (local)."""
        scaled = z / np.asarray(self.length)
        r = np.sqrt(5 * np.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1))
        c: FloatArray = (1 + r + r**2 / 3) * np.exp(-r) + jitter * np.eye(len(z))
        return self.amplitude**2 * c

    def residual(self, value: Tensor, mean: Tensor) -> Tensor:
        """Compute k − mean or log k − log mean (local)."""
        return tf.math.log(value / mean) if self.log else value - mean

    def __repr__(self) -> str:
        given = self.mean
        mean = getattr(given, "__qualname__", "function") if callable(given) else repr(given)
        more = "" if given is None else f", mean={mean}"
        more += ", log=True" if self.log else ""
        return f"Smooth(length={as_text(self.length)}, amplitude={self.amplitude!r}{more})"


def check_prior(prior: Any, shape: tuple[int, ...], lower: Any, upper: Any) -> None:
    """Check that a prior of a number goes together with its shape and bounds."""
    if not isinstance(prior, Normal | LogNormal):
        raise InputError(
            f"Unknown: prior must be Normal(mean, deviation) or LogNormal(median, deviation), got "
            f"{prior!r}; Smooth is the prior of an UnknownFunction."
        )
    for each in (prior.center, np.asarray(prior.deviation)):
        if each.shape not in ((), shape):
            raise InputError(
                f"Unknown: the numbers of its prior must be one for all elements, or of the shape "
                f"{list(shape)} of the start; got the shape {list(each.shape)}."
            )
    if prior.positive and not np.all(np.asarray(lower) >= 0):
        raise InputError(
            f"Unknown: the prior {prior!r} is one of positive numbers; give the unknown a lower "
            f"bound of 0 or more, as Unknown(…, lower=0, prior=…)."
        )
    if not np.all((lower <= prior.center) & (prior.center <= upper)):
        raise InputError(
            f"Unknown: the prior {prior!r} has its center outside the bounds of the unknown, "
            f"which are {as_text(lower)} and {as_text(upper)}."
        )


def as_text(value: Any) -> str:
    """Return a number, or an array as a list, as text."""
    return f"{np.asarray(value).tolist()}"
