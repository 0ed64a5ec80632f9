"""Given values of integrals of the field."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sciml_par._checks import checked_number, is_integer
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray, finite_array
from sciml_par.problems.checks.functions import as_columns, raw_values
from sciml_par.problems.conditions.condition import Arrays, Condition
from sciml_par.problems.conditions.in_time import in_slab
from sciml_par.problems.conditions.quadrature import Rule, at_position, over_domain, over_faces
from sciml_par.problems.conditions.selection import axis_number, checked_at, points_within
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.operators.arguments import FieldLike

_DEFAULT_NUMBERS = {0: 1, 1: 32, 2: 256}
_DEFAULT_NUMBER = 1000


class IntegralCondition(Condition):
    """∫ f(u, x) dx = value, over the domain, over faces, or at each of several times.

    The residual is Σ_j w_j f(u, x_j) − value: [I, c], one row for each of I integrals, with
    quadrature points x: [I, q, d] and weights [I, q]. On boxes they are Gauss–Legendre rules, and
    elsewhere equal weights at points of a Sobol' sequence. They are the same at every step. Whole
    integrals are distributed over the ranks.

    Parameters
    ----------
    integrand : callable
        f: (u, x: [n, d]) -> [n, c], in TensorFlow operations and operators, point by point.
    value : float, array [I] or [I, c], or callable
        With `at`, it may be a function of the positions [I, 1], in NumPy or TensorFlow.
    on : str or sequence of str, optional
        Faces of a box: one integral over all of them together.
    at : pair (axis, positions), optional
        One integral for each position, over all other axes of a box: ``at=("t", [0, 0.5, 1])``.
    points : int, sequence of int, or pair of arrays, optional
        The approximate number of points of an integral (of a face); or the number on each axis of
        the integral; or custom quadrature points and weights, (x: [I, q, d], weights: [I, q]), or
        ([q, d], [q]) for one integral. By default 32 in one dimension, 256 in two, else about 1000.
    name, weight
        As for `Condition`.

    Raises
    ------
    InputError
        An argument has the wrong kind or shape.

    Examples
    --------
    The mass is 1 at all times:

    >>> import numpy as np
    >>> from sciml_par.problems import IntegralCondition
    >>> mass = IntegralCondition(lambda u, x: u(x), 1.0, at=("t", np.linspace(0, 1, 11)))
    """

    kind: ClassVar[str] = "integral"
    times = 1
    """So many times the default numbers of points."""
    on_boundary = False
    points_are_given: ClassVar[bool] = True

    def __init__(
        self,
        integrand: Callable[..., tf.Tensor],
        value: Any = 0.0,
        *,
        on: str | Sequence[str] | None = None,
        at: tuple[int | str, npt.ArrayLike] | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        owner = "IntegralCondition"
        if not callable(integrand):
            raise InputError(
                f"{owner}: integrand must be a function (u, x) -> [n, c], got {integrand!r}"
            )
        if callable(on):
            raise InputError(
                f"{owner}: on must name faces; for a part of one give points=(x, weights)"
            )
        if on is not None and at is not None:
            raise InputError(f"{owner}: give on=faces or at=(axis, positions), not both")
        self._set_common(on=on, where=None, points=None, name=name, weight=weight)
        self.integrand = integrand
        self.at = None if at is None else _checked_at(at)
        self.rule = _checked_rule(points)
        self.value = self._checked_value(value)

    def __repr__(self) -> str:
        where = f"on={self.on!r}" if self.on else f"at={self.at[0]!r}" if self.at else "domain"
        return f"IntegralCondition({where})"

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        self.points(domain, 1)
        return self

    def on_slab(self, whole: Domain, slab: Domain) -> Self | None:
        """See `Condition`; each slab has the integrals at its times."""
        arrays = self.points(whole, 1)
        x = arrays[0]
        at_one_time = np.all(x[:, :, -1] == x[:, :1, -1], axis=1)
        if not at_one_time.all():
            t = whole.names[-1]
            raise InputError(
                f"IntegralCondition: an integral over {t} cannot be divided among slabs of time; "
                f"give those at several times, as at=({t!r}, [0.5, 1.0]), or leave out slabs=."
            )
        chosen = in_slab(x[:, 0], whole, slab)
        if not chosen.any():
            return None
        return self.with_arrays(tuple(array[chosen] for array in arrays))

    def points(self, domain: Domain, n: int) -> Arrays:
        """Return x: [I, q, d], weights: [I, q], values: [I, c], independent of n (local).

        Raises
        ------
        InputError
            The numbers of points and values, or the domain, do not go together.
        """
        x, weights = self._rules(domain)
        return x, weights, self._values(len(x))

    @property
    def single(self) -> _Integrand | None:
        """See `Condition`."""
        own = type(self).residual is not IntegralCondition.residual
        return None if own else _Integrand(self.integrand)

    def sums(self, *arrays: FloatArray) -> tuple[Arrays, Any, FloatArray]:
        """See `Condition`; the quadrature points of all integrals, one after another."""
        from scipy.sparse import csr_matrix

        x, weights, values = arrays
        ends = np.arange(0, weights.size + 1, weights.shape[1])
        matrix = csr_matrix((weights.ravel(), np.arange(weights.size), ends))
        return (x.reshape(-1, x.shape[2]),), matrix, values

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        """Compute Σ_j w_j f(u, x_j) − value: [I, c] (local)."""
        x, weights, values = arrays
        _, q, d = x.shape
        flat = tf.reshape(x, [-1, d])
        f = self.integrand(u, flat)
        good = tf.is_tensor(f) and f.shape.rank == 2
        if not good or f.shape[0] not in (None, flat.shape[0]):
            got = f"the shape {f.shape.as_list()}" if tf.is_tensor(f) else type(f).__name__
            raise InputError(
                f"IntegralCondition: integrand must return a tensor [n, c] for points "
                f"{flat.shape.as_list()}, a row for each; got {got}"
            )
        c = f.shape[1]
        if values.shape[1] not in (1, c):
            raise InputError(
                f"IntegralCondition: {values.shape[1]} values for {c} integrands; give one number "
                f"or {c} for each integral"
            )
        return tf.reduce_sum(tf.reshape(f, [-1, q, c]) * weights[:, :, None], axis=1) - values

    def missed(self, f: Callable[[Any], Any], domain: Domain, dtype: Any) -> float:
        """Return what more points change, of ∫ |f| dx; 0 of points that were chosen (local).

        f : the integrand of a u, at x: [n, d] -> [n, c].
        """
        if self.rule is not None:
            return 0.0
        sums, sizes = [], []
        for each in (self, self.finer()):
            x, w = each._rules(domain)
            values = f(tf.constant(x.reshape(-1, domain.dimension), dtype)).numpy()
            products = values.reshape(*w.shape, -1) * w[:, :, None]
            sums.append(products.sum(axis=1))
            sizes.append(np.abs(products).sum(axis=1).max())
        return float(np.abs(sums[1] - sums[0]).max() / max(*sizes, np.finfo(float).tiny))

    def finer(self) -> Self:
        """See `Condition`; with four times as many points."""
        return self._changed(times=4 * self.times)

    def _usual_number(self, domain: Domain) -> int:
        over = domain.dimension - (self.on is not None or self.at is not None)
        return self.times * _DEFAULT_NUMBERS.get(over, _DEFAULT_NUMBER)

    def _rules(self, domain: Domain) -> Rule:
        if isinstance(self.rule, tuple) and isinstance(self.rule[0], np.ndarray):
            x, weights = self.rule
            flat = points_within(x.reshape(-1, x.shape[-1]), domain, "IntegralCondition: points")
            return flat.reshape(*weights.shape, domain.dimension), weights
        number: Any = self.rule or self._usual_number(domain)
        if self.at is not None:
            axis = axis_number(self.at[0], domain, "IntegralCondition")
            low, high = domain.lower[axis], domain.upper[axis]
            for position in self.at[1]:
                if not low <= position <= high:
                    raise InputError(
                        f"IntegralCondition: {domain.names[axis]} = {position} does not lie in "
                        f"[{low}, {high}]"
                    )
            rules = [at_position(domain, axis, float(p), number) for p in self.at[1]]
            return np.stack([x for x, _ in rules]), np.stack([w for _, w in rules])
        if self.on is None:
            x, weights = over_domain(domain, number)
        else:
            x, weights = over_faces(domain, self.on, number)
        return x[None], weights[None]

    def _values(self, count: int) -> FloatArray:
        what = "IntegralCondition: value"
        if callable(self.value):
            assert self.at is not None
            positions = self.at[1][:, None]
            return as_columns(raw_values(self.value, positions, what=what), count, what=what)
        if self.value.ndim == 0:
            return np.full((count, 1), float(self.value))
        return as_columns(self.value, count, what=f"{what} of {count} integrals")

    def _checked_value(self, value: Any) -> Any:
        if callable(value):
            if self.at is None:
                raise InputError(
                    "IntegralCondition: value may be a function with at=(axis, positions), of "
                    "which it is one; else give a number"
                )
            return value
        if np.isscalar(value):
            return np.asarray(checked_number(value, "IntegralCondition: value"))
        return finite_array(value, "IntegralCondition: value")


@dataclass(frozen=True)
class _Integrand(Condition):
    """An integrand at single points."""

    integrand: Callable[..., tf.Tensor]

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        return self.integrand(u, *arrays)


def _checked_at(at: Any) -> tuple[int | str, FloatArray]:
    axis, given = checked_at(at, "IntegralCondition", "(axis, positions), as ('t', [0, 1])")
    positions = np.atleast_1d(finite_array(given, "IntegralCondition: the positions"))
    if positions.ndim != 1 or positions.size == 0:
        raise InputError("IntegralCondition: the positions must be numbers, at least one of them")
    return axis, positions


def _checked_rule(points: Any) -> Any:
    """Return None, a number, numbers per axis, or points [I, q, d] with weights [I, q]."""
    what = "IntegralCondition: points"
    several = isinstance(points, (tuple, list)) and len(points) > 0
    if points is None or (is_integer(points) and points >= 1):
        return points
    if several and all(is_integer(n) and n >= 1 for n in points):
        return tuple(int(n) for n in points)
    if not isinstance(points, tuple) or len(points) != 2 or any(map(np.isscalar, points)):
        raise InputError(
            f"{what} must be a number, one for each axis, or a pair of arrays (x, weights), got "
            f"{points!r}"
        )
    x, weights = finite_array(points[0], what), finite_array(points[1], f"{what}: weights")
    if weights.ndim == 1:
        x, weights = x[None], weights[None]
    x = x[..., None] if x.ndim == 2 else x
    if x.ndim != 3 or weights.ndim != 2 or x.shape[:2] != weights.shape or math.prod(x.shape) == 0:
        raise InputError(
            f"{what} must be (x: [I, q, d], weights: [I, q]), got {list(x.shape)} and "
            f"{list(weights.shape)}"
        )
    return x, weights
