"""The residuals of a problem as functions of the jets of u: values and slopes, evaluated eagerly.

A residual sees u through its values and derivatives at points alone, z = (u, ∂_i u, L_k u), beside
unknown coefficients p. So all that the equations contribute to a step is r(z, p), ∂r/∂z and ∂r/∂p,
elementwise work on vectors of n numbers, for which there is nothing to compile.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import Operator, operator_of_matrix, order_of
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

NONE = np.zeros(0)
_PROBED = 5
"""Points at which it is tried whether residuals can be evaluated so."""
_OFTEN, _SAME = 16, 1e-9
"""So often derivatives are computed before a graph of them is made, whose values are to agree."""
_SEED = 33  # of which the first points are 1 0 0 1 0


class NotByJetsError(Exception):
    """A residual is not a function of the jets of u at single points, or asks for other ones."""


@dataclass(frozen=True)
class Request:
    """Points x: [n, d] at which a residual asks for u, ∇u and K operators of order two to four.

    `cells` keeps which points lie in which cells, and weights there; see `columns`.
    """

    x: Array
    operators: tuple[Operator, ...] = ()
    cells: dict[Any, Any] = field(default_factory=dict, compare=False)

    @property
    def size(self) -> int:
        """Q = 1 + d + K, the numbers of each component of u at a point."""
        return 1 + self.x.shape[1] + len(self.operators)

    def holds(self, x: Array, operators: tuple[Operator, ...], places: tuple[int, ...]) -> bool:
        """Return whether it answers for these points, with these operators at places."""
        return np.array_equal(self.x, x) and tuple(self.operators[p] for p in places) == operators


@dataclass(frozen=True)
class Asked:
    """What a residual asks for, which is the same at all points.

    Attributes
    ----------
    calls : of the field: the number of the term's array whose points it asks for, None for others,
        and operators.
    components : k, the residuals of a point.
    probe : r at a few points for jets that are the same on all ranks, which tells residuals apart,
        [n, k].
    plan : the requests to u, which are answered together; `calls` are those to the network in u.
    graphs : of its derivatives, or how often these have been computed without one.
    """

    calls: tuple[tuple[int | None, tuple[Operator, ...]], ...]
    components: int
    probe: Array
    plan: Plan
    graphs: dict[Any, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Rows:
    """A term of the loss at its points.

    Attributes
    ----------
    term : whose function gives the residuals f at points.
    arrays : the points, and what the term has besides.
    factors : √w of each row, [N]; there are as many rows as points but for `sums`.
    requests : the points and derivatives that it asks for, equal points together.
    calls : for each call of the field, the number of the request, and places of the operators.
    asked : what it asks for at any points.
    sums : S: [N, n] and v: [N, k] of rows S f − v, which couple points; or None.
    """

    term: Term
    arrays: tuple[Any, ...]
    factors: Array
    requests: tuple[Request, ...]
    calls: tuple[tuple[int, tuple[int, ...]], ...]
    asked: Asked
    sums: tuple[Any, Array] | None = None

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


@dataclass(frozen=True)
class Linearized:
    """A term of the loss at jets z and unknowns p: √w r: [k, N], and its derivatives.

    Attributes
    ----------
    by_jets : √w ∂r/∂z for each request, [k, Q, m, n]; of rows S f − v, ∂f/∂z.
    by_unknowns : √w ∂r/∂p, [q, k, N].
    """

    residuals: Array
    by_jets: list[Array]
    by_unknowns: Array


class Equations:
    """The terms of a problem's loss at fixed points, of which the squares of all rows are the loss.

    Parameters
    ----------
    problem : whose unknowns, if any, are numbers and not functions.
    arrays : of each term, as `Term.function` takes them behind u; tensors keep their precision.
    factors : the root of the weight of each of their rows, [N] each.
    asked : what residuals ask for, by the names of terms, where it is known; what is found is
        added. Where a residual asks for something else after all, it is refused.
    terms, probed : by default all of the problem; and at how many points each is tried, few.
    sums : whether rows may be sums over points, as of integrals.

    Raises
    ------
    NotByJetsError
        A residual couples points, or differentiates u itself; or a term has no points.
    """

    def __init__(
        self,
        problem: Problem,
        arrays: Sequence[Sequence[Array]],
        factors: Sequence[Array],
        asked: dict[str, Asked],
        *,
        terms: Sequence[Term] | None = None,
        probed: int | None = _PROBED,
        sums: bool = False,
    ) -> None:
        self.problem, self.outputs, self.rows = problem, problem.network_outputs, list[Rows]()
        terms = problem.terms if terms is None else terms
        for term, of_term, weights in zip(terms, arrays, factors, strict=True):
            if not len(weights):
                raise NotByJetsError(f"the term {term.name!r} has no points")
            of_rows = None
            if sums and term.sums is not None:
                of_term, *of_rows = term.sums.arrays(*of_term)
                weights = np.broadcast_to(weights, len(of_rows[1]))  # noqa: PLW2901
                term = replace(term, function=term.sums.function)  # noqa: PLW2901
            tensors = tuple(
                each if tf.is_tensor(each) else tf.constant(np.asarray(each, np.float64))
                for each in of_term
            )
            if term.name not in asked:
                asked[term.name] = trace(problem, term, tuple(t[:probed] for t in tensors))
            rows = _rows(problem, term, tensors, weights, asked[term.name])
            self.rows.append(rows if of_rows is None else replace(rows, sums=tuple(of_rows)))

    @property
    def order(self) -> int:
        """The highest order of operators that residuals ask for; 1 without any."""
        asked = [request.operators for rows in self.rows for request in rows.requests]
        return max([1, *(order_of(each) for operators in asked for each in operators if each)])

    def weighted(self, factors: Sequence[float]) -> Equations:
        """Return the same terms with these factors of √w (local)."""
        other, pairs = copy.copy(self), zip(self.rows, factors, strict=True)
        other.rows = [replace(rows, factors=factor * rows.factors) for rows, factor in pairs]
        return other

    def behind(self, first: int) -> Equations:
        """Return the terms from a number on, such as the conditions (local)."""
        other = copy.copy(self)
        other.rows = self.rows[first:]
        return other

    def residuals(self, jets: Sequence[Sequence[Array]], p: Array = NONE) -> list[Array]:
        """Return √w r of each term, [k, N], for jets of u at its requests, [Q, m, n] (local).

        p : the parameters of the unknowns, [q].
        """
        values, p = [], tf.constant(p)
        for rows, of_term in zip(self.rows, jets, strict=True):
            z, (_, graph) = list(map(tf.constant, of_term)), self._known(rows)
            if callable(graph):
                r, *_ = graph(z, p, rows.arrays)
            else:
                r = residual_of_rows(self.problem, rows, z, p)
            values.append(rows.residuals(r.numpy()))
        return values

    def linearized(self, jets: Sequence[Sequence[Array]], p: Array = NONE) -> list[Linearized]:
        """Return each term with its derivatives (local)."""
        pairs = zip(self.rows, jets, strict=True)
        return [self._linearized(rows, given, tf.constant(p)) for rows, given in pairs]

    def _linearized(self, rows: Rows, given: Sequence[Array], p: Any) -> Linearized:
        r, of_totals, by_unknowns = self._evaluated(rows, [tf.constant(each) for each in given], p)
        by_jets = [np.stack(parts) for parts in zip(*of_totals, strict=True)]
        by_p = np.moveaxis(by_unknowns.numpy(), 2, 1)
        if rows.sums is None:
            by_jets, by_p = [each * rows.factors for each in by_jets], by_p * rows.factors
        return Linearized(rows.residuals(r.numpy()), by_jets, rows.of_points(by_p))

    def _evaluated(self, rows: Rows, z: list[Any], p: Any) -> Any:
        """Return `slopes_of_rows`, after some evaluations by a graph."""
        (key, known), graphs = self._known(rows), rows.asked.graphs
        if callable(known):
            return known(z, p, rows.arrays)
        slopes = slopes_of_rows(self.problem, rows, z, p, rows.arrays)
        if known == 0:  # conditions of a slab that is done are not kept
            for other in [k for k, v in graphs.items() if isinstance(v, int) and k[0] != key[0]]:
                del graphs[other]
        if known is not None:
            often = known == _OFTEN
            graphs[key] = self._graph(rows, z, p, slopes) if often else known + 1
        return slopes

    def _known(self, rows: Rows) -> tuple[Any, Any]:
        """Return the key of a term's derivatives, and how often they were computed or their graph.

        None where there can be no graph.
        """
        operators = tuple(request.operators for request in rows.requests)
        made_by = (
            id(self.problem.ansatz),
            str((self.problem.scaled_box, self.problem.output_ranges)),
        )
        key = rows.term.function, made_by, rows.calls, operators
        return key, rows.asked.graphs.get(key, 0)

    def _graph(self, rows: Rows, z: list[Any], p: Any, slopes: Any) -> Any:
        """Return `slopes_of_rows` as a graph for any points; None if its values are others."""

        def spec(x: Any, axis: int) -> Any:
            shape = x.shape.as_list()
            return tf.TensorSpec([*shape[:axis], None, *shape[axis + 1 :]], x.dtype)

        specs = [spec(each, 2) for each in z], spec(p, 0), tuple(spec(x, 0) for x in rows.arrays)
        try:
            function = tf.function(partial(slopes_of_rows, self.problem, rows), autograph=False)
            graph = function.get_concrete_function(*specs)
            known, found = map(tf.nest.flatten, (slopes, graph(z, p, rows.arrays)))
            sizes = [np.abs(each).max(initial=0.0) for each in known]
            # A residual that is small by cancellation has the rounding of what it adds up.
            added = zip(tf.nest.flatten(slopes[1]), z * len(slopes[1]), strict=True)
            sizes[0] = max([sizes[0], *(np.abs(s * each).max(initial=0.0) for s, each in added)])
            same = (
                np.allclose(a, b, rtol=0, atol=_SAME * size, equal_nan=True)
                for a, b, size in zip(known, found, sizes, strict=True)
            )
            return graph if all(same) else None
        except Exception:  # of a residual that computes or draws in Python
            return None


def slopes_of_rows(
    problem: Problem, rows: Rows, z: Sequence[Any], p: Any, arrays: Sequence[Any]
) -> Any:
    """Return r: [n, k], the derivatives of each Σ_n r_k by each z, and ∂r/∂p: [q, n, k]."""
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as outer:
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch([*z, p])
            r = residual_of_rows(problem, replace(rows, arrays=tuple(arrays)), z, p)
            totals = [tf.reduce_sum(r[:, j]) for j in range(r.shape[1])]
        # gᵀ ∂r/∂p is linear in g: its derivatives by g are those of each row by p.
        g = tf.ones_like(r)
        outer.watch(g)
        size = sum(each.size for each in problem.unknowns.values())
        product = tape.gradient(r, p, g, unconnected_gradients="zero") if size else p
        products = tf.unstack(product, size)
    of_totals = [tape.gradient(t, z, unconnected_gradients="zero") for t in totals]
    by_p = [outer.gradient(each, g, unconnected_gradients="zero") for each in products]
    return r, of_totals, tf.stack(by_p) if size else r[None][:0]


def residual_of_rows(problem: Problem, rows: Rows, z: Sequence[Any], p: Any) -> Any:
    """Return r: [n, k] of a term at jets z and unknowns p."""
    calls, d = iter(rows.calls), problem.domain.dimension

    def jet(x: Any, operators: tuple[Operator, ...]) -> tuple[Any, Any, Any]:
        number, places = next(calls, (-1, ()))
        # What is answered must be what is asked, also where a residual branches by u.
        eager, asked = tf.executing_eagerly(), number >= 0 and rows.requests[number]
        if not asked or (eager and not asked.holds(x.numpy(), operators, places)):
            raise NotByJetsError(f"the term {rows.term.name!r} has requests that depend on u")
        t = tf.transpose(z[number], [2, 1, 0])
        parts = [t[..., 1 + d + place] for place in places]
        stacked = tf.stack(parts, axis=-1) if parts else t[..., :0]
        return t[..., 0], t[..., 1 : 1 + d], stacked

    return rows.term.function(_of_jet(problem, jet, p).with_plan(rows.asked.plan), *rows.arrays)


def values_by_name(problem: Problem, p: Any) -> dict[str, Any]:
    """Return the values of a problem's unknowns with parameters p: [q], by name."""
    sought = problem.unknowns.values()
    parts = tf.split(p, [unknown.size for unknown in sought]) if sought else []
    shaped = [tf.reshape(part, each.shape) for part, each in zip(parts, sought, strict=True)]
    return values_of(problem.unknowns, shaped)


