"""The request of a call site of a collective, for any transport.

Shapes are static. A request has this rank's input and output, and the signature that is common to
all ranks.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from sciml_par.parallel.requests.element_type import ELEMENT_TYPES, ElementType
from sciml_par.parallel.requests.reduce_op import Product, ReduceOp
from sciml_par.parallel.requests.signature import Signature

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """The common part of all collectives.

    Parameters
    ----------
    name : the user's name of the collective, or None.
    """

    kind: ClassVar[str]
    dtype: str
    shape: Shape
    name: str | None = field(default=None, kw_only=True)

    @property
    def element(self) -> ElementType:
        """The element type."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def count(self) -> int:
        """The number of elements of this rank's tensor."""
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """The number of elements of a row of this rank's tensor."""
        return math.prod(self.shape[1:])

    @property
    def receive_shape(self) -> Shape:
        """The shape of this rank's result."""
        return self.shape

    @property
    def reduction(self) -> ReduceOp | None:
        """The reduction; None if elements only move."""
        return getattr(self, "op", None)

    @property
    def is_meeting(self) -> bool:
        """Whether no rank gets its result before all begin, since it depends on all ranks' inputs.

        Ranks with equal signatures have equal values.
        """
        return False

    @property
    def signature(self) -> Signature:
        """The part in which all ranks must be equal."""
        return self._signature(self.shape)

    def _signature(self, shape: Sequence[int | None], **more: Any) -> Signature:
        op, name = self.reduction, self.name
        return Signature(self.kind, self.dtype, tuple(shape), op, name=name, **more)

    @property
    def in_reals(self) -> Self:
        """The request with each complex number as two reals; unchanged for a product or reals.

        So complex numbers are special to transports in products only.
        """
        real = self.element.real
        if real is None or self.reduction is Product:
            return self
        return replace(self, dtype=real.name, shape=(*self.shape, 2))

    def elements(self, rows: Sequence[int]) -> list[int]:
        """Return numbers of rows as numbers of elements."""
        return [n * self.row for n in rows]


@dataclass(frozen=True)
class Allreduce(Request):
    """y = x_0 ∘ x_1 ∘ … on every rank."""

    kind = "allreduce"
    op: ReduceOp

    @property
    def is_meeting(self) -> bool:
        return self.count > 0


@dataclass(frozen=True)
class Broadcast(Request):
    """y = x_root on every rank."""

    kind = "broadcast"
    root: int

    @property
    def signature(self) -> Signature:
        return self._signature(self.shape, root=self.root)


@dataclass(frozen=True)
class Allgather(Request):
    """y = the ranks' x one below the other.

    Parameters
    ----------
    rows : the first dimension of every rank's tensor, [P].
    """

    kind = "allgather"
    rows: Shape

    @property
    def receive_shape(self) -> Shape:
        return (sum(self.rows), *self.shape[1:])

    @property
    def is_meeting(self) -> bool:
        return self.row > 0 and all(self.rows)

    @property
    def signature(self) -> Signature:
        return self._signature((None, *self.shape[1:]), some_empty=not self.is_meeting)


@dataclass(frozen=True)
class Reducescatter(Request):
    """y = this rank's rows of x_0 ∘ x_1 ∘ …

    Parameters
    ----------
    rows : the number of rows of each rank's result, [P].
    rank : this rank.
    """

    kind = "reducescatter"
    op: ReduceOp
    rows: Shape
    rank: int

    @property
    def receive_shape(self) -> Shape:
        return (self.rows[self.rank], *self.shape[1:])

    @property
    def is_meeting(self) -> bool:
        return self.row > 0 and all(self.rows)

    @property
    def signature(self) -> Signature:
        return self._signature(self.shape, some_empty=not self.is_meeting)


@dataclass(frozen=True)
class Alltoall(Request):
    """y = the parts that the ranks have sent to this one, one below the other.

    Parameters
    ----------
    sent, received : numbers of rows to and from each rank, [P].
    """

    kind = "alltoall"
    sent: Shape
    received: Shape

    @property
    def receive_shape(self) -> Shape:
        return (sum(self.received), *self.shape[1:])

    @property
    def signature(self) -> Signature:
        return self._signature((None, *self.shape[1:]))


class Kind(enum.Enum):
    """The steps that a rank makes together with others."""

    TRANSFER = "a tensor is carried"
    AGREEMENT = "signatures and a number each are compared"
    ROWS = "each rank tells each other one a number of rows"
    OBJECTS = "picklable objects are exchanged"


@dataclass(frozen=True)
class Announcement:
    """A step of a collective, announced so that a rank without data can take part."""

    kind: Kind
    signature: Signature
    request: Request | None = None


def any_rows(
    kind: str, dtype: str, shape: Sequence[int], name: str | None = None, *, rows_only: bool = False
) -> Signature:
    """Return the signature of a collective in which the ranks' first dimensions may differ.

    rows_only : of the exchange of numbers of rows before it.
    """
    return Signature(kind, dtype, (None, *shape[1:]), name=name, rows_only=rows_only)


def even_rows(n: int, parts: int) -> Shape:
    """Return `n` rows in `parts` nearly equal parts; the first ones may have a row more."""
    each, more = divmod(n, parts)
    return tuple(each + (r < more) for r in range(parts))
