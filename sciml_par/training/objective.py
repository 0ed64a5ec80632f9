"""The loss on this rank's points and its gradient, as one flat vector over all ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from sciml_par._tensorflow import tf
from sciml_par.parallel.collectives.allreduce import allreduce
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Sum
from sciml_par.problems.field import Field
from sciml_par.training.rank_points import RankPoints

Tensor = Any


class Network(Protocol):
    """What the engine needs of a network; `sciml_par.networks.MLP` has it."""

    trainable_variables: Sequence[Any]

    def apply(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """u(x): [n, d] -> [n, m] with the given parameters."""

    def jet(self, parameters: Sequence[Tensor], x: Tensor, second: Any) -> Any:
        """Value and derivatives, as `sciml_par.problems.Field` describes."""


class Objective:
    """L(θ) = Σ_t w_t (1/N_t) Σ_i |r_t(x_i; θ)|² over the points of all ranks, and ∇L.

    Residuals are summed on each rank, divided by the number of points of all ranks, and summed
    over the ranks, so that any number of ranks and any division of the points give the same
    result to rounding. A rank without points adds zero.

    Parameters
    ----------
    network : the form of u; its own weights are not used.
    rank_points : this rank's points for each term.
    totals : N_t for each term, the points of all ranks.
    communicator : the ranks that share the loss.
    dtype : of all computation.
    """

    def __init__(
        self,
        network: Network,
        rank_points: RankPoints,
        *,
        totals: Sequence[int],
        communicator: Communicator,
        dtype: str,
    ) -> None:
        self._network = network
        self._communicator = communicator
        self._shapes = [tuple(v.shape) for v in network.trainable_variables]
        self._sizes = [tf.TensorShape(shape).num_elements() for shape in self._shapes]
        # A term without points here needs no operations here; its count is in the other ranks'.
        self._terms = [
            (term, term.weight / total, [tf.constant(array, dtype) for array in arrays])
            for term, arrays, total in zip(
                rank_points.terms, rank_points.arrays, totals, strict=True
            )
            if len(arrays[0]) > 0
        ]

    def flatten(self, tensors: Sequence[Tensor]) -> Tensor:
        """Parameters, or gradients, as one vector [p]."""
        return tf.concat([tf.reshape(t, [-1]) for t in tensors], axis=0)

    def unflatten(self, flat: Tensor) -> list[Tensor]:
        """The inverse of `flatten`."""
        parts = tf.split(flat, self._sizes)
        return [tf.reshape(p, shape) for p, shape in zip(parts, self._shapes, strict=True)]

    def field(self, parameters: Sequence[Tensor]) -> Field:
        """u with the given parameters."""
        return Field(
            partial(self._network.apply, parameters), jet=partial(self._network.jet, parameters)
        )

    def local(self, flat: Tensor) -> Tensor:
        """This rank's part of (∇L, L) at θ = `flat` [p]: [p + 1] (local)."""
        parameters = self.unflatten(flat)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            loss = self._local_loss(parameters, flat.dtype)
        gradients = tape.gradient(
            loss, parameters, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return self.flatten([*gradients, loss])

    def value_and_gradient(
        self, flat: Tensor, local: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """L and ∇L [p] at θ = `flat` [p], the same on every rank (collective).

        Loss and gradient travel together in one buffer.
        """
        both = allreduce((local or self.local)(flat), Sum, communicator=self._communicator)
        return both[-1], both[:-1]

    def _local_loss(self, parameters: Sequence[Tensor], dtype: Any) -> Tensor:
        u = self.field(parameters)
        loss = tf.zeros([], dtype)
        for term, weight, arrays in self._terms:
            loss += weight * term.sum_of_squares(u, *arrays)
        return loss
