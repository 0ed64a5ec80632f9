"""Unknown coefficients of an equation, which are found together with its solution."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_number
from sciml_par._other_names import ByName
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.unknowns.priors import LogNormal, Normal, Number, as_text, check_prior

_TRIES = 1000


@dataclass(frozen=True, eq=False)
class Unknown(ByName):
    """An unknown coefficient, to be found with the solution: a number or an array.

    The optimizer changes a parameter p of order one. The value is a smooth function of p:

        s p                             without bounds
        lower + s log(1 + eᵖ)           with a lower bound
        upper − s log(1 + eᵖ)           with an upper bound
        lower + (upper − lower) / (1 + e⁻ᵖ)     with both

    so that it stays inside its bounds, and a step of the optimizer changes it, relative to its
    size, about as much as a weight of the network.

    Parameters
    ----------
    start : float or array
        The start value, strictly inside the bounds. Its shape is that of the unknown. It has the
        unit of the coefficient, like all other arguments.
    lower, upper : float or array, optional
        Open bounds, enforced by a smooth change of variable.
    scale : float or array, optional
        s, positive; by default the distance of the start from the bound; without bounds |start|, or
        1 if that is 0. It must not be given with both bounds.
    spread : float
        The standard deviation of the start values of the members of an ensemble, around `start` and
        inside the bounds. Each member's seed determines its value.
    prior : Normal or LogNormal, optional
        What is known of it before any observation, as a term "prior D" of the loss. The training
        still begins at `start`.
    true : float or array, optional
        The known value, for errors in tables and a line in figures; training does not use it.

    Raises
    ------
    InputError
        An argument is not finite or has the wrong shape, the start is not inside the bounds, the
        scale is not positive, or the prior does not suit the bounds.

    Examples
    --------
    A diffusivity that is positive, and three parameters at once:

    >>> from sciml_par.problems import Unknown
    >>> diffusivity = Unknown(1.0, lower=0)
    >>> Unknown([8.0, 25.0, 2.0], lower=0).shape
    (3,)
    """

    start: Number
    _: KW_ONLY
    lower: Number | None = None
    upper: Number | None = None
    scale: Number | None = None
    spread: float = 0.0
    prior: Normal | LogNormal | None = None
    true: Number | None = None

    def __post_init__(self) -> None:
        start = _array(self.start, "start")
        object.__setattr__(self, "start", start)
        for name in ("lower", "upper", "scale", "true"):
            given = getattr(self, name)
            if given is None:
                continue
            array = _array(given, name)
            if array.shape not in ((), start.shape):
                raise InputError(
                    f"Unknown: {name} must be a number or of the shape {list(start.shape)} of the "
                    f"start, got the shape {list(array.shape)}."
                )
            object.__setattr__(self, name, np.broadcast_to(array, start.shape))
        lower, upper = self.bounds
        if not np.all((lower < start) & (start < upper)):
            raise InputError(
                f"Unknown: the start must lie strictly inside the bounds; got "
                f"start={as_text(start)}, lower={as_text(self.lower)}, upper={as_text(self.upper)}."
            )
        self._check_scale()
        checked_number(self.spread, "Unknown: spread")
        if self.spread < 0:
            raise InputError(f"Unknown: spread must not be negative, got {self.spread!r}.")
        if self.prior is not None:
            check_prior(self.prior, start.shape, lower, upper)

    @property
    def shape(self) -> tuple[int, ...]:
        """() of a number."""
        return np.shape(self.start)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return int(np.size(self.start))

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for unknowns with the same function of p."""
        given = (self.lower, self.upper, self._scale)
        return (self.shape, *(None if g is None else np.asarray(g).tobytes() for g in given))

    def initial(self, name: str, seed: int) -> FloatArray:
        """Return p at which a member with this seed starts (local).

        Raises
        ------
        InputError
            The spread is so large that hardly any value lies inside the bounds.
        """
        start = np.asarray(self.start, np.float64)
        if self.spread == 0:
            return self._parameter(start)
        lower, upper = self.bounds
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        for _ in range(_TRIES):
            drawn = start + self.spread * rng.normal(size=self.shape)
            if np.all((lower < drawn) & (drawn < upper)):
                return self._parameter(drawn)
        raise InputError(
            f"Unknown: of {_TRIES} values around the start of {name!r} with spread="
            f"{self.spread:g} none lies inside its bounds; give a smaller spread."
        )

    def value(self, parameter: Tensor) -> Tensor:
        """Return the value of p, in TensorFlow operations (local)."""

        def constant(number: Any) -> Tensor:
            return tf.constant(np.broadcast_to(number, self.shape), parameter.dtype)

        return self._mapped(parameter, constant, tf.sigmoid, tf.nn.softplus)

    def values(self, parameters: npt.ArrayLike) -> FloatArray:
        """Return the values of many p: [..., *shape] -> [..., *shape], NumPy (local)."""
        p, softplus = np.asarray(parameters, np.float64), partial(np.logaddexp, 0)
        return np.asarray(self._mapped(p, np.asarray, lambda p: (1 + np.tanh(p / 2)) / 2, softplus))

    def _mapped(self, p: Any, constant: Any, sigmoid: Any, softplus: Any) -> Any:
        """Return the value of p, by functions of TensorFlow or NumPy."""
        if self.lower is not None and self.upper is not None:
            width = constant(np.subtract(self.upper, self.lower))
            return constant(self.lower) + width * sigmoid(p)
        if self.lower is not None:
            return constant(self.lower) + constant(self._scale) * softplus(p)
        if self.upper is not None:
            return constant(self.upper) - constant(self._scale) * softplus(p)
        return constant(self._scale) * p

    def _parameter(self, value: FloatArray) -> FloatArray:
        """Return p of a value inside the bounds."""
        if self.lower is not None and self.upper is not None:
            return np.asarray(np.log(value - self.lower) - np.log(self.upper - value))
        if self.lower is not None or self.upper is not None:
            bound: Any = self.upper if self.lower is None else self.lower
            distance = np.abs(value - bound) / self._scale
            return np.asarray(distance + np.log(-np.expm1(-distance)))
        return np.asarray(value / self._scale)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The lower and the upper one; infinite where none is given."""
        return (
            -np.inf if self.lower is None else self.lower,
            np.inf if self.upper is None else self.upper,
        )

    @property
    def _scale(self) -> Any:
        if self.scale is not None:
            return self.scale
        if self.lower is not None:
            return np.subtract(self.start, self.lower)
        if self.upper is not None:
            return np.subtract(self.upper, self.start)
        size = np.abs(self.start)
        return np.where(size > 0, size, 1.0)

    def _check_scale(self) -> None:
        if self.scale is None:
            return
        if self.lower is not None and self.upper is not None:
            raise InputError(
                "Unknown: scale has no meaning with both bounds, whose distance is the scale; "
                "leave it out."
            )
        if not np.all(np.asarray(self.scale) > 0):
            raise InputError(f"Unknown: scale must be positive, got {as_text(self.scale)}.")

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in ("lower", "upper", "scale", "true")}
        more = [f"{name}={as_text(value)}" for name, value in given.items() if value is not None]
        more += [f"spread={self.spread:g}"] if self.spread else []
        more += [f"prior={self.prior!r}"] if self.prior is not None else []
        return f"Unknown({', '.join([as_text(self.start), *more])})"


Unknowns = Mapping[str, Unknown]


def values_of(unknowns: Unknowns, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return the values of the unknowns, by name, from their parameters in order."""
    named = zip(unknowns.items(), parameters, strict=True)
    return {name: unknown.value(p) for (name, unknown), p in named}


