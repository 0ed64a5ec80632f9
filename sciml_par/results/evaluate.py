"""Functions of the solution, such as a flux or a residual, at any points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sciml_par._compiled_function import CompiledFunction
from sciml_par._tape import Tensor
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import Array
from sciml_par.problems.checks.functions import check_takes
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.recording import record
from sciml_par.problems.terms.residual import Residual
from sciml_par.problems.unknowns.placed_function import BoundFunction
from sciml_par.problems.unknowns.unknown_arguments import residual_of
from sciml_par.results.member import Member
from sciml_par.results.predict import (
    FEWEST_ROWS,
    OfMembers,
    Predictor,
    field_of_member,
    kept_weights,
)
from sciml_par.results.trained_field import FieldOf, field_of_model


class FunctionPredictor(Predictor):
    """f(u(·; θ), x) in place of u(x; θ), for members with their weights and unknowns."""

    where = "Result.evaluate"

    def __init__(self, members: Sequence[Member], f: Any) -> None:
        super().__init__(members)
        if not callable(f):
            raise InputError(
                f"Result.evaluate: expected a function f(u, x), as lambda u, x: derivative(u, x, "
                f"0); got {type(f).__name__}."
            )
        check_takes(f, "u, x", what="Result.evaluate: f", more_by_name=True)
        made: dict[Any, _Programs] = {}
        self._stacks = []
        for j, member in enumerate(members):
            fields = field_of_member(member), *(function.field for function in member.functions)
            programs = made.setdefault(fields, _Programs(f, member))
            self._stacks.append((programs.of_member(member), [j], kept_weights(member)[None]))
        x = np.zeros([FEWEST_ROWS, self.dimension], self.dtype)
        of_member, _, weights = self._stacks[0]
        self.outputs = of_member(weights, x).shape[2]
        self._f = next(iter(made.values())).f

    def error(self, x: Array) -> Array:
        """Return |f(u + e) − f(u)| by the estimated error e of a single member, [n, k], or NaN."""
        if self._error is None:
            return super().error(x)
        return np.abs(self._error.quantity(self._f, np.asarray(x, np.float64), self.outputs))


class _Programs:
    """(weights, numbers, weights of functions, x) -> f: [n, k] of members that are alike."""

    def __init__(self, f: Callable[..., Any], member: Member) -> None:
        self._field = field_of_member(member)
        self._functions = member.functions
        self._networks: dict[str, FieldOf] = {}
        values = member.unknowns
        self._names = tuple(values)
        starts = {**values, **{each.name: None for each in member.functions}}
        self.f = residual_of(Residual(f, name="f"), starts, "f")
        self._made: dict[Any, CompiledFunction] = {}

    def of_member(self, member: Member) -> OfMembers:
        """Return f with the unknowns of a member: its weights [1, p], x: [n, d] -> [1, n, k]."""
        dtype = kept_weights(member).dtype
        values = [np.asarray(member.unknowns[name], dtype) for name in self._names]
        values += [kept_weights(each.as_member(member)) for each in member.functions]
        return lambda weights, x: self._compute(weights[0], *values, x.astype(dtype))[None]

    def _compute(self, *given: Array) -> Array:
        """Return f for weights [p], values of unknowns and x: [n, d]."""
        tensors = [tf.constant(each) for each in given]
        specs = tuple(tf.TensorSpec(each.shape, each.dtype) for each in tensors)
        if specs not in self._made:
            self._made[specs] = CompiledFunction(self._traced, specs, points=len(given[-1]))
        return np.asarray(self._made[specs](*tensors).numpy())

    def _traced(self, weights: Tensor, *others: Tensor) -> Tensor:
        *values, x = others
        count = len(self._names)
        unknowns = dict(zip(self._names, values[:count], strict=True))
        for function, flat in zip(self._functions, values[count:], strict=True):
            unknowns[function.name] = self._bound(function, flat, x.dtype.name)
        u = self._field.with_weights(weights)
        if not isinstance(u, Field):
            raise InputError("Result.evaluate: the network of this result gives values alone.")
        u = u.with_unknowns(unknowns)
        return _checked(self.f(u.with_plan(record(self.f, u, x)), x), x)

    def _bound(self, function: Any, flat: Tensor, dtype: str) -> BoundFunction:
        """Return an unknown function with weights [p]."""
        name, placed = function.name, function.placed
        if name not in self._networks:
            self._networks[name] = field_of_model(
                function.field.model, None, len(placed.inputs), dtype
            )
        network: Any = self._networks[name](function.field.parameters(flat))
        return BoundFunction(placed, network, scaled=function.scaled)


def _checked(y: Any, x: Tensor) -> Tensor:
    """Return f's result as [n, k], or raise what is wrong with it."""
    shape = None if not tf.is_tensor(y) else y.shape.as_list()
    if shape is not None and shape == [x.shape[0]]:
        return y[:, None]
    if shape is None or len(shape) != 2 or shape[0] != x.shape[0]:
        got = f"shape {shape}" if shape is not None else f"a {type(y).__name__}"
        raise InputError(
            f"Result.evaluate: expected f(u, x) to return a tensor [n, k], a row for each of the "
            f"n points; got {got}. Write u(x) and operators such as derivative(u, x, 0); join "
            f"quantities by tf.concat([...], axis=1)."
        )
    return y
