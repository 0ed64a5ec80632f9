"""The base of conditions with a value on the right-hand side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np

from sciml_par._checks import checked_number
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.checks.arrays import FloatArray
from sciml_par.problems.checks.functions import BY_NAME, parameters_of, positional_names, values_at
from sciml_par.problems.conditions.condition import (
    Arrays,
    Condition,
    FrozenCondition,
    On,
    Predicate,
)
from sciml_par.problems.conditions.selection import Component, Components, as_components, select
from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.fields.field import Field
from sciml_par.problems.operators.arguments import FieldLike
from sciml_par.problems.operators.operators import jacobian

Value = float | Sequence[float] | Callable[..., Any]


@dataclass(frozen=True, init=False)
class ValuedCondition(FrozenCondition):
    """Left side = value at points of the boundary; the base of several conditions.

    The residual is [k, c] for c components, at points x: [k, d] with outward unit normals [k, d].
    It takes the value as an array, so that conditions with other values are the same computation.
    A function is evaluated once at the points, not at each step, unless it takes unknowns of the
    problem.
    """

    selects: ClassVar[tuple[str, ...]] = ("component",)
    sides: ClassVar[tuple[str, ...]] = ("value",)
    """The attributes that are right-hand sides."""
    value: Any
    component: Components | None

    def __init__(
        self,
        value: Value = 0.0,
        *,
        component: Component | None = None,
        on: On | None = None,
        where: Predicate | None = None,
        points: Any = None,
        name: str = "",
        weight: float | None = None,
    ) -> None:
        owner = type(self).__name__
        object.__setattr__(self, "component", as_components(component, f"{owner}: component"))
        object.__setattr__(self, "value", checked_value(value, f"{owner}: value"))
        self._set_common(on=on, where=where, points=points, name=name, weight=weight)

    @property
    def known_functions(self) -> tuple[str, ...]:  # type: ignore[override]
        """See `Condition`; the right-hand sides are known unless they take unknowns."""
        known = (side for side in self.sides if is_data(getattr(self, side)))
        return (*Condition.known_functions, *known)

    def prepared(self, domain: Domain, outputs: Sequence[str]) -> Self:
        other = super().prepared(domain, outputs)
        count = len(outputs) if other.component is None else len(other.component)
        for value in (getattr(other, side) for side in self.sides):
            if isinstance(value, tuple) and len(value) != count:
                raise InputError(
                    f"{type(self).__name__}: {len(value)} values {value} for {count} component(s)"
                )
        return other

    def completed(self, arrays: Arrays, domain: Domain) -> Arrays:
        """Return points, normals and the known values there: [k, c], or [k, 1] (local)."""
        known = (self._values(getattr(self, side), arrays[0], side) for side in self.sides)
        return (*arrays, *chain.from_iterable(known))

    def residual(self, u: FieldLike, *arrays: tf.Tensor) -> tf.Tensor:
        x, normals, *values = arrays
        left = select(self._left_side(u, x, normals), self.component, type(self).__name__)
        return left - self._right_side(self.value, left, values, (u, x, normals))

    def _left_side(self, u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def _values(self, value: Any, x: FloatArray, what: str) -> list[FloatArray]:
        if not is_data(value):
            return []
        if not callable(value):
            return [np.tile(np.array(value, np.float64, ndmin=2), (len(x), 1))]
        called = self.name or self.kind
        return [values_at(value, x, what=f"{type(self).__name__}: {what} (condition {called!r})")]

    def _right_side(
        self,
        value: Any,
        left: tf.Tensor,
        values: Sequence[tf.Tensor],
        at: tuple[FieldLike, tf.Tensor, tf.Tensor],
        what: str = "value",
    ) -> tf.Tensor:
        """Return the right side to compare `left` with: its columns, or one of a number.

        at : u, x: [k, d], and the outward unit normals [k, d], of which functions take some.
        """
        owner = type(self).__name__
        if not is_data(value):
            names = self._names_taken(value, what)
            given = dict(zip(("u", "x", "normals"), at, strict=True))
            found = value(*(given[name] for name in names))
            found = tf.convert_to_tensor(found, dtype=left.dtype)
            values = [tf.broadcast_to(found, tf.shape(left)) if found.shape.rank == 0 else found]
        if not values:
            raise InputError(
                f"{owner}: residual lacks the values at the points; pass on all arrays that "
                f"points(domain, n) returns"
            )
        wanted = 1 if isinstance(value, float) else left.shape[1]
        if values[0].shape.rank != 2 or values[0].shape[1] != wanted:
            one = values[0].shape[1:] == [1]
            advice = (
                "if it is for one component, name it, as component=0"
                if one
                else "one coordinate is x[:, i:i+1]"
            )
            raise InputError(
                f"{owner}: {what}(x) must have the shape {left.shape.as_list()}, a column for each "
                f"component, got {values[0].shape.as_list()}; {advice}"
            )
        return values[0]

    def _names_taken(self, value: Callable[..., Any], what: str) -> tuple[str, ...]:
        """Return which of u, x and the normals a function takes by their places."""
        names = positional_names(value)
        forms = [("x",), ("u", "x"), *([("u", "x", "normals")] if self.needs_normals else [])]
        # Of two arguments x is not the first: others write f(x, u) or f(x, normals).
        found = next((f for f in forms if len(f) == len(names)), None)
        if found is None or (len(names) > 1 and names[0] == "x"):
            listed = " or ".join(f"({', '.join(form)})" for form in forms)
            raise InputError(
                f"{type(self).__name__}: {what} must be a function of {listed}, in this order and "
                f"with u a function whose values are u(x); got one of ({', '.join(names)}). "
                f"Unknowns of the problem follow a star, as (u, x, *, q)."
            )
        return found


def is_data(value: Any) -> bool:
    """Return whether a value is known before the first step: a number, or a function of x.

    A function that takes u, normals or unknowns of the problem is not: it is evaluated in the
    residual, and must consist of TensorFlow operations.
    """
    if not callable(value):
        return value is not None
    keywords = value.keywords.values() if isinstance(value, partial) else ()
    if any(isinstance(given, Field) or tf.is_tensor(given) for given in keywords):
        return False  # it takes the value of an unknown
    others = list(parameters_of(value).values())[1:]
    return not any(p.default is p.empty and p.kind in BY_NAME for p in others)


def checked_value(value: Any, what: str) -> Any:
    """Return a number, a sequence of them as a tuple, or a function."""
    if callable(value):
        return value
    if isinstance(value, np.ndarray) and value.ndim < 2:
        value = value.tolist()
    if isinstance(value, (tuple, list)) and value:
        return tuple(checked_number(v, f"{what} of a component") for v in value)
    if isinstance(value, str) and value.isidentifier():
        raise InputError(
            f"{what} must be a number or a function, got {value!r}; an unknown {value} of the "
            f"problem is lambda x, *, {value}: {value}"
        )
    return checked_number(value, f"{what}, unless a function of x,")


def normal_derivative(u: FieldLike, x: tf.Tensor, normals: tf.Tensor) -> tf.Tensor:
    """Compute Σ_i n_i ∂u_c/∂x_i: [k, m]."""
    return tf.reduce_sum(jacobian(u, x) * normals[:, None, :], axis=-1)