def _of_jet(problem: Problem, jet: Any, p: Any) -> Field:
    d = problem.domain.dimension
    none = np.zeros((0, d, d))

    def whole(x: Any, second: Any, higher: Sequence[Operator] = ()) -> Any:
        matrices = np.asarray(second, np.float64).reshape(-1, d, d)
        k = [len(matrices), *([len(higher)] if higher else [])]
        if jet is None or on_trial():  # a trial, of what a residual or an ansatz asks for
            shape = tf.shape(x)[0], problem.network_outputs
            return tf.zeros(shape, x.dtype), *(tf.zeros((*shape, q), x.dtype) for q in (d, *k))
        if is_watched(x):
            raise NotByJetsError("a residual takes derivatives by a tape of its own")
        u, du, operators = jet(x, (*map(operator_of_matrix, matrices), *higher))
        return u, du, *tf.split(operators, k, axis=-1)

    unknowns = values_by_name(problem, p) or None
    return problem.field(Field(lambda x: whole(x, none)[0], jet=whole), unknowns=unknowns)


def trace(problem: Problem, term: Term, arrays: tuple[Any, ...]) -> Asked:
    """Find what a residual asks for at these points; refuse what depends on u there, or couples.

    Two calls show it, with other jets at half of the points, and a third with other unknowns. A
    request that depends on u in another way is refused when it is made; see `residual_of_rows`.
    """
    n, dtype, name = len(arrays[0]), arrays[0].dtype, f"the term {term.name!r}"
    # No order, step or pair of points takes the ones that stay to themselves.
    changed = np.random.default_rng(_SEED).random(n) < 0.5
    plan: Plan = ()
    if problem.ansatz is not None:  # whose derivatives are by tapes
        u = _of_jet(problem, None, tf.constant(initial_unknowns(problem.unknowns, 0), dtype))
        with contextlib.suppress(InputError):  # a residual may branch by values
            plan = term.plan(u, *arrays)
    first, before = _asked(problem, term, arrays, plan)
    again, after = _asked(problem, term, arrays, plan, changed)
    others = _asked(problem, term, arrays, plan, seed=1)[0] if problem.unknowns else first
    alike = len(first) == len(again) == len(others) and all(
        np.array_equal(a.x, b.x) and a.operators == b.operators
        for a, b in (*zip(first, again, strict=True), *zip(first, others, strict=True))
    )
    whole = tf.is_tensor(before) and before.shape.rank == 2
    if not ((first or problem.unknowns) and alike and whole and before.shape[0] == n):
        raise NotByJetsError(f"{name} has requests that depend on u or unknowns, or another shape")
    left, right = before.numpy()[~changed], after.numpy()[~changed]
    if any(len(each.x) != n for each in first) or not np.array_equal(left, right, equal_nan=True):
        raise NotByJetsError(f"{name} couples points, as an integral does")
    known = [[k for k, own in enumerate(arrays) if np.array_equal(own, each.x)] for each in first]
    calls = tuple((own[0] if own else None, first[k].operators) for k, own in enumerate(known))
    return Asked(calls, int(before.shape[1]), before.numpy(), plan)


