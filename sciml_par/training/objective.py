"""The loss of stacked members and its gradient, over all ranks of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.networks.network import Network
from sciml_par.parallel.collectives.allreduce import allreduce
from sciml_par.parallel.collectives.broadcast import broadcast
from sciml_par.parallel.collectives.call_options import CallOptions
from sciml_par.parallel.collectives.primitives import exchanged, gathered_rows, scattered
from sciml_par.parallel.execution.host_function import prepare_host_functions
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Max, Sum
from sciml_par.problems.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.term import Term
from sciml_par.problems.unknowns import values_of
from sciml_par.training.least_squares.jacobian import JacobianOfTerm, weighted
from sciml_par.training.parameter_layout import ParameterLayout
from sciml_par.training.points.feed import Batch, Rows

Tensor = Any
FieldOf = Callable[[Sequence[Tensor]], Field]


def jacobians_of(
    problem: Problem, network: Network, layout: ParameterLayout
) -> list[JacobianOfTerm]:
    """The Jacobian of each term of a problem's loss (local)."""
    field = partial(field_of, problem, network)
    return [JacobianOfTerm(problem, network, term, layout, field) for term in problem.terms]


def field_of(problem: Problem, network: Network, parameters: Sequence[Tensor]) -> Field:
    """The problem's field u with these parameters of a network, and of unknowns if any (local)."""
    count = len(network.trainable_variables)
    weights, sought = parameters[:count], parameters[count:]
    jet = None if network.jet is None else partial(network.jet, weights)
    unknowns = values_of(problem.unknowns, sought) if sought else None
    return problem.field(partial(network.apply, weights), jet=jet, unknowns=unknowns)


