"""The collectives among the ranks that share a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par.parallel.collectives.call_options import CallOptions
from sciml_par.parallel.collectives.one_tensor import allreduce, broadcast
from sciml_par.parallel.collectives.primitives import exchanged, gathered_rows, scattered
from sciml_par.parallel.groups.communicator import Communicator
from sciml_par.parallel.requests.reduce_op import Max, Sum

Tensor = Any


@dataclass(frozen=True)
class Ranks:
    """The ranks that share a loss; every method is collective among them."""

    communicator: Communicator

    @property
    def size(self) -> int:
        """The number of ranks, P."""
        return self.communicator.size

    @property
    def rank(self) -> int:
        """This rank's number among them."""
        return self.communicator.rank

    def sum(self, tensor: Tensor) -> Tensor:
        """Return Σ over the ranks."""
        return allreduce(tensor, Sum, communicator=self.communicator)

    def largest(self, tensor: Tensor) -> Tensor:
        """Return the largest of the ranks' values, by element."""
        return allreduce(tensor, Max, communicator=self.communicator)

    def from_rank(self, tensor: Tensor, rank: int = 0) -> Tensor:
        """Return one rank's tensor on all ranks."""
        return broadcast(tensor, rank, communicator=self.communicator)

    def from_every_rank(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all ranks, of one shape: [P, …]."""
        return gathered_rows(tensor[None], (1,) * self.size, self._options("allgather"))

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Return the ranks' rows one below the other; rank k has counts[k] of them."""
        return gathered_rows(rows, tuple(counts), self._options("allgather"))

    def exchange(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Return the rows that the ranks have for this one; so many go to each and come from it."""
        return exchanged(rows, tuple(sent), tuple(received), self._options("alltoall"))

    def sum_on_rank(self, tensor: Tensor, rank: int) -> Tensor:
        """Return Σ over the ranks on one of them, [n], and a vector without elements elsewhere."""
        rows = tuple(tensor.shape[0] if other == rank else 0 for other in range(self.size))
        return scattered(tensor, Sum, self._options("reducescatter"), rows=rows)

    def _options(self, name: str) -> CallOptions:
        return CallOptions.of(name, None, self.communicator, None)