def _rows(
    problem: Problem, term: Term, arrays: tuple[Any, ...], factors: Array, asked: Asked
) -> Rows:
    """Return a term at its points with the requests that it has there."""
    if any(place is None for place, _ in asked.calls):
        points = [each.x for each in _asked(problem, term, arrays, asked.plan)[0]]
    else:
        points = [arrays[place].numpy() for place, _ in asked.calls]  # type: ignore[index]
    if len(points) != len(asked.calls):
        raise NotByJetsError(f"the term {term.name!r} has requests that depend on the points")
    requests, places, keys = list[Request](), [], dict[bytes, int]()
    for x, (_, operators) in zip(points, asked.calls, strict=True):
        number = keys.setdefault(x.tobytes(), len(requests))
        if number == len(requests):
            requests.append(Request(x))
        known = tuple(dict.fromkeys((*requests[number].operators, *operators)))
        requests[number] = replace(requests[number], operators=known)
        places.append((number, tuple(map(known.index, operators))))
    return Rows(term, arrays, factors, tuple(requests), tuple(places), asked)


def _asked(
    problem: Problem,
    term: Term,
    arrays: tuple[Any, ...],
    plan: Plan,
    changed: Any = (),
    seed: int = 0,
) -> tuple[list[Request], Any]:
    """Return the requests of a residual in their order, and its values at random jets.

    changed : at which points jets are others, [n].
    seed : of the unknowns.
    """
    requests, rng = list[Request](), np.random.default_rng(0)

    def jet(x: Any, operators: tuple[Operator, ...]) -> tuple[Any, Any, Any]:
        requests.append(Request(x.numpy(), operators))
        z = rng.uniform(0.5, 1.5, (x.shape[0], problem.network_outputs, requests[-1].size))
        if len(changed) == len(z):
            z[changed] *= -9.0  # so that sums change their sign
        t = tf.constant(z, x.dtype)
        return t[..., 0], t[..., 1 : 1 + x.shape[1]], t[..., 1 + x.shape[1] :]

    p = initial_unknowns(problem.unknowns, 0)
    p = p + np.random.default_rng(seed).uniform(-0.5, 0.5, p.shape)
    u = _of_jet(problem, jet, tf.constant(p, arrays[0].dtype)).with_plan(plan)
    return requests, term.function(u, *arrays)