class StackedObjective:
    """L_j(θ_j) = Σ_t Σ_i w_ti |r_t(x_i; θ_j)|² for M members j and all points, and ∇L.

    The weights w_ti hold the term's weight and 1/N_t with N_t the points of all ranks. Residuals
    are summed on each rank, and sums are added over the ranks, so that any number of ranks and any
    division of the points give the same result to rounding. A rank without points adds zero.

    The members are one computation: for more than one, the function of one member is vectorized
    over the rows of θ.

    Parameters
    ----------
    field : makes u from the parameters of one member, as a list of tensors.
    terms : of the loss.
    layout : of the parameters in a row of θ.
    members : M.
    stacked : for every term, whether weights and arrays of a batch have an axis for the members.
    communicator : the ranks that share the loss.
    jacobians : of the terms, for optimizers that need them.
    rows_of_ranks : how many points each rank has in a step, for each term: [T][P]; for optimizers
        that need it.
    compile_local : compile this rank's part by itself, where the loop around it is not compiled.
    """

    def __init__(
        self,
        field: FieldOf,
        terms: Sequence[Term],
        *,
        layout: ParameterLayout,
        members: int,
        stacked: Sequence[Any],
        communicator: Communicator,
        compile_local: bool = False,
        jacobians: Sequence[JacobianOfTerm] = (),
        rows_of_ranks: Sequence[Sequence[int]] = (),
    ) -> None:
        self.layout = layout
        self._compile_local = compile_local
        self._jacobians, self._rows_of_ranks = tuple(jacobians), tuple(rows_of_ranks)
        self._field, self._terms = field, tuple(terms)
        self.term_count = len(self._terms)
        self._members, self._stacked = members, tuple(stacked)
        self._communicator = communicator
        self._values_here = self._values
        self._gradients_here = self._gradients
        if compile_local:
            self._values_here = tf.function(self._values, jit_compile=True, autograph=False)
            self._gradients_here = tf.function(self._gradients, jit_compile=True, autograph=False)

    def with_stacked(self, stacked: Sequence[Any]) -> StackedObjective:
        """The same for batches of which other weights and arrays have an axis for the members."""
        return StackedObjective(
            self._field,
            self._terms,
            layout=self.layout,
            members=self._members,
            stacked=stacked,
            communicator=self._communicator,
            compile_local=self._compile_local,
            jacobians=self._jacobians,
            rows_of_ranks=self._rows_of_ranks,
        )

    def value(self, parameters: Tensor, batch: Batch) -> Tensor:
        """The terms of the loss at θ: [M, p], with their weights: [M, T] (collective)."""
        return allreduce(self._values_here(parameters, batch), Sum, communicator=self._communicator)

    def value_and_gradient(self, parameters: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The terms of the loss [M, T] and ∇L [M, p], the same on every rank (collective).

        They travel together in one buffer.
        """
        both = allreduce(
            self._gradients_here(parameters, batch), Sum, communicator=self._communicator
        )
        p = self.layout.size
        return both[:, p:], both[:, :p]

    def gradients_of_terms(self, parameters: Tensor, batch: Batch) -> Tensor:
        """The gradient of each term of the loss at θ: [M, p] -> [M, T, p] (collective)."""
        own = self._of_members(self._gradients_of_terms_of_one, parameters, batch)
        return allreduce(own, Sum, communicator=self._communicator)

    def residuals(self, parameters: Tensor, batch: Batch) -> list[Tensor]:
        """√w r of each term on this rank's points, [M, K_t] (local).

        L is the sum of all their squares, over terms and ranks.
        """
        return self._of_members(self._residuals_of_one, parameters, batch)

    def residuals_and_jacobian(
        self, parameters: Tensor, batch: Batch
    ) -> tuple[list[Tensor], list[Tensor]]:
        """√w r of each term on this rank's points, [M, K_t], and Jᵀ, [M, p, K_t] (local)."""
        return self._of_members(self._jacobian_of_one, parameters, batch)

    def squares(self, parameters: Tensor, batch: Batch, counts: Sequence[int]) -> Tensor:
        """Σ_t w_t |r_t|² at points of all ranks, over the first terms: [N, M] (collective).

        Parameters
        ----------
        batch : this rank's points with the weights w_t, the same points for each term; with an axis
            for the members where there are several.
        counts : how many points each rank has, [P].
        """
        shared = self._members == 1
        flags = [
            (rows.weights.shape.rank > 0, tuple(not shared for _ in rows.arrays)) for rows in batch
        ]
        mine = self._of_members(self._squares_of_one, parameters, batch, flags)
        return self.gather(tf.transpose(mine), counts)

    def jacobian_times(self, parameters: Tensor, batch: Batch, direction: Tensor) -> list[Tensor]:
        """J d of each term on this rank's points: d [M, p] -> [M, K_t] (local)."""
        both = tf.concat([parameters, direction], axis=1)
        return self._of_members(self._jacobian_times_of_one, both, batch)

    def transposed_times(self, parameters: Tensor, batch: Batch, v: Sequence[Tensor]) -> Tensor:
        """Jᵀ v over this rank's points: [M, K_t] of each term -> [M, p] (local)."""
        both = tf.concat([parameters, *v], axis=1)
        return self._of_members(self._transposed_times_of_one, both, batch)

    def normal_times(self, parameters: Tensor, batch: Batch, direction: Tensor) -> Tensor:
        """JᵀJ d over this rank's points: [M, p] -> [M, p] (local)."""
        both = tf.concat([parameters, direction], axis=1)
        return self._of_members(self._normal_times_of_one, both, batch)

    def prepare_jacobian(self, dtype: Any) -> None:
        """Find out how each term is to be differentiated; outside of any graph (local)."""
        prepare_host_functions()
        for jacobian in self._jacobians:
            jacobian.prepare(dtype)

    def sum_over_ranks(self, tensor: Tensor) -> Tensor:
        """Σ over the ranks that share the loss (collective)."""
        return allreduce(tensor, Sum, communicator=self._communicator)

    def largest_of_ranks(self, tensor: Tensor) -> Tensor:
        """The largest of what the ranks that share the loss have, by element (collective)."""
        return allreduce(tensor, Max, communicator=self._communicator)

    def residuals_of_ranks(self, batch: Batch) -> tuple[int, ...]:
        """How many residuals each rank has, [P], Σ_t K_t of its own; known when traced (local)."""
        terms = zip(self._terms, batch, self._stacked, self._rows_of_ranks, strict=True)
        of_terms = [
            [self._components(term, rows, flags) * n for n in counts]
            for term, rows, flags, counts in terms
        ]
        return tuple(map(sum, zip(*of_terms, strict=True)))

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The ranks' rows one below the other, of which each has counts[rank] (collective)."""
        options = CallOptions.of("allgather", None, self._communicator, None)
        return gathered_rows(rows, tuple(counts), options)

    def exchange(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """The rows that the ranks have for this one, one below the other (collective).

        Parameters
        ----------
        sent, received : how many go to each rank, and come from it, [P].
        """
        options = CallOptions.of("alltoall", None, self._communicator, None)
        return exchanged(rows, tuple(sent), tuple(received), options)

    def from_first_rank(self, tensor: Tensor) -> Tensor:
        """What the first of the ranks that share the loss has (collective)."""
        return broadcast(tensor, 0, communicator=self._communicator)

    def from_rank(self, tensor: Tensor, rank: int) -> Tensor:
        """What one of the ranks that share the loss has (collective)."""
        return broadcast(tensor, rank, communicator=self._communicator)

    def from_every_rank(self, tensor: Tensor) -> Tensor:
        """What each of the ranks that share the loss has, of one shape: [P, …] (collective)."""
        options = CallOptions.of("allgather", None, self._communicator, None)
        return gathered_rows(tensor[None], (1,) * self.ranks, options)

    def sum_on_rank(self, tensor: Tensor, rank: int) -> Tensor:
        """Σ over the ranks that share the loss, on one of them: [n] (collective).

        The others get a vector of no elements.
        """
        rows = tuple(tensor.shape[0] if other == rank else 0 for other in range(self.ranks))
        options = CallOptions.of("reducescatter", None, self._communicator, None)
        return scattered(tensor, Sum, options, rows=rows)

    @property
    def ranks(self) -> int:
        """How many share the loss."""
        return self._communicator.size

    @property
    def on_first_rank(self) -> bool:
        """Whether this is the first of the ranks that share the loss."""
        return self._communicator.rank == 0

    @property
    def rank(self) -> int:
        """Which of the ranks that share the loss this is."""
        return self._communicator.rank

    def _components(self, term: Term, rows: Rows, flags: Any) -> int:
        """How many residuals a term has at a point, also where this rank has none."""
        shapes = [
            a.shape[int(flag) :].as_list() for a, flag in zip(rows.arrays, flags[1], strict=True)
        ]
        dtype = rows.arrays[0].dtype

        def residual() -> Tensor:
            u = self._field(self.layout.unflatten(tf.zeros([self.layout.size], dtype)))
            return term.residual(u, *(tf.zeros([max(n, 1), *rest], dtype) for n, *rest in shapes))

        # Only its shape is wanted, which to trace it tells.
        with tf.init_scope():
            traced = tf.function(residual, autograph=False).get_concrete_function()
        return int(traced.output_shapes[1])

    def _values(self, parameters: Tensor, batch: Batch) -> Tensor:
        return self._of_members(self._values_of_one, parameters, batch)

    def _gradients(self, parameters: Tensor, batch: Batch) -> Tensor:
        return self._of_members(self._gradient_of_one, parameters, batch)

    def _values_of_one(self, flat: Tensor, batch: Batch) -> Tensor:
        return self._local_terms(self.layout.unflatten(flat), batch, flat.dtype)

    def _gradient_of_one(self, flat: Tensor, batch: Batch) -> Tensor:
        """(∇L, terms) of one member on this rank's points: [p] -> [p + T] (local)."""
        parameters = self.layout.unflatten(flat)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            terms = self._local_terms(parameters, batch, flat.dtype)
            loss = tf.reduce_sum(terms)
        gradients = tape.gradient(
            loss, parameters, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return tf.concat([self.layout.flatten(gradients), terms], axis=0)

    def _squares_of_one(self, flat: Tensor, batch: Batch) -> Tensor:
        u = self._field(self.layout.unflatten(flat))
        if not _has_points(batch[0]):
            return tf.zeros([0], flat.dtype)
        parts = [
            rows.weights * tf.reduce_sum(tf.square(term.residual(u, *rows.arrays)), axis=1)
            for term, rows in zip(self._terms, batch, strict=False)
        ]
        return tf.add_n(parts)

    def _gradients_of_terms_of_one(self, flat: Tensor, batch: Batch) -> Tensor:
        """[p] -> [T, p] on this rank's points (local)."""
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
            tape.watch(flat)
            terms = self._local_terms(self.layout.unflatten(flat), batch, flat.dtype)
            values = tf.unstack(terms)
        zero = tf.UnconnectedGradients.ZERO
        return tf.stack([tape.gradient(v, flat, unconnected_gradients=zero) for v in values])

    def _residuals_of_one(self, flat: Tensor, batch: Batch) -> list[Tensor]:
        u = self._field(self.layout.unflatten(flat))
        return [
            weighted(term.residual(u, *rows.arrays), rows.weights)
            if _has_points(rows)
            else tf.zeros([0], flat.dtype)
            for term, rows in zip(self._terms, batch, strict=True)
        ]

    def _jacobian_of_one(self, flat: Tensor, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
        none = tf.zeros([0], flat.dtype), tf.zeros([self.layout.size, 0], flat.dtype)
        found = [
            jacobian(flat, rows) if _has_points(rows) else none
            for jacobian, rows in zip(self._jacobians, batch, strict=True)
        ]
        return [r for r, _ in found], [slopes for _, slopes in found]

    def _transposed_times_of_one(self, both: Tensor, batch: Batch) -> Tensor:
        flat, v = both[: self.layout.size], both[self.layout.size :]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(flat)
            r = tf.concat(self._residuals_of_one(flat, batch), axis=0)
        return tape.gradient(r, flat, v, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    def _jacobian_times_of_one(self, both: Tensor, batch: Batch) -> list[Tensor]:
        flat, direction = both[: self.layout.size], both[self.layout.size :]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(flat)
            parts = self._residuals_of_one(flat, batch)
            r = tf.concat(parts, axis=0)
        along = _along(tape, r, flat, direction)
        return tf.split(along, [part.shape[0] for part in parts])

    def _normal_times_of_one(self, both: Tensor, batch: Batch) -> Tensor:
        flat, direction = both[: self.layout.size], both[self.layout.size :]
        with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
            tape.watch(flat)
            r = tf.concat(self._residuals_of_one(flat, batch), axis=0)
        along = _along(tape, r, flat, direction)
        return tape.gradient(r, flat, along, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    def _local_terms(self, parameters: Sequence[Tensor], batch: Batch, dtype: Any) -> Tensor:
        u = self._field(parameters)
        values = []
        for term, rows in zip(self._terms, batch, strict=True):
            # A term without points here needs no operations here; other ranks have its points.
            value = tf.zeros([], dtype)
            if _has_points(rows):
                squares = tf.square(term.residual(u, *rows.arrays))
                if rows.weights.shape.rank == 0:
                    value = rows.weights * tf.reduce_sum(squares)
                else:
                    value = tf.reduce_sum(_columns(rows.weights) * squares)
            values.append(value)
        return tf.stack(values)

    def _of_members(
        self,
        function: Callable[[Tensor, Batch], Any],
        parameters: Tensor,
        batch: Batch,
        stacked: Sequence[Any] | None = None,
    ) -> Any:
        """`function` of every member: [M, p] -> [M, …], or a nest of these."""
        stacked = self._stacked if stacked is None else stacked
        if self._members == 1:
            alone = _select(stacked, batch, lambda array: array[0])
            return tf.nest.map_structure(lambda y: y[None], function(parameters[0], alone))
        own: list[Tensor] = []
        shared: list[Tensor] = []
        for row, flags in zip(batch, stacked, strict=True):
            for leaf, flag in zip(_leaves(row), _leaves(flags), strict=True):
                (own if flag else shared).append(leaf)

        def of_one(flat_and_own: tuple[Tensor, list[Tensor]]) -> Any:
            flat, mine = flat_and_own
            return function(flat, _join(stacked, list(mine), list(shared)))

        return tf.vectorized_map(of_one, (parameters, own), fallback_to_while_loop=False)


def _along(tape: Any, r: Tensor, flat: Tensor, direction: Tensor) -> Tensor:
    """J d, as the derivative along d of Jᵀ w by w, in which it is linear: [K] (local).

    A ForwardAccumulator would be one pass instead of two, but around those of a residual it is
    wrong in silence.
    """
    w = tf.zeros_like(r)
    zero = tf.UnconnectedGradients.ZERO
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(w)
        back = tape.gradient(r, flat, w, unconnected_gradients=zero)
    return outer.gradient(back, w, direction, unconnected_gradients=zero)


def _has_points(rows: Rows) -> bool:
    return rows.arrays[0].shape[0] != 0


def _columns(weights: Tensor) -> Tensor:
    """Weights [n] as [n, 1], which multiply residuals [n, k]; a scalar as it is."""
    return weights if weights.shape.rank == 0 else weights[:, None]


def _leaves(rows: Any) -> list[Any]:
    weights, arrays = rows
    return [weights, *arrays]


def _select(stacked: Sequence[Any], batch: Batch, chosen: Callable[[Tensor], Tensor]) -> Batch:
    """The batch of one member, from one in which some leaves have an axis for the members."""
    found = []
    for rows, flags in zip(batch, stacked, strict=True):
        leaves = [
            chosen(leaf) if flag else leaf
            for leaf, flag in zip(_leaves(rows), _leaves(flags), strict=True)
        ]
        found.append(Rows(leaves[0], tuple(leaves[1:])))
    return tuple(found)


def _join(stacked: Sequence[Any], own: list[Tensor], shared: list[Tensor]) -> Batch:
    """A batch from its leaves of one member and those of all members."""
    found = []
    for flags in stacked:
        leaves = [(own if flag else shared).pop(0) for flag in _leaves(flags)]
        found.append(Rows(leaves[0], tuple(leaves[1:])))
    return tuple(found)
