"""The shapes of tensors: as tuples, and those of many as a digest for ranks to compare."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any


def shape_digest(shapes: Iterable[Any]) -> str:
    """Eight digits that differ where the shapes, or their order, do.

    In a flat buffer, tensors in another order would go unnoticed if they are as long together.
    """
    return f"{zlib.crc32(repr([str(shape) for shape in shapes]).encode()):08x}"


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, which is known."""
    return tuple(x.shape.as_list())
