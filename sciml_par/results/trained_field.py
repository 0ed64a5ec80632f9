"""The field u(x; θ) of trained networks: its form, which a problem gives, and its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from sciml_par._compiled_function import CompiledFunction
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import Array
from sciml_par.problems.domains.box import Box
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.transformed import Corners, Ranges, corners_of
from sciml_par.problems.problem import Problem

FieldOf = Callable[[Sequence[Tensor]], Callable[[Tensor], Tensor]]
"""Gives u of a network with these weights, as a `Field` unless it is not known."""


@dataclass(frozen=True)
class FieldForm:
    """The form u(x) = A(N, z(x)) that a problem gives to a network N, as files can hold it.

    `box` has the corners of the box that z maps to [−1, 1]^d, None for z = x; `ansatz` is a digest
    of A as it was traced, None for u = N; `domain` has the corners around the problem's domain;
    `ranges` has the values of components that N gives as −1 and 1, None for those of N.
    """

    box: Corners | None = None
    ansatz: str | None = None
    domain: Corners | None = field(default=None, compare=False)
    ranges: Ranges | None = None

    def is_of(self, problem: Problem, dtype: str) -> bool:
        """Return whether a problem has this form, by its own scaling or by the default one."""
        network = SimpleNamespace(sees_scaled_inputs=self.box is not None)
        decided = self.with_ranges(problem).for_network(network)
        return form_of(decided, dtype) == self

    def with_ranges(self, problem: Problem) -> Problem:
        """Return a problem with these ranges of components, if it has not any of its own."""
        return problem.with_output_ranges(self.ranges) if problem.has_open_ranges else problem

    def problem(self, outputs: Sequence[str]) -> Problem | None:
        """Return a problem that makes the same without an ansatz; None for the network itself."""
        assert self.ansatz is None
        scaled, box = self.box is not None, self.box or self.domain
        if box is None or (self.ranges is None and not scaled):
            return None
        made = Problem(Box(*box), lambda u, x: u(x), outputs=outputs, input_scaling=scaled)
        return made.with_output_ranges(self.ranges)


def form_of(problem: Problem, dtype: str) -> FieldForm:
    """Return the form of a problem whose input scaling has been decided."""
    return FieldForm(
        problem.scaled_box,
        None if problem.ansatz is None else _digest(problem, dtype),
        corners_of(problem.domain.lower, problem.domain.upper),
        problem.output_ranges,
    )


def _digest(problem: Problem, dtype: str) -> str:
    """Return a digest of u(x) = A(tanh(x W), x), in which W stands for any network."""
    from sciml_par._graph_digest import digest_of_graph

    d, k = problem.domain.dimension, problem.network_outputs

    def value(x: Any, w: Any) -> Any:
        return problem.field(lambda z: tf.tanh(z @ w))(x)

    specs = tf.TensorSpec([3, d], dtype), tf.TensorSpec([d, k], dtype)
    traced = tf.function(value, autograph=False).get_concrete_function(*specs).graph
    return digest_of_graph(traced, traced.inputs[:2], traced.outputs).text


class TrainedField:
    """u(x; θ) for all members whose networks, and what problems make of these, are alike.

    `make` gives the pure function parameters -> u, and the Keras model of which it is made; it is
    called when one of them is needed.
    """

    def __init__(self, make: Callable[[], tuple[FieldOf, Any]]) -> None:
        self._make = make
        self._programs: dict[Any, Any] = {}

    @property
    def model(self) -> Any:
        """The Keras model; its own weights are those of one of the members, or of none."""
        return self._made[1]

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the parameters, in order."""
        return tuple(tuple(map(int, v.shape)) for v in self.model.trainable_variables)

    def at(self, weights: Array, x: Array) -> Array:
        """Return u with weights [p] at x: [n, d], [n, m], operation by operation."""
        points = tf.constant(x, weights.dtype.name)
        return np.asarray(self.with_weights(tf.constant(weights))(points).numpy())

    def of_members(self, weights: Array, x: Array) -> Array:
        """Return u with the weights [M, p] of M members at x: [n, d], [M, n, m]; compiled."""
        given = tf.constant(weights), tf.constant(x, weights.dtype.name)
        return np.asarray(self._program(*given)(*given).numpy())

    def parameters(self, flat: Tensor) -> list[Tensor]:
        """Return the tensors of a vector [p]."""
        parts = tf.split(flat, [math.prod(shape) for shape in self.shapes])
        return [tf.reshape(p, shape) for p, shape in zip(parts, self.shapes, strict=True)]

    def with_weights(self, flat: Tensor) -> Any:
        """Return u with weights [p]."""
        of, _ = self._made
        return of(self.parameters(flat))

    @cached_property
    def _made(self) -> tuple[FieldOf, Any]:
        return self._make()

    def __deepcopy__(self, memo: Any) -> TrainedField:
        return self  # it never changes

    def _program(self, *given: Tensor) -> Any:
        """Return what is compiled for arguments of these shapes, after the model is made.

        Called directly, TensorFlow would warn of tracing where there are results of many trainings.
        """
        specs = tuple(tf.TensorSpec(each.shape, each.dtype) for each in given)
        if self._made and specs not in self._programs:
            points = specs[0].shape[0] * specs[1].shape[0]
            self._programs[specs] = CompiledFunction(self._of_all, specs, points=points)
        return self._programs[specs]

    def _of_all(self, weights: Tensor, x: Tensor) -> Tensor:
        if weights.shape[0] == 1:
            return self.with_weights(weights[0])(x)[None]
        return tf.vectorized_map(lambda flat: self.with_weights(flat)(x), weights)


def field_with(
    model: Callable[[], Any],
    form: FieldForm,
    problem: Problem | None,
    *,
    d: int,
    outputs: Sequence[str],
    dtype: str,
    otherwise: str,
) -> TrainedField:
    """Return the field of a model that is loaded when it is needed.

    If the problem does not make of it what the form says, using the field raises `otherwise`.
    """

    def make() -> tuple[FieldOf, Any]:
        made, used = model(), problem
        if used is None and form.ansatz is None:
            used = form.problem(outputs)
        elif used is None or not form.is_of(used, dtype):
            return partial(_refuse, otherwise), made
        else:
            used = form.with_ranges(used)
        return field_of_model(made, used, d, dtype), made

    return TrainedField(make)


def _refuse(text: str, _parameters: Any) -> NoReturn:
    raise InputError(f"Result: {text}")


def field_of_model(model: Any, problem: Problem | None, d: int, dtype: str) -> FieldOf:
    """Return u of a model, with what the problem makes of it, as a function of weights."""
    from sciml_par.networks.keras.from_model import as_network  # it imports TensorFlow

    components = getattr(model, "output_size", None) or model(tf.zeros([1, d], dtype)).shape[1]
    network = as_network(model, d, int(components), dtype=dtype)
    made = None if problem is None else problem.for_network(model)

    def of(parameters: Sequence[Tensor]) -> Field:
        jet = None if network.jet is None else partial(network.jet, parameters)
        field = Field(partial(network.apply, parameters), jet=jet)
        return field if made is None else made.field(field)

    return of
