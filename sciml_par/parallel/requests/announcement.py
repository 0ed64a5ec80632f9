"""A step of a collective, announced so that a rank without data can take part."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

from sciml_par.parallel.requests.request import Request
from sciml_par.parallel.requests.signature import Signature


class Kind(enum.Enum):
    """The steps that a rank makes together with others."""

    TRANSFER = "a tensor is carried"
    AGREEMENT = "signatures and a number each are compared"
    ROWS = "each rank tells each other one a number of rows"
    OBJECTS = "picklable objects are exchanged"


@dataclass(frozen=True)
class Announcement:
    """One step."""

    kind: Kind
    signature: Signature
    request: Request | None = None

    @cached_property
    def key(self) -> int:
        """The key of the signature."""
        return self.signature.key
