"""Functions of fields, such as x ↦ k(x) u(x)², differentiated by the fields' own derivatives.

To differentiate f at x up to order q, every field u that f evaluates at its argument z is replaced
by a function ũ with the same derivatives up to order q at x. Where f asks for derivatives of u,
they are replaced likewise. Tapes then go through f and known numbers, not through a network. The
network is asked once, at x, for all that is needed. As ũ is a function of z − x, tapes around all
this, which follow x, find that ũ(x) depends on x by the known values alone. Fields that f evaluates
elsewhere than at z are differentiated by the same tapes.

Up to second order, where f asks for values alone, ũ is linear around x. With
G(z) = f(z, u(x) + Σ_i ∂_i u(x) (z_i − x_i)),

    ∂_i f = ∂_i G        L_k f = L_k G + Σ_a ∂f/∂u_a L_k u_a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations
from typing import Any

import numpy as np

from sciml_par import _tape
from sciml_par._partial_operators import (
    HIGHEST,
    Axes,
    Operator,
    matrix_of,
    operator_of,
    operator_of_matrix,
    order_of,
)
from sciml_par._tape import Function, Jet, Tensor
from sciml_par._tensorflow import tf
from sciml_par.problems.fields import answers as _given
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.plan import Coefficients

_VALUE: Operator = (((), 1.0),)


_RECORDED: ContextVar[list[Function]] = ContextVar("recorded")


@contextmanager
def recorded() -> Iterator[list[Function]]:
    """Collect the functions that are differentiated meanwhile, in this thread."""
    found = list[Function]()
    token = _RECORDED.set(found)
    try:
        yield found
    finally:
        _RECORDED.reset(token)


def as_field(function: Function, x: tf.Tensor) -> Field:
    """Return a function as a field, to be differentiated at points of the form of x: [n, d]."""
    _RECORDED.get([]).append(function)
    trial = tried(function, x)
    if trial is None or not trial.asked:
        return Field(function).as_made()
    jet = _Composition(function, trial).jet if trial.pointwise else None
    return Field(function, jet=jet, coordinates=trial.coordinates).as_made()


class _Trial:
    """A run of a function that records its requests to fields, with answers of the right shape."""

    def __init__(self) -> None:
        self.pointwise = True
        self.asked: dict[int, tuple[Field, dict[Operator, None]]] = {}
        self._is_computing = False

    @property
    def asks_values_alone(self) -> bool:
        """Whether fields are asked, and for their values only."""
        operators = [operator for _, asked in self.asked.values() for operator in asked]
        return self.pointwise and set(operators) == {_VALUE}

    @property
    def coordinates(self) -> tuple[str, ...] | None:
        """The names of the coordinates, where a field knows them."""
        names = (field.coordinates for field, _ in self.asked.values())
        return next((each for each in names if each is not None), None)

    def value(self, field: Field, z: Tensor) -> Tensor | None:
        if self._is_computing:  # a field may ask others, which need not answer as well
            return None
        self._note(field, z, [_VALUE])
        self._is_computing = True
        try:
            # Cut off from z, so that a function that differentiates it without a tape fails here.
            return tf.stop_gradient(field.computed(z))
        finally:
            self._is_computing = False

    def jet(
        self, field: Field, z: Tensor, second: Coefficients, higher: Sequence[Operator]
    ) -> Jet | None:
        u = self.value(field, z)
        if u is None:
            return None
        self._note(field, z, _asked_by_jet(z.shape[1], second, higher))
        numbers = [z.shape[1], len(second), *([len(higher)] if higher else [])]
        return u, *(u[:, :, None] + tf.zeros([k], u.dtype) for k in numbers)

    def _note(self, field: Field, z: Tensor, operators: Iterable[Operator]) -> None:
        # A tape inside the function would differentiate known values once more.
        self.pointwise &= not _tape.is_watched(z)
        _, asked = self.asked.setdefault(id(field), (field, {}))
        asked.update(dict.fromkeys(operators))


def tried(function: Function, x: tf.Tensor) -> _Trial | None:
    """Return the requests of a function to fields at x, or None if it raises an error."""
    trials: list[_Trial] = []

    def run(z: tf.Tensor) -> None:
        trials.append(_Trial())
        with _given.answering(z, _given.Answers(trials[-1].value, trials[-1].jet, on_trial=True)):
            function(z)

    spec = tf.TensorSpec(x.shape, x.dtype)
    try:
        tf.function(run, autograph=False).get_concrete_function(spec)
    except Exception:  # the user's own function, which shows its errors when it is used
        return None
    return trials[-1]


class _Composition:
    """A function of fields with a jet."""

    def __init__(self, function: Function, trial: _Trial) -> None:
        self._function, self._asked = function, tuple(trial.asked.values())
        self._asks_values_alone = trial.asks_values_alone

    def jet(self, x: Tensor, second: Coefficients, higher: Sequence[Operator] = ()) -> Jet:
        """Compute the jet; see `Field`."""
        if self._asks_values_alone and not higher:
            return jet_by_values(self._function, [field for field, _ in self._asked], x, second)
        # Use tapes through everything if the fields have no jets of the order needed.
        approximate = self._approximation(x, second, higher) or self._function

        def jet_of(z: Tensor, matrices: Coefficients) -> Jet:
            return _tape.jet(approximate, z, matrices)

        found = jet_of(x, second)
        return (*found, _tape.higher(jet_of, x, higher)) if higher else found

    def _approximation(
        self, x: Tensor, second: Coefficients, higher: Sequence[Operator]
    ) -> Function | None:
        d = int(x.shape[1])
        operators = [*(operator_of_matrix(matrix) for matrix in second), *higher]
        # The γ that matter to first derivatives and to these operators: parts of their axes.
        whole = [(i,) for i in range(d)] + [axes for p in operators for axes, _ in p]
        parts = {s for axes in whole for r in range(len(axes) + 1) for s in combinations(axes, r)}
        shifts = sorted(parts, key=lambda axes: (len(axes), axes))
        known = {}
        for field, asked in self._asked:
            needed = {_product(q, axes) for q in asked for axes in shifts}
            highest = max(order_of(p) for p in needed if p)
            if highest > HIGHEST or not field.has_jet_to(highest):
                return None
            known[id(field)] = _Known(x, _values(field, x, sorted(needed)))

        def value(field: Field, z: Tensor) -> Tensor | None:
            return known[id(field)].at(z, _VALUE) if id(field) in known else None

        def jet(field: Field, z: Tensor, second: Coefficients, above: Any) -> Jet | None:
            return known[id(field)].jet(z, second, above) if id(field) in known else None

        def approximate(z: Tensor) -> Tensor:
            with _given.answering(z, _given.Answers(value, jet)):
                return self._function(z)

        return approximate


def jet_by_values(
    function: Function, fields: Sequence[Field], x: Tensor, second: Coefficients
) -> Jet:
    """Return the jet of a function that asks these fields for their values at x alone."""
    jets = [field.jet(x, second) for field in fields]
    values, slopes, operators = (tf.concat(parts, axis=1) for parts in zip(*jets, strict=True))
    sizes = [int(u.shape[1]) for u, *_ in jets]

    def with_values(z: Tensor, given: Tensor) -> Tensor:
        parts = tf.split(given, sizes, axis=1)
        known = {id(field): part for field, part in zip(fields, parts, strict=True)}
        with _given.answering(z, _given.Answers(lambda field, z: known.get(id(field)))):
            return function(z)

    def linear(z: Tensor) -> Tensor:
        return with_values(z, values + tf.reduce_sum(slopes * (z - x)[:, None, :], axis=2))

    u, du, curved = _tape.jet(linear, x, second)
    if len(second) == 0:
        return u, du, curved
    # A copy of x, at which nobody else answers.
    _, factors = _tape.value_and_jacobian(lambda v: with_values(tf.identity(x), v), values)
    return u, du, curved + tf.reduce_sum(factors[..., None] * operators[:, None], axis=2)


class _Known:
    """Values [n, m] of operators at points x [n, d], as functions that can be differentiated.

    Operators without a value are taken to be zero.
    """

    def __init__(self, x: Tensor, values: dict[Operator, Tensor]) -> None:
        self._x, self._values = x, values

    def at(self, z: Tensor, operator: Operator) -> Tensor:
        """Apply the operator to the field, as a function of z: [n, m]."""
        return self._of(operator, z - self._x)

    def _of(self, operator: Operator, step: Tensor) -> Tensor:
        known = self._values.get(operator)
        if known is None:
            return tf.zeros_like(self._values[_VALUE])
        return self._function(operator)(step, known)

    def _function(self, operator: Operator) -> Callable[..., Tensor]:
        def function(step: Tensor, known: Tensor) -> Any:
            def gradients(upstream: Tensor) -> tuple[Tensor, Tensor]:
                slopes = [
                    tf.reduce_sum(
                        upstream * self._of(_product(operator, (i,)), step), axis=1, keepdims=True
                    )
                    for i in range(step.shape[1])
                ]
                return tf.concat(slopes, axis=1), upstream

            return tf.identity(known), gradients

        made: Callable[..., Tensor] = tf.custom_gradient(function)
        return made

    def jet(self, z: Tensor, second: Coefficients, higher: Sequence[Operator]) -> Jet:
        asked = _asked_by_jet(z.shape[1], second, higher)
        u, *others = (self.at(z, operator) for operator in asked)
        d, k = z.shape[1], len(second)
        parts = [others[:d], others[d : d + k], *([others[d + k :]] if higher else [])]
        return u, *(tf.stack(part, axis=-1) if part else u[:, :, None][..., :0] for part in parts)


def _values(field: Field, x: Tensor, needed: Sequence[Operator]) -> dict[Operator, Tensor]:
    """Apply operators of order 0 to 4 to a field at x, by one jet: [n, m] each."""
    d = int(x.shape[1])
    seconds = [p for p in needed if p and order_of(p) == 2]
    highers = tuple(p for p in needed if p and order_of(p) > 2)
    matrices = np.array([matrix_of(p, d) for p in seconds]).reshape(-1, d, d)
    u, du, operators, *above = field.jet(x, matrices, highers)
    found = {_VALUE: u}
    found |= {_first(i): du[:, :, i] for i in range(d)}
    found |= {p: operators[:, :, k] for k, p in enumerate(seconds)}
    return found | {p: above[0][:, :, k] for k, p in enumerate(highers)}


def _asked_by_jet(d: int, second: Coefficients, higher: Sequence[Operator]) -> list[Operator]:
    return [_VALUE, *map(_first, range(d)), *map(operator_of_matrix, second), *higher]


def _first(axis: int) -> Operator:
    return (((axis,), 1.0),)


def _product(operator: Operator, axes: Axes) -> Operator:
    """Return the operator times ∂^axes."""
    return operator_of(((*own, *axes), c) for own, c in operator)
