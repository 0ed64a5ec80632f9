"""What residuals ask of u, found by trying: at which points, and which derivatives there.

A residual may ask at the points of its term, and at others that belong to one of them each, as an
integral over the past does: these are as many requests as points belong to one. Or at points that
stay the same, as the nodes of an integral over the whole domain, on which all rows depend.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, operator_of, operator_of_matrix
from sciml_par._tape import is_watched
from sciml_par._tensorflow import tf
from sciml_par.errors import InputError
from sciml_par.problems.fields.answers import on_trial
from sciml_par.problems.fields.field import Field
from sciml_par.problems.fields.plan import Plan
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknowns import initial_unknowns, values_of

Array = npt.NDArray[np.float64]
Jet = Callable[[Any, tuple[Operator, ...]], tuple[Any, Any, Any]]

_SEED = 33  # of which the first points are 1 0 0 1 0
_MOST_FIXED, _TRIED = 400, 200
"""Points that stay the same, whose values each row of a Jacobian contains; and those at which it is
tried what a residual reads."""


class NotByJetsError(Exception):
    """A residual is not a function of the jets of u at single points, or asks for other ones."""


class ReadsMoreError(NotByJetsError):
    """A residual reads more of what it asks for than where it was tried; it has all from now on."""


@dataclass(frozen=True)
class Request:
    """Points x: [n, d] at which a residual asks for u, ∇u and K operators of order two to four.

    Of these Q numbers it reads those at the places `read`, u among them, or all; jets have NaN in
    place of others. `cells` keeps which points lie in which cells, and weights there.
    """

    x: Array
    operators: tuple[Operator, ...] = ()
    read: tuple[int, ...] | None = None
    cells: dict[Any, Any] = field(default_factory=dict, compare=False)

    @property
    def places(self) -> tuple[int, ...]:
        """The places of what is read, in ascending order."""
        return tuple(range(self.size)) if self.read is None else self.read

    @property
    def size(self) -> int:
        """Q = 1 + d + K, the numbers of each component of u at a point."""
        return 1 + self.x.shape[1] + len(self.operators)


class Call(NamedTuple):
    """A call of the field by a residual, at any points of its term.

    place : the number of the term's array whose points it asks for; None for others.
    copies : how many points belong to each point of the term; 0 if they stay the same.
    together : whether those of one point follow each other; otherwise they come copy after copy.
    """

    place: int | None
    operators: tuple[Operator, ...]
    copies: int = 1
    together: bool = False

    def split(self, x: Any) -> list[Any]:
        """Return the points of each copy, [n, d]."""
        if self.copies < 2:
            return [x]
        parts = x.reshape(-1, self.copies, x.shape[1]).swapaxes(0, 1)
        return list(parts if self.together else x.reshape(self.copies, -1, x.shape[1]))

    def joined(self, parts: Sequence[Any]) -> Any:
        """Return values of the copies, [n, …] each, in the order of the points asked for."""
        if len(parts) == 1:
            return parts[0]
        if not self.together:
            return tf.concat(parts, axis=0)
        return tf.reshape(tf.stack(parts, axis=1), [-1, *parts[0].shape[1:]])


@dataclass(frozen=True)
class Asked:
    """What a residual asks for, which is the same at all points.

    Attributes
    ----------
    calls : of the network in u.
    components : k, the residuals of a point.
    probe : r at a few points for jets that are the same on all ranks, which tells residuals apart,
        [n, k].
    plan : the requests to u, which are answered together; `calls` are those to the network in u.
    read : of each call, which of u, ∇u and the operators it reads; empty if that is not known.
    graphs : of its derivatives, or how often these have been computed without one.
    """

    calls: tuple[Call, ...]
    components: int
    probe: Array
    plan: Plan
    read: list[tuple[bool, ...]] = field(default_factory=list, compare=False)
    graphs: dict[Any, Any] = field(default_factory=dict, compare=False)

    @property
    def at_own_points(self) -> bool:
        """Whether it asks at the points of its term only."""
        return all(call.place is not None for call in self.calls)


@dataclass(frozen=True)
class Rows:
    """A term of the loss at its points.

    Attributes
    ----------
    term : whose function gives the residuals f at points.
    arrays : the points, and what the term has besides.
    factors : √w of each row, [N]; there are as many rows as points but for `sums`.
    requests : the points and derivatives that it asks for, equal points together.
    calls : for each call of the field and each copy, the number of the request, and places of the
        operators.
    asked : what it asks for at any points.
    fixed : numbers of the requests on whose points all rows depend.
    sums : S: [N, n] and v: [N, k] of rows S f − v, which couple points; or None.
    """

    term: Term
    arrays: tuple[Any, ...]
    factors: Array
    requests: tuple[Request, ...]
    calls: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    asked: Asked
    fixed: frozenset[int] = frozenset()
    sums: tuple[Any, Array] | None = None

    @property
    def own(self) -> int:
        """The number of the request at the term's points, or at ones that belong to these."""
        calls = zip(self.asked.calls, self.calls, strict=True)
        at = {copies[0][0] for call, copies in calls if call.place is not None}
        return min(at or set(range(len(self.requests))) - self.fixed)

    @property
    def points(self) -> int:
        """The number n of points."""
        return len(self.arrays[0])

    @property
    def count(self) -> int:
        """The number N of rows."""
        return len(self.factors)

    def residuals(self, f: Array) -> Array:
        """Return √w r of the rows, [k, N], for what the term's function returns, [n, k]."""
        if self.sums is None:
            return f.T * self.factors
        return self.of_points(f.T) - self.sums[1].T * self.factors

    def of_points(self, slopes: Array, points: Any = slice(None)) -> Array:
        """Return √w S a of slopes a at points, [..., n'] -> [..., N]; a itself without sums."""
        if self.sums is None:
            return slopes
        flat = self.sums[0][:, points] @ slopes.reshape(-1, slopes.shape[-1]).T
        return np.asarray(flat.T).reshape(*slopes.shape[:-1], self.count) * self.factors


