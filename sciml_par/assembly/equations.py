"""The residuals of a problem as functions of the jets of u: values and slopes, evaluated eagerly.

A residual sees u through its values and derivatives at points alone, z = (u, ∂_i u, L_k u). So all
that the equations contribute to a step is r(z) and ∂r/∂z, elementwise work on vectors of n numbers,
for which there is nothing to compile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._tape import is_watched
from sciml_par._tensorflow import tf
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term

Array = npt.NDArray[np.float64]

_PROBED = 5
"""Points at which it is tried whether residuals can be evaluated so."""


class NotByJetsError(Exception):
    """A residual is not a function of the jets of u at single points, or asks for other ones."""


@dataclass(frozen=True)
class Request:
    """Points x: [n, d] at which a residual asks for u, ∇u and operators `second`: [K, d, d]."""

    x: Array
    second: Array

    @property
    def size(self) -> int:
        """Q = 1 + d + K, the numbers of each component of u at a point."""
        return 1 + self.x.shape[1] + len(self.second)

    def holds(self, x: Array, second: Array, places: tuple[int, ...]) -> bool:
        """Return whether it answers for these points, with these operators at places."""
        return np.array_equal(self.x, x) and np.array_equal(self.second[list(places)], second)


@dataclass(frozen=True)
class Rows:
    """A term of the loss at its points.

    Attributes
    ----------
    term : whose function gives the residuals.
    arrays : the points, and what the term has besides.
    factors : √w of each point, [n].
    requests : the points and derivatives that it asks for, equal points together.
    calls : for each call of the field, the number of the request, and places of the operators.
    components : k, the residuals of a point.
    """

    term: Term
    arrays: tuple[Any, ...]
    factors: Array
    requests: tuple[Request, ...]
    calls: tuple[tuple[int, tuple[int, ...]], ...]
    components: int

    @property
    def points(self) -> int:
        """The number n of points."""
        return len(self.factors)


class Equations:
    """The terms of a problem's loss at fixed points, of which the squares of all rows are the loss.

    Parameters
    ----------
    problem : without unknowns.
    arrays : of each term, as `Term.function` takes them behind u.
    factors : the root of the weight of each of their points, [n] each.

    Raises
    ------
    NotByJetsError
        A residual asks for more than values and two derivatives, or couples points; or a term has
        no points.
    """

    def __init__(
        self, problem: Problem, arrays: Sequence[Sequence[Array]], factors: Sequence[Array]
    ) -> None:
        self.problem, self.outputs = problem, problem.network_outputs
        self.rows = [
            _traced(problem, term, of_term, weights)
            for term, of_term, weights in zip(problem.terms, arrays, factors, strict=True)
        ]

    def residuals(self, jets: Sequence[Sequence[Array]]) -> list[Array]:
        """Return √w r of each term for jets of u at its requests, [Q, m, n] -> [k, n] (local)."""
        return [r for r, _ in self._evaluated(jets, slopes=False)]

    def linearized(self, jets: Sequence[Sequence[Array]]) -> tuple[list[Array], list[list[Array]]]:
        """Return √w r: [k, n] and √w ∂r/∂z: [k, Q, m, n] for each request, of each term (local)."""
        both = list(self._evaluated(jets, slopes=True))
        return [r for r, _ in both], [slopes for _, slopes in both]

    def _evaluated(
        self, jets: Sequence[Sequence[Array]], *, slopes: bool
    ) -> Iterator[tuple[Array, list[Array]]]:
        for rows, given in zip(self.rows, jets, strict=True):
            z = [tf.constant(each) for each in given]
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                if slopes:
                    tape.watch(z)
                r = rows.term.function(_field(self.problem, rows, z), *rows.arrays)
                totals = [tf.reduce_sum(r[:, j]) for j in range(r.shape[1])] if slopes else []
            found = [tape.gradient(t, z, unconnected_gradients="zero") for t in totals]
            by_request = [
                np.stack([of_total[e].numpy() for of_total in found]) * rows.factors
                for e in range(len(z) if slopes else 0)
            ]
            yield r.numpy().T * rows.factors, by_request


def _field(problem: Problem, rows: Rows, z: Sequence[Any]) -> Field:
    """Return u with these jets, which answer in the order of the calls."""
    calls, d = iter(rows.calls), problem.domain.dimension

    def jet(x: Any, second: Any) -> tuple[Any, Any, Any]:
        number, places = next(calls, (-1, ()))
        # What is answered must be what is asked, also where a residual branches by u.
        if number < 0 or not rows.requests[number].holds(x.numpy(), second, places):
            raise NotByJetsError("requests that depend on u")
        t = tf.transpose(z[number], [2, 1, 0])
        operators = [t[..., 1 + d + place] for place in places]
        stacked = tf.stack(operators, axis=-1) if operators else t[..., :0]
        return t[..., 0], t[..., 1 : 1 + d], stacked

    return _of_jet(problem, jet)


def _of_jet(problem: Problem, jet: Any) -> Field:
    d = problem.domain.dimension
    none = np.zeros((0, d, d))

    def whole(x: Any, second: Any, higher: Any = ()) -> Any:
        if higher:
            raise NotByJetsError("derivatives of third and fourth order")
        matrices = np.asarray(second, np.float64).reshape(-1, d, d)
        if not tf.executing_eagerly():  # a trial, of what an ansatz asks for
            shape = tf.shape(x)[0], problem.network_outputs
            return tf.zeros(shape, x.dtype), *(
                tf.zeros((*shape, k), x.dtype) for k in (d, len(matrices))
            )
        if is_watched(x):
            raise NotByJetsError("derivatives by a tape of the residual itself")
        return jet(x, matrices)

    return problem.field(Field(lambda x: whole(x, none)[0], jet=whole))


def _traced(problem: Problem, term: Term, arrays: Sequence[Array], factors: Array) -> Rows:
    """Find what a residual asks for, at zeros and at random jets; refuse what depends on them."""
    if not len(factors):
        raise NotByJetsError(f"the term {term.name!r} has no points")
    tensors = tuple(tf.constant(np.asarray(each, np.float64)) for each in arrays)
    few = tuple(each[:_PROBED] for each in tensors)
    first, at_zero = _asked(problem, term, few, None)
    again, at_random = _asked(problem, term, few, np.random.default_rng(0))
    alike = len(first) == len(again) and all(
        np.array_equal(a.x, b.x) and np.array_equal(a.second, b.second)
        for a, b in zip(first, again, strict=True)
    )
    n, whole = len(few[0]), (tf.is_tensor(at_zero) and at_zero.shape.rank == 2)
    if not (first and alike and whole and at_zero.shape[0] == n):
        raise NotByJetsError("requests that depend on u, or residuals of another shape")
    if any(len(each.x) != n for each in first):
        raise NotByJetsError("points that are not those of the rows")
    _refuse_coupling(problem, term, few, at_random)
    calls, requests, places = first, list[Request](), []
    if n < len(factors):
        calls, _ = _asked(problem, term, tensors, None)
    keys: dict[bytes, int] = {}
    for each in calls:
        number = keys.setdefault(each.x.tobytes(), len(requests))
        if number == len(requests):
            requests.append(Request(each.x, each.second[:0]))
        known = requests[number].second
        at = []
        for matrix in each.second:
            same = [k for k, other in enumerate(known) if np.array_equal(matrix, other)]
            at.append(same[0] if same else len(known))
            known = known if same else np.concatenate([known, matrix[None]])
        requests[number] = replace(requests[number], second=known)
        places.append((number, tuple(at)))
    k = int(at_zero.shape[1])
    return Rows(term, tensors, factors, tuple(requests), tuple(places), k)


def _asked(
    problem: Problem, term: Term, arrays: tuple[Any, ...], rng: Any, *, changed: bool = False
) -> tuple[list[Request], Any]:
    """Return the requests of a residual in their order, and its values at zero or random jets.

    changed : every second point has other jets, the first one included.
    """
    requests: list[Request] = []

    def jet(x: Any, second: Array) -> tuple[Any, Any, Any]:
        requests.append(Request(x.numpy(), second))
        n, m = x.shape[0], problem.network_outputs
        z = np.zeros((n, m, 1 + x.shape[1] + len(second)))
        if rng is not None:
            z = rng.uniform(0.5, 1.5, z.shape)
            z[::2] += float(changed)
        t = tf.constant(z)
        return t[..., 0], t[..., 1 : 1 + x.shape[1]], t[..., 1 + x.shape[1] :]

    return requests, term.function(_of_jet(problem, jet), *arrays)


def _refuse_coupling(problem: Problem, term: Term, few: tuple[Any, ...], before: Any) -> None:
    """Refuse a residual that depends, at one point, on u at others."""
    _, after = _asked(problem, term, few, np.random.default_rng(0), changed=True)
    # Between two changed points each, so that sums from either end are seen.
    if not np.array_equal(before.numpy()[1::2], after.numpy()[1::2], equal_nan=True):
        raise NotByJetsError("a residual that couples points")
