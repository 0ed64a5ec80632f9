"""Where the steps of a compiled loop take their points from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Tensor = Any
Data = Any


class Rows(NamedTuple):
    """This rank's points of one term of the loss, as tensors, in one batch.

    Attributes
    ----------
    weights : what |r_i|² is multiplied by, w/N: a scalar [] for all points, or [n] for each; with
        an axis before, [M] or [M, n], where the M stacked members differ. Zero takes a point out.
    arrays : x: [n, d] and what else the term needs there; [M, n, …] where members differ.
    """

    weights: Tensor
    arrays: tuple[Tensor, ...]


Batch = tuple[Rows, ...]
"""`Rows` for every term of the loss. A term without points on this rank has rows of n = 0."""


class Feed(Protocol):
    """The points of M stacked members on this rank, step for step.

    A feed depends on the number of the step alone, never on how steps are cut into chunks, so that
    a training that was interrupted goes on with the same points.

    Attributes
    ----------
    stacked : for every term, whether its weights and each of its arrays have an axis for the
        members: a nest of booleans of the structure of a batch.
    steps_per_epoch : how many steps see every point once; 1 where every step uses all.
    same_points : whether all steps have the same batch.
    rows_of_ranks : how many points each rank has in a step, for each term: [T][P].
    adaptive : the interior points, where they follow the residual.
    """

    stacked: tuple[Any, ...]
    steps_per_epoch: int
    same_points: bool
    rows_of_ranks: tuple[tuple[int, ...], ...]

    @property
    def adaptive(self) -> Any:
        """See the attributes."""

    def candidates(self, arrays: Sequence[Any], dtype: str) -> Batch:
        """Candidates of the interior points as rows of the equations, with the weights w."""

    def longest_chunk(self, step: int) -> int:
        """Return how many steps one chunk may have at most, beginning after `step` updates."""

    def chunk(self, step: int) -> Data:
        """What a chunk needs that begins after `step` updates: a nest of tensors.

        Shapes and types are the same for every chunk.
        """

    def batch(self, data: Data, step: Tensor) -> Batch:
        """Return the batch of the update after `step` updates; traced into the loop.

        `step` counts from the beginning of the run, as that of `chunk`.
        """

    def whole(self, step: int) -> Batch:
        """Return all of this rank's points as they are after `step` updates."""