def residual_of_rows(problem: Problem, rows: Rows, z: Sequence[Any], p: Any) -> Any:
    """Return r: [n, k] of a term at jets z and unknowns p."""
    calls, d = iter(zip(rows.asked.calls, rows.calls, strict=True)), problem.domain.dimension

    def jet(x: Any, operators: tuple[Operator, ...]) -> tuple[Any, Any, Any]:
        call, copies = next(calls, (None, ()))
        # What is answered must be what is asked, also where a residual branches by u.
        right = call is not None and call.operators == operators
        if call is not None and tf.executing_eagerly():
            known = call.joined([tf.constant(rows.requests[k].x) for k, _ in copies])
            right = right and np.array_equal(known.numpy(), x.numpy())
        if call is None or not right:
            raise NotByJetsError(f"the term {rows.term.name!r} has requests that depend on u")
        parts = []
        for number, places in copies:
            t = tf.transpose(z[number], [2, 1, 0])
            parts.append(
                tf.concat([t[..., : 1 + d], *(t[..., 1 + d + k, None] for k in places)], -1)
            )
        t = call.joined(parts)
        return t[..., 0], t[..., 1 : 1 + d], t[..., 1 + d :]

    return rows.term.function(_of_jet(problem, jet, p).with_plan(rows.asked.plan), *rows.arrays)


def values_by_name(problem: Problem, p: Any) -> dict[str, Any]:
    """Return the values of a problem's unknowns with parameters p: [q], by name."""
    sought = problem.unknowns.values()
    parts = tf.split(p, [unknown.size for unknown in sought]) if sought else []
    shaped = [tf.reshape(part, each.shape) for part, each in zip(parts, sought, strict=True)]
    return values_of(problem.unknowns, shaped)


