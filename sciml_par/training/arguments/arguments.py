"""The arguments of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of `train`."""

    problem: Problem
    network: Any
    points: Any
    points_per_rank: Any = None
    mode: Any = "data"
    optimizer: Any
    steps: Any
    phases: Sequence[Any] | None = None
    stop: Any = None
    keep: str
    weights: Any = None
    seed: int
    precision: str
    log_every: int | None = None
    evaluation_points: int | None = None
    evaluation_domain: Domain | None = None
    grow: bool | None = None


_LONGEST, _LONGEST_LIST = 200, 20


def texts_of(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments by name, objects as short texts."""
    return {each.name: _plain(getattr(arguments, each.name)) for each in fields(arguments)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):  # NumPy's included
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Problem):
        return value.name
    if isinstance(value, tuple | list) and len(value) <= _LONGEST_LIST:
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        return f"array of shape {list(value.shape)}"
    if callable(value):
        return str(getattr(value, "__qualname__", None) or type(value).__qualname__)
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
