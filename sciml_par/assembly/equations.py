"""The residuals of a problem as functions of the jets of u: values and slopes, evaluated eagerly.

A residual sees u through its values and derivatives at points alone, z = (u, ∂_i u, L_k u), beside
unknown coefficients p. So all that the equations contribute to a step is r(z, p), ∂r/∂z and ∂r/∂p,
elementwise work on vectors of n numbers, for which there is nothing to compile.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sciml_par._partial_operators import order_of
from sciml_par._tensorflow import tf
from sciml_par.assembly.asked import (
    Asked,
    NotByJetsError,
    ReadsMoreError,
    Rows,
    find_read,
    residual_of_rows,
    rows_of,
    trace,
)
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term

Array = npt.NDArray[np.float64]

NONE = np.zeros(0)
_PROBED = 5
"""Points at which it is tried whether residuals can be evaluated so."""
_OFTEN, _SAME = 16, 1e-9
"""So often derivatives are computed before a graph of them is made, whose values are to agree."""


@dataclass(frozen=True)
class Linearized:
    """A term of the loss at jets z and unknowns p: √w r: [k, N], and its derivatives.

    Attributes
    ----------
    by_jets : √w ∂r/∂z for each request, [k, Q, m, n]; of rows S f − v, ∂f/∂z; of points on which
        all rows depend, [k, Q, m, n', n].
    by_unknowns : √w ∂r/∂p, [q, k, N].
    """

    residuals: Array
    by_jets: list[Array]
    by_unknowns: Array

    @property
    def by_value(self) -> list[Array]:
        """√w ∂r/∂u of each request for all of its points together, [k, m, n]."""
        first = [slopes[:, 0] for slopes in self.by_jets]
        return [each.sum(axis=2) if each.ndim == 4 else each for each in first]


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
    sums : whether rows may be sums over points, as of integrals, or depend on points that stay.

    Raises
    ------
    NotByJetsError
        A residual couples points; or a term has no points.
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
                known = trace(problem, term, tuple(t[:probed] for t in tensors))
                asked[term.name] = known
                with contextlib.suppress(tf.errors.OpError):  # as an assertion that u > 0
                    find_read(problem, term, tensors, known)
            rows = rows_of(problem, term, tensors, weights, asked[term.name])
            if rows.fixed and (of_rows is not None or not sums):
                raise NotByJetsError(f"the term {term.name!r} couples points, as an integral does")
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
            self._check_read(rows, z, p, r)
            values.append(rows.residuals(r.numpy()))
        return values

    def linearized(self, jets: Sequence[Sequence[Array]], p: Array = NONE) -> list[Linearized]:
        """Return each term with its derivatives (local)."""
        pairs = zip(self.rows, jets, strict=True)
        return [self._linearized(rows, given, tf.constant(p)) for rows, given in pairs]

    def _check_read(self, rows: Rows, z: list[Any], p: Any, *values: Any) -> None:
        """Raise if a residual is NaN for what it has not been seen to read (local)."""
        some = any(request.read is not None for request in rows.requests)
        if not some or all(np.isfinite(each).all() for each in values):
            return
        whole = [tf.where(tf.math.is_nan(each), tf.zeros_like(each), each) for each in z]
        if np.isfinite(residual_of_rows(self.problem, rows, whole, p)).all():
            raise ReadsMoreError(f"the term {rows.term.name!r} reads more at some points")

    def _linearized(self, rows: Rows, given: Sequence[Array], p: Any) -> Linearized:
        z = [tf.constant(each) for each in given]
        r, of_totals, by_unknowns = self._evaluated(rows, z, p)
        by_jets = [np.stack(parts) for parts in zip(*of_totals, strict=True)]
        self._check_read(rows, z, p, r, *by_jets)
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
            often = known == (0 if rows.fixed else _OFTEN)
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
            terms = [np.abs(s.numpy().T * each.numpy().T) for s, each in added]
            sizes[0] = max(
                [sizes[0], *(np.fmax.reduce(each, axis=None, initial=0.0) for each in terms)]
            )
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
    """Return r: [n, k], the derivatives of each Σ_n r_k by each z, and ∂r/∂p: [q, n, k].

    Of z on which all rows depend, those of each r_k, [Q, m, n', n].
    """
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as outer:
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch([*z, p])
            r = residual_of_rows(problem, replace(rows, arrays=tuple(arrays)), z, p)
            parts = tf.unstack(r, axis=1)
            totals = [tf.reduce_sum(part) for part in parts]
        # gᵀ ∂r/∂p is linear in g: its derivatives by g are those of each row by p.
        g, ones = tf.ones_like(r), tf.ones_like(r[:, 0])
        outer.watch([g, ones])
        size = sum(each.size for each in problem.unknowns.values())
        product = tape.gradient(r, p, g, unconnected_gradients="zero") if size else p
        products = tf.unstack(product, size)
        coupled = [
            [(k, tape.gradient(part, z[k], ones, unconnected_gradients="zero")) for k in rows.fixed]
            for part in parts
        ]
    of_totals = [tape.gradient(t, z, unconnected_gradients="zero") for t in totals]
    for slopes, of_part in zip(of_totals, coupled, strict=True):
        for number, products_of_rows in of_part:
            slopes[number] = outer.jacobian(products_of_rows, ones, unconnected_gradients="zero")
    by_p = [outer.gradient(each, g, unconnected_gradients="zero") for each in products]
    return r, of_totals, tf.stack(by_p) if size else r[None][:0]