def _of_jet(problem: Problem, jet: Jet | None, p: Any) -> Field:
    d = problem.domain.dimension
    none = np.zeros((0, d, d))

    def whole(x: Any, second: Any, higher: Sequence[Operator] = ()) -> Any:
        matrices = np.asarray(second, np.float64).reshape(-1, d, d)
        k = [len(matrices), *([len(higher)] if higher else [])]
        if jet is None or on_trial():  # a trial, of what a residual or an ansatz asks for
            shape = tf.shape(x)[0], problem.network_outputs
            return tf.zeros(shape, x.dtype), *(tf.zeros((*shape, q), x.dtype) for q in (d, *k))
        operators = (*map(operator_of_matrix, matrices), *higher)
        u, du, others = jet(x, operators)
        if is_watched(x):
            every: list[Operator] = [(((), 1.0),), *((((i,), 1.0),) for i in range(d)), *operators]
            parts = [u, *tf.unstack(du, axis=-1), *tf.unstack(others, axis=-1)]
            u, *parts = (_followed(jet, x, *of) for of in zip(every, parts, strict=True))
            du, others = tf.stack(parts[:d], axis=-1), tf.stack(parts[d:] or [u], axis=-1)
            others = others[..., : len(operators)]
        return u, du, *tf.split(others, k, axis=-1)

    unknowns = values_by_name(problem, p) or None
    return problem.field(Field(lambda x: whole(x, none)[0], jet=whole), unknowns=unknowns)


def _followed(jet: Jet, x: Any, operator: Operator, value: Any) -> Any:
    """Return the value of an operator on u, [n, m], that a residual's own tapes can follow to x.

    What they differentiate is a request of a higher order.
    """

    def of_jet(higher: Operator) -> Any:
        u, du, others = jet(x, () if len(higher[0][0]) < 2 else (higher,))
        (axes, _), *_ = higher
        found = others[..., 0] if len(axes) > 1 else du[..., axes[0]] if axes else u
        return _followed(jet, x, higher, found) if is_watched(x) else found

    @tf.custom_gradient
    def nothing(x: Any) -> Any:
        def slopes(by_value: Any) -> Any:
            along = []
            for i in range(x.shape[1]):
                higher = operator_of(((*axes, i), c) for axes, c in operator)
                along.append(tf.reduce_sum(by_value * of_jet(higher), axis=1))
            return tf.stack(along, axis=1)

        return tf.zeros(tf.shape(value), value.dtype), slopes

    # Apart from the value, so that other tapes, which do not follow x, make no requests.
    return value + nothing(x)


def trace(problem: Problem, term: Term, arrays: tuple[Any, ...]) -> Asked:
    """Find what a residual asks for at these points; refuse what depends on u there, or couples.

    Two calls show it, with other jets at half of the points, and a third with other unknowns. A
    request that depends on u in another way is refused when it is made; see `residual_of_rows`.
    """
    n, dtype, name = len(arrays[0]), arrays[0].dtype, f"the term {term.name!r}"
    plan: Plan = ()
    if problem.ansatz is not None:  # whose derivatives are by tapes
        u = _of_jet(problem, None, tf.constant(initial_unknowns(problem.unknowns, 0), dtype))
        with contextlib.suppress(InputError):  # a residual may branch by values
            plan = term.plan(u, *arrays)
    first, before = _asked(problem, term, arrays, plan)
    others = _asked(problem, term, arrays, plan, seed=1)[0] if problem.unknowns else first
    whole = tf.is_tensor(before) and before.shape.rank == 2
    if not ((first or problem.unknowns) and _alike(first, others) and whole):
        raise NotByJetsError(f"{name} has requests that depend on u or unknowns, or another shape")
    if before.shape[0] != n:
        raise NotByJetsError(f"{name} has requests that depend on u or unknowns, or another shape")
    calls = _calls(first, arrays, lambda some: _asked(problem, term, some, plan)[0])
    # No order, step or pair of points takes the ones that stay to themselves.
    changed = np.random.default_rng(_SEED).random(n) < 0.5
    stacked = any(call.copies > 1 for call in calls)
    for together in (False, True) if stacked else (False,):
        tried = [call._replace(together=together and call.copies > 1) for call in calls]
        of_calls = [None if each.copies == 0 else _repeated(each, changed) for each in tried]
        again, after = _asked(problem, term, arrays, plan, of_calls)
        if not _alike(first, again):
            raise NotByJetsError(f"{name} has requests that depend on u or unknowns")
        left, right = before.numpy()[~changed], after.numpy()[~changed]
        if np.array_equal(left, right, equal_nan=True):
            return Asked(tuple(tried), int(before.shape[1]), before.numpy(), plan)
    raise NotByJetsError(f"{name} couples points, as an integral does")


