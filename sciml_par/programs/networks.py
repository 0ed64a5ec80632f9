"""The networks that programs have names for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _mlp() -> Any:
    from sciml_par.networks import MLP

    return MLP


NETWORKS: dict[str, Callable[[], Any]] = {"mlp": _mlp}
"""By name, what imports the class or function that makes it, with `width` and `depth`."""
