"""u of a problem as the sum of polynomials with coefficients: a value, evaluated anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import operator_of_matrix
from sciml_par._tape import is_watched
from sciml_par._tensorflow import tf
from sciml_par.assembly.asked import Request, values_by_name
from sciml_par.assembly.at_points import AtPoints
from sciml_par.assembly.columns import jets_of
from sciml_par.assembly.equations import NONE, Equations
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Solution(AtPoints):
    """u(x) = A(Σ_i N_i(x; c_i), x), A being the ansatz and the input scaling of a problem.

    Attributes
    ----------
    problem : gives A.
    models : N_i, such as `sciml_par.networks.Polynomials`.
    theta : their coefficients, one after another, and the parameters of the problem's unknowns.
    """

    problem: Problem
    models: tuple[Any, ...]
    theta: Array

    @classmethod
    def of(cls, problem: Problem, *models: Any, p: Array = NONE) -> Solution:
        """Return the sum of models with their present coefficients, and unknowns p (local)."""
        return cls(
            problem, models, np.concatenate([*(np.ravel(m.coefficients) for m in models), p])
        )

    def at(self, theta: Array) -> Solution:
        """Return the same models with other coefficients (local)."""
        return replace(self, theta=np.asarray(theta, np.float64))

    @property
    def field(self) -> Field:
        """u as a field."""
        values = values_by_name(self.problem, tf.constant(self.parameters))
        return self.problem.field(self._sum, jet=self._sum_of_jets, unknowns=values or None)

    @property
    def parameters(self) -> Array:
        """Those of the unknowns, [q]."""
        return self._parts[-1]

    @property
    def unknowns(self) -> dict[str, Any]:
        """The values of the problem's unknowns, by name."""
        values = values_by_name(self.problem, tf.constant(self.parameters))
        return {name: value.numpy() for name, value in values.items()}

    def network_values(self, x: Array) -> Array:
        """Return Σ_i N_i at x: [n, d] -> [n, m] (local)."""
        return np.asarray(self._sum(self._points(x)).numpy(), np.float64)

    def network_jets(self, x: Array) -> Array:
        """Return Σ_i N_i and its first derivatives at x: [n, d] -> [1 + d, m, n] (local)."""
        return self._jet(Request(self._points(x).numpy()))

    def jets(self, equations: Equations) -> list[list[Array]]:
        """Return the jets of Σ_i N_i at the requests of equations, [Q, m, n] each (local)."""
        return [[self._jet(request) for request in rows.requests] for rows in equations.rows]

    def _jet(self, request: Request) -> Array:
        pairs = zip(self.models, self._coefficients, strict=True)
        return np.sum([jets_of(model, c, request) for model, c in pairs], axis=0)

    @cached_property
    def _parts(self) -> list[Array]:
        sizes = [int(np.prod(model.coefficients.shape)) for model in self.models]
        return np.split(self.theta, np.cumsum(sizes))

    @cached_property
    def _coefficients(self) -> list[Array]:
        """c: [K, M, m] of each model."""
        pairs = zip(self._parts, self.models, strict=False)
        return [part.reshape(tuple(model.coefficients.shape)) for part, model in pairs]

    def _sum(self, x: Any) -> Any:
        if tf.executing_eagerly() and not is_watched(x):
            return self._sum_of_jets(x, np.zeros((0, x.shape[1], x.shape[1])))[0]
        pairs = zip(self.models, self._coefficients, strict=True)
        return tf.add_n([model.apply([tf.constant(c)], x) for model, c in pairs])

    def _sum_of_jets(self, x: Any, second: Any) -> tuple[Any, ...]:
        """Return the jet of the sum, by numbers alone where nobody differentiates it."""
        matrices, d = np.asarray(second, np.float64), x.shape[1]
        if tf.executing_eagerly() and not is_watched(x):
            operators = tuple(map(operator_of_matrix, matrices))
            z = tf.constant(self._jet(Request(x.numpy(), operators)).transpose(2, 1, 0))
            return z[..., 0], z[..., 1 : 1 + d], z[..., 1 + d :]
        pairs = zip(self.models, self._coefficients, strict=True)
        jets = [model.jet([tf.constant(c)], x, matrices) for model, c in pairs]
        return tuple(tf.add_n(parts) for parts in zip(*jets, strict=True))


def zero_jets(equations: Equations) -> list[list[Array]]:
    """Return the jets of a network of zeros at the requests of equations (local)."""
    return [
        [np.zeros((request.size, equations.outputs, len(request.x))) for request in rows.requests]
        for rows in equations.rows
    ]