def _alike(first: Sequence[Request], again: Sequence[Request]) -> bool:
    return len(first) == len(again) and all(
        np.array_equal(a.x, b.x) and a.operators == b.operators
        for a, b in zip(first, again, strict=True)
    )


def _repeated(call: Call, changed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return for each point that a call asks for whether it belongs to one of the changed."""
    return np.repeat(changed, call.copies) if call.together else np.tile(changed, call.copies)


def _calls(
    requests: Sequence[Request],
    arrays: tuple[Any, ...],
    again: Callable[[tuple[Any, ...]], Sequence[Request]],
) -> list[Call]:
    """Return the calls of these requests, made at points of these arrays.

    again : returns the requests at other points.
    """
    n, found = len(arrays[0]), []
    own = [
        next((k for k, points in enumerate(arrays) if np.array_equal(points, each.x)), None)
        for each in requests
    ]
    # Those that belong to no point of the term are the same at fewer.
    fewer = again(tuple(each[: n - 1] for each in arrays)) if None in own and n > 1 else []
    for number, (each, place) in enumerate(zip(requests, own, strict=True)):
        same = number < len(fewer) and np.array_equal(fewer[number].x, each.x)
        copies, rest = divmod(len(each.x), n)
        if place is None and same and 0 < len(each.x) <= _MOST_FIXED:
            copies, rest = 0, 0
        if rest or (place is None and not same and not copies):
            raise NotByJetsError("a residual has requests that depend on the points")
        found.append(Call(place, each.operators, copies))
    return found


def rows_of(
    problem: Problem, term: Term, arrays: tuple[Any, ...], factors: Array, asked: Asked
) -> Rows:
    """Return a term at its points with the requests that it has there."""
    points: list[Any] = []
    if asked.at_own_points:
        points = [arrays[call.place].numpy() for call in asked.calls]  # type: ignore[index]
    else:
        points = [each.x for each in _asked(problem, term, arrays, asked.plan)[0]]
    n, fixed = len(arrays[0]), set[int]()
    counts = [call.copies * n or len(x) for x, call in zip(points, asked.calls, strict=False)]
    if len(points) != len(asked.calls) or list(map(len, points)) != counts:
        raise NotByJetsError(f"the term {term.name!r} has requests that depend on the points")
    requests, calls, keys = list[Request](), [], dict[tuple[bytes, bool], int]()
    reads, d = list[set[Any]](), problem.domain.dimension
    for x, call, read in zip_longest(points, asked.calls, asked.read):
        copies = []
        every = [*range(1 + d), *call.operators]
        some = every if read is None else [q for q, known in zip(every, read, strict=True) if known]
        for part in call.split(x):
            number = keys.setdefault((part.tobytes(), not call.copies), len(requests))
            if number == len(requests):
                requests.append(Request(np.ascontiguousarray(part)))
                reads.append({0})
            reads[number] |= set(some)
            if not call.copies:
                fixed.add(number)
            known = tuple(dict.fromkeys((*requests[number].operators, *call.operators)))
            requests[number] = replace(requests[number], operators=known)
            copies.append((number, tuple(map(known.index, call.operators))))
        calls.append(tuple(copies))
    for number, (request, of_request) in enumerate(zip(requests, reads, strict=True)):
        every = [*range(1 + d), *request.operators]
        places = tuple(k for k, q in enumerate(every) if q in of_request)
        if len(places) < len(every):
            requests[number] = replace(request, read=places)
    return Rows(term, arrays, factors, tuple(requests), tuple(calls), asked, frozenset(fixed))


def find_read(problem: Problem, term: Term, arrays: tuple[Any, ...], asked: Asked) -> None:
    """Note what a residual reads of what it asks for: by its derivatives at random jets.

    These have both signs and many sizes, for comparisons, and a third of them are about 1, for
    logarithms. Where a residual reads more at other points, `Equations` finds NaN there.
    """
    leaves, read, n = list[Any](), list[tuple[bool, ...]](), len(arrays[0])
    repeated = [tf.repeat(a[:_TRIED], -(-_TRIED // max(n, 1)), axis=0) for a in arrays]

    def jet(x: Any, operators: tuple[Operator, ...]) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(len(leaves))
        shape = x.shape[0], problem.network_outputs, 1 + x.shape[1] + len(operators)
        z = rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-3, 5, shape)
        z[::3] = rng.uniform(0.5, 1.5, z[::3].shape)
        if read:
            z[..., ~np.array(read[len(leaves)])] = np.nan
        leaves.append(tf.constant(z, x.dtype))
        tape.watch(leaves[-1])
        t = leaves[-1]
        return t[..., 0], t[..., 1 : 1 + x.shape[1]], t[..., 1 + x.shape[1] :]

    p = tf.constant(initial_unknowns(problem.unknowns, 0), arrays[0].dtype)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        r = term.function(_of_jet(problem, jet, p).with_plan(asked.plan), *repeated)
        total = tf.reduce_sum(r * np.random.default_rng(0).uniform(0.5, 1.5, r.shape))
    slopes = tape.gradient(total, leaves, unconnected_gradients="zero")
    read += [tuple(np.any(each.numpy() != 0.0, axis=(0, 1)).tolist()) for each in slopes]
    leaves.clear()
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        again = term.function(_of_jet(problem, jet, p).with_plan(asked.plan), *repeated)
    same = np.array_equal(r, again, equal_nan=True) and np.isfinite(r).any()
    if len(read) == len(asked.calls) and same:
        asked.read[:] = read


def _asked(
    problem: Problem,
    term: Term,
    arrays: tuple[Any, ...],
    plan: Plan,
    changed: Sequence[Any] = (),
    seed: int = 0,
) -> tuple[list[Request], Any]:
    """Return the requests of a residual in their order, and its values at random jets.

    changed : for each call, at which of its points jets are others, or None for nowhere.
    seed : of the unknowns.
    """
    requests, rng = list[Request](), np.random.default_rng(0)

    def jet(x: Any, operators: tuple[Operator, ...]) -> tuple[Any, Any, Any]:
        if not hasattr(x, "numpy"):
            raise NotByJetsError(f"the term {term.name!r} asks for u in a graph")
        requests.append(Request(x.numpy(), operators))
        z = rng.uniform(0.5, 1.5, (x.shape[0], problem.network_outputs, requests[-1].size))
        some = changed[len(requests) - 1] if len(requests) <= len(changed) else None
        if some is not None and len(some) == len(z):
            z[some] *= -9.0  # so that sums change their sign
        t = tf.constant(z, x.dtype)
        return t[..., 0], t[..., 1 : 1 + x.shape[1]], t[..., 1 + x.shape[1] :]

    p = initial_unknowns(problem.unknowns, 0)
    p = p + np.random.default_rng(seed).uniform(-0.5, 0.5, p.shape)
    u = _of_jet(problem, jet, tf.constant(p, arrays[0].dtype)).with_plan(plan)
    return requests, term.function(u, *arrays)
