"""u of a problem as the sum of networks with parameters: a value, to be evaluated anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tape import is_watched, jet_at
from sciml_par._tensorflow import tf
from sciml_par.assembly.at_points import AtPoints
from sciml_par.assembly.columns import jets_of
from sciml_par.assembly.equations import Equations, Request
from sciml_par.networks.keras.from_model import as_network
from sciml_par.networks.keras.network import Network
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Solution(AtPoints):
    """u(x) = A(Σ_i N_i(x; θ_i), x), A being the ansatz and the input scaling of a problem.

    Attributes
    ----------
    problem : gives A.
    networks : N_i.
    theta : the parameters of all, one after another, [p].
    """

    problem: Problem
    networks: tuple[Network, ...]
    theta: Array

    @classmethod
    def of(cls, problem: Problem, model: Any, *others: Any) -> Solution:
        """Return the sum of Keras models with their present weights (local)."""
        sizes = problem.domain.dimension, problem.network_outputs
        models = (model, *others)
        networks = tuple(as_network(each, *sizes, dtype="float64") for each in models)
        values = [np.ravel(v) for n in networks for v in n.trainable_variables]
        return cls(problem, networks, np.concatenate(values).astype(np.float64))

    def at(self, theta: Array) -> Solution:
        """Return the same networks with other parameters (local)."""
        return replace(self, theta=np.asarray(theta, np.float64))

    @property
    def field(self) -> Field:
        """u as a field."""
        return self.problem.field(self._sum, jet=self._sum_of_jets)

    @property
    def unknowns(self) -> dict[str, Any]:
        """The values of the problem's unknowns, by name: there are none."""
        return {}

    def network_values(self, x: Array) -> Array:
        """Return Σ_i N_i at x: [n, d] -> [n, m] (local)."""
        return np.asarray(self._sum(self._points(x)).numpy(), np.float64)

    def jets(self, equations: Equations) -> list[list[Array]]:
        """Return the jets of Σ_i N_i at the requests of equations, [Q, m, n] each (local)."""
        return [[self._jet(request) for request in rows.requests] for rows in equations.rows]

    def _jet(self, request: Request) -> Array:
        u, du, operators = self._sum_of_jets(tf.constant(request.x), request.second)
        whole = tf.concat([u[..., None], du, operators], axis=-1)
        return np.asarray(tf.transpose(whole, [2, 1, 0]).numpy())

    @cached_property
    def _parameters(self) -> list[list[Any]]:
        """Tensors in the shapes of each network's variables."""
        shapes = [[tuple(v.shape) for v in n.trainable_variables] for n in self.networks]
        flat = [shape for of_network in shapes for shape in of_network]
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in flat)])
        with tf.init_scope():  # as numbers, also while a function of u is traced
            parts = [
                tf.constant(self.theta[a:b].reshape(shape))
                for (a, b), shape in zip(pairwise(ends), flat, strict=True)
            ]
        counts = np.cumsum([0, *map(len, shapes)])
        return [parts[a:b] for a, b in pairwise(counts)]

    def _sum(self, x: Any) -> Any:
        pairs = zip(self.networks, self._parameters, strict=True)
        none = np.zeros((0, x.shape[1], x.shape[1]))
        return tf.add_n(
            [
                _in_closed_form(network.model, own, x, none)[0]
                if _is_closed(network.model, x)
                else network.apply(own, x)
                for network, own in pairs
            ]
        )

    def _sum_of_jets(self, x: Any, second: Any) -> tuple[Any, ...]:
        pairs = zip(self.networks, self._parameters, strict=True)
        jets = [_jet_of(network, own, x, second) for network, own in pairs]
        return tuple(tf.add_n(parts) for parts in zip(*jets, strict=True))


def _is_closed(model: Any, x: Any) -> bool:
    """Return whether numbers suffice: polynomials at points by which nobody differentiates."""
    return hasattr(model, "cells") and tf.executing_eagerly() and not is_watched(x)


def _in_closed_form(model: Any, own: Any, x: Any, second: Any) -> tuple[Any, Any, Any]:
    """Return the jet of polynomials, window by window: in a cache."""
    z = tf.constant(jets_of(model, own[0].numpy(), Request(x.numpy(), second)).transpose(2, 1, 0))
    d = x.shape[1]
    return z[..., 0], z[..., 1 : 1 + d], z[..., 1 + d :]


def _jet_of(network: Network, own: Any, x: Any, second: Any) -> tuple[Any, ...]:
    """Return the jet of a network, by nested tapes if it has none."""
    if _is_closed(network.model, x):
        return _in_closed_form(network.model, own, x, np.asarray(second, np.float64))
    jet = network.jet and partial(network.jet, own)
    return tuple(jet_at(partial(network.apply, own), jet, x, np.asarray(second, np.float64)))


def zero_jets(equations: Equations) -> list[list[Array]]:
    """Return the jets of a network of zeros at the requests of equations (local)."""
    return [
        [np.zeros((request.size, equations.outputs, len(request.x))) for request in rows.requests]
        for rows in equations.rows
    ]
