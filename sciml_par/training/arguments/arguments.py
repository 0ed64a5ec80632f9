"""What a training was called with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciml_par.problems.domains.domain import Domain
from sciml_par.problems.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What `train` was called with."""

    problem: Problem
    network: Any
    points: Any
    points_per_rank: Any
    mode: Any
    optimizer: Any
    steps: Any
    phases: Sequence[Any] | None
    stop: Any
    keep: str
    weights: Any
    seed: int
    precision: str
    log_every: int | None
    evaluation_points: int | None
    evaluation_domain: Domain | None
