"""What the ranks that share a loss exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sciml_par.parallel.collectives.call_options import CallOptions
from sciml_par.parallel.collectives.one_tensor import allreduce, broadcast
from sciml_par.parallel.collectives.primitives import exchanged, gathered_rows, scattered
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Max, Sum

Tensor = Any


class OverRanks:
    """Collectives among the ranks that share a loss."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def sum_over_ranks(self, tensor: Tensor) -> Tensor:
        """Σ over the ranks that share the loss (collective)."""
        return allreduce(tensor, Sum, communicator=self._communicator)

    def largest_of_ranks(self, tensor: Tensor) -> Tensor:
        """The largest of what the ranks that share the loss have, by element (collective)."""
        return allreduce(tensor, Max, communicator=self._communicator)

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The ranks' rows one below the other, of which each has counts[rank] (collective)."""
        options = CallOptions.of("allgather", None, self._communicator, None)
        return gathered_rows(rows, tuple(counts), options)

    def exchange(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Return the rows that the ranks have for this one, one below the other (collective).

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
