"""The inputs of a family: the unknowns of a problem, which each query gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag
from scipy.stats import norm, qmc

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.functions import values_at
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.problems.unknowns.prior_conditions import grid_of, mean_of
from sciml_par.problems.unknowns.priors import LogNormal
from sciml_par.problems.unknowns.unknowns import Unknown

Array = npt.NDArray[np.float64]

_DECADES = 10.0
"""The ratio of positive bounds from which numbers are drawn in the logarithm."""
_TAILS, _FAR, _VARIANCE, _LEAST_SHARE = 1e-3, 4.0, 1e-8, 1e-6
"""What is cut off a prior where numbers are drawn; deviations from which an input is far; and the
shares of the variance of a process that its modes may lack."""
_CLOSE, _NEAR, _JITTER = 1e-20, 1e-9, 1e-13
"""ρ² below which a kernel's derivative is that at zero; how far bounds are exceeded at most; and
what the diagonal of C has more, by which functions would miss their values at the nodes."""


@dataclass(frozen=True, eq=False)
class NumberInput:
    """An unknown number or array, drawn between its bounds or from its prior."""

    name: str
    unknown: Unknown

    def __post_init__(self) -> None:
        bounded = self.unknown.lower is not None and self.unknown.upper is not None
        if self.unknown.prior is None and not bounded:
            raise InputError(
                f"learn: {self.name!r} has no range; write Unknown(…, lower=…, upper=…), or "
                f"prior=Normal(…) or LogNormal(…)."
            )

    @property
    def size(self) -> int:
        """The number of its elements."""
        return self.unknown.size

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """Lower and upper ends, [size]; ±∞ without any."""
        given = (self.unknown.lower, -np.inf), (self.unknown.upper, np.inf)
        low, high = (np.full(self.size, b) if a is None else np.ravel(a) for a, b in given)
        return np.asarray(low, np.float64), np.asarray(high, np.float64)

    @cached_property
    def _logarithmic(self) -> npt.NDArray[np.bool_]:
        low, high = self._bounds
        if isinstance(self.unknown.prior, LogNormal):
            return np.ones(self.size, np.bool_)
        positive = (low > 0) & np.isfinite(high) & (self.unknown.prior is None)
        return positive & (high >= _DECADES * np.maximum(low, 0))

    @cached_property
    def _line(self) -> tuple[Array, Array]:
        """Centre and half width of what is drawn, in the logarithm where numbers are, [size]."""
        prior = self.unknown.prior
        if prior is None:
            log = self._logarithmic
            low, high = (np.where(log, np.log(np.where(log, b, 1.0)), b) for b in self._bounds)
            return (low + high) / 2, (high - low) / 2
        center = prior.median if isinstance(prior, LogNormal) else prior.mean
        center = np.broadcast_to(np.ravel(center), self.size)
        center = np.log(center) if isinstance(prior, LogNormal) else center
        return center, np.broadcast_to(np.ravel(prior.deviation), self.size) * 1.0

    def drawn(self, shares: Array) -> Array:
        """Return values at these shares of the distribution: [n, size] -> [n, size]."""
        center, width = self._line
        if self.unknown.prior is None:
            found = center + width * (2 * shares - 1)
        else:
            found = center + width * norm.ppf(_TAILS + (1 - 2 * _TAILS) * shares)
        found = np.where(self._logarithmic, np.exp(found), found)
        low, high = self._bounds
        return np.clip(found, low, high)

    def coordinates(self, values: Array) -> Array:
        """Return values as numbers of order one, [n, size]."""
        center, width = self._line
        positive = np.where(self._logarithmic, np.maximum(values, 1e-300), 1.0)
        return (np.where(self._logarithmic, np.log(positive), values) - center) / width

    def of_coordinates(self, y: Array) -> tuple[Array, Array]:
        """Return the values with these coordinates, [size], and their derivatives, [size, size]."""
        center, width = self._line
        line = center + width * y
        values = np.where(self._logarithmic, np.exp(line), line)
        return values, np.diag(np.where(self._logarithmic, values, 1.0) * width)

    @property
    def limits(self) -> tuple[Array, Array]:
        """Ends of the coordinates, [size]."""
        if self.unknown.prior is None:
            return -np.ones(self.size), np.ones(self.size)
        low, high = map(self.coordinates, self._bounds)
        return low, high

    @property
    def has_prior(self) -> bool:
        """Whether coordinates are those of a normal prior."""
        return self.unknown.prior is not None

    def vectors(self, given: Any) -> Array:
        """Return given values as rows: a value or an array of them -> [Q, size]."""
        try:
            values = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            values = np.full(1, np.nan)
        shape = self.unknown.shape
        if values.shape[values.ndim - len(shape) :] != shape or values.ndim > len(shape) + 1:
            kind = f"an array of the shape {list(shape)}" if shape else "a number"
            raise InputError(
                f"operator: expected {self.name} to be {kind}, or an array of these; got the shape "
                f"{list(values.shape)}."
            )
        if not np.isfinite(values).all():
            raise InputError(f"operator: {self.name} must be finite; got {given!r}.")
        return values.reshape(-1, self.size)

    degrees = size
    """The number of coordinates."""

    def to_rows(self, values: Any) -> Any:
        """Return what rows of equations have in place of values."""
        return values

    def to_coordinates(self, values: Array) -> Array:
        """Return the coordinates of values, [size]."""
        return self.coordinates(values[None])[0]

    def as_values(self, values: Array) -> Array:
        """Return rows of values as they are given, [n, *shape]."""
        return values.reshape(-1, *self.unknown.shape)

    shown = as_values

    def outside(self, values: Array) -> npt.NDArray[np.bool_]:
        """Return which rows lie outside of the bounds, or far from the prior, [Q]."""
        low, high = self._bounds
        margin = _NEAR * np.where(np.isfinite(high - low), high - low, 0.0)
        beyond = (values < low - margin) | (values > high + margin)
        if self.unknown.prior is not None:
            beyond |= np.abs(self.coordinates(values)) > _FAR
        return np.asarray(beyond.any(axis=1))

    def value(self, columns: Any) -> Any:
        """Return the value for columns p: [n, size], so that it has a row for each point."""
        if not self.unknown.shape:
            return columns
        return tf.reshape(tf.transpose(columns), (*self.unknown.shape, -1, 1))

    def known(self, p: Array) -> Any:
        """Return the value for p: [size] alone."""
        return p.reshape(self.unknown.shape) if self.unknown.shape else float(p[0])


class FunctionInput:
    """A function from a Gaussian process, by its values at nodes z_j: g(z) = Σ_j C(z, z_j) c_j.

    p are the values of g at the nodes: k = mean + g, or mean exp(g) with ``log=True``, and c = C⁻¹p
    interpolates them (Rasmussen, Williams 2006, Gaussian Processes for Machine Learning, (2.25)).
    Rows have c in place of p.
    """

    def __init__(self, name: str, placed: PlacedFunction) -> None:
        prior = placed.function.prior
        if prior is None:
            raise InputError(
                f"learn: {name!r} has no prior to draw functions from; write "
                f"UnknownFunction(…, prior=Smooth(length=…, amplitude=…))."
            )
        self.name, self.placed, self.prior = name, placed, prior
        self.nodes = grid_of(placed, prior)
        self.mean = mean_of(placed, prior, self.nodes)
        covariance = prior.covariance(self.nodes, jitter=_JITTER)
        self._root = np.linalg.cholesky(covariance)
        variances, modes = np.linalg.eigh(covariance)
        kept = variances > _VARIANCE * variances[-1]
        self._deviations, self._modes = np.sqrt(variances[kept])[::-1], modes[:, kept][:, ::-1]

    def __repr__(self) -> str:
        return f"{self.placed.function!r} of {', '.join(self.placed.names)}"

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.nodes)

    def drawn(self, shares: Array) -> Array:
        """Return values of g at the nodes, of functions with coefficients at shares, [n, size]."""
        xi = norm.ppf(_TAILS + (1 - 2 * _TAILS) * shares[:, : len(self._deviations)])
        g = xi @ (self._modes[:, : xi.shape[1]] * self._deviations[: xi.shape[1]]).T
        return self._between(g)

    def _between(self, g: Array) -> Array:
        low, high = self.placed.function.lower, self.placed.function.upper
        if self.prior.log or (low is None and high is None):
            return g
        return np.clip(self.mean + g, low, high) - self.mean

    def coordinates(self, values: Array) -> Array:
        """Return the coefficients of the modes in units of the largest one, [n, c]."""
        return values @ self._modes[:, self._shown] / self._deviations[0]

    @cached_property
    def _shown(self) -> slice:
        share = np.cumsum(self._deviations[::-1] ** 2)[::-1] / np.sum(self._deviations**2)
        return slice(int(np.count_nonzero(share > _LEAST_SHARE)))

    has_prior = True

    @property
    def degrees(self) -> int:
        """The number of coefficients of modes."""
        return len(self._deviations)

    def of_coordinates(self, y: Array) -> tuple[Array, Array]:
        """Return g for coefficients of modes, and its derivatives, [size, degrees]."""
        slope = self._modes * self._deviations
        return slope @ y, slope

    def to_coordinates(self, values: Array) -> Array:
        """Return the coefficients of the modes in their deviations, [degrees]."""
        return values @ self._modes / self._deviations

    @property
    def limits(self) -> tuple[Array, Array]:
        """Ends of the coefficients, which have none."""
        return np.full(self.degrees, -np.inf), np.full(self.degrees, np.inf)

    def as_values(self, values: Array) -> Array:
        """Return rows of values of the function at the nodes."""
        return self.mean * np.exp(values) if self.prior.log else self.mean + values

    def vectors(self, given: Any) -> Array:
        """Return g at the nodes for a function of z, or values at the nodes: -> [Q, size]."""
        what = f"operator: the function {self.name}"
        if isinstance(given, list | tuple) and given and all(map(callable, given)):
            return np.concatenate([self.vectors(each) for each in given])
        if callable(given):
            values = values_at(given, self.nodes, what=what, columns=1)[:, 0][None]
        else:
            values = np.atleast_2d(np.asarray(given, np.float64))
        if values.ndim != 2 or values.shape[1] != self.size:
            raise InputError(
                f"{what} must be a function of {', '.join(self.placed.names)}, or its values at "
                f"the {self.size} nodes of operator.nodes({self.name!r}); got the shape "
                f"{list(np.shape(given))}."
            )
        if not np.isfinite(values).all() or (self.prior.log and not np.all(values > 0)):
            kind = "finite and positive" if self.prior.log else "finite"
            raise InputError(f"{what} must be {kind} everywhere.")
        return np.log(values / self.mean) if self.prior.log else values - self.mean

    def outside(self, values: Array) -> npt.NDArray[np.bool_]:
        """Return which rows are improbable functions of the prior, [Q]."""
        xi = self.to_coordinates(values)
        return np.asarray(np.sqrt(np.mean(xi**2, axis=1)) > _FAR)

    def interpolation_errors(self, given: Any, values: Array) -> Array:
        """Return the relative errors of what nodes tell of functions between them, [Q]."""
        functions = given if isinstance(given, list | tuple) else [given]
        if not all(map(callable, functions)):
            return np.zeros(1)
        low, high = self.placed.lower, self.placed.upper
        z = low + (high - low) * qmc.Sobol(len(low), rng=np.random.default_rng(0)).random(64)
        what = f"operator: the function {self.name}"
        true = np.hstack([values_at(f, z, what=what, columns=1) for f in functions])
        found = np.hstack([f(z).numpy() for f in self.shown(values[: len(functions)])])
        sizes = np.maximum(np.linalg.norm(true, axis=0), np.finfo(np.float64).tiny)
        return np.asarray(np.linalg.norm(found - true, axis=0) / sizes)

    def to_rows(self, values: Any) -> Any:
        """Return c of rows of values of g; by a factor of C, whose inverse has fewer digits."""
        return tf.transpose(tf.linalg.cholesky_solve(self._root, tf.transpose(values)))

    def shown(self, values: Array) -> list[Any]:
        """Return rows of values of g as functions of z: [n, e] -> [n, 1], in TensorFlow."""

        def function(c: Array) -> Any:
            def at(z: Any) -> Any:
                z = tf.convert_to_tensor(z)
                return self._at(z, tf.constant(c[None], z.dtype))

            return at

        return [function(c) for c in self.to_rows(values).numpy()]

    def value(self, columns: Any) -> Any:
        """Return the function as a field of x, a function for each row of columns c: [n, size]."""
        axes = self.placed.axes

        def at(x: Any) -> Any:
            return self._at(tf.gather(x, axes, axis=1), columns)

        return Field(at, coordinates=self.placed.coordinates, components=(self.name,))

    def known(self, p: Array) -> Any:
        """Return the function of x for p: [size] alone."""
        axes, (of_z,) = self.placed.axes, self.shown(p[None])
        return lambda x: of_z(tf.gather(x, axes, axis=1))

    def _at(self, z: Any, c: Any) -> Any:
        nodes, lengths = self.nodes, np.broadcast_to(self.prior.length, self.nodes.shape[1])
        scaled = (z[:, None] - tf.constant(nodes, z.dtype)[None]) / tf.constant(lengths, z.dtype)
        r = tf.sqrt(5 * tf.reduce_sum(scaled**2, axis=-1) + _CLOSE)
        kernel = self.prior.amplitude**2 * (1 + r + r**2 / 3) * tf.exp(-r)
        process = tf.reduce_sum(kernel * c, axis=1, keepdims=True)
        if np.ptp(self.mean) == 0:
            mean = tf.constant(self.mean[:1], z.dtype)
        else:
            mean = kernel @ tf.cast(tf.transpose(self.to_rows(self.mean[None])), z.dtype)
        return mean * tf.exp(process) if self.prior.log else mean + process


class Inputs:
    """All inputs of a family, one after another as a vector μ: [q]."""

    def __init__(self, problem: Problem) -> None:
        numbers, functions = problem.unknowns, problem.unknown_functions
        if not numbers and not functions:
            raise InputError(
                "learn: the problem has no parameters; give it unknowns, as "
                "unknowns={'D': Unknown(0.1, lower=0.01, upper=1)} with a residual(u, x, *, D). "
                "One problem alone is solved by solve."
            )
        for name in {*numbers, *functions} & {"tolerance", "seconds"}:
            raise InputError(
                f"learn: the unknown {name!r} has the name of an option of operators; rename it."
            )
        self.parts: dict[str, NumberInput | FunctionInput] = {}
        self.parts |= {name: NumberInput(name, each) for name, each in numbers.items()}
        self.parts |= {name: FunctionInput(name, each) for name, each in functions.items()}
        ends = np.cumsum([0, *(part.size for part in self.parts.values())])
        pairs = zip(self.parts, zip(ends[:-1], ends[1:], strict=True), strict=True)
        self.places = {name: slice(int(a), int(b)) for name, (a, b) in pairs}
        self.size = int(ends[-1])

    def draw(self, n: int, seed: int) -> Array:
        """Return n vectors from the ranges and priors, by Sobol's points, [n, q]."""
        degrees = sum(part.degrees for part in self.parts.values())
        points = qmc.Sobol(degrees, rng=np.random.default_rng(seed))
        shares = points.random_base2(max(int(n - 1).bit_length(), 0))[:n]
        return np.concatenate([part.drawn(own) for part, own in self._split(shares)], axis=1)

    def vectors(self, given: Mapping[str, Any]) -> tuple[Array, bool]:
        """Return the vectors of queries, [Q, q], and whether it is one alone."""
        if set(given) != set(self.parts):
            raise InputError(
                f"operator: expected the inputs {', '.join(self.parts)}; got "
                f"{', '.join(given) or 'none'}."
            )
        rows = {name: self.parts[name].vectors(value) for name, value in given.items()}
        counts = {name: len(each) for name, each in rows.items()}
        many = max(counts.values())
        if not many:
            raise InputError("operator: expected at least one query; got none.")
        if not set(counts.values()) <= {1, many}:
            said = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InputError(
                f"operator: expected one or equally many values of inputs; got {said}."
            )
        found = [np.broadcast_to(rows[name], (many, rows[name].shape[1])) for name in self.parts]
        single = many == 1 and not any(self._is_batch(n, v) for n, v in given.items())
        return np.concatenate(found, axis=1), single

    def _is_batch(self, name: str, value: Any) -> bool:
        part = self.parts[name]
        if isinstance(part, NumberInput):
            return np.ndim(value) > len(part.unknown.shape)
        return isinstance(value, list) or np.ndim(value) == 2

    def interpolation_errors(self, given: Mapping[str, Any], vectors: Array) -> Array:
        """Return the largest relative error of functions between their nodes, for each query."""
        worst = np.zeros(len(vectors))
        for name, part in self.parts.items():
            if isinstance(part, FunctionInput):
                own = part.interpolation_errors(given[name], vectors[:, self.places[name]])
                worst = np.maximum(worst, own)
        return worst

    def coordinates(self, vectors: Array) -> Array:
        """Return inputs as numbers of order one, [Q, c]."""
        parts = (p.coordinates(vectors[:, self.places[n]]) for n, p in self.parts.items())
        return np.concatenate(list(parts), axis=1)

    def outside(self, vectors: Array) -> tuple[npt.NDArray[np.bool_], str]:
        """Return which vectors are outside of the family, [Q], and the names of inputs that are."""
        found = {n: p.outside(vectors[:, self.places[n]]) for n, p in self.parts.items()}
        names = ", ".join(name for name, beyond in found.items() if beyond.any())
        return np.any(list(found.values()), axis=0), names

    def as_values(self, vectors: Array) -> dict[str, Array]:
        """Return arrays of numbers, and of functions their values at the nodes."""
        return {n: part.as_values(vectors[:, self.places[n]]) for n, part in self.parts.items()}

    def by_values(self, slopes: Array, vector: Array) -> dict[str, Array]:
        """Return derivatives by μ: [n, m, q] as those by inputs as they are given."""
        found = {}
        for name, part in self.parts.items():
            by_part = slopes[..., self.places[name]]
            if isinstance(part, NumberInput):
                found[name] = by_part if part.unknown.shape else by_part[..., 0]
            else:  # with the prior in the logarithm, k = mean exp(g)
                k = part.as_values(vector[None, self.places[name]])[0]
                found[name] = by_part / k if part.prior.log else by_part
        return found

    def one(self, vector: Array) -> dict[str, Any]:
        """Return the inputs of one query as they are given."""
        found = {n: v[0] for n, v in self.as_values(vector[None]).items()}
        return {n: float(v) if np.ndim(v) == 0 else v for n, v in found.items()}

    def of_coordinates(self, theta: Array) -> tuple[Array, Array]:
        """Return μ: [q] for coordinates θ in which fits are made, and ∂μ/∂θ."""
        found = [part.of_coordinates(y) for part, y in self._split(theta)]
        return np.concatenate([v for v, _ in found]), block_diag(*(s for _, s in found))

    def one_at(self, theta: Array) -> dict[str, Any]:
        """Return the inputs of one query as they are given, for θ inside of its limits."""
        return self.one(self.of_coordinates(np.clip(theta, *self.limits))[0])

    def to_coordinates(self, vector: Array) -> Array:
        """Return θ for μ: [q]."""
        parts = (p.to_coordinates(vector[self.places[n]]) for n, p in self.parts.items())
        return np.concatenate(list(parts))

    @property
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper ends of θ."""
        low, high = zip(*(part.limits for part in self.parts.values()), strict=True)
        return np.concatenate(low), np.concatenate(high)

    def prior_rows(self, theta: Array) -> tuple[Array, Array]:
        """Return the residuals of priors, which are coordinates themselves, and their slopes."""
        has = [np.full(p.degrees, p.has_prior) for p in self.parts.values()]
        chosen = np.flatnonzero(np.concatenate(has))
        return theta[chosen], np.eye(len(theta))[chosen]

    def _split(self, theta: Array) -> Iterator[tuple[Any, Array]]:
        ends = np.cumsum([part.degrees for part in self.parts.values()])[:-1]
        return zip(self.parts.values(), np.split(theta, ends, axis=-1), strict=True)

    def to_rows(self, vectors: Any) -> Any:
        """Return what rows of equations have in place of μ: [n, q], by a symmetric matrix."""
        parts = [p.to_rows(vectors[:, self.places[n]]) for n, p in self.parts.items()]
        return tf.concat(parts, axis=1)

    def values(self, columns: Any) -> dict[str, Any]:
        """Return the values of unknowns for rows as `to_rows` gives them, [n, q]."""
        return {n: part.value(columns[:, self.places[n]]) for n, part in self.parts.items()}

    def shown(self, vectors: Array) -> dict[str, Any]:
        """Return vectors as they are given: arrays of numbers and lists of functions."""
        return {n: part.shown(vectors[:, self.places[n]]) for n, part in self.parts.items()}

    def known(self, vector: Array) -> dict[str, Any]:
        """Return the values of unknowns for one μ: [q]."""
        return {n: part.known(vector[self.places[n]]) for n, part in self.parts.items()}
