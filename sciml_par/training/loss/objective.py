"""The loss of stacked members and its gradient, over all ranks of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sciml_par._tensorflow import tf
from sciml_par.networks.keras.network import Network
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknowns import values_of
from sciml_par.training.loss.function_networks import bound_functions, jet_with
from sciml_par.training.loss.jacobian import FieldOf, JacobianOfTerm
from sciml_par.training.loss.member_objective import MemberObjective
from sciml_par.training.loss.over_ranks import OverRanks
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.points.feed import Batch, Rows

Tensor = Any


def jacobians_of(
    problem: Problem, network: Network, layout: ParameterLayout
) -> list[JacobianOfTerm]:
    """Return the Jacobian of each term of a problem's loss."""
    field = partial(field_of, problem, network)
    return [JacobianOfTerm(problem, network, term, layout, field) for term in problem.terms]


def field_of(problem: Problem, network: Network, parameters: Sequence[Tensor]) -> Field:
    """Return the problem's field u with these parameters of a network, and of unknowns if any.

    Without parameters behind those of the network itself, it has no values of unknowns.
    """
    weights, *of_functions, sought = network.parts(parameters)
    unknowns: dict[str, Any] = values_of(problem.unknowns, sought) if sought else {}
    if len(parameters) > len(weights):
        unknowns |= bound_functions(problem, network, of_functions)
    return problem.field(
        partial(network.apply, weights), jet=jet_with(network, weights), unknowns=unknowns or None
    )


class StackedObjective(OverRanks):
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
        super().__init__(communicator)
        self.layout = layout
        self._member = MemberObjective(field, terms, layout=layout, jacobians=jacobians)
        self._compile_local = compile_local
        self._jacobians, self._rows_of_ranks = tuple(jacobians), tuple(rows_of_ranks)
        self._field, self._terms = field, tuple(terms)
        self.term_count = len(self._terms)
        self._members, self._stacked = members, tuple(stacked)
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
        """Return the terms of the loss at θ: [M, p], with their weights: [M, T] (collective)."""
        return self.sum_over_ranks(self._values_here(parameters, batch))

    def value_and_gradient(self, parameters: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the terms of the loss [M, T] and ∇L [M, p], the same on every rank (collective).

        They travel together in one buffer.
        """
        both = self.sum_over_ranks(self._gradients_here(parameters, batch))
        p = self.layout.size
        return both[:, p:], both[:, :p]

    def gradients_of_terms(self, parameters: Tensor, batch: Batch) -> Tensor:
        """Return the gradient of each term of the loss at θ: [M, p] -> [M, T, p] (collective)."""
        own = self._of_members(self._member.gradients_of_terms, parameters, batch)
        return self.sum_over_ranks(own)

    def residuals(self, parameters: Tensor, batch: Batch) -> list[Tensor]:
        """√w r of each term on this rank's points, [M, K_t].

        L is the sum of all their squares, over terms and ranks.
        """
        return self._of_members(self._member.residuals, parameters, batch)

    def residuals_and_jacobian(
        self, parameters: Tensor, batch: Batch
    ) -> tuple[list[Tensor], list[Tensor]]:
        """√w r of each term on this rank's points, [M, K_t], and Jᵀ, [M, p, K_t]."""
        return self._of_members(self._member.jacobian, parameters, batch)

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
        mine = self._of_members(self._member.squares, parameters, batch, flags)
        return self.gather(tf.transpose(mine), counts)

    def jacobian_times(self, parameters: Tensor, batch: Batch, direction: Tensor) -> list[Tensor]:
        """J d of each term on this rank's points: d [M, p] -> [M, K_t]."""
        both = tf.concat([parameters, direction], axis=1)
        return self._of_members(self._member.jacobian_times, both, batch)

    def transposed_times(self, parameters: Tensor, batch: Batch, v: Sequence[Tensor]) -> Tensor:
        """Jᵀ v over this rank's points: [M, K_t] of each term -> [M, p]."""
        both = tf.concat([parameters, *v], axis=1)
        return self._of_members(self._member.transposed_times, both, batch)

    def normal_times(self, parameters: Tensor, batch: Batch, direction: Tensor) -> Tensor:
        """JᵀJ d over this rank's points: [M, p] -> [M, p]."""
        both = tf.concat([parameters, direction], axis=1)
        return self._of_members(self._member.normal_times, both, batch)

    def prepare_jacobian(self, parameters: Tensor, batch: Batch) -> None:
        """Choose how each term is differentiated, by trying; outside of any graph."""
        first = _select(self._stacked, batch, lambda array: array[0])
        self._member.prepare_jacobian(parameters[0], first)

    def residuals_of_ranks(self, batch: Batch) -> tuple[int, ...]:
        """Return how many residuals each rank has, [P], Σ_t K_t of its own; known when traced."""
        terms = zip(self._terms, batch, self._stacked, self._rows_of_ranks, strict=True)
        of_terms = [
            [self._member.components(term, rows, flags) * n for n in counts]
            for term, rows, flags, counts in terms
        ]
        return tuple(map(sum, zip(*of_terms, strict=True)))

    def _values(self, parameters: Tensor, batch: Batch) -> Tensor:
        return self._of_members(self._member.values, parameters, batch)

    def _gradients(self, parameters: Tensor, batch: Batch) -> Tensor:
        return self._of_members(self._member.gradient, parameters, batch)

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
    """Return a batch from its leaves of one member and those of all members."""
    found = []
    for flags in stacked:
        leaves = [(own if flag else shared).pop(0) for flag in _leaves(flags)]
        found.append(Rows(leaves[0], tuple(leaves[1:])))
    return tuple(found)
