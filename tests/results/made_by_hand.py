"""Members and results as a training makes them, without the training."""

from __future__ import annotations

from typing import Any

import numpy as np

import sciml_par.parallel as sp
from sciml_par.evaluation import Prediction, Shard
from sciml_par.problems import Box
from sciml_par.results import Member, RankContribution, Result

STEPS = 25


def wave(number: int, domain: Box, *, known: bool = True, points: int = 11) -> Prediction:
    """sin (number+1)πx₁ on a grid, and a prediction a little above it."""
    x = domain.grid(points)
    exact = np.sin((number + 1) * np.pi * x[:, :1])
    return Prediction(
        "prediction", x, exact + 0.01, exact if known else np.full_like(exact, np.nan)
    )


def contribution(rank: int, domain: Box, points: int = 9) -> RankContribution:
    shard = Shard(f"rank {rank}", domain.grid(points), (domain.lower, domain.upper))
    return RankContribution(
        rank=rank, points=points, shard=shard, seconds_compile=2.0, seconds_train=0.5 + rank
    )


def make_member(number: int, *, rank: int = 0, domain: Box | None = None, **changes: Any) -> Member:
    """Member `number`, which finished; `changes` are other attributes than those below."""
    domain = domain or Box([-1.0], [1.0])
    prediction = wave(number, domain)
    given: dict[str, Any] = {
        "problem": f"poisson, k = {number + 1}",
        "seed": 100 + number,
        "steps": STEPS,
        "steps_asked": STEPS,
        "loss": 0.25 / (number + 1),
        "loss_steps": np.array([0, 10, 20, STEPS]),
        "losses": np.array([1.0, 0.5, 0.3, 0.25]) / (number + 1),
        "finite": True,
        "times_brought_together": 0,
        "largest_drift": 0.0,
        "prediction": prediction,
        "on_own_domain": prediction,
        "contributions": (contribution(rank, domain),),
    }
    return Member(number=number, rank=rank, **{**given, **changes})


def ended(number: int, *, rank: int = 0) -> Member:
    """A member whose loss was not finite after step 7."""
    return make_member(
        number,
        rank=rank,
        finite=False,
        steps=7,
        loss=0.4,
        loss_steps=[0, 7],
        losses=np.array([1, 0.4]),
    )


def diverged(number: int, *, rank: int = 0) -> Member:
    """A member whose loss ended far above its best."""
    return make_member(number, rank=rank, loss=5e3)


def ensemble(*members: Member) -> Result:
    """Two members on each of two ranks, or those given."""
    whole = members or tuple(make_member(number, rank=number // 2) for number in range(4))
    return Result("ensemble", whole, [], sp.current_world().communicator)


def one_model(ranks: int = 3, **changes: Any) -> Result:
    """One model, trained by some ranks together."""
    parts = Box([-1.0], [1.0]).split(ranks)
    contributions = tuple(contribution(rank, part) for rank, part in enumerate(parts))
    member = make_member(0, contributions=contributions, **changes)
    return Result("data", (member,), [], sp.current_world().communicator)
