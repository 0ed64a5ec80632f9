"""Priors of unknowns as terms of the loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.checks.functions import values_at
from sciml_par.problems.conditions.condition import Arrays, Condition
from sciml_par.problems.conditions.coupled import at_all, whitening
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.unknowns.placed_function import PlacedFunction
from sciml_par.problems.unknowns.priors import Smooth
from sciml_par.problems.unknowns.unknowns import Unknown

_PER_LENGTH = (12, 8, 6, 4)
"""Points per length, the first that fits. Four tell a Gaussian process to 1.4 % of its amplitude,
but a network may have functions that vanish at few points and not between them; bands show it."""
_LEAST = {1: 41, 2: 15}
_FEWEST, _MOST = 5, 400


class PriorCondition(Condition):
    """The base of priors of unknowns: one row of the loss, whose sum of squares is part of χ²."""

    kind: ClassVar[str] = "prior"
    points_are_given: ClassVar[bool] = True
    on_boundary = False
    statistical = True
    coupled = True
    number_of_rows = 1
    number_of_values = 0

    def __init__(self, unknown: str, domain: Domain) -> None:
        self._set_common(on=None, where=None, points=None, name=f"prior {unknown}", weight=None)
        self.unknown = unknown
        # A term has points, from which the row is counted and takes its dtype.
        self.place = (np.asarray(domain.lower) + np.asarray(domain.upper))[None] / 2


class PriorOfNumber(PriorCondition):
    """The prior of an `Unknown`: one row with a component for each of its elements."""

    def __init__(self, name: str, unknown: Unknown, domain: Domain) -> None:
        super().__init__(name, domain)
        self.prior = unknown.prior
        self.number_of_values = unknown.size

    def points(self, domain: Domain, n: int) -> Arrays:
        return (self.place,)

    def residual(self, u: Any, *arrays: tf.Tensor, **unknowns: Any) -> tf.Tensor:
        assert self.prior is not None
        r = self.prior.residual(unknowns[self.unknown])
        return tf.zeros_like(arrays[0][:, :1]) + tf.reshape(r, [1, -1])


class PriorOfFunction(PriorCondition):
    """The prior of an `UnknownFunction`: one row with a component for each point of a grid."""

    def __init__(self, name: str, placed: PlacedFunction, domain: Domain) -> None:
        super().__init__(name, domain)
        prior = placed.function.prior
        assert prior is not None
        self.prior = prior
        z = grid_of(placed, prior)
        self.x = np.repeat(self.place, len(z), axis=0)
        self.x[:, placed.axes] = z
        self.factor = whitening(prior.covariance(z), f"the prior of {name!r}")
        self.mean = mean_of(placed, prior, z)

    def points(self, domain: Domain, n: int) -> Arrays:
        return self.place, self.x[None], self.factor[None], self.mean[None]

    def residual(self, u: Any, *arrays: tf.Tensor, **unknowns: Any) -> tf.Tensor:
        _, x, factor, mean = arrays
        values = at_all(unknowns[self.unknown], x)
        return tf.linalg.matvec(factor, self.prior.residual(values, mean))


def prior_conditions(
    numbers: Mapping[str, Unknown], functions: Mapping[str, PlacedFunction], domain: Domain
) -> tuple[PriorCondition, ...]:
    """Return the terms of all priors of a problem."""
    of_numbers = [
        PriorOfNumber(name, each, domain)
        for name, each in numbers.items()
        if each.prior is not None
    ]
    of_functions = [
        PriorOfFunction(name, each, domain)
        for name, each in functions.items()
        if each.function.prior is not None
    ]
    return (*of_numbers, *of_functions)


def grid_of(placed: PlacedFunction, prior: Smooth) -> FloatArray:
    """Return points over the box of a function's arguments: [n, e], at least four per length."""
    e, what = len(placed.inputs), f"Problem: the prior {prior!r} of {placed.name!r}"
    if placed.needs_solution:
        raise InputError(
            f"{what} needs the range of its arguments, and that of components of the solution is "
            f"not known. Leave out the prior, or let the function depend on coordinates."
        )
    lengths = np.asarray(prior.length)
    if lengths.shape not in ((), (e,)):
        raise InputError(
            f"{what} has {lengths.size} lengths, and the function has {e} argument(s): "
            f"{', '.join(placed.names)}. Give one length, or one for each argument."
        )
    for density in _PER_LENGTH:
        counts = np.ceil(density * (placed.upper - placed.lower) / lengths) + 1
        numbers = [max(_LEAST.get(e, _FEWEST), int(min(n, _MOST + 1))) for n in counts]
        if math.prod(numbers) <= _MOST:
            break
    else:
        raise InputError(
            f"{what} needs a grid of {' × '.join(map(str, numbers))} points, four per length, and "
            f"{_MOST} in all are the most. Take a larger length."
        )
    axes = [
        np.linspace(a, b, n) for a, b, n in zip(placed.lower, placed.upper, numbers, strict=True)
    ]
    return np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)


def mean_of(placed: PlacedFunction, prior: Smooth, z: FloatArray) -> FloatArray:
    """Return the mean at points z: [n, e] -> [n]."""
    if callable(prior.mean):
        what = f"the mean of the prior of {placed.name!r}"
        mean = values_at(prior.mean, z, what=what, columns=1, reads_variables=False)[:, 0]
    else:
        mean = np.full(len(z), placed.function.start if prior.mean is None else prior.mean)
    low, high = placed.function.number.bounds
    if not np.all((low <= mean) & (mean <= high)) or (prior.log and not np.all(mean > 0)):
        raise InputError(
            f"Problem: the mean of the prior {prior!r} of {placed.name!r} lies outside the bounds "
            f"of the function."
        )
    return mean
