"""What one call site of a collective asks for, whoever carries it out.

Shapes are static. A request knows its own side (what this rank gives and gets) and what all ranks
must have in common, its signature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from sciml_par.parallel.requests.element_type import ELEMENT_TYPES, ElementType
from sciml_par.parallel.requests.reduce_op import Product, ReduceOp
from sciml_par.parallel.requests.signature import Signature

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """The part that all collectives share.

    Parameters
    ----------
    name : what the user calls the collective; None where the user does not.
    """

    dtype: str
    shape: Shape
    name: str | None = field(default=None, kw_only=True)

    @property
    def element(self) -> ElementType:
        """The element type."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def count(self) -> int:
        """How many elements this rank gives."""
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """How many elements a row of this rank's tensor has."""
        return math.prod(self.shape[1:])

    @property
    def receive_shape(self) -> Shape:
        """The shape of what this rank gets."""
        return self.shape

    @property
    def reduction(self) -> ReduceOp | None:
        """The arithmetic that it takes; None where elements only move."""
        return None

    @property
    def is_meeting(self) -> bool:
        """Whether every rank's result depends on all ranks, so that none gets it before all begin.

        Alike on all ranks with equal signatures.
        """
        return False

    @property
    def signature(self) -> Signature:
        """What the ranks must ask for alike."""
        raise NotImplementedError

    @property
    def in_reals(self) -> Self:
        """The same, with complex numbers as two real ones each; itself for a product, or for reals.

        So no transport has to know that complex numbers exist, but for their product.
        """
        real = self.element.real
        if real is None or self.reduction is Product:
            return self
        return replace(self, dtype=real.name, shape=(*self.shape, 2))

    def elements(self, rows: Sequence[int]) -> list[int]:
        """Numbers of rows as numbers of elements."""
        return [n * self.row for n in rows]


@dataclass(frozen=True)
class Allreduce(Request):
    """y = x_0 ∘ x_1 ∘ … on every rank."""

    op: ReduceOp

    @property
    def reduction(self) -> ReduceOp:
        return self.op

    @property
    def is_meeting(self) -> bool:
        return self.count > 0

    @property
    def signature(self) -> Signature:
        return Signature("allreduce", self.dtype, self.shape, op=self.op, name=self.name)


@dataclass(frozen=True)
class Broadcast(Request):
    """y = x_root on every rank."""

    root: int

    @property
    def signature(self) -> Signature:
        return Signature("broadcast", self.dtype, self.shape, root=self.root, name=self.name)


@dataclass(frozen=True)
class Allgather(Request):
    """y = the ranks' x one below the other.

    Parameters
    ----------
    rows : the first dimension of every rank's tensor, [P].
    """

    rows: Shape

    @property
    def receive_shape(self) -> Shape:
        return (sum(self.rows), *self.shape[1:])

    @property
    def is_meeting(self) -> bool:
        return self.row > 0 and all(self.rows)

    @property
    def signature(self) -> Signature:
        signature = any_rows("allgather", self.dtype, self.shape, self.name)
        return replace(signature, some_empty=not self.is_meeting)


@dataclass(frozen=True)
class Reducescatter(Request):
    """y = this rank's rows of x_0 ∘ x_1 ∘ …

    Parameters
    ----------
    rows : how many rows each rank receives, [P].
    rank : this rank.
    """

    op: ReduceOp
    rows: Shape
    rank: int

    @property
    def receive_shape(self) -> Shape:
        return (self.rows[self.rank], *self.shape[1:])

    @property
    def reduction(self) -> ReduceOp:
        return self.op

    @property
    def is_meeting(self) -> bool:
        return self.row > 0 and all(self.rows)

    @property
    def signature(self) -> Signature:
        empty = not self.is_meeting
        return Signature(
            "reducescatter", self.dtype, self.shape, self.op, name=self.name, some_empty=empty
        )


@dataclass(frozen=True)
class Alltoall(Request):
    """y = the parts that the ranks have sent to this one, one below the other.

    Parameters
    ----------
    sent, received : how many rows go to and come from each rank, [P].
    """

    sent: Shape
    received: Shape

    @property
    def receive_shape(self) -> Shape:
        return (sum(self.received), *self.shape[1:])

    @property
    def signature(self) -> Signature:
        return any_rows("alltoall", self.dtype, self.shape, self.name)


def any_rows(kind: str, dtype: str, shape: Sequence[int], name: str | None = None) -> Signature:
    """Return the signature of a collective in which the ranks' first dimensions may differ."""
    return Signature(kind, dtype, (None, *shape[1:]), name=name)


def exchange_of_rows(
    kind: str, dtype: str, shape: Sequence[int], name: str | None = None
) -> Signature:
    """The signature of the exchange of these dimensions, which comes before such a collective."""
    return replace(any_rows(kind, dtype, shape, name), rows_only=True)


def even_rows(n: int, parts: int) -> Shape:
    """`n` rows in `parts` parts as even as can be; the first ones have a row more where need be."""
    each, more = divmod(n, parts)
    return tuple(each + (r < more) for r in range(parts))