def initial_unknowns(unknowns: Unknowns, seed: int) -> FloatArray:
    """Return the parameters with which a member with this seed begins, in one vector [q]."""
    parts = [unknown.initial(name, seed).ravel() for name, unknown in unknowns.items()]
    return np.concatenate([np.empty(0), *parts])


def names_of_numbers(unknowns: Unknowns) -> list[str]:
    """Return a name for each of the q numbers: "D", or "c[0]" and so on of an array."""
    return names_of_elements({name: unknown.shape for name, unknown in unknowns.items()})


def names_of_elements(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return these names for numbers and arrays of these shapes."""
    return [
        name + (f"[{', '.join(map(str, place))}]" if place else "")
        for name, shape in shapes.items()
        for place in np.ndindex(shape)
    ]


def numbers_of(unknowns: Unknowns, parameters: npt.ArrayLike) -> FloatArray:
    """Return the values of the unknowns: their parameters [..., q] -> [..., q]."""
    given = np.asarray(parameters, np.float64)
    found, at = [given[..., :0]], 0
    for unknown in unknowns.values():
        part = given[..., at : at + unknown.size]
        values = unknown.values(part.reshape((*given.shape[:-1], *unknown.shape)))
        found.append(values.reshape(part.shape))
        at += unknown.size
    return np.concatenate(found, axis=-1)


def _array(value: Any, what: str) -> FloatArray:
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if isinstance(value, str | bool) or array.size == 0 or not np.isfinite(array).all():
        raise InputError(
            f"Unknown: {what} must be a finite number or an array of these, got {value!r}."
        )
    array.flags.writeable = False
    return array
