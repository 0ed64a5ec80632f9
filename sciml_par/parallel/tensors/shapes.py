"""The shapes of many tensors in a word, for ranks to compare."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any


def shape_digest(shapes: Iterable[Any]) -> str:
    """Eight digits that differ where the shapes, or their order, do (local).

    In a flat buffer, tensors in another order would go unnoticed if they are as long together.
    """
    return f"{zlib.crc32(repr([str(shape) for shape in shapes]).encode()):08x}"
