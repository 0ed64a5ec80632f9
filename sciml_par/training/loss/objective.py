"""The loss of stacked members, over all ranks of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeVar

from sciml_par._tensorflow import tf
from sciml_par.networks.keras.network import Network
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.problems.fields.field import Field
from sciml_par.problems.problem import Problem
from sciml_par.problems.terms.term import Term
from sciml_par.problems.unknowns.unknowns import values_of
from sciml_par.training.loss.function_networks import bound_functions, field_with
from sciml_par.training.loss.jacobian import FieldOf, JacobianOfTerm
from sciml_par.training.loss.known import Known
from sciml_par.training.loss.member_objective import MemberObjective
from sciml_par.training.loss.parameter_layout import ParameterLayout
from sciml_par.training.loss.ranks import Ranks
from sciml_par.training.loss.window_jacobian import WindowBand, WindowJacobianOfTerm
from sciml_par.training.points.feed import Batch

Tensor = Any
K = TypeVar("K", bound=Known)

# Compiled separately if the loop around them is not compiled.
_COMPILED = ("values", "gradient")


def jacobians_of(
    problem: Problem, network: Network, layout: ParameterLayout, band: WindowBand | None = None
) -> list[JacobianOfTerm]:
    """Return the Jacobian of each term of a problem's loss; with `band`, by windows."""
    given = (layout, partial(field_of, problem, network))
    if band is not None:
        return [
            WindowJacobianOfTerm(problem, network, term, *given, band=band)
            for term in problem.terms
        ]
    return [JacobianOfTerm(problem, network, term, *given) for term in problem.terms]


def field_of(problem: Problem, network: Network, parameters: Sequence[Tensor]) -> Field:
    """Return the problem's field u with these parameters of a network, and of unknowns if any.

    Without parameters behind those of the network itself, it has no values of unknowns.
    """
    weights, *of_functions, sought = network.parts(parameters)
    unknowns: dict[str, Any] = values_of(problem.unknowns, sought) if sought else {}
    if len(parameters) > len(weights):
        unknowns |= bound_functions(problem, network, of_functions)
    return problem.field(field_with(network, weights), unknowns=unknowns or None)


class StackedObjective:
    """L_j(θ_j) = Σ_t Σ_i w_ti |r_t(x_i; θ_j)|² for M members j and all points.

    The weights w_ti hold the term's weight and 1/N_t with N_t the points of all ranks. Residuals
    are summed on each rank, and sums are added over the ranks, so that any number of ranks and any
    division of the points give the same result to rounding. A rank without points adds zero.

    The members are one computation: for more than one, the function of one member is vectorized
    over the rows of θ.

    field : makes u from the parameters of one member, as a list of tensors.
    stacked : for every term, whether weights and arrays of a batch have an axis for the members.
    jacobians, rows_of_ranks ([T][P], in a step), band : for optimizers that make use of them.
    compile_local : compile this rank's part separately, where the loop around it is not compiled.
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
        band: WindowBand | None = None,
    ) -> None:
        self.layout, self.ranks = layout, Ranks(communicator)
        self.term_count, self.band = len(terms), band
        self._member = MemberObjective(field, terms, layout=layout, jacobians=jacobians)
        self._terms, self._members = tuple(terms), members
        self._stacked, self._rows_of_ranks = tuple(stacked), tuple(rows_of_ranks)
        self._compile_local = compile_local
        self._compiled: dict[Any, Any] = {}

    def with_stacked(self, stacked: Sequence[Any]) -> StackedObjective:
        """Return the same for batches with an axis for the members in other leaves."""
        other = copy(self)
        other._stacked, other._compiled = tuple(stacked), {}
        return other

    def evaluate(self, kind: type[K], parameters: Tensor, batch: Batch) -> K:
        """Return what is known at θ: [M, p] (collective where `kind` says so)."""
        return kind.at(self, parameters, batch)

    def prepare(self, kind: type[Known], parameters: Tensor, batch: Batch) -> None:
        """Make ready for `evaluate`, outside of any graph (local).

        For a Jacobian, how each term is differentiated is chosen by trying.
        """
        if kind.by_jacobian:
            self._member.prepare_jacobian(parameters[0], _of_first(batch, self._stacked))

    def squares(self, parameters: Tensor, batch: Batch, counts: Sequence[int]) -> Tensor:
        """Return Σ_t w_t |r_t|² at points of all ranks, over the first terms: [N, M] (collective).

        The batch has the same points for each term, `counts` [P] of them on each rank.
        """
        shared = self._members == 1
        flags = [
            (rows.weights.shape.rank > 0, tuple(not shared for _ in rows.arrays)) for rows in batch
        ]
        mine = self._of_members(self._member.squares, parameters, batch, flags)
        return self.ranks.gather(tf.transpose(mine), counts)

    def residuals_of_ranks(self, batch: Batch) -> tuple[int, ...]:
        """Return how many residuals each rank has, [P], Σ_t K_t each; known when traced."""
        terms = zip(self._terms, batch, self._stacked, self._rows_of_ranks, strict=True)
        of_terms = [
            [self._member.components(term, rows, flags) * n for n in counts]
            for term, rows, flags, counts in terms
        ]
        return tuple(map(sum, zip(*of_terms, strict=True)))

    def here(self, name: str, parameters: Tensor, batch: Batch) -> Any:
        """Return what a method of `MemberObjective` returns of every member, on this rank's points.

        [M, p] -> a nest of [M, …].
        """
        function = getattr(self._member, name)
        if self._compile_local and name in _COMPILED:
            made = self._compiled.get(name)
            if made is None:
                of = partial(self._of_members, function)
                made = tf.function(of, jit_compile=True, autograph=False)
                self._compiled[name] = made
            return made(parameters, batch)
        return self._of_members(function, parameters, batch)

    def _of_members(
        self,
        function: Callable[[Tensor, Batch], Any],
        parameters: Tensor,
        batch: Batch,
        stacked: Sequence[Any] | None = None,
    ) -> Any:
        """Return `function` of every member: [M, p] -> [M, …], or a nest of these."""
        stacked = self._stacked if stacked is None else stacked
        if self._members == 1:
            found = function(parameters[0], _of_first(batch, stacked))
            return tf.nest.map_structure(lambda y: y[None], found)
        leaves = list(zip(tf.nest.flatten(batch), tf.nest.flatten(stacked), strict=True))
        own = [leaf for leaf, flag in leaves if flag]

        def of_one(flat_and_own: tuple[Tensor, list[Tensor]]) -> Any:
            flat, mine = flat_and_own[0], iter(flat_and_own[1])
            alone = [next(mine) if flag else leaf for leaf, flag in leaves]
            return function(flat, tf.nest.pack_sequence_as(batch, alone))

        return tf.vectorized_map(of_one, (parameters, own), fallback_to_while_loop=False)


def _of_first(batch: Batch, stacked: Sequence[Any]) -> Batch:
    """Return the first member's batch from one whose leaves may have an axis for the members."""
    leaves = zip(tf.nest.flatten(batch), tf.nest.flatten(stacked), strict=True)
    first = [leaf[0] if flag else leaf for leaf, flag in leaves]
    return tf.nest.pack_sequence_as(batch, first)
